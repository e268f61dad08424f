"""The texts of a run: TASK.md and RESPONSE.md of it and its children, and what templates may name."""

import os
import sys
from typing import Any

from adw.core.graph import Phase
from adw.model.state import ADWStateData


def run_task(issue: dict[str, Any]) -> str:
    """TASK.md of a run: the issue, whole.

    Args:
        issue: `number`, `title`, `labels`, `issue_class`, `body`.
    """
    number = issue["number"]
    head = f"# Issue {number}: {issue['title']}" if number else f"# {issue['title']}"
    labels = ", ".join(issue["labels"])
    lines = [head, "", f"Class: {issue['issue_class'] or 'none'}"]
    if labels:
        lines.append(f"Labels: {labels}")
    return "\n".join([*lines, "", issue["body"].rstrip("\n"), ""])


def child_task(
    phase: Phase, child_id: str, run_dir: str, state: ADWStateData, run: dict[str, Any]
) -> str:
    """TASK.md of an attempt: what is asked, where things are, what is owed.

    Args:
        phase: What is to be done.
        child_id: `<phase>-<attempt>`.
        run_dir: The state root.
        state: Identity of the run.
        run: `worktree`, `repairs`, `argv`, `title`.
    """
    child = os.path.join(run_dir, "children", child_id)
    issue = f"issue {state.issue_number}" if state.issue_number else "a task without issue"
    repaired = f"\nIt repairs a failure of phase `{run['repairs']}`.\n" if run["repairs"] else ""
    ensure = "".join(f"- {' '.join(each)}\n" for each in phase.ensure)
    owed = f"\nAfterwards this must hold:\n\n{ensure}" if ensure else ""
    return (
        f"# Phase {phase.name}, {child_id}\n\n"
        f"Run `{state.adw_id}` works on {issue}: {run['title']}\n"
        f"{repaired}\n"
        f"- the whole task: {os.path.join(run_dir, 'TASK.md')}\n"
        f"- worktree: {run['worktree']}\n"
        f"- branch: {state.branch_name or 'none'}\n"
        f"- plan: {state.plan_file or 'none'}\n"
        f"- result, optional: {os.path.join(child, 'result.json')}\n"
        f"- artifacts: {os.path.join(child, 'artifacts')}\n"
        f"\nCommand:\n\n```\n{' '.join(run['argv'])}\n```\n{owed}"
    )


def child_response(phase: str, child_id: str, facts: dict[str, Any]) -> str:
    """RESPONSE.md of a plain `run` phase, from its exit record: bookkeeping, never content.

    Args:
        phase: Name of the phase.
        child_id: `<phase>-<attempt>`.
        facts: `success`, `reason`, `detail`, `started_at`, `ended_at`, and `logs`, the names of
            log files that exist, relative to the run's directory.
    """
    ended = "done" if facts["success"] else f"failed: {facts['reason']}"
    detail = f"\n{facts['detail']}\n" if facts["detail"] else ""
    logs = ", ".join(facts["logs"])
    output = f"- output, in the run's directory: {logs}\n" if logs else "- output: none\n"
    return (
        f"# {phase}, {child_id}: {ended}\n{detail}\n"
        f"- started: {facts['started_at']}\n"
        f"- ended: {facts['ended_at']}\n"
        f"{output}"
    )


def run_response(view: dict[str, Any], counts: dict[str, int], notes: list[str]) -> str:
    """RESPONSE.md of the run: where it stands, and exactly one next action.

    Args:
        view: `adw_id`, `workflow`, `status`, `reason`, `next_action`, `branch`, `worktree`.
        counts: Phases by status.
        notes: Lines on phases that run, failed or are held, most important first.
    """
    summary = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    reason = f"\n{view['reason']}\n" if view["reason"] else ""
    lines = "".join(f"- {note}\n" for note in notes[:40])
    phases = f"\n## Phases\n\n{summary}\n" + (f"\n{lines}" if lines else "")
    return (
        f"# Run {view['adw_id']}: {view['status']}\n{reason}\n"
        f"- workflow: {view['workflow']}\n"
        f"- branch: {view['branch'] or 'not made yet'}\n"
        f"- worktree: {view['worktree'] or 'not made yet'}\n"
        f"{phases}\n"
        f"## Next\n\n{view['next_action']}\n"
    )


def template_values(state: ADWStateData) -> dict[str, object]:
    """State fields that templates and `when` may name."""
    return {
        "adw_id": state.adw_id,
        "issue_number": state.issue_number,
        "issue_class": state.issue_class,
        "branch_name": state.branch_name,
        "plan_file": state.plan_file,
        "model_set": state.model_set,
        "python": sys.executable,
    }
