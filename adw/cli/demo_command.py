"""`adw demo`."""

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

from adw.cli.output import escaped, print_json, put

if TYPE_CHECKING:
    from adw.app.demo import Outcome

_WIDTH: Final = 88  # columns of prose


class Told:
    """Prints the story: chapters are numbered, what commands print is indented."""

    def __init__(self) -> None:
        self._chapter = 0
        self._after_output = False

    def chapter(self, title: str) -> None:
        """A numbered heading."""
        self._chapter += 1
        _print("", f"{self._chapter}. {title}", "")
        self._after_output = False

    def say(self, text: str) -> None:
        """A paragraph."""
        if self._after_output:
            _print("")
        _print(*textwrap.wrap(text, _WIDTH, initial_indent="   ", subsequent_indent="   "), "")
        self._after_output = False

    def command(self, line: str) -> None:
        """A command, as one would type it."""
        if self._after_output:
            _print("")
        _print(f"   $ {line}")
        self._after_output = True

    def output(self, line: str) -> None:
        """A line that it printed."""
        _print(f"   {line}".rstrip())


class Silent:
    """Prints nothing, for `--json`."""

    def chapter(self, title: str) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def command(self, line: str) -> None:
        """Nothing."""

    def output(self, line: str) -> None:
        """Nothing."""


@click.command("demo")
@click.option("--dir", "folder", type=click.Path(), metavar="DIR", help="A new or empty folder.")
@click.option(
    "--keep/--remove", default=True, help="Whether the folder stays afterwards.", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the only thing on stdout.")
def command(folder: str | None, *, keep: bool, as_json: bool) -> int:
    """Show the whole story in a repository of its own: run, kill -9 in the middle, resume.

    Takes a few seconds, offline; the repository lies in a temporary folder, or in DIR.
    """
    from adw.app import demo

    if not as_json:
        _print("adw demo: a run is killed in its middle, and goes on.")
        _print("It needs no network, no account and no git identity.")
    outcome = demo.perform(folder, Silent() if as_json else Told())
    if as_json:
        print_json(outcome.to_json())
    else:
        _farewell(outcome, keep=keep)
    if not keep:
        demo.remove(outcome)
    return 0


def _farewell(outcome: "Outcome", *, keep: bool) -> None:
    adw, adw_id = _program(), outcome.adw_id
    _print(f"All as told, in {outcome.seconds:.1f} s.")
    if keep:
        _print("", "Look around:", "")
        _list(
            (f"cd {outcome.repository}", ""),
            (f"{adw} history {adw_id}", "what happened, event by event"),
            (f"{adw} logs {adw_id}", "what the phases printed"),
            (f"{adw} why {adw_id}", "why the run is where it is"),
            (f"git diff main {outcome.branch}", "the change"),
            ("cat adw.yaml tools/agent.py", "what stands in for a coding agent"),
            (f"rm -rf {outcome.folder}", "when you have seen enough"),
        )
    _print("", "In a repository of your own:", "")
    _list((f"{adw} init", "writes adw.yaml, a workflow and an example issue"))


def _list(*rows: tuple[str, str]) -> None:
    short = (len(left) for left, _ in rows if len(left) < _WIDTH // 2)
    width = max(short, default=0)
    _print(*(f"   {left.ljust(width)}  {right}".rstrip() for left, right in rows))


def _program() -> str:
    """How this adw can be called again, from any folder."""
    own = os.path.abspath(sys.argv[0])
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = os.path.join(folder, "adw")
        if os.access(found, os.X_OK):
            return "adw" if os.path.realpath(found) == os.path.realpath(own) else own
    return own if os.path.basename(own) == "adw" else f"{sys.executable} -m adw"


def _print(*lines: str) -> None:
    put("".join(f"{escaped(line)}\n" for line in lines))
