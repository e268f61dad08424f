"""Outputs and inputs of phases: what was promised, found, promoted by copy, and read again.

An output is taken off the disk by `adw.store.artifacts`, copied to `artifacts/<name>/<child_id>/`
and written down in the attempt's `verdict` line before the commit. `artifacts/manifest.json` is
derived from these lines and the history; whoever opens a run makes it again and removes copies
that no success stands behind.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from adw import clock
from adw.core.graph import Output, Phase
from adw.errors import StoreError
from adw.ids import child_id
from adw.store import artifacts, attempts, files, views
from adw.store.artifacts import OutputFault
from adw.store.encoding import json_bytes

if TYPE_CHECKING:  # readers of the manifest do without pydantic, which outcomes are made of
    from adw.core.outcome import Verdict

SCHEMA_VERSION: Final = 1
MANIFEST: Final = os.path.join("artifacts", "manifest.json")
EMPTY: Final = b"{}\n"

Entries = Iterable[tuple[str, int, bool]]
"""(phase, attempt, success) of each history entry, in order."""


# --- what a phase owes -------------------------------------------------------------------


def owed(phase: Phase) -> list[dict[str, Any]]:
    """Declared outputs, paths filled, as the launch line keeps them: they bind this attempt."""
    return [asdict(output) for output in phase.outputs]


@dataclass(slots=True)
class Promotion:
    """What became of the outputs that one attempt owed."""

    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[dict[str, Any]] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """State fields that they set."""

    @property
    def verdict(self) -> "Verdict | None":
        """The failure; None where nothing that counts is missing or wrong."""
        from adw.core.outcome import Verdict, one_line

        bad = [fault for fault in self.faults if not fault["optional"]]
        if not bad:
            return None
        kinds = {fault["kind"] for fault in bad}
        reason = "contract" if "contract" in kinds else "missing_output"
        words = "; ".join(f"output `{fault['name']}`: {fault['detail']}" for fault in bad)
        return Verdict(success=False, reason=reason, detail=one_line(words))


def promised(launch: Mapping[str, Any]) -> list[Output]:
    """The outputs that a launch line binds its attempt to.

    Raises:
        ValueError: The line was damaged.
    """
    try:
        return [Output(**each) for each in launch.get("outputs") or ()]
    except TypeError as error:
        message = "its launch line is damaged"
        raise ValueError(message) from error


def promote(run_dir: str, child: str, outputs: Sequence[Output], tree: str) -> Promotion:
    """Check and copy all that an attempt owed; its processes are gone.

    Args:
        run_dir: The state root.
        child: `<phase>-<attempt>`.
        outputs: What it owed.
        tree: Absolute path of the worktree.

    Returns:
        Where it has a `verdict`, no copy of this attempt is left.

    Raises:
        OSError: A copy could not be written.
    """
    found = Promotion()
    for output in outputs:
        try:
            found.outputs[output.name] = _taken(run_dir, child, output, tree)
        except OutputFault as fault:
            found.faults.append(_fault(output, fault))
            continue
        if output.state:
            found.fields[output.state] = found.outputs[output.name]["source"]
    if found.verdict is not None:
        found.outputs.clear()
        found.fields.clear()
        discard(run_dir, child)
    return found


def _fault(output: Output, fault: OutputFault) -> dict[str, Any]:
    return {
        "name": output.name,
        "path": output.path,
        "root": output.root,
        "kind": fault.kind,
        "detail": fault.detail,
        "optional": output.optional,
    }


def _taken(run_dir: str, child: str, output: Output, tree: str) -> dict[str, Any]:
    target = os.path.join(run_dir, "artifacts", output.name, child)
    root, below = _root(run_dir, child, output.root, tree)
    taken = artifacts.take(
        root,
        output.path,
        target,
        below=below,
        max_bytes=output.max_bytes,
        check=_strict_json if output.format == "json" else None,
    )
    return {
        "path": os.path.relpath(taken.copy, run_dir) if taken.copy else None,
        "source": taken.source,
        "root": output.root,
        "description": output.description,
        "size_bytes": taken.size_bytes,
        "sha256": taken.sha256,
        "copied": taken.copy is not None,
    }


def _root(run_dir: str, child: str, root: str, tree: str) -> tuple[str, str]:
    """A folder that only adw can replace, and the way from it down to where the output is."""
    return (tree, "") if root == "worktree" else (run_dir, f"children/{child}/artifacts")


def _strict_json(data: bytes) -> object:
    from adw.model.base import parse_json

    return parse_json(data)


def discard(run_dir: str, child: str) -> None:
    """Remove the copies of one attempt."""
    for name, owner in _copies(run_dir):
        if owner == child:
            files.remove_tree(os.path.join(run_dir, "artifacts", name, child))
    _remove_empty(run_dir)


def _remove_empty(run_dir: str) -> None:
    """Remove folders of logical names that hold nothing; a kill may leave one too."""
    folder = os.path.join(run_dir, "artifacts")
    for name in _folders(folder):
        if not os.listdir(os.path.join(folder, name)):
            files.remove_tree(os.path.join(folder, name))


def _copies(run_dir: str) -> Iterator[tuple[str, str]]:
    """(logical name, child id) of each folder of copies, whole or not."""
    folder = os.path.join(run_dir, "artifacts")
    for name in _folders(folder):
        for child in _folders(os.path.join(folder, name)):
            if attempts.split(child)[1]:
                yield name, child


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as found:
            return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- the manifest ------------------------------------------------------------------------


@dataclass(slots=True)
class Manifest:
    """What `artifacts/manifest.json` says; the writer's copy, kept in step with the history."""

    run_dir: str
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    _changed: bool = True
    """Whether `write` has to look: a boundary without a success costs nothing."""
    _written: bytes | None = None

    @classmethod
    def of(cls, run_dir: str, history: Entries) -> "Manifest":
        """Compute it from the history and the verdict line of each phase's latest success.

        An entry stays where its copy was lost: what was handed over was.
        """
        found = cls(run_dir)
        latest: dict[str, int] = {}
        for phase, attempt, success in history:
            if success and attempt:
                latest.pop(phase, None)  # in the order in which they succeeded last
                latest[phase] = attempt
        for phase, attempt in latest.items():
            child = child_id(phase, attempt)
            found.landed(child, _verdict(run_dir, child))
        return found

    def landed(self, child: str, verdict: Mapping[str, Any] | None) -> list[str]:
        """Take over what a success put out, in place of what its phase put out before.

        Returns:
            The logical names.
        """
        self._changed = True
        phase = attempts.split(child)[0]
        for name in [n for n, e in self.entries.items() if _phase_of(e) == phase]:
            del self.entries[name]
        outputs = (verdict or {}).get("outputs") or {}
        for name, output in outputs.items():
            self.entries[name] = _entry(child, str((verdict or {})["at"]), output)
        return list(outputs)

    def write(self) -> None:
        """Replace the file where it is not what it should be; unsynced, as it is derived."""
        if not self._changed:
            return
        path, data = os.path.join(self.run_dir, MANIFEST), self.encoded()
        if self._written is None:
            with contextlib.suppress(OSError):
                self._written = files.read(path)
        if data != self._written:
            views.put(path, data)
            self._written = data
        self._changed = False

    def encoded(self) -> bytes:
        """The bytes of the file."""
        return json_bytes(self.entries, indent=1) + b"\n" if self.entries else EMPTY


def _entry(child: str, at: str, output: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "path": output["path"],
        "description": output["description"],
        "producer": child,
        "created_at": at,
        "root": output["root"],
        "source": output["source"],
        "size_bytes": output["size_bytes"],
        "sha256": output["sha256"],
        "copied": output["copied"],
    }


def _phase_of(entry: Mapping[str, Any]) -> str:
    return attempts.split(str(entry["producer"]))[0]


def _verdict(run_dir: str, child: str) -> dict[str, Any] | None:
    lines = attempts.lines_of(run_dir, child)
    found = attempts.verdict(lines)
    return found if found and found["success"] else None


def read_manifest(run_dir: str) -> dict[str, dict[str, Any]]:
    """The manifest as the state and the attempts have it, whatever the file says.

    Raises:
        StateError: The state cannot be read.
    """
    from adw.app import reading

    return Manifest.of(run_dir, reading.outcomes(run_dir)).entries


def settle(run_dir: str, history: Entries) -> Manifest:
    """Remove copies that no success of the history stands behind, and compute the manifest."""
    entries = list(history)
    done = {child_id(phase, attempt) for phase, attempt, success in entries if success}
    found = Manifest.of(run_dir, entries)
    copies = list(_copies(run_dir))
    if any(child not in done for _, child in copies):
        found.write()  # it never names a copy that is gone
    for name, child in copies:
        if child not in done:
            discard(run_dir, child)
        else:
            files.sweep(os.path.join(run_dir, "artifacts", name, child))
    _remove_empty(run_dir)
    return found


# --- inputs ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Input:
    """A file that a phase reads, as it is on disk now."""

    name: str
    path: str
    """Absolute."""
    description: str
    producer: str
    """Child id."""
    recorded_sha256: str
    sha256: str


class MissingInput(Exception):
    """An input that is not there; says so in one line.

    Attributes:
        name: Its logical name.
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"its input `{name}` is missing: {why}")
        self.name = name


def inputs(
    run_dir: str, names: Sequence[str], manifest: Mapping[str, Mapping[str, Any]], tree: str
) -> list[Input]:
    """Find what a phase reads, and read it again: what is on disk counts, not what was recorded.

    Raises:
        MissingInput: No phase has put it out, or the file is gone.
    """
    found = []
    for name in names:
        entry = manifest.get(name)
        if entry is None:
            raise MissingInput(name, "no phase has put it out")
        root, below = _root(run_dir, str(entry["producer"]), str(entry["root"]), tree)
        relative = os.path.join(below, entry["source"])
        sha256 = artifacts.digest(root, relative)
        if sha256 is None:
            where = f"; a copy is `{entry['path']}`" if entry["path"] else ""
            raise MissingInput(name, f"`{entry['source']}` is gone{where}")
        path = os.path.join(root, relative)
        found.append(
            Input(name, path, entry["description"], entry["producer"], entry["sha256"], sha256)
        )
    return found


def inputs_json(found: Sequence[Input]) -> str:
    """The value of ADW_INPUTS: logical name to absolute path; plain ASCII, whatever the path."""
    return json.dumps({each.name: each.path for each in found})


# --- the verdict line ---------------------------------------------------------------------


def write_verdict(run_dir: str, child: str, line: Mapping[str, Any]) -> None:
    """Append the verdict line of an attempt, durably.

    Raises:
        StoreError: It could not be written.
    """
    try:
        attempts.note_verdict(run_dir, child, line)
    except OSError as error:
        raise StoreError.of(error, error.filename or attempts.dir_of(run_dir, child)) from error


def verdict_line(verdict: "Verdict", found: Promotion | None) -> dict[str, Any]:
    """The `verdict` line of an attempt."""
    return {
        "at": clock.stamp(),
        "success": verdict.success,
        "reason": verdict.reason,
        "detail": verdict.detail,
        "outputs": found.outputs if found else {},
        "faults": found.faults if found else [],
    }


def with_outputs(phase: Phase, fill: Any) -> Phase:
    """The phase with the paths of its outputs filled."""
    if not phase.outputs:
        return phase
    return replace(phase, outputs=tuple(replace(o, path=fill(o.path)) for o in phase.outputs))
