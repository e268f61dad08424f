"""What real runs leave on disk is what the page and the schemas say, nothing more, nothing less."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from adw.app import reading
from adw.store import requests
from tests.support.documents import PAGE, documents, faults, files_of, row_of, rows, validator
from tests.support.ground import WAIT, Ground, kill, phase
from tests.support.repo import Repo
from tests.support.wait import until

pytestmark = pytest.mark.xdist_group("documents")  # one worker: the runs are made once

PLAN: Final = 'mkdir -p specs; echo "the plan of $ADW_CHILD" > "specs/issue-$ADW_ID.md"'
SECOND: Final = '[ "$ADW_ATTEMPT" -lt 2 ]'
HELD: Final = 'echo \'{"blocker": {"question": "Which one?"}}\' > "$ADW_RESULT"; exit 77'
PHASES: Final = {
    "plan": phase(
        f'{SECOND} && exit 0; {PLAN}; echo "[1]" > "$ADW_ARTIFACTS/report.json"',
        skill="skills/planner.md",
        outputs={
            "plan": {
                "path": "specs/*{adw_id}*.md",
                "description": "The plan",
                "state": "plan_file",
            },
            "report": {
                "path": "report.json",
                "root": "artifacts",
                "format": "json",
                "optional": True,
            },
        },
    ),
    "build": phase(
        'echo "$ADW_INPUTS"; case $ADW_INPUTS in *specs/issue-*) echo more >> "$ADW_PLAN_FILE";; *) exit 9;; esac',
        needs=["plan"],
        inputs=["plan"],
    ),
    "test": phase(
        'echo bad >&2; echo \'{"summary": "It ran."}\' > "$ADW_RESULT"; test -e fixed',
        needs=["build"],
        writes=False,
        repair={"phase": "fix", "rounds": 2},
    ),
    "fix": phase(f'"{sys.executable}" -m adw effect mend -- echo mended; touch fixed'),
    "lint": phase("exit 3", needs=["test"], writes=False, allow_failure=True, inputs=["plan"]),
    "docs": phase("true", needs=["test"], when="issue_class == 'feature'"),
    "ask": phase(f"{SECOND} && {{ {HELD}; }}; true", needs=["lint", "docs"]),
}
ROUGH: Final = {
    "wait": phase(WAIT),
    "spoil": phase(f'{SECOND} && echo x >> "$ADW_STATE"; true', needs=["wait"]),
}


@dataclass
class Runs:
    """Runs that are over, and what was seen of them on the way."""

    folders: list[Path]
    seen: set[str]
    """Every file that there ever was, relative to its run's directory."""
    faults: list[str]
    begun: datetime
    ended: datetime

    def documents(self) -> Iterator[tuple[str, str, Any]]:
        """Those of all runs, as they are now."""
        for folder in self.folders:
            yield from documents(folder)


def _look(runs: Runs, folder: Path) -> None:
    """Hold a run against page and schemas, as it is at this moment."""
    runs.seen.update(files_of(folder))
    runs.faults += faults(folder)
    _hold(runs, reading.status(str(folder)))
    _hold(runs, reading.listing(str(folder.parent)))


def _hold(runs: Runs, view: Any) -> None:
    """Hold what `adw status --json` prints against its schema."""
    runs.faults += [error.message for error in validator("status").iter_errors(view)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    base = tmp_path_factory.mktemp("documents")
    found = Runs([], set(), [], datetime.now(UTC), datetime.now(UTC))
    grounds = []
    for drive, phases in ((_smooth, PHASES), (_rough, ROUGH)):
        config = {"ports": "none", "notify": {"command": ["true"]}}
        ground = Ground(base / drive.__name__, phases, config=config)
        grounds.append(ground)
        try:
            drive(ground, found)
        finally:
            ground.end()
        found.folders.append(ground.run_dir)
    found.ended = datetime.now(UTC)
    return found


def _smooth(ground: Ground, found: Runs) -> None:
    """Failure, narrowed retry, repair, skip, excuse, hold; a person's words; another workflow."""
    ground.repo.commit("skill", {"workflows/skills/planner.md": "You plan.\n"})
    assert ground.adw("run", "w", "47").exit_code == 6
    _look(found, ground.run_dir)
    ground.ok("task", "add", ground.adw_id, "ask", "--file", str(_text(ground)))
    ground.ok("state", "set", ground.adw_id, "model_set=heavy")
    ground.ok("resume", ground.adw_id)
    _another_workflow(ground.repo)
    ground.ok("run", "more", "47", "--adw-id", ground.adw_id)
    _look(found, ground.run_dir)


def _text(ground: Ground) -> Path:
    path = ground.base / "words.md"
    path.write_text("Take the first one.\n", encoding="utf-8")
    return path


def _another_workflow(repo: Repo) -> None:
    more = {"name": "more", "phases": {**PHASES, "last": phase("true", needs=["ask"])}}
    repo.commit("more", {"workflows/more.yaml": json.dumps(more)})


def _rough(ground: Ground, found: Runs) -> None:
    """Supervisor killed, orchestrator killed, history torn, state spoilt by a phase and by hand."""
    ground.start("run", "w", "47")
    ground.await_line("wait-1", "body")
    supervisor = ground.line("wait-1", "supervisor")
    assert supervisor is not None
    os.kill(supervisor["pid"], signal.SIGKILL)
    ground.await_line("wait-2", "body")
    _look(found, ground.run_dir)
    kill(ground.started[-1].pid)
    requests.ask(str(ground.run_dir), "pause", 0, {})
    with (ground.run_dir / "state" / "task_history.jsonl").open("ab") as history:
        history.write(b'{"to')
    found.seen.update(files_of(ground.run_dir))
    run = ground.start("resume", ground.adw_id)
    ground.await_line("wait-2", "adopt")
    ground.go()
    assert run.wait(20) == 1
    _look(found, ground.run_dir)
    (ground.run_dir / "adw_state.json").write_text("{", encoding="utf-8")
    broken = reading.listing(str(ground.agents))
    assert broken["runs"][0]["status"] == "broken"
    _hold(found, broken)
    ground.ok("doctor", "--restore", ground.adw_id)
    ground.ok("resume", ground.adw_id)
    _look(found, ground.run_dir)


def test_every_file_of_a_run_is_on_the_page_and_fits_its_schema_FS_13(runs: Runs) -> None:
    assert runs.faults == []


@pytest.mark.sweep
def test_the_page_invents_nothing(runs: Runs) -> None:
    unseen = [row.path for row in rows() if not any(row_of(path) is row for path in runs.seen)]

    assert unseen == []


@pytest.mark.sweep
def test_a_document_with_a_changed_part_fits_no_more_FS_14(runs: Runs) -> None:
    found: dict[tuple[str, str | None], tuple[str, Any]] = {}
    for where, name, document in runs.documents():
        kind = document.get("event") or document.get("line") or document.get("kind")
        found.setdefault((name, kind), (where, document))
    for (name, _), (where, document) in found.items():
        judge = validator(name)
        assert not judge.is_valid({**document, "timestamp": "x"}), where
        for key in document:
            assert not judge.is_valid({**document, key: [[]]}), (where, key)
    assert {name for name, _ in found} == {row.schema for row in rows()} - {None}


def test_instants_are_real_and_only_ts_stands_for_one_in_an_event_FS_12(runs: Runs) -> None:
    stamps = []
    for path in [path for folder in runs.folders for path in folder.rglob("*")]:
        for document in _all_json(path):
            for key, value in _pairs(document):
                assert key != "timestamp", path
                if (key in {"ts", "at", "since"} or key.endswith("_at")) and value is not None:
                    stamps.append(_instant(value))
                    assert runs.begun <= stamps[-1] <= runs.ended, (path, key, value)
    assert len(set(stamps)) > 50


def _all_json(path: Path) -> list[Any]:
    """What a JSON file of adw holds, those without a schema and the lock too."""
    if ".damaged." in path.name or ".tampered." in path.name:
        return []
    if path.suffix == ".jsonl":
        return list(_lines(path))
    return [json.loads(path.read_bytes())] if path.suffix == ".json" or path.name == "lock" else []


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, item
            yield from _pairs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _pairs(item)


def _instant(text: str) -> datetime:
    assert text.endswith("Z"), text
    return datetime.fromisoformat(text)


def test_all_that_has_a_schema_version_has_the_same_FS_13(runs: Runs) -> None:
    found = {
        (name, document["schema_version"])
        for _, name, document in runs.documents()
        if "schema_version" in document
    }

    assert {version for _, version in found} == {1}
    assert {name for name, _ in found} >= {"state", "run", "event", "latest"}


def test_events_are_numbered_without_gaps_and_in_order_of_time_FS_11(runs: Runs) -> None:
    for folder in runs.folders:
        events = [document for _, name, document in documents(folder) if name == "event"]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        times = [event["ts"] for event in events]
        assert times == sorted(times)


def test_the_manifest_names_what_was_put_out_and_where_FS_15(runs: Runs) -> None:
    folder = runs.folders[0]
    manifest = json.loads((folder / "artifacts" / "manifest.json").read_bytes())

    assert set(manifest) == {"plan", "report"}
    for name, entry in manifest.items():
        assert not os.path.isabs(entry["path"])
        assert entry["path"].startswith(f"artifacts/{name}/plan-2/")
        assert (folder / entry["path"]).stat().st_size == entry["size_bytes"]
    assert manifest["plan"]["description"] == "The plan"


def test_a_missing_output_shows_in_the_history_from_launch_to_promotion_FS_10(runs: Runs) -> None:
    """Must-show 2: a narrowed retry, both attempts kept."""
    events = [document for _, name, document in documents(runs.folders[0]) if name == "event"]
    told = [(e["event"], e["child_id"]) for e in events if e["stage"] == "plan"]
    wanted = [
        ("child_launched", "plan-1"),
        ("child_completed", "plan-1"),
        ("recovery_decided", "plan-1"),
        ("child_launched", "plan-2"),
        ("child_completed", "plan-2"),
        ("artifact_promoted", "plan-2"),
    ]
    places = [told.index(each) for each in wanted]
    decided = [e for e in events if e["event"] == "recovery_decided" and e["stage"] == "plan"]

    assert places == sorted(places)
    assert {("packet_written", "plan-1"), ("packet_written", "plan-2")} <= set(told)
    assert (decided[0]["reason"], decided[0]["action"]) == ("missing_output", "narrowed_retry")


# --- queries -----------------------------------------------------------------------------


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in path.read_bytes().splitlines()]


def _manifest(folder: Path) -> list[str]:
    found = json.loads((folder / "artifacts" / "manifest.json").read_bytes())
    return [f"{n}\t{e['path'] or e['source']}\t{e['producer']}" for n, e in found.items()]


def _ends(folder: Path) -> list[str]:
    events = _lines(folder / "state" / "task_history.jsonl")
    ends = [event for event in events if event["event"] == "child_completed"]
    return [f"{e['child_id']}\t{json.dumps(e['success'])}\t{e['reason'] or ''}" for e in ends]


def _decided(folder: Path) -> list[str]:
    events = _lines(folder / "state" / "task_history.jsonl")
    found = [event for event in events if event["event"] == "recovery_decided"]
    return [f"{e['child_id']}\t{e['reason']}\t{e['action']}" for e in found]


def _failed(folder: Path) -> list[str]:
    entries = json.loads((folder / "adw_state.json").read_bytes())["phase_history"]
    return [f"{e['phase']}\t{e['attempt']}\t{e['reason']}" for e in entries if not e["success"]]


def _codes(folder: Path) -> list[str]:
    found = []
    for path in sorted((folder / "attempts").glob("*/attempt.jsonl")):
        found += [json.dumps(e["exit_code"]) for e in _lines(path) if e["line"] == "exit"]
    return found


TWINS: Final[list[Callable[[Path], list[str]]]] = [_manifest, _ends, _decided, _failed, _codes]


def test_the_queries_of_the_page_answer(runs: Runs) -> None:
    """Each is asked in Python too, since jq is not everywhere."""
    folder = runs.folders[0]
    shown = [line[2:] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("$ jq ")]

    assert len(shown) == len(TWINS)
    for query, twin in zip(shown, TWINS, strict=True):
        expected = twin(folder)
        assert expected, query
        if shutil.which("jq"):
            said = subprocess.run(
                ["sh", "-euc", query], cwd=folder, capture_output=True, text=True, check=True
            )
            assert said.stdout.splitlines() == expected, query


def test_a_copied_run_shows_the_same_elsewhere(runs: Runs, tmp_path: Path) -> None:
    folder = runs.folders[0]
    shutil.copytree(folder, tmp_path / "copy" / folder.name)
    view = reading.status(str(tmp_path / "copy" / folder.name))

    assert view == reading.status(str(folder))
    assert until(lambda: faults(tmp_path / "copy" / folder.name) == [])
