"""One run of the three phases, recorded call by call; the faults that can be put into its calls."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults import recording
from tests.faults.crash_states import Recorded
from tests.faults.kill_points import needs_strace
from tests.faults.recording import Op
from tests.faults.three_phases import ORDER, three_phases
from tests.support.ground import Ground

_INTO: Final = (
    "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600);"
    " os.dup2(f, 1); os.execv(sys.executable, [sys.executable, '-m', 'adw', *sys.argv[2:]])"
)
"""adw with its stdout in a file, so that what it tells people is among the calls."""


class Replayed(NamedTuple):
    """Where the run was, and what it did."""

    ground: Ground
    run: Recorded


def recorded(base: Path) -> Replayed:
    """Run the three phases once under strace, undisturbed."""
    needs_strace()
    ground = three_phases(base)
    counts, trace = ground.base / "counts", ground.base / "trace"
    command = [sys.executable, "-c", _INTO, str(counts / "stdout"), "run", "w", "47"]
    code = recording.record(command, trace, ground.repo.path, {**os.environ, **ground.env})
    assert code == 0, (counts / "stdout").read_text()
    ground.all_gone()
    history = [entry[:3] for entry in ground.entries()]
    assert [(entry[0], entry[2]) for entry in history] == list(ORDER)
    ops = recording.operations(trace, [ground.agents, counts])
    run = Recorded(ops, str(ground.agents), str(counts), ground.adw_id, history)
    return Replayed(ground, run)


# --- the same run by an adw with a fault -----------------------------------------------------


def broken(run: Recorded, fault: Callable[[Recorded], list[Op]]) -> Recorded:
    """As if adw had made other calls."""
    ops = fault(run)
    assert ops != list(run.ops)
    return replace(run, ops=ops)


def folders(ops: Sequence[Op]) -> set[str]:
    """Paths that are folders at one time, by the calls that make them."""
    return {op.path for op in ops if op.call == "dir"} | {
        op.target for op in ops if op.call == "rename" and "/.new-" in op.path
    }


def without(ops: Sequence[Op], lost: Callable[[str], bool]) -> list[Op]:
    """As if these paths were never synced."""
    return [op for op in ops if not (op.call in {"begin", "sync"} and lost(op.path))]


def no_file_sync(run: Recorded) -> list[Op]:
    """No file is synced, folders are."""
    known = folders(run.ops)
    return without(run.ops, lambda path: path not in known and path != str(Path(run.agents).parent))


def no_folder_sync(run: Recorded) -> list[Op]:
    """No folder is synced, files are."""
    known = folders(run.ops)
    return without(run.ops, lambda path: path in known)


def no_parent_sync(run: Recorded) -> list[Op]:
    """The folder in which the folder of runs was made is not synced."""
    return without(run.ops, lambda path: path == os.path.dirname(run.agents))


def in_place(run: Recorded) -> list[Op]:
    """The state is cut to nothing and written where it lies, and synced then."""
    found = []
    for op in run.ops:
        if op.path.endswith(".tmp") and "/.adw_state.json" in op.path and op.call != "rename":
            path = re.sub(r"/\.(adw_state\.json)\.[^/]*$", r"/\1", op.path)
            offset = 0 if op.call == "make" else op.offset
            found.append(replace(op, path=path, offset=offset))
        elif not (op.call == "rename" and op.target.endswith("/adw_state.json")):
            found.append(op)
    return found


def go_before_commit(run: Recorded) -> list[Op]:
    """Each body tells that it runs before the rename that records the end of the one before it."""
    ops = list(run.ops)
    bodies = [
        op for op in ops if re.fullmatch(r"(plan|build|test|fix)-\d+\n", op.data.decode("latin-1"))
    ]
    for body in [op for op in bodies if os.path.basename(op.path) in {"build", "test", "fix"}]:
        at = ops.index(body)
        renames = [n for n in range(at) if ops[n].target.endswith("/adw_state.json")]
        ops.insert(renames[-1], ops.pop(at))
    return ops


def receipt_not_synced(run: Recorded) -> list[Op]:
    """What is recorded of an effect is not synced."""
    return without(run.ops, lambda path: "/effects" in path)
