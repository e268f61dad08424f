"""What a person sees and does after the orchestrator was killed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.cli.main import COMMANDS
from tests.support.ground import WAIT, Ground, kill, phase
from tests.support.wait import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(
        tmp_path / "g",
        {
            "a": phase("echo first"),
            "b": phase(WAIT, needs=["a"]),
            "c": phase("true", needs=["b"]),
        },
    )
    yield made
    made.end()


@pytest.mark.sweep
def test_case_B3_status_says_interrupted_and_resume_needs_no_unlock(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    body = ground.pid()
    kill(run.pid)

    text = ground.ok("status", ground.adw_id).stdout
    why = ground.ok("why", ground.adw_id).stdout

    assert text.startswith(f"run {ground.adw_id} interrupted (orchestrator dead)\n")
    assert f"\nphase b still runs (attempt 1, process {body})\n" in text
    assert "\nphase b: running\n" in why
    busy = ground.adw("run", "w", "47")
    assert busy.exit_code == 5
    assert f"adw resume {ground.adw_id}" in busy.stderr
    ground.go()
    until(lambda: not ground.status(ground.adw_id)["living"])
    ground.ok("resume", ground.adw_id)
    assert [ground.ran(name) for name in "abc"] == [["a-1"], ["b-1"], ["c-1"]]


@pytest.mark.sweep
def test_case_B21_after_a_resume_done_phases_show_their_first_attempt(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.pid()
    before = ground.status(ground.adw_id)["phases"][0]
    kill(run.pid)
    ground.go()

    ground.ok("resume", ground.adw_id)

    phases = ground.status(ground.adw_id)["phases"]
    assert phases[0] == before
    assert [each["status"] for each in phases] == ["done"] * 3
    assert phases[1]["attempts"][0]["adopted"] is True
    text = ground.ok("status", ground.adw_id).stdout
    assert re.search(r"^a +done +1 +\S+Z +\d+\.\d s$", text, re.MULTILINE)
    assert re.search(r"^b +done +1 +\S+Z +\d+\.\d s +adopted$", text, re.MULTILINE)


def test_case_B3_every_command_that_a_message_or_a_page_names_exists() -> None:
    code = [*(ROOT / "adw").rglob("*.py"), *(ROOT / "workflows").rglob("*.yaml")]
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = {
        (word, path.name)
        for path in [*code, *pages]
        for word in re.findall(r"(?<!\"\")[`\"]adw ([a-z][a-z-]*)\b", path.read_text("utf-8"))
    }

    assert len(named) > 20
    assert {each for each in named if each[0] not in COMMANDS} == set()
