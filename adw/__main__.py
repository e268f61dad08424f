"""`python -m adw` and the console script: answer `--version`, fork the nursery, then the rest.

The nursery has to be forked before anything heavy is imported and before any lock is taken: what
is loaded now is what every supervisor carries (docs/explanation/supervision.md).
"""

import sys

_NEEDS_NURSERY = frozenset(
    {
        ("run",), ("resume",), ("cancel",), ("rewind",),
        ("state", "set"), ("task", "add"), ("effect", "settle"),
    }
)  # fmt: skip


def main() -> int:
    """Run the command line; the exit code is the process's."""
    args = sys.argv[1:]
    if args in (["--version"], ["-V"]):
        from adw import __version__

        sys.stdout.write(f"adw {__version__}\n")
        return 0
    if sys.platform == "win32":
        sys.stderr.write("error: adw does not run on Windows; use WSL 2\n")
        return 2
    nursery = None
    if _needs_nursery(args):
        from adw.supervise import nursery as room

        try:
            nursery = room.start()
        except OSError:
            nursery = None  # one is started when it is needed; if that fails too, it is told
    from adw.cli.main import main as command_line

    return command_line(args, nursery)


def _needs_nursery(args: list[str]) -> bool:
    """Whether the command may start phases, or end what is left of them."""
    if not args or {"--help", "-h"} & set(args):
        return False
    if args[0] == "doctor":
        return "--rebuild" in args
    return (args[0],) in _NEEDS_NURSERY or tuple(args[:2]) in _NEEDS_NURSERY


if __name__ == "__main__":
    sys.exit(main())
