"""A pair of network ports for each live run of this host.

Slot n is the pair 9100 + n (backend) and 9200 + n (frontend). Leases stand in one small table in
the host directory, changed only under a host-wide lock. A lease counts for as long as its run
lives, which a kernel lock tells, not its age; a port that some other program has is passed over.
"""

import errno
import os
import socket
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from adw import log
from adw.errors import PortsExhausted
from adw.store import files
from adw.workspace import locks, tables

BACKEND: Final = 9100
FRONTEND: Final = 9200
SLOTS: Final = 100  # more would let backends reach into the frontends
_KEY: Final = "leases"
_LOCK_WAIT_S: Final = 20.0
_SHOWN_HOLDERS: Final = 10


@dataclass(frozen=True, slots=True)
class Lease:
    """One line of the table."""

    slot: int
    adw_id: str
    run_dir: str
    """Absolute; two repositories may have runs of the same id."""

    @property
    def pair(self) -> tuple[int, int]:
        """Backend and frontend port."""
        return BACKEND + self.slot, FRONTEND + self.slot


def lease(
    host_dir: str,
    adw_id: str,
    run_dir: str,
    wanted: tuple[int, int] | None,
    slots: int,
    alive: Callable[[str], bool],
    *,
    serving: bool = False,
) -> tuple[int, int]:
    """Take a pair of ports for a run, for as long as it lives.

    Args:
        host_dir: As `tables.host_dir()` says; made if missing.
        adw_id: The run.
        run_dir: Its directory.
        wanted: The pair that its state records; taken again if it is free. None for a new run,
            whose first choice is by a hash of the id.
        slots: How many pairs there are, at most 100.
        alive: Tells of another run's directory whether its run lock or an attempt's lock is held.
        serving: An attempt of this run lives and may itself listen on the run's own pair, which
            is then kept without looking whether it is free.

    Returns:
        Backend and frontend port, recorded durably.

    Raises:
        PortsExhausted: Every pair is leased to a live run or taken by another program.
        HostLocked: The host's lock stayed taken.
        StoreError: The table cannot be written.
    """
    assert 0 < slots <= SLOTS, slots
    run_dir = os.path.realpath(run_dir)
    table = os.path.join(host_dir, "ports.json")
    with locks.storing(host_dir):
        files.make_dirs(host_dir)
    with locks.held(os.path.join(host_dir, "ports.lock"), _LOCK_WAIT_S), locks.storing(table):
        known = tables.load(table, _KEY, _row)
        mine = next((each for each in known if each.run_dir == run_dir), None)
        others = [e for e in known if e.run_dir != run_dir and _lives(e, alive)]
        slot = _choose(Lease(-1, adw_id, run_dir), wanted, slots, others, mine if serving else None)
        taken = Lease(slot, adw_id, run_dir)
        if taken != mine or len(known) != len(others) + 1:
            _save(table, [*others, taken])
    return taken.pair


def without_run(host_dir: str) -> list[Lease]:
    """Leases of runs whose directory is gone; for readers, nothing is locked."""
    known = tables.peek(os.path.join(host_dir, "ports.json"), _KEY, _row)
    return [each for each in known if not os.path.lexists(each.run_dir)]


def end(host_dir: str, run_dir: str) -> None:
    """Take the lease of a run whose directory is gone out of the table; another's stays.

    Raises:
        HostLocked: The host's lock stayed taken.
        StoreError: The table cannot be written.
    """
    table = os.path.join(host_dir, "ports.json")
    with locks.held(os.path.join(host_dir, "ports.lock"), _LOCK_WAIT_S), locks.storing(table):
        known = tables.load(table, _KEY, _row)
        left = [e for e in known if e.run_dir != run_dir or os.path.lexists(run_dir)]
        if left != known:
            _save(table, left)


def _choose(
    run: Lease,
    wanted: tuple[int, int] | None,
    slots: int,
    others: list[Lease],
    serving: Lease | None,
) -> int:
    first = _slot_of(wanted, slots)
    if first is None:
        first = zlib.crc32(run.adw_id.encode()) % slots
    held = {each.slot for each in others}
    if serving is not None and serving.slot == first and first not in held:
        return first
    busy = []
    for step in range(slots):
        slot = (first + step) % slots
        if slot in held:
            continue
        if all(port_free(port) for port in Lease(slot, "", "").pair):
            if slot != first:
                preferred = Lease(first, "", "").pair
                log.event("ports", wanted=preferred, used=Lease(slot, "", "").pair, run=run.adw_id)
            return slot
        busy.append(slot)
    named = [_named(each, run) for each in others[:_SHOWN_HOLDERS]]
    if len(others) > _SHOWN_HOLDERS:
        named.append(f"{len(others) - _SHOWN_HOLDERS} more runs")
    if busy:
        named.append(f"other programs ({len(busy)} pairs)")
    raise PortsExhausted(count=slots, holders=", ".join(named))


def _named(other: Lease, run: Lease) -> str:
    """A holder, and where it is to be found if it is not among the runs beside this one."""
    folder = os.path.dirname(other.run_dir)
    where = "" if folder == os.path.dirname(run.run_dir) else f" in {folder}"
    return f"{other.adw_id}{where} ({other.pair[0]})"


def _slot_of(wanted: tuple[int, int] | None, slots: int) -> int | None:
    if wanted is None:
        return None
    slot = wanted[0] - BACKEND
    return slot if 0 <= slot < slots and wanted[1] - FRONTEND == slot else None


def port_free(port: int) -> bool:
    """Whether a server could listen on a port, in both address families.

    A family that this host does not have counts as free.
    """
    return all(_family_free(family, port) for family in (socket.AF_INET, socket.AF_INET6))


def _family_free(family: socket.AddressFamily, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError:
        return True
    with probe:
        # Else connections of an ended server, in TIME_WAIT, would count as a server for a minute;
        # on Linux a listening socket is a conflict all the same.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            # Every address of the host, since a server may listen on any; nothing listens here.
            probe.bind(("", port))
        except OSError as error:
            return error.errno not in {errno.EADDRINUSE, errno.EACCES}
    return True


def _lives(entry: Lease, alive: Callable[[str], bool]) -> bool:
    return os.path.isdir(entry.run_dir) and alive(entry.run_dir)


def _row(found: dict[str, Any]) -> Lease:
    lease = Lease(int(found["slot"]), str(found["adw_id"]), str(found["run_dir"]))
    if not 0 <= lease.slot < SLOTS:
        message = "a slot out of range"
        raise ValueError(message)
    return lease


def _save(table: str, leases: list[Lease]) -> None:
    ordered = sorted(leases, key=lambda each: each.slot)
    tables.save(table, _KEY, [asdict(each) for each in ordered])
