"""`adw chaos` on the command line; what it finds is in tests/integration/test_chaos.py."""

from pathlib import Path

import pytest

from tests.support.adw import Adw

WORKFLOW = """\
schema_version: 1
name: w
phases:
  build: {run: mkdir -p made}
  append: {needs: [build], run: echo line >> lines}
"""
FAILS = "schema_version: 1\nname: w\nphases:\n  build: {run: echo no reason; exit 3}\n"


def test_an_unknown_workflow_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    (
        Adw(tmp_path)
        .workflow("release", WORKFLOW)
        .env(TMPDIR=str(tmp_path))
        .run("chaos", "releas", "47")
        .stderr("error: unknown workflow `releas`\n  hint: did you mean `release`?\n")
        .fails(2)
    )
    assert not list(tmp_path.glob("adw-chaos-*"))


def test_a_number_of_rounds_is_expected(tmp_path: Path) -> None:
    output = Adw(tmp_path).run("chaos", "w", "47", "--rounds", "0").fails(2)

    assert "--rounds" in output.stderr


@pytest.mark.sweep
def test_an_undisturbed_run_that_fails_is_shown_and_refused(tmp_path: Path) -> None:
    output = (
        Adw(tmp_path)
        .workflow("w", FAILS)
        .issue(47, "Mend it")
        .env(TMPDIR=str(tmp_path))
        .run("chaos", "w", "47", "--seed", "1")
        .fails(2)
    )

    assert "  |   | no reason\n" in output.stderr
    assert output.stderr.endswith(
        "error: the undisturbed run came out as `failed`, `succeeded` is expected\n"
        "  hint: it has no secrets, network and home there; --keep keeps it, to look at\n"
    )
    assert not list(tmp_path.glob("adw-chaos-*"))


@pytest.mark.sweep
def test_each_finding_comes_with_its_rounds_and_the_command_to_repeat_one(tmp_path: Path) -> None:
    output = (
        Adw(tmp_path)
        .workflow("w", WORKFLOW)
        .issue(47, "Mend it")
        .env(TMPDIR=str(tmp_path))
        .run("chaos", "w", "47", "--seed", "4", "--rounds", "4")
        .fails(1)
    )

    assert output.stdout.startswith(
        "1. not safe to run again: phase append: leaves other files when it is run again\n"
    )
    assert "   | lines: +1 -0, such as `+line`\n" in output.stdout
    assert "   again: adw chaos w 47 --seed 4 --rounds 4 --only-round " in output.stdout
    assert output.stdout.endswith("1 thing found\n")
    assert len([line for line in output.stderr.splitlines() if "/4  " in line]) == 4
