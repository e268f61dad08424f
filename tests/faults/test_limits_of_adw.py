"""adw itself without file descriptors, without memory, or without another process to be had."""

import os
from pathlib import Path

import pytest

from tests.faults.conftest import MakeGround, swept
from tests.faults.three_phases import assert_over, three_phases
from tests.support.counting import Counted
from tests.support.ground import WAIT, Done, Ground, dead, phase
from tests.support.groups import group

HINT = "hint: raise the limit on open files, as `ulimit -n 1024` does for a shell"


def limited(ground: Ground, limit: str, *words: str) -> Done:
    return ground.adw(*words, wrap=["prlimit", f"--{limit}"])


def goes_on(ground: Ground) -> None:
    """Without the limit one plain command ends the run; one more where a body failed under it."""
    if ground.ids():
        # The kernel may have killed in a body, too, whose failure nobody has recorded yet.
        ends = [ground.line(child, "exit") or {} for child in ("plan-1", "build-1", "fix-1")]
        done = ground.adw("resume", ground.adw_id)
        if done.exit_code == 1 and any(end.get("reason") for end in ends):
            done = ground.adw("resume", ground.adw_id)
        assert done.exit_code == 0, done.told()
    else:
        ground.ok("run", "w", "47")
    assert_over(ground)


@pytest.mark.sweep
@pytest.mark.fault("F25", by="so many file descriptors and no more")
def test_P4_without_file_descriptors_no_run_is_half_begun(tmp_path: Path, counted: Counted) -> None:
    points, wrong = 0, []
    for most in range(6, 30, 2):
        ground = three_phases(tmp_path / str(most))
        done = limited(ground, f"nofile={most}", "run", "w", "47")
        try:
            if done.exit_code == 0:
                break  # this many are enough
            points += 1
            assert done.exit_code == 4, done.told()
            # Some limits are met before adw has begun: the interpreter or git tells of them.
            assert "Too many open files" in done.stderr, done.told()
            assert "Traceback" not in done.stderr, done.told()
            goes_on(ground)
        except AssertionError as error:
            wrong.append(f"{most}: {error}")
        finally:
            ground.end()
    counted(points, points, points - len(wrong), what="limits on descriptors", wrong=wrong)
    assert points >= 4


@pytest.mark.fault("F25", by="so many file descriptors and no more")
def test_too_few_file_descriptors_are_told_with_the_way_out(tmp_path: Path) -> None:
    ground = three_phases(tmp_path / "g")
    done = limited(ground, "nofile=12", "run", "w", "47")
    ground.end()
    assert done.exit_code == 4, done.told()
    assert done.stderr.splitlines()[-2:] == ["error: Too many open files", f"  {HINT}"]


@pytest.mark.fault("F26", by="so much address space and no more")
@pytest.mark.parametrize("mib", swept([24, 28, 32, 36, 40, 48, 56, 64], 32))
def test_P4_without_memory_the_state_is_intact(tmp_path: Path, mib: int) -> None:
    ground = three_phases(tmp_path / "g")
    done = limited(ground, f"as={mib << 20}", "run", "w", "47")
    try:
        # Where not even the interpreter can load its parts, it has its own words for that.
        assert done.exit_code == 0 or done.stderr, done.told()
        goes_on(ground)
    finally:
        ground.end()


# --- control groups around all of adw: orchestrator, nursery, supervisors, bodies, git ---------


@pytest.mark.fault("F29", by="a limit on processes around all of adw")
@pytest.mark.parametrize("most", swept([*range(1, 8), 12], 4))
def test_P4_without_a_process_to_be_had_it_is_told_and_the_run_goes_on(
    tmp_path: Path, most: int
) -> None:
    ground = three_phases(tmp_path / "g")
    try:
        with group("pids", most) as limit:
            done = ground.adw("run", "w", "47", wrap=limit.wrap)
            ground.all_gone()
        assert done.exit_code in ({4} if most <= 4 else {0, 1, 4}), done.told()
        assert "Traceback" not in done.stderr, done.told()
        if done.exit_code == 4:
            assert "Resource temporarily unavailable" in done.stderr, done.told()
        goes_on(ground)
    finally:
        ground.end()


@pytest.mark.fault("F29", by="a limit on processes around all of adw")
@pytest.mark.parametrize("most", swept([1, 2, 3], 1))
def test_a_program_that_cannot_be_started_is_told_with_the_way_out(
    tmp_path: Path, most: int
) -> None:
    ground = three_phases(tmp_path / "g")
    with group("pids", most) as limit:
        done = ground.adw("run", "w", "47", wrap=limit.wrap)
    ground.end()
    assert (done.exit_code, done.stdout) == (4, ""), done.told()
    assert done.stderr == (
        "error: `git` could not be started\n"
        "  why: Resource temporarily unavailable\n"
        "  hint: raise the limit on processes: `ulimit -u`, or pids.max of the control group\n"
    )


@pytest.mark.sweep
@pytest.mark.fault("F29", by="a limit on processes that is reached when another phase begins")
@pytest.mark.parametrize("less", [0, 2])
def test_P4_no_further_supervisor_is_told_and_what_runs_is_let_run(
    make_ground: MakeGround, less: int
) -> None:
    wait = 'while [ ! -e "$GROUND/{}" ]; do read -t 0.02 x <> "$GROUND/pipe"; done; true'
    ground = make_ground(
        {
            "a": phase(f"exec bash -c '{wait.format('go-a')}'", writes=False),
            "long": phase(f"exec bash -c '{wait.format('go')}'", writes=False),
            **{name: phase("true", needs=["a"], writes=False) for name in ("b", "c", "d")},
        },
        config={"ports": "none"},
    )
    os.mkfifo(ground.base / "pipe")
    with group("pids") as limit:
        run = ground.start("run", "w", "47", wrap=limit.wrap)
        for child in ("a-1", "long-1"):
            ground.await_line(child, "body")
        limit.limit(limit.count() - less)
        (ground.base / "go-a").touch()
        try:
            done = Done.of(run)
            assert ground.line("long-1", "exit") is None
        finally:
            ground.go()
        ground.all_gone()
    words = "error: no supervisor could be started: Resource temporarily unavailable\n"
    assert (done.exit_code, done.stderr.endswith(words)) == (4, True), done.told()
    ground.ok("resume", ground.adw_id)
    assert ground.ran("long") == ["long-1"]


@pytest.mark.fault("F26", by="a limit on memory around all of adw: the kernel kills in it")
@pytest.mark.parametrize("mib", swept([12, 24, 28, 32, 36, 40, 44, 48, 64], 36))
def test_P4_killed_for_want_of_memory_one_resume_goes_on(tmp_path: Path, mib: int) -> None:
    ground = three_phases(tmp_path / "g")
    try:
        with group("memory", mib << 20) as limit:
            done = ground.adw("run", "w", "47", wrap=limit.wrap)
            ground.all_gone()
            assert done.exit_code == 0 or limit.killed() > 0, done.told()
        assert "Traceback" not in done.stderr, done.told()
        goes_on(ground)
    finally:
        ground.end()


@pytest.mark.fault("F28", by="a limit on the supervisor's memory: the kernel kills it")
@pytest.mark.parametrize("orchestrator", swept(["lives", "is killed"], "lives"))
def test_P6_P7_a_supervisor_killed_for_want_of_memory_is_lost_and_no_body_meets_another(
    make_ground: MakeGround, orchestrator: str
) -> None:
    alone = 'exec 9>"$GROUND/witness"; flock -n 9 || exit 3; '
    flood = f"{WAIT}; head -c 8000000 /dev/zero || true; sleep 1000"
    ground = make_ground({"one": phase(f'{alone}if [ "$ADW_CHILD" = one-1 ]; then {flood}; fi')})
    run = ground.start("run", "w", "47")
    body = ground.pid()
    supervisor = ground.await_line("one-1", "supervisor")["pid"]
    with group("memory", 64 << 10) as limit:
        limit.take(supervisor)
        if orchestrator == "is killed":
            run.kill()
        ground.go()
        done = Done.of(run)
        if orchestrator == "is killed":
            done = ground.adw("resume", ground.adw_id)
        assert limit.killed() == 1
    assert done.exit_code == 0, done.told()
    assert ground.entries() == [("one", 1, False, "lost"), ("one", 2, True, None)]
    assert dead(body)
    ground.all_gone()
