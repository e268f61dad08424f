"""Who is who, and who must never be signalled."""

import os
import signal

import pytest

from adw.supervise import body, cgroups, frames, procs, tree
from adw.supervise.procs import Seen


def test_this_process_is_seen_as_it_is() -> None:
    seen = procs.look("self")
    assert seen is not None
    assert (seen.ppid, seen.session, seen.state) == (os.getppid(), os.getsid(0), "R")
    assert procs.is_alive(os.getpid(), seen.start_time)
    assert not procs.is_alive(os.getpid(), seen.start_time + 1)


def test_a_name_with_parentheses_and_spaces_is_counted_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = " ".join(str(n) for n in range(4, 53))
    line = f"7 (a) R 1 (b) S {fields}\n".encode()
    monkeypatch.setattr(procs, "_read", lambda path, size: line)
    assert procs.look(7) == Seen("S", 4, 6, 22)


def test_pids_that_mean_many_or_oneself_are_never_signalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(procs, "is_alive", lambda pid, start_time: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: pytest.fail("signalled"))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, number: pytest.fail("signalled"))
    for pid in (-1, 0, 1, os.getpid()):
        assert not procs.send(pid, 0, signal.SIGKILL)


def test_descendants_leave_out_what_is_below_those_to_skip() -> None:
    seen = {
        2: Seen("S", 1, 2, 0),
        3: Seen("S", 2, 3, 0),
        4: Seen("S", 3, 3, 0),
        5: Seen("S", 2, 5, 0),
        6: Seen("S", 9, 6, 0),
    }
    assert procs.below({2}, seen) == {3, 4, 5}
    assert procs.below({2}, seen, frozenset({3})) == {5}


def _remains(monkeypatch: pytest.MonkeyPatch, tagged: set[int], *, body_start: int) -> set[int]:
    seen = {
        os.getpid(): Seen("R", 1, 1, 0),
        50: Seen("S", 1, 40, 7),
        51: Seen("S", 1, 40, 8),
        52: Seen("S", 51, 52, 9),
        60: Seen("S", 1, 60, 9),
    }
    monkeypatch.setattr(procs, "is_tagged", lambda pid, adw_id, child_id: pid in tagged)
    line = {"pid": 40, "session": 40, "adw_id": "a", "child_id": "c"}
    return tree._remains(line, {"pid": 50, "start_time": body_start}, seen)


def test_one_proved_member_makes_a_session_and_what_is_below_it_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _remains(monkeypatch, {51}, body_start=0) == {50, 51, 52}
    assert _remains(monkeypatch, set(), body_start=7) == {50, 51, 52}


def test_case_F57_a_sessions_number_alone_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _remains(monkeypatch, set(), body_start=6) == set()


@pytest.mark.parametrize(
    ("own", "root", "inside"),
    [
        ("/", "/", ""),
        ("/a/b", "/", "a/b"),
        ("/a/b", "/a", "b"),
        ("/a/b", "/a/b", ""),
        ("/ab", "/a", None),
        ("/../b", "/", None),
        (None, "/", None),
    ],
)
def test_a_group_is_found_within_its_mount(own: str | None, root: str, inside: str | None) -> None:
    assert cgroups._inside(own, root) == inside


def test_a_programs_name_is_shown_on_one_line_and_not_too_long() -> None:
    assert body.quoted(["a\nb", "\x1b[2J"]) == "a?b ?[2J"
    assert len(body.quoted(["x" * 500])) == 200


def test_frames_arrive_whole_however_they_are_cut() -> None:
    import socket

    ours, theirs = socket.socketpair()
    channel = frames.Channel(ours.detach())
    other = frames.Channel(theirs.detach())
    assert other.send({"op": "one"})
    assert other.send({"op": "two", "text": "x" * 100_000})
    assert channel.receive() == {"op": "one"}
    found = channel.receive()
    assert found is not None
    assert len(found["text"]) == 100_000
    assert channel.take() is None
    other.close()
    assert channel.receive() is None
    assert channel.eof
    assert not channel.send({"op": "late"})
    channel.close()


def test_a_descriptor_arrives_close_on_exec() -> None:
    import socket

    ours, theirs = socket.socketpair()
    channel, other = frames.Channel(ours.detach()), frames.Channel(theirs.detach())
    reader, writer = os.pipe()
    other.send({"op": "launch"}, writer)
    assert channel.receive() == {"op": "launch"}
    fd = channel.take_fd()
    assert fd is not None
    assert not os.get_inheritable(fd)
    assert os.fstat(fd) == os.fstat(writer)
    assert channel.take_fd() is None
    for each in (reader, writer, fd):
        os.close(each)
    channel.close()
    other.close()
