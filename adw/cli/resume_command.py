"""`adw resume`."""

import os
from typing import Any

import click

from adw.cli.arguments import complete_run
from adw.cli.hosting import conduct, spawn_each
from adw.cli.output import say


@click.command("resume")
@click.argument("adw_id", metavar="[ID]", required=False, shell_complete=complete_run)
@click.option("--all", "all_runs", is_flag=True, help="Every interrupted run, each in a process.")
@click.option(
    "--from", "from_phase", metavar="PHASE", help="Run PHASE and all that needs it again."
)
@click.option("--accept-changed", is_flag=True, help="Go over to the changed workflow files.")
@click.option(
    "--update-base", is_flag=True, help="Bring the base branch's present tip into the run's branch."
)
@click.option("--no-wait", is_flag=True, help="Leave with 6 instead of waiting.")
@click.option("--json", "as_json", is_flag=True, help="Print the final status as JSON.")
@click.option("--announce-fd", type=int, hidden=True)
@click.option("--line", hidden=True)
@click.pass_obj
def command(nursery: Any, /, adw_id: str | None, **options: Any) -> int:
    """Go on with a run: adopt what lives, keep what is done, rerun only what must be.

    Without ID: the one interrupted run.
    """
    from adw.app.places import find_places, gone_words
    from adw.errors import ExitCode

    places = find_places(os.getcwd())
    if options["all_runs"]:
        flags = {"--no-wait": options["no_wait"], "--update-base": options["update_base"]}
        words = [flag for flag, given in flags.items() if given]
        found, broken = _interrupted(places)
        for name in broken:
            say(f"run {name} is broken, and left as it is")
            say(f"  hint: adw doctor {name}")
        if not found and not broken:
            say("nothing is interrupted")
            lost = gone_words(len(places.gone()))
            if lost:
                say(lost)
                say("  hint: adw doctor")
        code = spawn_each([["resume", name, *words] for name in found], detach=False)
        return max(code, ExitCode.USAGE) if broken else code
    run_dir = _the_one(places) if adw_id is None else places.run_dir(adw_id)
    from adw.app.running import resume

    return conduct(
        lambda host: resume(
            places,
            run_dir,
            host,
            from_phase=options["from_phase"],
            wait=not options["no_wait"],
            accept_changed=options["accept_changed"],
            update_base=options["update_base"],
        ),
        places,
        nursery,
        as_json=options["as_json"],
        announce_fd=options["announce_fd"],
        line=options["line"],
        verb="resumed",
    )


def _interrupted(places: Any) -> tuple[list[str], list[str]]:
    """Runs that go on, and those that may have to but whose files are damaged."""
    from adw.app.reading import listing

    runs = listing(places.agents_dir)["runs"]
    return (
        [run["adw_id"] for run in runs if run["status"] == "interrupted" and not run["paused"]],
        [run["adw_id"] for run in runs if run["status"] == "broken"],
    )


def _the_one(places: Any) -> str:
    """The only interrupted run, else the only one that is not over."""
    from adw.app.reading import listing
    from adw.errors import ResumeChoice

    found = listing(places.agents_dir)["runs"]
    interrupted: list[str] = [run["adw_id"] for run in found if run["status"] == "interrupted"]
    if len(interrupted) == 1:
        return os.path.join(places.agents_dir, interrupted[0])
    stopped = [
        f"{run['adw_id']} ({run['status']})"
        for run in found
        if run["status"] in {"interrupted", "failed", "held", "cancelled", "broken"}
    ]
    raise ResumeChoice(count=len(interrupted), matches=", ".join(stopped) or "none")
