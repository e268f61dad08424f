"""Limits of a phase in a whole run."""

import re
import sys
from pathlib import Path

import pytest

from adw.supervise import fence
from tests.support.ground import Ground, phase

HOG = f"{sys.executable} -I -S -c 'x = bytearray(300 << 20); x[::4096] = bytes(len(x[::4096]))'"


@pytest.mark.fault("F27", by="a memory limit of 60 MiB, a body that takes 300")
def test_a_phase_out_of_memory_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    if fence.missing():
        pytest.skip("no control groups with limits here: F27 was NOT tested")
    text = f'[ $(grep -c . "$GROUND/counts/build") = 2 ] || {HOG}'
    retry = {"attempts": 2, "on": ["oom"]}
    ground = Ground(tmp_path / "g", {"build": phase(text, memory="60M", retry=retry)})
    try:
        ground.ok("run", "w", "47")
        assert [entry[2:] for entry in ground.entries()] == [(False, "oom"), (True, None)]
        assert ground.events("warning") == []
    finally:
        ground.end()


FLOOD = "head -c 3000000 /dev/zero | tr '\\0' x; printf END"


def test_a_log_keeps_as_much_as_its_phase_says_of_beginning_and_end(tmp_path: Path) -> None:
    phases = {
        "small": phase(FLOOD, log="100K"),
        "whole": phase(FLOOD, log="3M"),
        "usual": phase(f"{FLOOD}; {FLOOD}"),
    }
    ground = Ground(tmp_path / "g", phases)
    try:
        ground.ok("run", "w", "47")
        logs = {name: ground.run_dir / "attempts" / f"{name}-1" / "stdout.log" for name in phases}

        log, head, tail = logs["small"].read_bytes(), 80 << 10, 20 << 10
        mark, end = log[head : head + 64], log[head + 64 :]
        assert log[:head] == b"x" * head
        assert tail <= len(end) <= tail + 64
        assert end == b"x" * (len(end) - 3) + b"END"
        left_out = 3_000_003 - head - len(end)
        assert mark.strip() == f"[adw: {left_out} bytes left out here]".encode()

        assert logs["whole"].read_bytes() == b"x" * 3_000_000 + b"END"
        usual = logs["usual"].read_bytes()
        assert len(usual) in range(5 << 20, (5 << 20) + 129)
        assert usual[: 4 << 20].count(b"\n") == 0
        assert usual[4 << 20 :].startswith(b"\n[adw: ")
        assert usual.endswith(b"END")
    finally:
        ground.end()


def test_a_limit_that_is_unavailable_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    env = {"ADW_DISABLE": "memory_limit,pids_limit"}
    phases = {"build": phase("true", memory="60M"), "test": phase("true", processes=9)}
    ground = Ground(tmp_path / "g", phases, env=env)
    try:
        done = ground.ok("run", "w", "47")
        told = [event["detail"] for event in ground.events("warning")]
        assert told == [
            (
                f"no control group for {controller} can be made here: the limit of `{name}` is"
                " unavailable, and it runs without"
            )
            for controller, name in (("memory", "build"), ("pids", "test"))
        ]
        assert all(f"warning: {line}" in done.stderr + done.stdout for line in told)
    finally:
        ground.end()


FILL = 'head -c 30000000 /dev/zero > "$ADW_ARTIFACTS/fill"'


@pytest.mark.fault("F14", by="a phase that keeps more than its disk limit")
@pytest.mark.hostile("H42")
def test_a_phase_over_its_disk_limit_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    retry = {"attempts": 2, "on": ["disk"]}
    phases = {
        "build": phase(FILL, disk="20M", retry=retry),
        "test": phase("true", needs=["build"]),
    }
    ground = Ground(tmp_path / "g", phases)
    try:
        done = ground.adw("run", "w", "47")
        assert done.exit_code == 1, done.told()
        assert [entry[2:] for entry in ground.entries()] == [(False, "disk"), (False, "disk")]
        told = [(e["reason"], e["action"], e["detail"]) for e in ground.events("recovery_decided")]
        assert told == [("disk", "retry", None), ("disk", "give_up", None)]
        view = ground.status(ground.adw_id)
        places = ((28, "children/build-1"), (57, "children"))
        for (size, place), attempt in zip(places, view["phases"][0]["attempts"], strict=True):
            assert attempt["reason"] == "disk"
            assert re.fullmatch(
                rf"the run keeps {size}\.\dM on disk, `disk` allows 20M; {size}\.\dM of it are in "
                rf"`{place}` in the run's directory; remove what is not needed, or raise `disk`",
                attempt["detail"],
            )
        for command in ("status", "show", "why"):
            assert "disk" in ground.ok(command, ground.adw_id).stdout

        for path in ground.run_dir.glob("children/*/artifacts/fill"):
            path.unlink()
        text = (ground.repo.path / "workflows" / "w.yaml").read_text()
        ground.repo.commit("mend", {"workflows/w.yaml": text.replace("20M", "80M")})
        ground.ok("resume", ground.adw_id, "--accept-changed")
    finally:
        ground.end()


@pytest.mark.fault("F14", "F16", by="a disk with less free than `disk_reserve`")
def test_no_phase_is_started_on_a_disk_with_too_little_free(
    tmp_path: Path,
) -> None:
    ground = Ground(tmp_path / "g", {"one": phase("true")}, config={"disk_reserve": "1024T"})
    try:
        done = ground.adw("run", "w", "47")
        assert done.exit_code == 4, done.told()
        line = (
            rf"error: no phase is started: [0-9.]+[MGT] are free on the disk of `{ground.run_dir}`"
        )
        assert re.search(rf"^{line}, 1024T are to stay free$", done.stderr, re.MULTILINE)
        fix = f"make room (adw gc removes runs that are over), then adw resume {ground.adw_id}"
        assert f"  hint: {fix}\n" in done.stderr
        assert (ground.ran("one"), ground.entries()) == ([], [])
        view = ground.status(ground.adw_id)
        assert (view["status"], view["reason"]) == (
            "interrupted",
            "too little is free on the disk",
        )
        assert view["next_action"] == f"adw resume {ground.adw_id}"
        assert "too little is free on the disk" in (ground.run_dir / "RESPONSE.md").read_text()
        assert [e["by"] for e in ground.events("run_left")] == ["disk"]
        assert len(ground.events("warning")) == 1
    finally:
        ground.end()
