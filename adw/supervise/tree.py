"""Finding and ending the processes of an attempt.

A tree is over when everything in it is dead, not when it was signalled. Who looks, and how:

- the supervisor, from inside (`Inside`): its control group; below that, as subreaper, its
  descendants: daemons come back to it whatever they closed or cleared;
- the nursery, after a supervisor was killed: the group, and the orphans that came to it;
- the next adw, after both were killed: the group; without one, what carries the attempt's
  ADW_ID and ADW_CHILD, what shares a session with it, and what is below that. A daemon that
  cleared its environment is not found then: the answer says `proved: False`.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from adw.store import files
from adw.supervise import cgroups, procs

PATIENCE_S: Final = 5.0  # how long a killed process is waited for
_NURSERY_S: Final = 10.0  # how long a living nursery is given to end its orphans
_PAUSE_S: Final = 0.005
_STOP_ROUNDS: Final = 20
_STOP_S: Final = 0.05  # one that waits in the kernel, as after vfork(2), does not stop before it


class Inside:
    """The processes below one supervisor, as it sees them itself."""

    __slots__ = ("cgroup", "subreaper", "tag")

    def __init__(self, cgroup: str | None, *, subreaper: bool) -> None:
        self.cgroup = cgroup
        self.subreaper = subreaper
        self.tag: tuple[str, str] | None = None
        """ADW_ID and ADW_CHILD of the attempt that runs."""

    def others(self, *, childless: bool) -> dict[int, int]:
        """Everything of the tree but the supervisor itself.

        Args:
            childless: waitpid(2) said that there are no children. For a subreaper outside of a
                control group that settles it without a look at /proc.

        Returns:
            Start time by pid; empty: the tree is over.
        """
        found: set[int] = set()
        if self.cgroup:
            found = cgroups.members(self.cgroup) - {os.getpid()}
        if childless and self.subreaper and not found:
            return {}
        seen = procs.everyone()
        if not childless or not self.subreaper:
            found |= procs.below({os.getpid()}, seen)
        if not self.subreaper and not self.cgroup:
            found |= self._strays(seen)
        return _living(found, seen)

    def _strays(self, seen: dict[int, procs.Seen]) -> set[int]:
        own = {pid for pid, each in seen.items() if each.session == os.getpid()}
        if self.tag:
            own |= _tagged(seen, *self.tag)
        return own - procs.ancestors(seen)


def signal_all(found: dict[int, int], number: int) -> None:
    """Signal processes that `others` or `orphans` found."""
    for pid, start_time in found.items():
        procs.send(pid, start_time, number)
        if number == signal.SIGTERM:
            procs.send(pid, start_time, signal.SIGCONT)  # a stopped process acts on nothing


def ask_to_end(found: dict[int, int], look: Callable[[], dict[int, int]]) -> None:
    """Send SIGTERM to a whole tree at one instant.

    A process that is asked as soon as it is seen may have forked after the look: its child would
    never be asked, and cost the whole grace. A child that a process starts when it is asked, to
    clean up, must not be asked, though. So all are stopped first, which ends forking, until a look
    finds nobody new; a tree that grows faster than it is stopped is asked as far as it is known.

    Args:
        found: What the first look found.
        look: Looks again, as `Inside.others` does.
    """
    asked: dict[int, int] = {}
    for _ in range(_STOP_ROUNDS):
        new = {pid: start for pid, start in found.items() if asked.get(pid) != start}
        if not new:
            break
        signal_all(new, signal.SIGSTOP)
        _await_stopped(new)
        asked.update(new)
        found = look()
    signal_all(asked, signal.SIGTERM)


def _await_stopped(found: dict[int, int]) -> None:
    """Wait until processes stand still: a fork that had begun ends before its process stops."""
    deadline = time.monotonic() + _STOP_S
    for pid, start_time in found.items():
        while time.monotonic() < deadline:
            seen = procs.look(pid)
            if seen is None or seen.start_time != start_time or seen.state in "TtZX":
                break
            time.sleep(_PAUSE_S / 10)


def orphans(keep: frozenset[int]) -> dict[int, int]:
    """What is below this process, apart from `keep` and what is below those."""
    seen = procs.everyone()
    return _living(procs.below({os.getpid()}, seen, keep), seen)


def end_dead(line: dict[str, Any], body: dict[str, Any] | None) -> tuple[bool, tuple[int, ...]]:
    """End what a dead supervisor of another adw left behind.

    Args:
        line: Its supervisor line.
        body: Its last body line, if there is one.

    Returns:
        Whether it is proved that all were found, and who could not be ended.
    """
    if line.get("boot_id") != procs.boot_id():
        return True, ()
    deadline = time.monotonic() + PATIENCE_S
    while procs.is_alive(line["pid"], line["start_time"]):
        if time.monotonic() > deadline:
            return False, (line["pid"],)
        time.sleep(_PAUSE_S)
    group = _own_group(line)
    if group:
        return True, cgroups.kill(group, PATIENCE_S)
    told = _nursery_told(line)
    if told is not None:
        return bool(told["proved"]), _still_alive(told["survivors"])
    return False, _end_tagged(line, body)


def remains(line: dict[str, Any], body: dict[str, Any] | None) -> dict[int, int]:
    """What still lives of the tree of a dead supervisor, as far as it can be shown; ends nothing.

    Args:
        line: Its supervisor line.
        body: Its last body line, if there is one.

    Returns:
        Start time by pid; empty also where the supervisor itself lives.
    """
    if line.get("boot_id") != procs.boot_id() or procs.is_alive(line["pid"], line["start_time"]):
        return {}
    seen, group = procs.everyone(), _own_group(line)
    return _living(cgroups.members(group) if group else _remains(line, body, seen), seen)


def _still_alive(pids: list[int]) -> tuple[int, ...]:
    seen = {pid: procs.look(pid) for pid in pids}
    return tuple(pid for pid, each in seen.items() if each is not None and not each.dead)


def _own_group(line: dict[str, Any]) -> str | None:
    """The group that the line names, if it can be one: nothing else may ever be ended whole."""
    path, nursery = line.get("cgroup"), line.get("nursery")
    if not path or not nursery:
        return None
    name = cgroups.name_of(nursery["pid"], nursery["start_time"], "")
    return str(path) if os.path.basename(path).startswith(name) else None


def _nursery_told(line: dict[str, Any]) -> dict[str, Any] | None:
    """The nursery's line about this tree, waited for while that nursery lives."""
    nursery = line.get("nursery") or {"pid": 0, "start_time": 0}
    deadline = time.monotonic() + _NURSERY_S
    while True:
        alive = procs.is_alive(nursery["pid"], nursery["start_time"])
        data = files.read_if_exists(f"{line.get('attempt_dir')}/attempt.jsonl") or b""
        for each in reversed(list(files.lines(data))):
            if each.startswith(b'{"line":"tree"'):
                told: dict[str, Any] = json.loads(each)
                return told
        if not alive or time.monotonic() > deadline:
            return None
        time.sleep(_PAUSE_S)


def _end_tagged(line: dict[str, Any], body: dict[str, Any] | None) -> tuple[int, ...]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        seen = procs.everyone()
        found = _living(_remains(line, body, seen), seen)
        if not found or time.monotonic() > deadline:
            return tuple(sorted(found))
        signal_all(found, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _remains(
    line: dict[str, Any], body: dict[str, Any] | None, seen: dict[int, procs.Seen]
) -> set[int]:
    """What can be shown to belong to the attempt, in one look at everyone.

    A session's number alone is no proof: it may be a stranger's by now. One proved member makes
    the whole session ours, for a number is not given again while its session has members.
    """
    found = _tagged(seen, str(line.get("adw_id")), str(line.get("child_id")))
    if body and body["pid"] in seen and seen[body["pid"]].start_time == body["start_time"]:
        found.add(body["pid"])
    above = procs.ancestors(seen)
    spared = above | procs.below({os.getpid()}, seen)
    found -= spared
    sessions = {seen[pid].session for pid in found} - {0, 1}
    sessions -= {seen[pid].session for pid in spared if pid in seen}
    found |= {pid for pid, each in seen.items() if each.session in sessions}
    found |= procs.below(set(found), seen)
    return found - spared


def _tagged(seen: dict[int, procs.Seen], adw_id: str, child_id: str) -> set[int]:
    return {pid for pid in seen if pid > 1 and procs.is_tagged(pid, adw_id, child_id)}


def _living(pids: set[int], seen: dict[int, procs.Seen]) -> dict[int, int]:
    """Start times of those that are not dead; who came after the look is looked at now."""
    found = {}
    for pid in pids - {os.getpid()}:
        each = seen.get(pid) or procs.look(pid)
        if each is not None and not each.dead:
            found[pid] = each.start_time
    return found
