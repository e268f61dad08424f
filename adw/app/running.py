"""`adw run` and `adw resume`: start or continue a run in this process, until it ends or is held."""

import os

from adw.app import chaining, define
from adw.app.creating import Plan, RunOptions, create, fresh_id, hidden_words, make_plan
from adw.app.places import Places, refuse_inside
from adw.app.rebuilding import read_info
from adw.app.sitting import Host, Sitting, Work
from adw.errors import UnknownName, UsageError
from adw.ids import is_id
from adw.store import definitions, runs
from adw.store.state import StateFile, load_again, load_state
from adw.workspace.repository import current_branch, hide, notice


def run(places: Places, options: RunOptions, host: Host) -> Sitting:
    """Start a run, or continue one with another workflow (`--adw-id`)."""
    existing = _existing(places, options)
    if existing:
        return chain(places, options, existing, host)
    adw_id = options.adw_id or fresh_id(places.agents_dir)
    plan = make_plan(places, options, adw_id)
    for line in (notice(places.repo), _other_base(places, plan), hidden_words(plan.issue)):
        if line:
            host.say(line)
    hide(places.repo)
    _tell_open_runs(places, options, host)
    lock = create(places, options, adw_id, plan)
    host.created(adw_id)
    state, data = load_state(lock.run_dir)
    state_file = StateFile(lock.run_dir, state, data)
    sitting = Work(places, host, lock, state, state_file, plan.definition, "run")
    return sitting.go(None, wait=options.wait)


def _other_base(places: Places, plan: Plan) -> str | None:
    """One line where a run starts from another branch than people may think."""
    name, here = plan.definition.command["base_branch"], current_branch(places.repo)
    if name == here or plan.definition.config["base_branch"]:
        return None
    where = f"`{here}`" if here else "no branch"
    return (
        f"the run starts from `{name}`, which `origin/HEAD` names, while {where} is checked out; "
        "`base_branch` in adw.yaml chooses"
    )


def _tell_open_runs(places: Places, options: RunOptions, host: Host) -> None:
    """Say which runs of the issue are interrupted; a new one leaves them as they are."""
    from adw.app import reading

    if options.issue is None:
        return
    for name, _ in runs.peek(places.agents_dir, options.issue):
        run_dir = os.path.join(places.agents_dir, name)
        if (
            not runs.alive(run_dir)
            and reading.short(places.agents_dir, name)["status"] == "interrupted"
        ):
            host.say(
                f"run {name} of issue {options.issue} is interrupted; `adw resume {name}` goes on with it"
            )


def resume(
    places: Places,
    run_dir: str,
    host: Host,
    *,
    from_phase: str | None = None,
    wait: bool = True,
    accept_changed: bool = False,
    update_base: bool = False,
) -> Sitting:
    """Go on with a run: adopt what lives, rerun only what must be.

    Raises:
        BusyError: Another adw holds it.
        StateError: Its state is damaged; nothing was touched.
    """
    refuse_inside(run_dir, "resume")
    hide(places.repo)  # a run that was copied here may be the first of this clone
    seen = load_state(run_dir)
    lock = runs.open_run(run_dir)
    state, data = load_again(run_dir, *seen)
    if state.workflow is None:
        detail = f"run `{state.adw_id}` was written elsewhere and names no workflow"
        fix = f"adw run WORKFLOW {state.issue_number or 'ISSUE'} --adw-id {state.adw_id}"
        raise UsageError(detail=detail, fix=fix)
    host.created(state.adw_id)
    state_file = StateFile(run_dir, state, data)
    definition = define.load(run_dir, state.workflow)
    work = Work(places, host, lock, state, state_file, definition, "resume")
    work.update_base = update_base
    if accept_changed:
        work.parent = definition
        work.definition = chaining.accepted(places, run_dir, definition)
    else:
        chaining.tell_changed(places.repo.root, definition, host.say)
    return work.go(from_phase, wait=wait)


def chain(places: Places, options: RunOptions, run_dir: str, host: Host) -> Sitting:
    """Continue a run with another workflow, or the same: results are kept by phase name."""
    refuse_inside(run_dir, "run")
    seen = load_state(run_dir)
    lock = runs.open_run(run_dir)
    state, data = load_again(run_dir, *seen)
    if options.issue is not None and state.issue_number != options.issue:
        detail = f"run `{state.adw_id}` works on issue {state.issue_number}, not {options.issue}"
        raise UsageError(detail=detail, fix=None)
    runs.complete_dirs(run_dir)
    plan = make_plan(places, options, state.adw_id, read_info(run_dir)["base"], run_dir)
    host.created(state.adw_id)
    definitions.save_definition(run_dir, plan.snapshot)
    define.keep(run_dir, plan.definition)
    work = Work(places, host, lock, state, StateFile(run_dir, state, data), plan.definition, "run")
    work.parent = define.load(run_dir, state.workflow) if state.workflow else plan.definition
    work.keep = options.keep
    return work.go(options.from_phase, wait=options.wait)


def _existing(places: Places, options: RunOptions) -> str | None:
    """The run that `--adw-id` names, if it exists; an unknown id is refused where it is a slip."""
    if options.adw_id is None:
        return None
    path = os.path.join(places.agents_dir, options.adw_id)
    if is_id(options.adw_id) and os.path.lexists(path):
        return path
    known = [name for name, _ in runs.peek(places.agents_dir, options.issue)]
    if not is_id(options.adw_id):
        return runs.find_run(places.agents_dir, options.adw_id)
    if known and options.issue is not None and not options.new:
        raise UnknownName(
            kind="run",
            name=options.adw_id,
            reason=f"issue {options.issue} has: {', '.join(known)}",
            suggestion="name one of these, or add `--new`",
        )
    return None
