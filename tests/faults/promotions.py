"""One run that promotes, and what must be true of its files at every instant and after each open.

`plan` leaves its output out the first time and writes it on the narrowed retry; `build` reads what
`plan` put out; `commit` commits it.
"""

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from adw.app import derived, promoting
from adw.model.event import event_fault
from adw.store import attempts
from adw.store.state import load_state
from tests.support.ground import COUNT, Ground, phase

_PLAN: Final = (
    'n=$(grep -c . "$GROUND/counts/plan"); [ "$n" = 1 ] || { mkdir -p specs;'
    ' echo "plan $n" > "specs/x-$ADW_ID.md"; echo "[$n]" > "$ADW_ARTIFACTS/report.json"; }'
)
_BUILD: Final = f'{COUNT}; cat "$1" "$2" > made.txt'

PHASES: Final[dict[str, Any]] = {
    "plan": phase(
        _PLAN,
        outputs={
            "plan": {"path": "specs/*{adw_id}*.md", "description": "It", "state": "plan_file"},
            "report": {"path": "report.json", "root": "artifacts", "format": "json"},
            "extra": {"path": "extra.txt", "optional": True},
        },
    ),
    "build": {
        "run": ["sh", "-ec", _BUILD, "sh", "{inputs.plan}", "{inputs.report}"],
        "needs": ["plan"],
        "inputs": ["plan", "report"],
        "outputs": {"made": {"path": "made.txt"}},
    },
    "commit": {"use": "commit", "needs": ["build"]},
}
NAMES: Final = {"plan": "plan", "report": "plan", "made": "build"}
"""Logical name to the phase that puts it out."""

RAN: Final = {"plan": 2, "build": 1}
"""How often each body ran, whoever was killed: only the death of a supervisor loses one."""

ONCE: Final = (
    "packet_written",
    "child_launched",
    "child_completed",
    "recovery_decided",
    "artifact_promoted",
)
_AT: Final = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")
_DERIVED: Final = ("artifacts/manifest.json", "RESPONSE.md", "state/latest.json")


# --- at every instant --------------------------------------------------------------------


def assert_sound(run_dir: Path, *, torn: bool = False) -> None:
    """What holds whoever died whenever, before anybody has opened the run.

    Args:
        run_dir: The run.
        torn: A write to the history may have been cut, and more written after it.
    """
    done = _done(run_dir)
    manifest = manifest_of(run_dir)
    for name, entry in manifest.items():
        assert entry["producer"] in done, (name, entry, done)
        assert_whole(run_dir / entry["path"], entry)
    for name, child, path in copies(run_dir):
        if path.name.startswith("."):
            continue
        line = attempts.verdict(attempts.read_lines(str(run_dir / "attempts" / child)))
        if line is not None and name in line["outputs"]:
            assert_whole(path, line["outputs"][name])
        else:
            assert path.read_bytes() in _sources(run_dir, name, path), path
    found = events(run_dir)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert [event_fault(event) for event in found if event_fault(event)] == []
    valid = _valid(found)
    told = Counter(
        (event["event"], event["child_id"], event.get("logical_name"))
        for event in valid
        if event["event"] in ONCE and event.get("cause") != "addendum"
    )
    assert [what for what, count in told.items() if count > 1] == []
    for event in valid:
        if event["event"] == "artifact_promoted":
            # Copy, then manifest entry, then event.
            assert manifest[event["logical_name"]]["producer"] == event["producer"], event


def _sources(run_dir: Path, name: str, copy: Path) -> list[bytes]:
    """Content of all files that a copy may have been made from."""
    copies_of = run_dir / "artifacts" / name
    found = run_dir.parents[1].rglob(copy.name)
    return [path.read_bytes() for path in found if copies_of not in path.parents]


def assert_whole(path: Path, entry: dict[str, Any]) -> None:
    """A copy is exactly what was recorded of it."""
    data = path.read_bytes()
    found = (len(data), hashlib.sha256(data).hexdigest())
    assert found == (entry["size_bytes"], entry["sha256"]), (path, data, entry)


# --- after an open -----------------------------------------------------------------------


def assert_settled(run_dir: Path) -> None:
    """What opening a run leaves: all that is derived says what the truth says, and is complete."""
    assert_sound(run_dir)
    done, manifest = _done(run_dir), manifest_of(run_dir)
    assert manifest == promoting.read_manifest(str(run_dir))
    told = {(event["logical_name"], event["producer"]) for event in _promoted(run_dir)}
    assert {(name, entry["producer"]) for name, entry in manifest.items()} <= told
    for name, child, path in copies(run_dir):
        assert child in done, path
        assert (name, child) in told, path
        assert not path.name.startswith("."), path
    for child in done:
        line = attempts.verdict(attempts.read_lines(str(run_dir / "attempts" / child)))
        for name in line["outputs"] if line else ():
            assert (name, child) in told, (name, child, told)
    assert list(derived.differences(str(run_dir))) == []
    assert _untold(run_dir) == []


def _untold(run_dir: Path) -> list[str]:
    """Entries of attempts without the events that go with them."""
    found = {(event["event"], event["child_id"]) for event in _valid(events(run_dir))}
    state, _ = load_state(str(run_dir))
    missing = []
    for entry in state.phase_history:
        if not entry.attempt:
            continue
        child = f"{entry.phase}-{entry.attempt}"
        kinds = ["child_completed", *([] if entry.success else ["recovery_decided"])]
        if (run_dir / "children" / child / "TASK.md").exists():
            kinds.append("packet_written")
        if entry.reason != "interrupted":
            kinds.append("child_launched")
        missing += [f"{kind} {child}" for kind in kinds if (kind, child) not in found]
    return missing


# --- reading -----------------------------------------------------------------------------


def copies(run_dir: Path) -> Iterator[tuple[str, str, Path]]:
    """(logical name, child, path) of all that lies among the copies."""
    for path in (run_dir / "artifacts").glob("*/*/*"):
        yield path.parts[-3], path.parts[-2], path


def events(run_dir: Path) -> list[dict[str, Any]]:
    """The whole lines of the history."""
    path = run_dir / "state" / "task_history.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(raw) for raw in data[: data.rfind(b"\n") + 1].splitlines()]


def _valid(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events that no correction takes back."""
    wrong = {event["corrects"] for event in found if event["event"] == "correction"}
    return [event for event in found if event["seq"] not in wrong]


def _promoted(run_dir: Path) -> list[dict[str, Any]]:
    return [event for event in _valid(events(run_dir)) if event["event"] == "artifact_promoted"]


def manifest_of(run_dir: Path) -> dict[str, Any]:
    """What `artifacts/manifest.json` says, whatever it should say."""
    path = run_dir / "artifacts" / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    return found


def _done(run_dir: Path) -> set[str]:
    state, _ = load_state(str(run_dir))
    return {f"{e.phase}-{e.attempt}" for e in state.phase_history if e.success}


# --- what a run came to ------------------------------------------------------------------


def end_of(ground: Ground) -> dict[str, Any]:
    """What must not depend on kills; attempts that never began are left out."""
    run_dir = ground.run_dir
    names = _renamed(ground)
    told = Counter(
        (names[event["child_id"]], event["event"], event.get("logical_name"))
        for event in ground.events(*ONCE, "warning")
        if event["child_id"] in names
    )
    manifest = {
        name: {**entry, "created_at": "", "producer": names[entry["producer"]]}
        for name, entry in manifest_of(run_dir).items()
    }
    text = json.dumps(manifest, sort_keys=True).replace(ground.adw_id, "ID")
    for child, name in names.items():
        text = text.replace(f"/{child}/", f"/{name}/")
    return {
        "manifest": json.loads(text),
        "order": list(manifest),
        "told": dict(told),
        "actions": [
            (names[e["child_id"]], e["action"], e["reason"])
            for e in ground.events("recovery_decided")
            if e["child_id"] in names
        ],
        "causes": [
            (names[e["child_id"]], e["cause"])
            for e in ground.events("packet_written")
            if e["child_id"] in names
        ],
        "entries": [e for e in _counted(ground) if e[3] != "interrupted"],
        "bodies": {name: len(ground.ran(name)) for name in RAN},
        "made": (ground.base / "repo" / "trees" / ground.adw_id / "made.txt").read_text(),
        "commits": ground.commits(),
    }


def _renamed(ground: Ground) -> dict[str, str]:
    """Child id to the name it would have, had no attempt been interrupted before it began."""
    seen: Counter[str] = Counter()
    found = {}
    for name, attempt, _, reason in ground.entries():
        if attempt and reason != "interrupted":
            seen[name] += 1
            found[f"{name}-{attempt}"] = f"{name}-{seen[name]}"
    return found


def _counted(ground: Ground) -> list[tuple[str, int, bool, str | None]]:
    names = _renamed(ground)
    return [
        (name, int(names.get(f"{name}-{attempt}", "-0").rpartition("-")[2]), success, reason)
        for name, attempt, success, reason in ground.entries()
    ]


# --- the same bytes again ----------------------------------------------------------------


class Kept:
    """A run's directory as it lay at some instant."""

    def __init__(self, run_dir: Path, kept: Path) -> None:
        self.run_dir, self.kept = run_dir, kept
        shutil.copytree(run_dir, kept, ignore=shutil.ignore_patterns("wake"))
        self._known = {at for text in self._texts(kept) for at in _AT.findall(text)}

    @staticmethod
    def _texts(run_dir: Path) -> Iterator[str]:
        for path in sorted(run_dir.rglob("*")):
            if path.is_file():
                yield path.read_text("utf-8", "replace")

    def back(self) -> None:
        """Lay the same bytes there again."""
        shutil.rmtree(self.run_dir)
        shutil.copytree(self.kept, self.run_dir)

    def deletions(self) -> list[list[str]]:
        """What is derived, each by itself and all together, relative to the run's directory."""
        reports = [
            str(path.relative_to(self.kept)) for path in self.kept.glob("children/*/RESPONSE.md")
        ]
        each = [[name] for name in _DERIVED] + ([reports] if reports else [])
        return [*each, [*_DERIVED, *reports]]

    def delete(self, names: list[str]) -> None:
        """Remove these, where they are there."""
        for name in names:
            (self.run_dir / name).unlink(missing_ok=True)

    def derived(self) -> dict[str, str]:
        """What is derived, by name; instants that were not there before are left out."""
        paths = [self.run_dir / name for name in _DERIVED]
        paths += sorted(self.run_dir.glob("children/*/RESPONSE.md"))
        found = {str(p.relative_to(self.run_dir)): p.read_text() for p in paths}
        state = (self.run_dir / "adw_state.json").read_bytes()
        latest = "state/latest.json"
        found[latest] = found[latest].replace(hashlib.sha256(state).hexdigest(), "STATE")
        return {name: _AT.sub(self._shown, text) for name, text in found.items()}

    def _shown(self, found: re.Match[str]) -> str:
        return found[0] if found[0] in self._known else "LATER"


def open_again(ground: Ground, kept: Path, *, singly: bool = True) -> None:
    """Open a run that was killed, as it lies and with derived files gone: the same comes out.

    Args:
        ground: Its ground; the run's directory is in the end what it was.
        kept: Where a copy goes, to lie there meanwhile.
        singly: Delete each derived file by itself too, not only all together.
    """
    os.makedirs(kept.parent, exist_ok=True)
    lies = Kept(ground.run_dir, kept)
    ground.ok("doctor", "--rebuild", ground.adw_id)
    assert_settled(ground.run_dir)
    wanted = lies.derived()
    for names in lies.deletions()[0 if singly else -1 :]:
        lies.back()
        lies.delete(names)
        ground.ok("doctor", "--rebuild", ground.adw_id)
        assert_settled(ground.run_dir)
        assert lies.derived() == wanted, names
    lies.back()
