"""A new run: look for a live one of the issue, build the directory, publish it by one rename."""

import os
from dataclasses import dataclass, field
from typing import Any

from adw import __version__, clock
from adw.app import define, promoting
from adw.app.define import Definition
from adw.app.packets import RunReport, issue_words, run_response, run_task
from adw.app.places import Places, issue_facts
from adw.core.hidden import hidden
from adw.core.outcome import one_line
from adw.errors import IssueBusy, StoreError, UsageError
from adw.ids import new_id
from adw.model.event import make_event
from adw.model.state import ADWStateData, encode_head, encode_state
from adw.store import definitions, history, runs
from adw.store.encoding import json_bytes, text_bytes
from adw.store.runs import RunLock
from adw.store.state import first_fault


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What `adw run` was asked for."""

    workflow: str
    issue: int | None = None
    task: str | None = None
    """File with the task of a run without an issue."""
    adw_id: str | None = None
    model_set: str = "base"
    only: str | None = None
    until: str | None = None
    from_phase: str | None = None
    parallel: bool = False
    keep: bool = False
    new: bool = False
    wait: bool = True
    fields: dict[str, Any] = field(default_factory=dict)
    """State fields of `--set`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run needs, read and checked before anything is written."""

    definition: Definition
    snapshot: Any
    issue: Any
    base: str | None
    branch: str


def make_plan(
    places: Places,
    options: RunOptions,
    adw_id: str,
    base_commit: str | None = None,
    run_dir: str | None = None,
) -> Plan:
    """Read workflow, configuration and issue; nothing is written.

    Args:
        places: The repository's.
        options: What was asked for.
        adw_id: The run's name.
        base_commit: Where an existing run began.
        run_dir: The existing run.

    Raises:
        UsageError: One of them is unknown or invalid, or a phase would lack an input.
    """
    from adw.config import load_config
    from adw.forge.local import branch_name, read_issue, read_task
    from adw.loader import find_workflow, load_workflow
    from adw.workspace.repository import base, base_branch

    root = places.repo.root
    config = load_config(root)
    loaded = load_workflow(find_workflow(options.workflow, root), config.setup)
    for name in (options.only, options.until, options.from_phase):
        define.check_phase(loaded.graph, name, start=name != options.only)
    if options.task is not None:
        issue = read_task(options.task)
    elif options.issue is not None:
        issue = read_issue(root, options.issue)
    else:
        raise UsageError(detail="an issue number or `--task FILE` is expected", fix=None)
    branch = base_branch(places.repo, config.base_branch)
    commit = base_commit or base(places.repo, branch)
    command = {
        "only": options.only,
        "until": options.until,
        "model_set": options.model_set,
        "base": commit,
        "base_branch": branch,
    }
    definition, snapshot = define.pin(loaded, config.to_json(), command)
    define.refuse_missing_inputs(definition, run_dir, _command(options))
    return Plan(definition, snapshot, issue, commit, branch_name(issue, adw_id))


def _command(options: RunOptions) -> str:
    """The beginning of the command, for hints."""
    subject = f"--task {options.task}" if options.issue is None else str(options.issue)
    again = f" --adw-id {options.adw_id}" if options.adw_id else ""
    return f"adw run {options.workflow} {subject}{again}"


def create(places: Places, options: RunOptions, adw_id: str, plan: Plan) -> RunLock:
    """Make the run durable under its name; afterwards it exists, before it did not.

    Returns:
        Its lock, held.

    Raises:
        IssueBusy: A live run of the issue exists and `--parallel` was not given.
    """
    agents_lock = runs.lock_agents(places.agents_dir)
    try:
        if options.issue is not None and not options.parallel:
            other = runs.live_run_of(places.agents_dir, options.issue)
            if other:
                held = runs.held(os.path.join(places.agents_dir, other))
                verb = "watch" if held else "resume"
                raise IssueBusy(issue=options.issue, adw_id=other, verb=verb)
        contents = _contents(places, options, adw_id, plan)
        temp, lock = runs.build_run(places.agents_dir, adw_id, contents)
        runs.publish_run(temp, lock)
    except FileExistsError as error:
        detail = f"run `{adw_id}` exists already"
        raise UsageError(detail=detail, fix=f"adw resume {adw_id}") from error
    except OSError as error:
        raise StoreError.of(error, error.filename or places.agents_dir) from error
    finally:
        os.close(agents_lock)
    return lock


def fresh_id(agents_dir: str) -> str:
    """An id that no run has."""
    while True:
        adw_id = new_id()
        if not os.path.lexists(os.path.join(agents_dir, adw_id)):
            return adw_id


def _contents(places: Places, options: RunOptions, adw_id: str, plan: Plan) -> dict[str, bytes]:
    now = clock.stamp()
    relative = os.path.relpath(places.worktree(adw_id), places.repo.root)
    state = ADWStateData(
        adw_id=adw_id,
        issue_number=plan.issue.number,
        issue_class=plan.issue.issue_class,
        branch_name=plan.branch,
        worktree_path=relative,
        model_set="heavy" if options.model_set == "heavy" else "base",
        all_adws=[adw_id],
        workflow=plan.definition.workflow,
        updated_at=now,
    )
    if options.fields:
        try:
            state = state.changed(**options.fields)
        except ValueError as error:
            raise UsageError(detail=first_fault(error), fix=None) from error
    facts = {**issue_facts(plan.issue), "body": plan.issue.body}
    info = {
        "schema_version": 1,
        "adw_version": __version__,
        "repository": places.repo.root,
        "created_at": now,
        "base": plan.base,
        "issue": issue_facts(plan.issue),
    }
    slots = {
        "workflow": plan.definition.workflow,
        "issue_number": plan.issue.number,
        "base": plan.base,
    }
    events = [make_event("run_created", 1, now, {"entries": 0}, slots)]
    if line := hidden_words(plan.issue):
        events.append(make_event("warning", 2, now, {"entries": 0}, {"detail": line}))
    return {
        "adw_state.json": encode_state(encode_head(state), []),
        "run.json": json_bytes(info, indent=1) + b"\n",
        f"definitions/{plan.definition.id}.json": plan.snapshot.encode(),
        f"definitions/{plan.definition.id}.graph.json": definitions.graph_bytes(
            plan.definition.derived()
        ),
        "TASK.md": text_bytes(run_task(facts)),
        "RESPONSE.md": text_bytes(_first_response(adw_id, plan)),
        promoting.MANIFEST: promoting.EMPTY,
        history.PATH: b"".join(json_bytes(event) + b"\n" for event in events),
    }


def hidden_words(issue: Any) -> str | None:
    """One line on what people do not see of an issue's body; None: they see it all."""
    found = hidden(issue.body)
    return f"the issue has hidden text: {'; '.join(found)} of its body" if found else None


def _first_response(adw_id: str, plan: Plan) -> str:
    """RESPONSE.md from the first moment on."""
    view = {
        "adw_id": adw_id,
        "workflow": plan.definition.full.name,
        "status": "running",
        "reason": None,
        "next_action": f"adw resume {adw_id}",
        "branch": plan.branch,
        "worktree": None,
        "issue": one_line(issue_words(issue_facts(plan.issue))),
    }
    return run_response(RunReport(view, {"pending": len(plan.definition.graph.order)}))
