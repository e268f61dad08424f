"""`adw graph`: draw a workflow, or the workflow of a run with its statuses."""

from typing import Any

import click

from adw.cli.arguments import complete_run, complete_workflow, json_option, places_here
from adw.cli.layout import show
from adw.cli.output import print_json


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [*complete_workflow(ctx, param, incomplete), *complete_run(ctx, param, incomplete)]


@click.command("graph")
@click.argument("name", metavar="WORKFLOW|ID", shell_complete=_complete)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid"]),
    default="text",
    show_default=True,
    help="For people, or for a page that draws Mermaid.",
)
@json_option
def command(name: str, form: str, *, as_json: bool) -> int:
    """Draw a workflow; of a run, the workflow that it pinned.

    A name that is both is the workflow; give more characters of the ID then.
    """
    graph = _graph(name)
    if as_json:
        phases = [_phase(graph, each) for each in graph.phases]
        print_json({"schema_version": 1, "workflow": graph.name, "phases": phases})
        return 0
    from adw.core.draw import to_mermaid, to_text

    text = to_mermaid(graph) if form == "mermaid" else to_text(graph)
    show(text.split("\n"))
    return 0


def _graph(name: str) -> Any:
    from adw.errors import AdwError, UnknownName
    from adw.loader import find_workflow, load_workflow

    places = places_here()
    try:
        path = find_workflow(name, places.repo.root)
    except UnknownName as unknown:
        try:
            run_dir = places.run_dir(name)
        except AdwError as error:
            raise (error if name.startswith("@") else unknown) from None
        return _pinned(run_dir)
    from adw.config import load_config

    return load_workflow(path, load_config(places.repo.root).setup).graph


def _pinned(run_dir: str) -> Any:
    from adw.app.rebuilding import compute

    return compute(run_dir).graph


def _phase(graph: Any, name: str) -> dict[str, Any]:
    phase = graph.phases[name]
    repair = phase.repair
    return {
        "phase": name,
        "needs": list(phase.needs),
        "inputs": list(phase.inputs),
        "outputs": [each.name for each in phase.outputs],
        "repairs": list(graph.owners.get(name, ())),
        "repair": repair
        and {"phase": repair.phase, "rounds": repair.rounds, "back_to": repair.back_to},
    }
