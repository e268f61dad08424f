"""What the end of a disturbed run says, and whom it blames."""

from pathlib import Path
from typing import Any

import pytest

from adw.app.chaos.comparing import Reference, compare
from adw.app.chaos.observing import Observed

DONE = {"child_id": "build-1", "success": True, "reason": None, "exit_code": 0}
LOST = {"child_id": "build-1", "success": False, "reason": "lost", "exit_code": None}
AGAIN = {**DONE, "child_id": "build-2"}
FAILED = {"child_id": "build-2", "success": False, "reason": "exit", "exit_code": 1}

GOOD = Observed("succeeded", {"file:a": b"one\n", "phase:build": b"done"}, {"build": [DONE]})
NEEDS = "needs a person after a kill: give it a look-up (--probe)"
REFERENCE = Reference.of(GOOD, GOOD)


def ended(
    attempts: list[dict[str, Any]], things: dict[str, bytes] | None = None, status: str = ""
) -> Observed:
    return Observed(status or "succeeded", {**GOOD.things, **(things or {})}, {"build": attempts})


def found(observed: Observed, folder: Path) -> list[tuple[str, str | None, str]]:
    return [
        (each.kind, each.phase, each.words) for each in compare(REFERENCE, observed, str(folder))
    ]


def test_a_run_that_ended_as_the_undisturbed_one_shows_nothing(tmp_path: Path) -> None:
    assert found(ended([LOST, AGAIN]), tmp_path) == []


def test_a_phase_that_fails_the_second_time_is_unsafe_and_its_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "attempts" / "build-2" / "stderr.log"
    log.parent.mkdir(parents=True)
    log.write_text("mkdir: made exists\n")

    facts = compare(REFERENCE, ended([LOST, FAILED], status="failed"), str(tmp_path))

    assert [(each.kind, each.phase, each.words) for each in facts] == [
        ("unsafe_phase", "build", "fails when it is run again (exit code 1)")
    ]
    assert facts[0].details == ("stderr.log of build-2: mkdir: made exists",)


@pytest.mark.parametrize(
    ("name", "wanted", "is_", "kind", "words"),
    [
        ("file:a", b"one\n", b"one\none\n", "unsafe_phase", "leaves other files when"),
        ("commits:Done", b"1", b"2", "doubled_effect", "`Done` is there 2, not 1, times"),
        ("pushes:origin refs/heads/x", b"1", b"2", "doubled_effect", "was pushed 2, not 1, times"),
        ("output:plan", b"whole", b"who", "torn_output", "output `plan` is cut short"),
        ("output:plan", b"whole", b"other", "torn_output", "output `plan` differs"),
        ("outside:home/sent", b"x\n", b"x\nx\n", "doubled_effect", "has more in it"),
        ("outside:home/sent", b"x\n", None, "unsafe_phase", "differs"),
        ("effect:tell of build, round 1", b"done", b"not_done", "doubled_effect", "is not done, n"),
    ],
)
def test_what_differs_after_a_phase_ran_again_is_told_by_its_kind(
    name: str, wanted: bytes, is_: bytes | None, kind: str, words: str, tmp_path: Path
) -> None:
    before = Observed("succeeded", {name: wanted}, {"build": [DONE]})
    after = Observed("succeeded", {name: is_} if is_ else {}, {"build": [LOST, AGAIN]})

    (fact,) = compare(Reference.of(before, before), after, str(tmp_path))

    assert (fact.kind, fact.phase) == (kind, "build")
    assert words in fact.words


def test_what_differs_though_nothing_ran_again_is_a_fault_of_adw(tmp_path: Path) -> None:
    assert found(ended([DONE], {"file:a": b"two\n"}), tmp_path) == [
        ("adw", None, "leaves other files when it is run again")
    ]


def test_a_run_that_is_not_over_is_a_fault_of_adw(tmp_path: Path) -> None:
    assert found(ended([LOST], status="interrupted"), tmp_path) == [
        ("adw", None, "the run ended as interrupted, not as succeeded")
    ]


def test_what_differs_between_undisturbed_runs_is_left_out(tmp_path: Path) -> None:
    other = Observed("succeeded", {**GOOD.things, "file:a": b"two\n"}, GOOD.attempts)
    reference = Reference.of(GOOD, other)

    assert reference.left_out == {"file:a"}
    assert compare(reference, ended([LOST, AGAIN], {"file:a": b"three\n"}), str(tmp_path)) == []


def test_an_effect_that_nobody_can_look_up_is_told_with_what_helps(tmp_path: Path) -> None:
    held = ended(
        [LOST, {**FAILED, "reason": "effect_unknown", "exit_code": 79}],
        {"effect:tell of build, round 1": b"unknown"},
        status="held",
    )

    assert found(held, tmp_path) == [
        (
            "effect_unknown",
            "build",
            f"effect `tell of build, round 1` {NEEDS}",
        )
    ]


def test_a_failure_that_belongs_to_the_run_is_none_of_a_kill(tmp_path: Path) -> None:
    first = {**FAILED, "child_id": "build-1"}
    usual = Observed("succeeded", {}, {"build": [first, AGAIN]})
    cut = Observed("succeeded", {}, {"build": [LOST, FAILED, {**DONE, "child_id": "build-3"}]})

    assert compare(Reference.of(usual, usual), cut, str(tmp_path)) == []


def test_a_phase_that_fails_because_of_one_that_ran_again_blames_that_one(tmp_path: Path) -> None:
    usual = Observed("succeeded", {}, {"build": [DONE], "test": [{**DONE, "child_id": "test-1"}]})
    broken = {**FAILED, "child_id": "test-1"}
    cut = Observed("failed", {}, {"build": [LOST, AGAIN], "test": [broken]})

    (fact,) = compare(Reference.of(usual, usual), cut, str(tmp_path))

    assert (fact.phase, fact.words) == (
        "build",
        "after it was run again, test fails (exit code 1)",
    )
