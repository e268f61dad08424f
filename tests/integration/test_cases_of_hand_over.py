"""Cases from the field, in whole runs: prose for JSON, huge work, refused delivery, told endings."""

import hashlib
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from adw.store.artifacts import COPY_LIMIT
from tests.support.ground import WAIT, Ground, phase

MakeGround = Callable[..., Ground]
PROSE: Final = "Sure! I looked at everything. Done."
REPORT: Final = {"path": "report.json", "root": "artifacts", "format": "json"}


@pytest.fixture
def make_ground(tmp_path: Path) -> Iterator[MakeGround]:
    made: list[Ground] = []

    def make(phases: dict[str, Any], **keys: Any) -> Ground:
        config = {"ports": "none", **keys.pop("config", {})}
        made.append(Ground(tmp_path / f"ground{len(made)}", phases, config=config, **keys))
        return made[-1]

    yield make
    for ground in made:
        ground.end()


def manifest(ground: Ground) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ground.run_dir / "artifacts/manifest.json").read_bytes())
    return found


# --- A8 ----------------------------------------------------------------------------------

RESULT: Final = """
import sys
from datetime import UTC, datetime
from adw.phases.api import write_result
write_result(data={"at": datetime(2026, 3, 1, 12, tzinfo=UTC)})
try:
    write_result(data={"at": object()})
except ValueError as error:
    sys.exit(f"refused: {error}")
"""


def test_case_A8_instants_reach_files_as_ISO_8601_and_what_is_no_JSON_does_not(
    make_ground: MakeGround,
) -> None:
    ground = make_ground({"a": {"run": ["{python}", "-I", "-c", RESULT]}})
    issue = "---\ntitle: 2026-03-01\ncreated: 2026-03-01T12:00:00Z\nlabels: [2026-03-02]\n---\nx\n"
    (ground.repo.path / "issues" / "47.md").write_text(
        issue.replace(": 2026-03-01\n", ": '2026-03-01'\n")
    )

    assert ground.adw("run", "w", "47").exit_code == 1

    result = json.loads((ground.run_dir / "children/a-1/result.json").read_bytes())
    assert result == {"data": {"at": "2026-03-01T12:00:00+00:00"}}
    assert ground.entries() == [("a", 1, False, "exit")]
    said = (ground.run_dir / "attempts/a-1/stderr.log").read_text()
    assert said == "refused: a value of type `object` is no JSON\n"
    told = json.loads((ground.run_dir / "run.json").read_bytes())["issue"]
    assert (told["title"], told["labels"]) == ("2026-03-01", ["2026-03-02"])


# --- H5 ----------------------------------------------------------------------------------


def test_case_H5_prose_where_JSON_was_owed_fails_with_all_of_it_kept(
    make_ground: MakeGround,
) -> None:
    text = f"""
        echo "{PROSE}"
        [ "$ADW_ATTEMPT" = 1 ] && echo "{PROSE}" > "$ADW_ARTIFACTS/report.json" && exit 0
        echo '{{"ok": true}}' > "$ADW_ARTIFACTS/report.json"
    """
    ground = make_ground({"review": phase(text, outputs={"report": REPORT}, retry={"attempts": 2})})

    ground.ok("run", "w", "47")

    assert ground.entries() == [
        ("review", 1, False, "contract"),
        ("review", 2, True, None),
    ]
    (first, second) = ground.events("child_completed")
    wrong = "`report.json` is not valid: Expecting value: line 1 column 1 (char 0)"
    assert (first["reason"], first["detail"]) == ("contract", f"output `report`: {wrong}")
    assert second["success"]
    assert (ground.run_dir / "children/review-1/artifacts/report.json").read_text() == PROSE + "\n"
    assert (ground.run_dir / "attempts/review-1/stdout.log").read_text() == PROSE + "\n"
    task = (ground.run_dir / "children/review-2/TASK.md").read_text()
    assert f"- `report`, `report.json` in the artifacts folder: {wrong}\n" in task
    assert manifest(ground)["report"]["producer"] == "review-2"


def test_case_H5_where_it_was_optional_a_warning_is_told_and_nothing_promoted(
    make_ground: MakeGround,
) -> None:
    outputs = {"report": {**REPORT, "optional": True}}
    text = f'echo "{PROSE}" > "$ADW_ARTIFACTS/report.json"'
    ground = make_ground({"review": phase(text, outputs=outputs)})

    ground.ok("run", "w", "47")

    assert ground.entries() == [("review", 1, True, None)]
    (warning,) = ground.events("warning")
    assert (warning["stage"], warning["child_id"]) == ("review", "review-1")
    assert "`report.json` is not valid" in warning["detail"]
    assert (manifest(ground), ground.events("artifact_promoted")) == ({}, [])
    assert (ground.run_dir / "children/review-1/artifacts/report.json").read_text() == PROSE + "\n"


# --- H7 ----------------------------------------------------------------------------------

LINES: Final = 60_000
MAKE: Final = f"""
    i=0
    seq {LINES} | sed 's/$/ a line of a huge diff, long enough to count/' > huge.txt
    truncate -s {COPY_LIMIT + 1} "$ADW_ARTIFACTS/model.bin"
"""
HOOKS: Final = {
    "refuses": ('test -e "$GROUND/go" || {{ echo "no entry" >&2; exit 1; }}', "exit"),
    "is slow": ('test -e "$GROUND/go" || sleep 100', "timeout"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("how", HOOKS)
def test_case_H7_finished_work_survives_its_delivery_which_alone_is_repeated(
    make_ground: MakeGround, how: str
) -> None:
    """A diff of 3 MB, an artifact beyond what is copied, a hook that refuses or hangs."""
    hook, reason = HOOKS[how]
    outputs = {"model": {"path": "model.bin", "root": "artifacts"}}
    ground = make_ground(
        {
            "change": phase(MAKE, outputs=outputs),
            "deliver": {"use": "commit", "needs": ["change"], "timeout": "2s", "inputs": ["model"]},
        }
    )
    path = ground.repo.path / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nGROUND='{ground.base}'\n{hook.format()}\n")
    path.chmod(0o755)

    assert ground.adw("run", "w", "47").exit_code == 1

    assert ground.entries()[-1] == ("deliver", 1, False, reason)
    tree = ground.repo.path / "trees" / ground.adw_id
    whole = (tree / "huge.txt").read_bytes()
    kept = f"refs/adw/{ground.adw_id}/deliver-1-after"
    assert ground.repo.git("show", f"{kept}:huge.txt").encode() + b"\n" == whole
    assert whole.count(b"\n") == LINES
    assert len(whole) > 1 << 20
    entry = manifest(ground)["model"]
    assert (entry["path"], entry["copied"], entry["size_bytes"]) == (None, False, COPY_LIMIT + 1)
    model = ground.run_dir / "children" / "change-1" / "artifacts" / entry["source"]
    assert entry["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()

    ground.go()
    ground.ok("resume", ground.adw_id)

    assert ground.ran("change") == ["change-1"]
    assert [e[0] for e in ground.entries() if e[2]] == ["change", "deliver"]
    state = json.loads((ground.run_dir / "adw_state.json").read_bytes())
    assert ground.repo.git("show", f"{state['branch_name']}:huge.txt").encode() + b"\n" == whole


# --- J2, J4 ------------------------------------------------------------------------------


@pytest.mark.sweep
def test_case_J1_J2_J4_each_invocation_says_why_it_stopped(make_ground: MakeGround) -> None:
    """Interrupted, over its limit, done: three records, three transcripts, three prompts."""
    text = f"""
        echo "try $ADW_ATTEMPT"
        if [ "$ADW_ATTEMPT" = 1 ]; then {WAIT}; fi
        if [ "$ADW_ATTEMPT" = 2 ]; then sleep 100; fi
    """
    ground = make_ground({"work": phase(text, timeout="2s", retry={"attempts": 2})})
    run = ground.start("run", "w", "47")
    ground.pid()
    run.send_signal(signal.SIGTERM)
    assert run.wait(20) == 143
    said = (ground.run_dir / "RESPONSE.md").read_text()
    assert said.startswith(f"# Run {ground.adw_id}: interrupted\n\nended by SIGTERM\n")
    assert said.endswith(f"\n## Next\n\nadw resume {ground.adw_id}\n")

    ground.ok("resume", ground.adw_id)

    assert ground.entries() == [
        ("work", 1, False, "interrupted"),
        ("work", 2, False, "timeout"),
        ("work", 3, True, None),
    ]
    shown = json.loads(ground.ok("show", ground.adw_id, "--json").stdout)
    attempts = shown["phases"][0]["attempts"]
    assert [each["reason"] for each in attempts] == ["interrupted", "timeout", None]
    assert all(each["started_at"] < each["ended_at"] for each in attempts)
    decided = [(e["reason"], e["action"]) for e in ground.events("recovery_decided")]
    assert decided == [("interrupted", "rerun"), ("timeout", "retry")]
    for n in (1, 2, 3):
        assert (ground.run_dir / f"attempts/work-{n}/stdout.log").read_text() == f"try {n}\n"
        assert (ground.run_dir / f"children/work-{n}/TASK.md").stat().st_size
        assert (ground.run_dir / f"children/work-{n}/RESPONSE.md").stat().st_size
        exit_line = ground.line(f"work-{n}", "exit")
        assert exit_line is not None
    closed = [event["closing"] for event in ground.events("run_closed")]
    assert closed[-1] == "succeeded"


# --- J5 ----------------------------------------------------------------------------------


@pytest.mark.hostile("H37", "H44")
def test_case_J5_H44_a_run_is_its_owners_alone_and_phases_inherit_by_name(
    make_ground: MakeGround,
) -> None:
    text = 'env > "$ADW_ARTIFACTS/env"; echo x > x; umask'
    outputs = {"seen": {"path": "env", "root": "artifacts"}}
    ground = make_ground(
        {"a": phase(text, outputs=outputs), "c": {"use": "commit", "needs": ["a"]}},
        env={"SOME_TOKEN": "canary-env", "GIT_ASKPASS": "canary-askpass", "PASSED": "on"},
        config={"env_pass": ["PASSED"]},
    )

    ground.ok("run", "w", "47")

    seen = (ground.run_dir / manifest(ground)["seen"]["path"]).read_text()
    assert "canary" not in seen
    assert "\nPASSED=on\n" in f"\n{seen}"
    own = {"children/a-1/artifacts/env"}  # the phase's own file, with its own umask
    for path in [ground.run_dir, *ground.run_dir.rglob("*")]:
        if os.path.relpath(path, ground.run_dir) not in own:
            assert not stat.S_IMODE(path.lstat().st_mode) & 0o077, path
