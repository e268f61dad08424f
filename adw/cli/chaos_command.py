"""`adw chaos`."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from adw.cli.arguments import complete_workflow
from adw.cli.output import escaped, print_json, say, table

if TYPE_CHECKING:
    from adw.app.chaos.report import Fact, Report, Round

_TITLES: Final = {
    "unsafe_phase": "not safe to run again",
    "doubled_effect": "an effect twice",
    "torn_output": "an output that is not right",
    "effect_unknown": "an effect that nobody can look up",
    "adw": "a fault of adw itself",
}


class Told:
    """One line a round, on stderr."""

    def begun(self, report: "Report", folder: str) -> None:
        """The copy is made."""
        network = {"none": "no network", "allowed": "with the network"}[report.network]
        say(f"chaos: {report.workflow} {report.issue}, seed {report.seed}, {network}; in {folder}")
        say("two undisturbed runs come first")

    def printed(self, lines: Sequence[str]) -> None:
        """This was printed by an undisturbed run that did not succeed."""
        for line in lines:
            say(f"  | {line}")

    def referred(self, report: "Report") -> None:
        """The undisturbed runs are over."""
        say(
            f"both succeeded, {report.reference_s:.1f} s;"
            f" {report.known} durable writes to kill at; {report.wanted} rounds"
        )
        if report.wanted < 2 * report.attempts:
            say(f"  not every phase is cut off: --rounds {2 * report.attempts} would do that")
        if report.left_out:
            say(f"  differs by itself, so left out: {', '.join(report.left_out)}")

    def round(self, report: "Report", each: "Round") -> None:
        """A round is over."""
        width = len(str(report.wanted))
        fired = "" if each.fired else ", not reached"
        if each.fired and each.point.how == "instant" and not each.killed:
            fired = ", between two phases"
        found = "; ".join(f"{fact.phase or 'adw'} {fact.words}" for fact in each.facts) or "ok"
        words = f"{each.number:>{width}}/{report.wanted}  {each.seconds:4.1f} s  {each.point.words}"
        say(f"{words}{fired}: {found}")


@click.command("chaos")
@click.argument("workflow", shell_complete=complete_workflow)
@click.argument("issue", type=click.IntRange(min=1))
@click.option("--rounds", type=click.IntRange(1, 10_000), default=20, help="How many kills; 20.")
@click.option("--seed", type=click.IntRange(min=0), help="Repeat the choices of another time.")
@click.option("--only-round", type=click.IntRange(min=1), metavar="K", help="Only round K of them.")
@click.option("--allow-network", is_flag=True, help="Let the phases use the network.")
@click.option("--keep", is_flag=True, help="Keep the copy of each round, to look at.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the only thing on stdout.")
def command(workflow: str, issue: int, *, as_json: bool, **options: Any) -> int:
    """Find out what a kill does to WORKFLOW: kill a run of ISSUE in many places, and compare.

    All happens in a throw-away copy of the repository, without network and secrets. Exit code 0:
    nothing was found; 1: something was.
    """
    from adw.app.chaos.performing import Options, perform
    from adw.app.places import find_places

    chosen = Options(
        options["rounds"],
        options["seed"],
        options["only_round"],
        network=options["allow_network"],
        keep=options["keep"],
    )
    report = perform(find_places(os.getcwd()), workflow, issue, chosen, Told())
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)
    return report.exit_code


def _print(report: "Report") -> None:
    findings = report.findings()
    for number, (fact, rounds) in enumerate(findings, 1):
        _out(f"{number}. {_TITLES[fact.kind]}: {_named(fact)}")
        numbers = ", ".join(str(each.number) for each in rounds)
        many = "rounds" if len(rounds) > 1 else "round"
        _out(f"   {many} {numbers}; killed {rounds[0].point.words}")
        for line in fact.details:
            _out(f"   | {line}")
        _out(f"   again: {report.reproduce(rounds[0].number)}", "")
    _out(_tried(report), "")
    if report.interrupted:
        _out(f"interrupted after {len(report.rounds)} of {report.wanted} rounds")
    count = len(findings)
    _out("nothing was found" if not count else f"{count} thing{'s' * (count > 1)} found")
    if report.folder:
        _out(f"the rounds are in {report.folder}")


def _named(fact: "Fact") -> str:
    return f"phase {fact.phase}: {fact.words}" if fact.phase else fact.words


def _tried(report: "Report") -> str:
    rows = [["killed", "tried", "reached", "found"]]
    for target in ("orchestrator", "nursery", "supervisor", "body", "all"):
        mine = [each for each in report.rounds if each.point.target == target]
        if mine:
            fired, found = sum(each.fired for each in mine), sum(bool(e.facts) for e in mine)
            rows.append([target, str(len(mine)), str(fired), str(found)])
    return table(rows)


def _out(*lines: str) -> None:
    click.echo("\n".join(escaped(line, keep="\n") for line in lines))
