"""What a person reads after something went wrong: who ended it, what is known, what to do."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.store import attempts, runs
from tests.support.ground import Ground, phase
from tests.support.wait import until

WAITS = 'while [ ! -e "$GROUND/go" ]; do sleep 0.02; done; echo boom >&2; [ -e "$GROUND/well" ] || exit 3'


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "g", {"a": phase(WAITS), "b": phase("true", needs=["a"])})
    yield made
    made.end()


def _killed(ground: Ground) -> None:
    """Start a run and kill its orchestrator while phase a waits."""
    process = ground.start("run", "w", "47")
    ground.await_line("a-1", "body")
    process.kill()
    process.wait()


def test_an_attempt_that_ended_unseen_is_told_as_ended(ground: Ground) -> None:
    _killed(ground)
    ground.go()
    folder = str(ground.run_dir / "attempts" / "a-1")
    until(lambda: not attempts.alive(folder), what="the end of a-1")
    view = ground.status(ground.adw_id)
    shown = ground.ok("status", ground.adw_id).stdout

    assert view["phases"][0]["attempts"][0]["detail"] == "ended (exit code 3), not recorded yet"
    assert "ended (exit code 3), not recorded yet" in shown


def test_a_lost_attempt_is_not_called_adopted(ground: Ground) -> None:
    _killed(ground)
    supervisor = ground.await_line("a-1", "supervisor")
    os.kill(supervisor["pid"], signal.SIGKILL)
    folder = str(ground.run_dir / "attempts" / "a-1")
    until(lambda: not attempts.alive(folder), what="the end of a-1")
    ground.go()
    said = ground.adw("resume", ground.adw_id).stdout

    assert "a             lost, its supervisor died (attempt 1" in said
    assert "adopted" not in said
    assert ground.events("child_adopted") == []


@pytest.mark.sweep
def test_a_paused_run_says_so_and_is_left_alone_by_all(ground: Ground) -> None:
    process = ground.start("run", "w", "47")
    ground.await_line("a-1", "body")
    ground.ok("pause", ground.adw_id)
    (ground.base / "well").touch()
    ground.go()
    assert process.wait(20) == 6
    shown = ground.ok("status", ground.adw_id).stdout

    assert shown.startswith(f"run {ground.adw_id} interrupted (paused by a person)\n")
    assert ground.status()["runs"][0]["paused"] is True
    assert "nothing is interrupted" in ground.ok("resume", "--all").stderr
    assert ground.entries() == [("a", 1, True, None)]


@pytest.mark.sweep
def test_a_new_run_of_the_issue_tells_of_the_interrupted_one(ground: Ground) -> None:
    _killed(ground)
    ground.go()
    folder = str(ground.run_dir / "attempts" / "a-1")
    until(lambda: not attempts.alive(folder), what="the end of a-1")
    first = ground.adw_id
    said = ground.adw("run", "w", "47").stderr

    assert f"run {first} of issue 47 is interrupted; `adw resume {first}` goes on with it" in said
    assert len(runs.list_ids(str(ground.agents))) == 2


def test_logs_of_an_attempt_that_was_never_made_are_refused(ground: Ground) -> None:
    ground.go()
    ground.adw("run", "w", "47")
    done = ground.adw("logs", ground.adw_id, "a", "--attempt", "9")

    assert done.exit_code == 2
    assert "unknown attempt `9`" in done.stderr


def test_an_issue_named_twice_is_refused_before_anything_starts(ground: Ground) -> None:
    done = ground.adw("run", "w", "47", "47")

    assert (done.exit_code, ground.ids()) == (2, [])
    assert "an issue is named twice" in done.stderr


@pytest.fixture
def two_runs(ground: Ground) -> tuple[str, str]:
    """The ids of an older, failed run of issue 47, and of the latest one, whose state is empty."""
    ground.go()
    assert ground.adw("run", "w", "47").exit_code == 1
    older = ground.adw_id
    assert ground.adw("run", "w", "47", "--new").exit_code == 1
    (latest,) = set(ground.ids()) - {older}
    (ground.agents / latest / "adw_state.json").write_bytes(b"")
    return older, latest


@pytest.mark.parametrize(
    "words", [("rm", "--force", "--discard", "--purge"), ("resume",), ("status",), ("show",)]
)
def test_the_latest_run_of_an_issue_is_no_older_one_where_it_is_broken(
    ground: Ground, two_runs: tuple[str, str], words: tuple[str, ...]
) -> None:
    older, latest = two_runs
    done = ground.adw(words[0], "@47", *words[1:])
    assert done.exit_code == 2, done.told()
    assert f"{latest}/adw_state.json" in done.stderr
    assert (ground.agents / older / "adw_state.json").exists()


def test_a_broken_run_is_named_by_those_who_go_on_with_all(
    ground: Ground, two_runs: tuple[str, str]
) -> None:
    _, latest = two_runs
    done = ground.adw("resume", "--all")
    assert done.exit_code == 2, done.told()
    assert done.stderr == (
        f"run {latest} is broken, and left as it is\n  hint: adw doctor {latest}\n"
    )
    assert f"{latest} (broken)" in ground.adw("resume").stderr


def test_a_broken_run_whose_phase_lives_is_a_live_run_of_its_issue(ground: Ground) -> None:
    _killed(ground)
    (ground.run_dir / "adw_state.json").write_bytes(b"")
    done = ground.adw("run", "w", "47")
    ground.go()
    assert done.exit_code == 5, done.told()
    assert f"issue 47 already has the live run `{ground.adw_id}`" in done.stderr
    ground.all_gone()
