"""The click group and the one error boundary; each command's module is loaded when it is called."""

import errno
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from adw.cli.output import print_error, silence_stdout

if TYPE_CHECKING:
    from adw.errors import EnvironmentFault

_FILES: Final = "raise the limit on open files, as `ulimit -n 1024` does for a shell"
_MEMORY: Final = "give it more memory, or raise the limit that `ulimit -v` shows"

COMMANDS: Final = {
    "artifacts": "Show what a run's phases handed over, or print where one of it is.",
    "cancel": "End what runs of a run and record it as cancelled.",
    "chaos": "Kill a workflow in many places, in a copy, and tell what it does not survive.",
    "completion": "Print a completion script for bash, zsh or fish.",
    "demo": "Show the whole story in a temporary repository, offline.",
    "diff": "Show what a run, or an attempt of it, changed in its worktree.",
    "doctor": "Say what is wrong with adw's files here, and what would mend it.",
    "effect": "Have something outside happen once; list such effects, settle them.",
    "gc": "Remove what finished runs left, as far as nothing is lost by it.",
    "graph": "Draw a workflow, or the workflow of a run.",
    "history": "Show what happened in a run, event by event.",
    "init": "Set up a repository: adw.yaml, a workflow, an example issue.",
    "logs": "Print what phases wrote.",
    "path": "Print where a run's worktree is.",
    "pause": "Start nothing new; what runs is let finish.",
    "resume": "Go on with a run; with `--all`, with all interrupted ones.",
    "rm": "Remove a run's worktree and branch, as far as nothing is lost by it.",
    "rewind": "Put a run's worktree back to what it was before an attempt.",
    "run": "Run a workflow on an issue.",
    "schema": "Print the JSON Schema of a document.",
    "show": "Show a whole run on one page.",
    "state": "Read or set the state of a run.",
    "status": "Show all runs, or one.",
    "task": "Read what a phase was told to do, or add to it.",
    "validate": "Check workflow files.",
    "wait-port": "Wait until a server of a run listens.",
    "watch": "Follow a run until it ends.",
    "why": "Explain why a run or a phase is where it is.",
}


class LazyGroup(click.Group):
    """Knows names and one-line helps of all commands, loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(
            f"adw.cli.{cmd_name.replace('-', '_')}_command"
        ).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Take a reader that left for an orderly end; click itself would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            silence_stdout()
            return 0

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown command with the nearest one."""
        name = args[0]
        if name == "help":
            args = [*args[1:2], "--help"]
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from adw.errors import UnknownName, suggestion

            close = suggestion(name, list(COMMANDS))
            raise UnknownName(kind="command", name=name, suggestion=close, reason=None)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="adw", message="adw %(version)s")
def group() -> None:
    """Run developer workflows unattended; kill anything, `adw resume` goes on.

    Where an ID stands, a unique prefix or `@ISSUE` (the issue's latest run) will do.
    """


def main(args: list[str], nursery: Any = None) -> int:
    """Run one command.

    Args:
        args: Words after `adw`.
        nursery: Forked at process start for commands that start phases; None for others.

    Returns:
        The exit code of docs/reference/exit-codes.md.
    """
    as_json = "--json" in args[: args.index("--") if "--" in args else None]
    args = args or ["--help"]
    from adw.errors import AdwError, ExitCode, UsageError

    try:
        code = group.main(args, prog_name="adw", standalone_mode=False, obj=nursery)
    except AdwError as error:
        return print_error(error, as_json=as_json)
    except click.UsageError as error:
        found = UsageError(detail=_detail_of(error), fix=_help_of(error))
        return print_error(found, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (OSError, MemoryError) as error:
        return print_error(_fault_of(error), as_json=as_json)
    except Exception:  # noqa: BLE001  the one boundary: whatever gets here is a bug
        return _bug(args)
    return code if isinstance(code, int) else 0


def _fault_of(error: OSError | MemoryError) -> "EnvironmentFault":
    """The system's own words, what it was about, and a way out where there is one."""
    from adw.errors import EnvironmentFault

    if isinstance(error, MemoryError):
        return EnvironmentFault(detail="out of memory", reason=None, fix=_MEMORY)
    detail = error.strerror or str(error)
    if error.filename:
        detail += f": `{error.filename}`"
    fix = _FILES if error.errno == errno.EMFILE else None
    return EnvironmentFault(detail=detail, reason=None, fix=fix)


def _bug(args: list[str]) -> int:
    import traceback

    from adw import __version__
    from adw.errors import ExitCode

    traceback.print_exc()
    words = " ".join(args)
    sys.stderr.write(
        f"error: this is a bug in adw {__version__} (python {sys.version.split()[0]})\n"
    )
    sys.stderr.write(f"  at: adw {words}\n  hint: report it with the lines above\n")
    return ExitCode.BUG


def _detail_of(error: click.UsageError) -> str:
    text = error.format_message()  # a whole help page where a group lacks its command
    return "a command is missing" if "\n" in text else _lower(text)


def _lower(text: str) -> str:
    text = text.strip().rstrip(".").replace("'", "`")
    return text[:1].lower() + text[1:]


def _help_of(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "adw"
    return f"{path} --help"
