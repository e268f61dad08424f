"""`adw effect KEY -- CMD`: inside a phase, have something outside happen once; `list`, `settle`."""

import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import click

from adw.cli.arguments import complete_phase, json_option, run_argument, run_dir_of
from adw.cli.output import print_json, say


class _ByName(click.Group):
    """Takes a first word that is no command for the key of an effect."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["perform", *args]
        return super().parse_args(ctx, args)


@click.group("effect", cls=_ByName, subcommand_metavar="KEY [--probe CMD] [--once] -- CMD…")
def command() -> None:
    """Have something outside of the worktree happen once, whatever is killed; inside a phase.

    \b
    adw effect comment --probe ./find-comment -- ./post-comment

    `adw effect KEY -- CMD` is short for `adw effect perform KEY -- CMD`.
    """


@command.command("perform")
@click.argument("key")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
@click.option(
    "--probe",
    metavar="CMD",
    help="Shell text that looks whether it happened: exit 0 yes, 1 no, else it cannot tell.",
)
@click.option("--once", is_flag=True, help="Once in the run, not once in each round of the phase.")
def perform(key: str, argv: tuple[str, ...], probe: str | None, *, once: bool) -> int:
    """Run CMD, unless it was done in this round; print what it printed, now or then.

    An intent is made durable first. Where one is found without a receipt, the probe is asked;
    without a probe, or where it cannot tell, the exit code is 79 and the run is held for a person.
    """
    from adw.app import effecting

    try:
        found = effecting.perform(key, argv, probe, once=once)
    except effecting.CommandFailed as error:
        return _failed(key, error, probed=probe is not None)
    note = found.record["note"]
    if not found.acted:
        say(f"effect `{key}` was done before; nothing is done now")
    elif note:
        say(f"effect `{key}`: {note}")
    sys.stdout.write(found.record["output"] or "")
    sys.stdout.flush()
    return 0


def _failed(key: str, error: Any, *, probed: bool) -> int:
    """Say what a failed command means for its effect; its own exit code, where that is free."""
    from adw.app.effecting import NotStarted
    from adw.errors import ExitCode

    after = "it may have happened: the next try holds the run for a person, as it has no --probe"
    if probed:
        after = "the next try looks first whether it happened"
    if isinstance(error, NotStarted):
        after = "nothing happened"
    say(f"effect `{key}`: {error}; {after}")
    code: int = error.exit_code
    if code < 0:
        return 128 - code
    return int(ExitCode.FAILED) if code == ExitCode.EFFECT_UNKNOWN else code


@command.command("list")
@run_argument
@json_option
def list_(adw_id: str, *, as_json: bool) -> int:
    """Show the effects of a run, and which of them nobody can tell of."""
    from adw.app import effecting
    from adw.cli.layout import columns, instant, show

    run_dir = run_dir_of(adw_id)
    found = effecting.listed(run_dir)
    if as_json:
        more = {"adw_id": os.path.basename(run_dir), "effects": found}
        print_json({"schema_version": 1, **more})
        return 0
    if not found:
        show(["no phase has had an effect recorded"])
        return 0
    rows = [
        [
            each["key"],
            each["phase"],
            "run" if each["once"] else each["round"],
            each["state"].replace("_", " ") + (" (by a person)" if each["settled_by"] else ""),
            each["child_id"],
            instant(each["done_at"] or each["intended_at"]),
            each["note"],
        ]
        for each in found
    ]
    show(columns(["KEY", "PHASE", "ROUND", "STATE", "LAST TRIED BY", "AT", "NOTE"], rows))
    show(_what_to_do(os.path.basename(run_dir), found))
    return 0


def _what_to_do(adw_id: str, found: list[dict[str, Any]]) -> Iterator[str]:
    """How to go on where nobody can tell of an effect."""
    unsure = [each for each in found if each["state"] == "unknown"]
    for each in unsure:
        command = f"adw effect settle {adw_id} {shlex.quote(each['key'])} --done (or --not-done)"
        if sum(other["key"] == each["key"] for other in unsure) > 1:
            command += f" --phase {each['phase']} --round {each['round']}"
        yield ""
        yield f"`{each['key']}` may have happened; look, then: {command}"
    if unsure:
        yield f"and then: adw resume {adw_id}; it looks first by itself where there is a look-up"


@command.command("settle")
@run_argument
@click.argument("key")
@click.option("--done", is_flag=True, help="It happened: it is not done again.")
@click.option("--not-done", is_flag=True, help="It did not happen: the next try does it.")
@click.option("--phase", metavar="P", shell_complete=complete_phase, help="Of this phase.")
@click.option("--round", "number", type=click.IntRange(1), metavar="N", help="Of this round.")
@click.pass_obj
def settle(
    nursery: Any,
    adw_id: str,
    key: str,
    *,
    done: bool,
    not_done: bool,
    phase: str | None,
    number: int | None,
) -> int:
    """Say whether an effect took place that nobody could tell of."""
    from adw.app import asking
    from adw.app.effecting import Choice
    from adw.cli.arguments import places_here
    from adw.cli.layout import show
    from adw.cli.quiet import quiet_host
    from adw.errors import UsageError

    if done == not_done:
        detail = "one of `--done` and `--not-done` is expected"
        raise UsageError(detail=detail, fix=f"adw effect settle {adw_id} {key} --done")
    places = places_here()
    run_dir = places.run_dir(adw_id)
    choice = Choice(key, "done" if done else "not_done", phase, number)
    show([asking.settle_effect(places, run_dir, choice, quiet_host(nursery))])
    return 0
