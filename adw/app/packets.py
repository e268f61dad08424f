"""The texts of a run: TASK.md and RESPONSE.md of it and its children, and what templates may name."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from adw.app.promoting import Input
from adw.core.graph import Phase
from adw.core.hidden import hidden
from adw.core.isolation import NONE, isolation_words
from adw.model.state import ADWStateData

SHOWN: Final = 40  # lines of one list in RESPONSE.md; the latest

_BREAKS: Final = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")


def run_task(issue: dict[str, Any]) -> str:
    """TASK.md of a run: the issue, whole; its body stands at the end as it was found.

    Args:
        issue: `number`, `title`, `labels`, `issue_class`, `body`.
    """
    number = issue["number"]
    head = f"# Issue {number}: {issue['title']}" if number else f"# {issue['title']}"
    labels = ", ".join(issue["labels"])
    lines = [head, "", f"Class: {issue['issue_class'] or 'none'}"]
    if labels:
        lines.append(f"Labels: {labels}")
    body = issue["body"]
    found = hidden(body)
    if found:
        lines += ["", "Not everything in the text below is seen where it is rendered:", ""]
        lines += [f"- {each}" for each in found]
        lines += ["", "It follows as it was found."]
    return "\n".join([*lines, "", body if body.endswith("\n") else f"{body}\n"])


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt whose failure a repair phase is called for."""

    child_id: str
    words: str
    """Its failure kind and detail."""
    tail: str
    """The end of what it printed; secrets are blotted out."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What the packet of one attempt tells beside its phase."""

    run_dir: str
    worktree: str
    state: ADWStateData
    title: str
    """Of the issue: one line, without its number."""
    repairs: "Failure | None" = None
    """What a repair phase is to mend."""
    inputs: Sequence[Input] = ()
    missing: tuple[str, Sequence[Mapping[str, Any]]] | None = None
    """Child id of the attempt before, and what was wrong with its outputs: a narrowed retry."""
    again: Sequence[str] = ()
    """Names of the outputs that are good in the artifacts folder of that attempt."""
    addenda: Sequence[tuple[str, str]] = field(default=())
    """(request's name, text) of each clarification for the phase."""

    def named(self, phase: Phase) -> list[str]:
        """Every path that the packet tells the child to read; all must be there before launch."""
        found = [os.path.join(self.run_dir, "TASK.md"), self.worktree]
        found += [each.path for each in self.inputs]
        if self.state.plan_file:
            found.append(os.path.join(self.worktree, self.state.plan_file))
        if self.repairs:
            found.append(os.path.join(self.run_dir, "children", self.repairs.child_id))
        if self.missing:
            found.append(os.path.join(self.run_dir, "children", self.missing[0]))
        if phase.cwd:
            found.append(os.path.join(self.worktree, phase.cwd))
        return found


def child_task(phase: Phase, child_id: str, brief: Brief) -> str:
    """TASK.md of an attempt: what is asked, where things are, what is owed.

    Args:
        phase: What is to be done, its templates filled.
        child_id: `<phase>-<attempt>`.
        brief: The run around it.
    """
    state, child = brief.state, os.path.join(brief.run_dir, "children", child_id)
    issue = f"issue {state.issue_number}" if state.issue_number else "a task without issue"
    parts = [
        f"# Phase {phase.name}, {child_id}\n",
        f"Run `{state.adw_id}` works on {issue}: {brief.title}\n",
    ]
    if brief.repairs:
        parts.append(_failure(brief))
    if brief.missing:
        parts.append(_narrowed(phase, brief))
    skill = [f"- your role: {named(child, 'SKILL.md')}"] if phase.skill else []
    plan = named(brief.worktree, state.plan_file) if state.plan_file else "none"
    where = [
        f"- the whole task: {named(brief.run_dir, 'TASK.md')}",
        *skill,
        f"- worktree: {named(brief.worktree)}",
        f"- branch: {state.branch_name or 'none'}",
        f"- plan: {plan}",
        f"- result, optional: {named(child, 'result.json')}",
        f"- your report, optional: {named(child, 'RESPONSE.md')}",
        f"- artifacts: {named(child, 'artifacts')}",
    ]
    parts.append("\n".join(where) + "\n")
    if brief.inputs:
        parts.append("Inputs:\n\n" + "".join(_input(each) for each in brief.inputs))
    if phase.outputs:
        lines = "".join(_owed(each.name, each.root, each.path, each) for each in phase.outputs)
        parts.append(
            "Outputs, each exactly one file that is not empty; without them the phase is not done,"
            f" whatever its exit code says:\n\n{lines}"
        )
    if phase.ensure:
        held = "".join(f"- {_command(each)}\n" for each in phase.ensure)
        parts.append(f"Afterwards this must hold:\n\n{held}")
    parts.append(f"Command:\n\n```\n{_command(phase.argv)}\n```\n")
    return "\n".join([*parts, *(addendum(*each) for each in brief.addenda)])


def _failure(brief: Brief) -> str:
    """What a repair is about, with the end of what the failed attempt printed, as data."""
    failed = brief.repairs
    assert failed is not None
    phase = failed.child_id.rpartition("-")[0]
    fence = "```"
    while fence in failed.tail:
        fence += "`"
    printed = f"\nThe end of what it printed:\n\n{fence}\n{failed.tail.rstrip()}\n{fence}\n"
    return (
        f"## The failure to mend\n\n"
        f"Phase `{phase}` failed in attempt `{failed.child_id}`: {failed.words}\n"
        f"Its report: {named(brief.run_dir, 'children', failed.child_id, 'RESPONSE.md')}\n"
        f"{printed if failed.tail.strip() else ''}"
    )


def _narrowed(phase: Phase, brief: Brief) -> str:
    """What a narrowed retry asks for, and that nothing else is to be done again."""
    assert brief.missing is not None
    before, faults = brief.missing
    lines = "".join(
        f"- `{each['name']}`, `{each['path']}` in the {_ROOT[each['root']]}: {each['detail']}\n"
        for each in faults
    )
    return (
        f"## Only this is missing\n\n"
        f"Attempt `{before}` ended with exit code 0, but what it owed is missing or wrong:\n\n"
        f"{lines}\n"
        f"{_again(phase, brief)}"
        f"{_rest(phase)}"
        f"The attempt before: {named(brief.run_dir, 'children', before)}\n"
    )


def _rest(phase: Phase) -> str:
    if phase.on_retry == "reset":
        return (
            "The worktree was set back to what it was before that attempt, so what lay in it is to"
            f" be made again; nothing else of phase `{phase.name}` is.\n"
        )
    return f"Do only this; nothing else of phase `{phase.name}` is to be done again.\n"


def _again(phase: Phase, brief: Brief) -> str:
    """What was good, and is to be handed over from the new attempt's own folder."""
    assert brief.missing is not None
    good = [each for each in phase.outputs if each.name in brief.again]
    if not good:
        return ""
    folder = named(brief.run_dir, "children", brief.missing[0], "artifacts")
    lines = "".join(f"- `{each.name}`: `{each.path}`\n" for each in good)
    return (
        f"These are good; copy them as they are into your own artifacts folder, from {folder}:\n\n"
        f"{lines}\n"
    )


_ROOT: Final = {"worktree": "worktree", "artifacts": "artifacts folder"}


def _owed(name: str, root: str, path: str, output: Any) -> str:
    more = f": {output.description}" if output.description else ""
    kind = ", strict JSON" if output.format == "json" else ""
    optional = ", optional" if output.optional else ""
    return f"- `{name}`: `{path}` in the {_ROOT[root]}{kind}{optional}{more}\n"


def _input(found: Input) -> str:
    more = f": {found.description}" if found.description else ""
    return f"- `{found.name}` of `{found.producer}`: {named(found.path)}{more}\n"


def named(*parts: str) -> str:
    """A path, joined, as a line of these texts has it.

    One with control characters stands as a JSON string: a file's name may neither be torn apart
    nor look like lines that adw wrote.
    """
    path = os.path.join(*parts)
    return json.dumps(path) if _BREAKS.search(path) else path


def _command(argv: Sequence[str]) -> str:
    shell = tuple(argv[:2]) == ("sh", "-euc")  # where nothing was replaced
    return " ".join(argv if shell else map(named, argv))


def addendum(request: str, text: str) -> str:
    """A clarification as it stands at the end of a TASK.md; its heading names the request."""
    return f"## Clarification {request.partition('-')[0]}\n\n{text.rstrip()}\n"


# --- what came of it ---------------------------------------------------------------------


def child_response(phase: str, child_id: str, facts: dict[str, Any]) -> str:
    """RESPONSE.md of a plain `run` phase, from its exit record: bookkeeping, never content.

    Args:
        phase: Name of the phase.
        child_id: `<phase>-<attempt>`.
        facts: `success`, `reason`, `detail`, `started_at`, `ended_at`, `logs`, the names of
            log files that exist, and `outputs` of its verdict, paths relative to the run's
            directory.
    """
    ended = "done" if facts["success"] else f"failed: {facts['reason']}"
    detail = f"\n{facts['detail']}\n" if facts["detail"] else ""
    logs = ", ".join(facts["logs"])
    printed = f"- output, in the run's directory: {logs}\n" if logs else "- output: none\n"
    found = "".join(
        f"- `{name}`: {named(each['path'] or each['source'])}, {each['size_bytes']} bytes,"
        f" sha256 {each['sha256']}\n"
        for name, each in facts["outputs"].items()
    )
    outputs = f"\nOutputs found:\n\n{found}" if found else ""
    return (
        f"# {phase}, {child_id}: {ended}\n{detail}\n"
        f"- started: {facts['started_at']}\n"
        f"- ended: {facts['ended_at']}\n"
        f"{printed}{outputs}"
    )


@dataclass(frozen=True, slots=True)
class RunReport:
    """What RESPONSE.md of the run tells; lists are in order, the latest last."""

    view: Mapping[str, Any]
    """`adw_id`, `workflow`, `issue`, `status`, `reason`, `next_action`, `branch`, `worktree`."""
    counts: Mapping[str, int]
    """Phases by status."""
    notes: Sequence[str] = ()
    """On phases that run, failed or are held, most important first."""
    done: Sequence[str] = ()
    """Phases that are done, with their evidence; the latest are enough."""
    recoveries: Sequence[str] = ()
    """Failures and what was decided about them."""
    artifacts: Sequence[str] = ()
    """Promoted files."""


def run_response(report: RunReport) -> str:
    """RESPONSE.md of the run: where it stands, by what evidence, and exactly one next action."""
    view = report.view
    summary = ", ".join(f"{number} {status}" for status, number in sorted(report.counts.items()))
    reason = f"\n{view['reason']}\n" if view["reason"] else ""
    until = f"- waits until: {view['until']}\n" if view.get("until") else ""
    return (
        f"# Run {view['adw_id']}: {view['status']}\n{reason}\n"
        f"- task: {view['issue']}, see TASK.md\n"
        f"- workflow: {view['workflow']}\n"
        f"- branch: {view['branch'] or 'not made yet'}\n"
        f"- worktree: {view['worktree'] or 'not made yet'}\n"
        f"{until}"
        f"- isolation: {isolation_words(NONE)}\n"
        f"\n## Phases\n\n{summary}\n{_listed(report.notes[:SHOWN], len(report.notes))}"
        f"{_section('Done', report.done, report.counts.get('done', 0))}"
        f"{_section('Recovery', report.recoveries, len(report.recoveries))}"
        f"{_section('Artifacts', report.artifacts, len(report.artifacts))}"
        f"\n## Next\n\n{view['next_action']}\n"
    )


def _section(title: str, lines: Sequence[str], total: int) -> str:
    return f"\n## {title}\n{_listed(lines[-SHOWN:], total)}" if lines else ""


def _listed(lines: Sequence[str], total: int) -> str:
    if not lines:
        return ""
    left = total - len(lines)
    more = f"- {left} more: adw show\n" if left else ""
    return "\n" + "".join(f"- {line}\n" for line in lines) + more


def issue_words(issue: Mapping[str, Any]) -> str:
    """An issue in one line: its number and title."""
    number = f"issue {issue['number']}: " if issue.get("number") else ""
    return f"{number}{issue['title']}"


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
