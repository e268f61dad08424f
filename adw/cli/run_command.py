"""`adw run`."""

import os
import sys
from typing import Any, Final

import click

from adw.cli.arguments import complete_workflow
from adw.cli.hosting import conduct, spawn_each


def _pairs(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for item in value:
        name, equals, text = item.partition("=")
        if not equals:
            message = f"`{item}` is not of the form key=value"
            raise click.BadParameter(message)
        found[name] = text
    return found


@click.command("run")
@click.argument("workflow", shell_complete=complete_workflow)
@click.argument("issues", nargs=-1, type=click.IntRange(min=1), metavar="[ISSUE]...")
@click.option("--task", type=click.Path(), help="A Markdown file instead of an issue.")
@click.option("--adw-id", help="Continue this run, or give a new one this ID.")
@click.option(
    "--model-set",
    type=click.Choice(["base", "heavy"]),
    default="base",
    show_default=True,
    help="Which models roles map to.",
)
@click.option(
    "--from", "from_phase", metavar="PHASE", help="Run PHASE and all that needs it again."
)
@click.option("--only", metavar="PHASE", help="Run PHASE alone.")
@click.option("--until", metavar="PHASE", help="Run up to PHASE.")
@click.option(
    "--set", "fields", multiple=True, callback=_pairs, help="Set a state field: key=value."
)
@click.option("--detach", is_flag=True, help="Return as soon as the run exists.")
@click.option("--no-wait", is_flag=True, help="Leave with 6 instead of waiting.")
@click.option("--parallel", is_flag=True, help="Allow a second live run of the issue.")
@click.option("--keep", is_flag=True, help="With --adw-id: keep results whose definition changed.")
@click.option("--new", is_flag=True, help="With --adw-id: a new ID though the issue has runs.")
@click.option("--dry-run", is_flag=True, help="Print what would run, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the final status as JSON.")
@click.option("--announce-fd", type=int, hidden=True)
@click.option("--line", hidden=True)
@click.pass_obj
def command(nursery: Any, /, workflow: str, issues: tuple[int, ...], **options: Any) -> int:
    """Run WORKFLOW on one or several ISSUEs, each in a worktree of its own.

    \b
    adw run sdlc 47
    adw run sdlc 47 48 49 --detach
    adw run review 47 --adw-id cc73faf1
    adw run sdlc --task notes.md
    """
    _check_together(issues, options)
    if len(issues) > 1 or (options["detach"] and options["announce_fd"] is None):
        words = [[str(issue)] for issue in issues] or [[]]
        rest = _rest(sys.argv[2:], workflow, issues)
        spawned = [["run", workflow, *word, *rest] for word in words]
        return spawn_each(spawned, detach=options["detach"])
    from adw.app.asking import check_fields
    from adw.app.creating import RunOptions
    from adw.app.places import find_places

    places = find_places(os.getcwd())
    wanted = RunOptions(
        workflow=workflow,
        issue=issues[0] if issues else None,
        **{name: options[name] for name in _AS_GIVEN},
        wait=not options["no_wait"],
        fields=check_fields(options["fields"]),
    )
    if options["dry_run"]:
        return _dry_run(places, wanted, as_json=options["as_json"])
    from adw.app.running import run

    return conduct(
        lambda host: run(places, wanted, host),
        places,
        nursery,
        as_json=options["as_json"],
        announce_fd=options["announce_fd"],
        line=options["line"],
        verb="continued" if _exists(places, options["adw_id"]) else "started",
    )


_AS_GIVEN: Final = (
    "task", "adw_id", "model_set", "only", "until", "from_phase", "parallel", "keep", "new",
)  # fmt: skip


def _check_together(issues: tuple[int, ...], options: dict[str, Any]) -> None:
    from adw.errors import UsageError

    if len(set(issues)) < len(issues):
        raise UsageError(detail="an issue is named twice", fix=None)
    if len(issues) > 1 and (options["task"] or options["adw_id"] or options["dry_run"]):
        detail = "`--task`, `--adw-id` and `--dry-run` take one run at a time"
        raise UsageError(detail=detail, fix=None)


def _exists(places: Any, adw_id: str | None) -> bool:
    from adw.ids import is_id

    known = adw_id is not None and is_id(adw_id)
    return known and os.path.isdir(os.path.join(places.agents_dir, str(adw_id)))


def _rest(words: list[str], workflow: str, issues: tuple[int, ...]) -> list[str]:
    """The options of the command line, without its positional words."""
    positional = [workflow, *map(str, issues)]
    rest = []
    for word in words:
        if word in positional:
            positional.remove(word)
        elif word != "--detach":
            rest.append(word)
    return rest


def _dry_run(places: Any, wanted: Any, *, as_json: bool) -> int:
    from adw.app.creating import make_plan
    from adw.cli.output import escaped, print_json

    plan = make_plan(places, wanted, "00000000")
    graph = plan.definition.graph
    if as_json:
        phases = [{"phase": n, "needs": list(graph.phases[n].needs)} for n in graph.order]
        print_json({"schema_version": 1, "workflow": graph.name, "phases": phases})
        return 0
    click.echo(f"{graph.name} on {escaped(plan.issue.title)}, from {(plan.base or '')[:12]}")
    for name in graph.order:
        needs = ", ".join(graph.phases[name].needs)
        click.echo(f"  {name}" + (f"  (after {needs})" if needs else ""))
    return 0
