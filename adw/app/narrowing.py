"""What a narrowed retry is about: which outputs were missing or wrong, and which were good."""

from collections.abc import Sequence
from typing import Any

from adw.core.recovery import blamed
from adw.ids import child_id
from adw.model.state import FREE
from adw.store import attempts


def faults_before(run_dir: str, phase: str, history: Sequence[Any]) -> tuple[str, list[Any]] | None:
    """What was missing or wrong when the phase was tried last, for a narrowed retry.

    Args:
        run_dir: The state root.
        phase: Its name.
        history: Entries; what burns nothing (an interruption) is looked through, a mark is not.

    Returns:
        The attempt's child id and the faults of its outputs; None where it did not fail by them.
    """
    for entry in reversed(history):
        if entry.phase != phase or entry.reason in FREE:
            continue
        if entry.success:
            return None
        child = child_id(phase, entry.attempt)
        lines = attempts.lines_of(run_dir, child)
        verdict = attempts.verdict(lines)
        faults = blamed(entry.reason, verdict["faults"]) if verdict else []
        return (child, faults) if faults else None
    return None


def good_before(run_dir: str, child: str) -> list[str]:
    """Names of the outputs that an attempt left good in its own artifacts folder.

    Another attempt has a folder of its own, so it owes these again, unlike those in the worktree.
    """
    lines = attempts.lines_of(run_dir, child)
    launch, verdict = attempts.find(lines, "launch"), attempts.verdict(lines)
    owed = (launch or {}).get("outputs") or ()
    wrong = {fault["name"] for fault in verdict["faults"]} if verdict else set()
    return [
        each["name"] for each in owed if each["root"] == "artifacts" and each["name"] not in wrong
    ]
