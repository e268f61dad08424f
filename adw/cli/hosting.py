"""What `run` and `resume` share: who watches, what is printed at the end, one process a run."""

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from adw.app.sitting import Host, Interrupted, Sitting
from adw.app.spawning import Line
from adw.cli.output import print_json, put, say
from adw.cli.progress import LiveTable, PlainLines, Silent


def conduct(
    work: Callable[[Host], Sitting],
    places: Any,
    nursery: Any,
    *,
    as_json: bool,
    announce_fd: int | None,
    verb: str = "started",
    line: str | None = None,
) -> int:
    """Run one sitting in this process and tell how it ended.

    Args:
        work: The use case.
        places: The repository and its runs.
        nursery: Forked at process start.
        as_json: Nothing but the final status on stdout.
        announce_fd: Where to write the ADW ID as soon as the run exists; then this process goes
            on in the background.
        verb: What is said of the run when its work begins.
        line: Its place among several that were started at once (adw.app.spawning.Line), which
            print lines even on a terminal, since they share it.

    Returns:
        Exit code.
    """
    silent = as_json or announce_fd is not None
    reporter = _reporter(places.agents_dir, silent=silent, plain=line is not None)

    def created(adw_id: str) -> None:
        if isinstance(reporter, PlainLines):
            reporter.begin(adw_id, verb)
        if announce_fd is not None:
            _announce(announce_fd, adw_id)

    try:
        line_up = Line(line).step_up()
        sitting = work(Host(nursery, reporter, created, say, line_up.step_on))
        code, adw_id = sitting.exit_code, sitting.adw_id
    except Interrupted as ended:
        code, adw_id = 128 + ended.number, ended.adw_id
    finally:
        if isinstance(reporter, LiveTable):
            reporter.end()
    if announce_fd is None:
        # Where nobody reads, the exit code still says how the run ended.
        with contextlib.suppress(BrokenPipeError):
            _closing_words(places, adw_id, as_json=as_json)
    return code


def _reporter(agents_dir: str, *, silent: bool, plain: bool) -> Silent:
    if silent:
        return Silent()
    if not plain and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveTable(agents_dir)
    return PlainLines(agents_dir)


def _announce(fd: int, adw_id: str) -> None:
    """Tell the parent and let go of its terminal."""
    os.write(fd, adw_id.encode() + b"\n")
    os.close(fd)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)


def _closing_words(places: Any, adw_id: str, *, as_json: bool) -> None:
    from adw.app import reading

    view = reading.status(os.path.join(places.agents_dir, adw_id))
    if as_json:
        print_json(view)
        return
    reason = f": {view['reason']}" if view["reason"] else ""
    action = f"  next: {view['next_action']}\n" if view["next_action"] else ""
    put(f"run {adw_id} {view['status']}{reason}\n{action}")


def spawn_each(commands: list[list[str]], *, detach: bool) -> int:
    """Start one adw process a run; the largest of their exit codes.

    Args:
        commands: Words after `adw` of each.
        detach: Do not wait for their ends, only until each run exists.
    """
    from adw.app import spawning

    if detach:
        return max((spawning.detached(words) for words in commands), default=0)
    return spawning.together(commands)
