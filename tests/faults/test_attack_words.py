"""Exit codes tell the truth whoever reads, and a refused value is no bug in adw."""

import os
import subprocess

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import ADW, phase


@pytest.mark.sweep
@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_failed_run_exits_1_though_nobody_reads_its_output(
    make_ground: MakeGround, words: tuple[str, ...]
) -> None:
    ground = make_ground({"build": phase("false")})
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [*ADW, "run", "w", "47", *words],
        cwd=ground.repo.path,
        env={**os.environ, **ground.env},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=40,
    )
    os.close(writer)

    assert done.returncode == 1
    assert done.stderr == b""


def test_a_value_that_the_state_refuses_is_a_usage_error(make_ground: MakeGround) -> None:
    ground = make_ground({"build": phase("true")})

    done = ground.adw("run", "w", "47", "--set", "issue_class=epic")

    assert done.exit_code == 2, done.told()
    assert "`issue_class`" in done.stderr
    assert ground.ids() == []


@pytest.mark.hostile("H34")
def test_a_path_and_an_environment_that_are_no_utf8(make_ground: MakeGround) -> None:
    ground = make_ground(
        {"build": phase('printf %s "$ODD" > odd; cat "$ADW_TASK"')}, config={"env_pass": ["ODD"]}
    )
    odd = os.fsencode(ground.base) + b"/b\xff"
    os.rename(ground.repo.path, odd)
    env = {os.fsencode(k): os.fsencode(v) for k, v in {**os.environ, **ground.env}.items()}
    env[b"ADW_AGENTS_DIR"] = odd + b"/agents"

    done = subprocess.run(
        [*ADW, "run", "w", "47"],
        cwd=odd,
        env={**env, b"ODD": b"\xfe"},
        capture_output=True,
        check=False,
        timeout=40,
    )

    assert done.returncode == 0, done.stderr
    (tree,) = os.listdir(odd + b"/trees")
    with open(odd + b"/trees/" + tree + b"/odd", "rb") as file:
        assert file.read() == b"\xfe"
