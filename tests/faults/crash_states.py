"""What must be true of every state that a power cut may leave of a recorded run."""

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from adw.app import reading
from adw.errors import AdwError
from adw.store import attempts, effects, files
from adw.store.state import load_state
from tests.faults.recording import Op
from tests.faults.replay import Disk, Ordered, Tree, choices, prefixes

_TOLD: Final = re.compile(r"^\S+ +(\w+) +(done|failed)\b.*?\(attempt (\d+)")

Entry = tuple[str, int, bool]


@dataclass(slots=True)
class Told:
    """What others knew when the power went: it must be kept."""

    exists: bool = False
    """The run was told of, or a body ran."""
    bodies: list[str] = field(default_factory=list)
    ended: list[tuple[str, int]] = field(default_factory=list)
    """Phase and attempt whose end was told."""
    asked: bool = False
    acted: bool = False
    answered: bool = False
    succeeded: bool = False

    def take(self, op: Op) -> None:
        """Take what was written outside of the folder of runs."""
        name, text = os.path.basename(op.path), op.data.decode()
        if name == "stdout":
            for line in text.splitlines():
                self.exists = True
                if match := _TOLD.match(line):
                    self.ended.append((match.group(1), int(match.group(3))))
                self.succeeded |= line.endswith(" succeeded")
        elif name == "outside":
            self.acted = True
        elif name == "told":
            self.answered = True
        elif name != "asked":
            self.exists = True
            self.bodies += text.split()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run that nobody disturbed, call by call."""

    ops: Sequence[Op]
    agents: str
    counts: str
    adw_id: str
    history: Sequence[Entry]
    """Its entries in the end."""


@dataclass(slots=True)
class Searched:
    """What a search over crash states came to."""

    crashes: int = 0
    """Instants at which the power went."""
    states: int = 0
    """Different folders that were left."""
    checked: int = 0
    """Pairs of a folder and what had been told by then."""
    wrong: list[str] = field(default_factory=list)


def search(run: Recorded, place: Path, *, seed: int, most: int, ordered: bool = False) -> Searched:
    """Cut the power after each call, and look at what may be left.

    Args:
        run: What is cut.
        place: Empty folder, in memory at best, where each state is laid out.
        seed: Of the samples.
        most: Choices at each instant.
        ordered: By the model of a journal, whose choices are all tried; else by the weakest.
    """
    found = Searched()
    rng = random.Random(seed)
    laid = Laid(place)
    trees: set[bytes] = set()
    pairs: set[tuple[bytes, str]] = set()
    for number, disk, told in instants(run, Ordered if ordered else Disk):
        found.crashes += 1
        pending = disk.pending
        for chosen in prefixes(pending) if ordered else choices(pending, rng, most):
            tree = disk.after_cut(chosen)
            digest = _digest(tree)
            trees.add(digest)
            if (digest, str(told)) in pairs:
                continue
            pairs.add((digest, str(told)))
            laid.lay(tree)
            wrong = violations(run, str(place / "agents"), told)
            if wrong:
                text = f"after call {number} {run.ops[number].call} {run.ops[number].path}"
                found.wrong.append(f"{text}, kept {chosen}:\n  " + "\n  ".join(wrong))
    found.states, found.checked = len(trees), len(pairs)
    return found


def instants(run: Recorded, model: type[Disk] = Disk) -> Iterator[tuple[int, Disk, Told]]:
    """The folder and what was told, after each call."""
    root = os.path.dirname(run.agents)
    disk, told = model(root), Told()
    for number, op in enumerate(run.ops):
        if op.path.startswith(f"{run.counts}/"):
            if op.call == "write":
                told.take(op)
        else:
            disk.apply(op)
        if op.call != "begin":
            yield number, disk, told


class Laid:
    """A folder on the disk that holds one tree after the other."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.tree: Tree = {}

    def lay(self, tree: Tree) -> None:
        """Make the folder hold this tree and nothing else."""
        for path in sorted(self.tree.keys() - tree.keys(), reverse=True):
            full = self.place / path
            if self.tree[path] is None:
                shutil.rmtree(full, ignore_errors=True)
            else:
                full.unlink(missing_ok=True)
        for path in sorted(tree):
            data, full = tree[path], self.place / path
            if data is None:
                full.mkdir(mode=0o700, exist_ok=True)
            elif path not in self.tree or self.tree[path] != data:
                full.write_bytes(data)
                full.chmod(0o600)
        self.tree = tree


def _digest(tree: Tree) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(tree):
        data = tree[path]
        found.update(os.fsencode(path) + b"\0" + (b"d" if data is None else b"f" + data) + b"\0")
    return found.digest()


# --- what must hold ----------------------------------------------------------------------


def violations(run: Recorded, agents: str, told: Told) -> list[str]:
    """What is wrong with what was left, one line each."""
    run_dir = os.path.join(agents, run.adw_id)
    if not os.path.isdir(run_dir):
        return ["the run is gone, and was told of"] if told.exists else []
    try:
        state, _ = load_state(run_dir)
    except (AdwError, OSError) as error:
        return [f"the state cannot be read: {error}"]
    have = [(e.phase, e.attempt, e.success) for e in state.phase_history]
    wrong = []
    if have != list(run.history[: len(have)]):
        wrong.append(f"invented: {have}")
    wrong += _lost(run, have, told)
    wrong += [line for child in told.bodies for line in _started(run_dir, child)]
    wrong += [line for phase, attempt, _ in have for line in _settled(run_dir, phase, attempt)]
    wrong += _effect(run_dir, told)
    wrong += _readable(agents, run.adw_id, told)
    return wrong


def _lost(run: Recorded, have: list[Entry], told: Told) -> Iterator[str]:
    """What was told or acted upon is in the state."""
    for phase, attempt in told.ended:
        if (phase, attempt) not in [entry[:2] for entry in have]:
            yield f"the end of {phase}-{attempt} was told and is lost"
    names = [f"{phase}-{attempt}" for phase, attempt, _ in run.history]
    for child in told.bodies:
        if len(have) < names.index(child):
            yield f"{child} ran, and only {names[: len(have)]} are recorded"
    if told.succeeded and len(have) < len(names):
        yield "the run's success was told and is lost"


def _started(run_dir: str, child: str) -> Iterator[str]:
    """No body runs unrecorded."""
    lines = attempts.lines_of(run_dir, child)
    for kind in ("launch", "supervisor"):
        if attempts.find(lines, kind) is None:
            yield f"{child} ran without a {kind} line"
    packet = os.path.join(run_dir, "children", child, "TASK.md")
    if not (files.read_if_exists(packet) or b"").startswith(b"#"):
        yield f"{child} ran, and its TASK.md is gone"


def _settled(run_dir: str, phase: str, attempt: int) -> Iterator[str]:
    """What is in the history has its exit line, its verdict, and what it put out."""
    child = f"{phase}-{attempt}"
    lines = attempts.lines_of(run_dir, child)
    if attempts.find(lines, "exit") is None:
        yield f"{child} is recorded and has no exit line"
    if phase == "plan":
        if attempts.verdict(lines) is None:
            yield f"{child} is recorded and has no verdict"
        copies = os.path.join(run_dir, "artifacts", "plan", child)
        found = [os.path.join(at, name) for at, _, names in os.walk(copies) for name in names]
        if [files.read(path) for path in found] != [b"the plan\n"]:
            yield f"{child} is recorded and its output is {found}"


def _effect(run_dir: str, told: Told) -> Iterator[str]:
    """Intended before the act, receipted before the answer."""
    folder = os.path.join(run_dir, effects.DIR)
    names = [n for n in os.listdir(folder) if n.endswith(".json")] if os.path.isdir(folder) else []
    shown = [n for n in names if not n.startswith(".")]
    records = [effects.parse(files.read(os.path.join(folder, name))) for name in shown]
    if None in records:
        yield "an effect's record is damaged"
    states = [record["state"] for record in records if record]
    if told.acted and not states:
        yield "an effect was done without a durable intent"
    if told.answered and states != ["done"]:
        yield f"an effect was answered, and its record says {states}"


def _readable(agents: str, adw_id: str, told: Told) -> Iterator[str]:
    """Every command that only reads can tell of the run."""
    try:
        view: dict[str, Any] = reading.status(os.path.join(agents, adw_id))
        line = reading.short(agents, adw_id)
    except (AdwError, OSError, ValueError) as error:
        yield f"status cannot read it: {error!r}"
        return
    for status in (view["status"], line["status"]):
        if status not in {"interrupted", "succeeded"}:
            yield f"status says {status}"
        if told.succeeded and status != "succeeded":
            yield f"the run's success was told, and status says {status}"
    json.dumps(view)
