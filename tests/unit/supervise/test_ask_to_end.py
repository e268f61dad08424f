"""SIGTERM reaches a whole tree at one instant, whoever is forked while it is looked at."""

import signal

import pytest

from adw.supervise import procs, tree

STOP, TERM = signal.SIGSTOP, signal.SIGTERM


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals in their order: (pid, number)."""
    found: list[tuple[int, int]] = []

    def note(pids: dict[int, int], number: int) -> None:
        found.extend((pid, number) for pid in sorted(pids))

    monkeypatch.setattr(tree, "signal_all", note)
    monkeypatch.setattr(procs, "look", lambda _pid: None)
    return found


def test_a_child_forked_after_the_look_is_asked_as_well(sent: list[tuple[int, int]]) -> None:
    looks = iter([{7: 1, 8: 2}, {7: 1, 8: 2}])
    tree.ask_to_end({7: 1}, lambda: next(looks))
    assert sent == [(7, STOP), (8, STOP), (7, TERM), (8, TERM)]


def test_a_number_that_was_given_anew_is_another_process(sent: list[tuple[int, int]]) -> None:
    looks = iter([{7: 5}, {7: 5}])
    tree.ask_to_end({7: 1}, lambda: next(looks))
    assert sent == [(7, STOP), (7, STOP), (7, TERM)]


def test_a_tree_that_grows_without_end_is_asked_as_far_as_it_is_known(
    sent: list[tuple[int, int]],
) -> None:
    known = {1: 1}

    def look() -> dict[int, int]:
        known[len(known) + 1] = 1
        return dict(known)

    tree.ask_to_end(dict(known), look)
    asked = [pid for pid, number in sent if number == TERM]
    assert asked == [pid for pid, number in sent if number == STOP]
    assert len(asked) < 100
