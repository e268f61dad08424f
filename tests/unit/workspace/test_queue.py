"""Whose turn it is, and what the table survives."""

import json
import os
from pathlib import Path

import pytest

from adw.workspace import queue
from adw.workspace.queue import Standing, Ticket


class Hall:
    """Runs that live until they are said to be dead."""

    def __init__(self, tmp_path: Path) -> None:
        self.host = str(tmp_path / "host")
        self.dead: set[str] = set()
        self._base = tmp_path

    def ticket(self, name: str, limit: int = 2, repository: str = "r") -> Ticket:
        run_dir = self._base / repository / name
        run_dir.mkdir(parents=True, exist_ok=True)
        return Ticket(name, str(run_dir), str(self._base / repository), limit)

    def alive(self, run_dir: str) -> bool:
        return os.path.basename(run_dir) not in self.dead

    def enter(
        self, name: str, limit: int = 2, repository: str = "r", *, working: bool = False
    ) -> Standing:
        ticket = self.ticket(name, limit, repository)
        return queue.enter(self.host, ticket, self.alive, working=working)

    def advance(self, name: str, limit: int = 2, repository: str = "r") -> Standing:
        return queue.advance(self.host, self.ticket(name, limit, repository), self.alive)

    def leave(self, name: str) -> list[str]:
        """Names of the runs to be woken."""
        woken = queue.leave(self.host, self.ticket(name), self.alive)
        return [os.path.basename(each) for each in woken]

    def rows(self) -> list[tuple[str, bool]]:
        found = json.loads((Path(self.host) / queue.TABLE).read_bytes())
        assert found["schema_version"] == 1
        return [(row["adw_id"], row["admitted"]) for row in found["runs"]]


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


def test_as_many_work_as_may_and_the_others_wait_in_the_order_they_came(hall: Hall) -> None:
    found = [hall.enter(name) for name in ("a", "b", "c", "d", "e")]

    assert [each.position for each in found] == [0, 0, 1, 2, 3]
    assert found[4] == Standing(position=3, waiting=3, working=2, limit=2)


def test_who_leaves_wakes_the_next_and_nobody_else_gets_its_place(hall: Hall) -> None:
    for name in ("a", "b", "c", "d"):
        hall.enter(name)

    assert hall.leave("b") == ["c"]
    assert hall.advance("d").position == 2, "its turn is after c's"
    assert hall.enter("e").position == 3, "a newcomer goes to the end"
    assert hall.advance("c").position == 0
    assert hall.advance("d").position == 1
    assert hall.leave("c") == ["d"]


def test_the_place_of_a_dead_run_is_free_at_once(hall: Hall) -> None:
    for name in ("a", "b", "c", "d"):
        hall.enter(name)
    hall.dead |= {"a", "c"}

    assert hall.advance("d").position == 0
    assert hall.rows() == [("b", True), ("d", True)]


def test_a_dead_run_that_comes_back_goes_to_the_end(hall: Hall) -> None:
    for name in ("a", "b", "c"):
        hall.enter(name, limit=1)

    assert hall.enter("a", limit=1).position == 3, "its place is free, and b is next"
    assert hall.rows() == [("b", False), ("c", False), ("a", False)]
    assert hall.advance("b", limit=1).position == 0


def test_a_run_whose_directory_is_gone_counts_no_more(hall: Hall, tmp_path: Path) -> None:
    hall.enter("a", limit=1)
    (tmp_path / "r/a").rmdir()

    assert hall.enter("b", limit=1).position == 0


def test_a_run_whose_phase_lives_takes_its_place_whatever_the_limit(hall: Hall) -> None:
    hall.enter("a", limit=1)
    hall.enter("b", limit=1)

    assert hall.enter("c", limit=1, working=True).position == 0
    assert hall.leave("a") == [], "c works"
    assert hall.advance("b", limit=1).position == 1
    assert hall.leave("c") == ["b"]


def test_each_repository_has_places_of_its_own(hall: Hall) -> None:
    assert hall.enter("a", limit=1, repository="one").position == 0
    assert hall.enter("a", limit=1, repository="two").position == 0
    assert hall.enter("b", limit=1, repository="two").position == 1


def test_a_run_that_knows_a_lower_limit_is_not_passed_by_for_ever(hall: Hall) -> None:
    hall.enter("a", limit=3)
    assert hall.enter("b", limit=1).position == 1
    assert hall.enter("c", limit=3).position == 2, "b has waited longer"

    hall.leave("a")

    assert hall.advance("c", limit=3).position == 2
    assert hall.advance("b", limit=1).position == 0
    assert hall.advance("c", limit=3).position == 0


def test_looking_changes_nothing_while_it_is_not_its_turn(hall: Hall) -> None:
    hall.enter("a", limit=1)
    hall.enter("b", limit=1)
    before = os.stat(os.path.join(hall.host, queue.TABLE))

    hall.advance("b", limit=1)
    hall.advance("a", limit=1)

    assert os.stat(os.path.join(hall.host, queue.TABLE)).st_ino == before.st_ino


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"schema_version": 2, "runs": []}',
        b'{"schema_version": 1, "runs": [{"adw_id": "a"}]}',
        (
            b'{"schema_version": 1, "runs": [{"adw_id": "a", "run_dir": "/", "repository": "/",'
            b' "limit": 0, "admitted": true}]}'
        ),
    ],
)
def test_a_table_that_was_removed_or_damaged_is_begun_anew_by_who_waits(
    hall: Hall, data: bytes | None
) -> None:
    hall.enter("a", limit=1)
    hall.enter("b", limit=1)
    table = Path(hall.host) / queue.TABLE
    table.unlink()
    if data is not None:
        table.write_bytes(data)

    assert queue.standing(hall.host, hall.ticket("b").run_dir, hall.alive) is None
    assert hall.advance("b", limit=1).position == 0
    kept = [path.read_bytes() for path in Path(hall.host).glob("queue.json.damaged-*")]
    assert kept == ([] if data is None else [data])


def test_readers_are_told_who_waits_and_where(hall: Hall) -> None:
    for name in ("a", "b", "c"):
        hall.enter(name, limit=1)

    def said(name: str) -> str | None:
        found = queue.standing(hall.host, hall.ticket(name).run_dir, hall.alive)
        return queue.words(found) if found else None

    assert said("a") is None
    assert said("c") == "position 2 of 2 in the queue, 1 run works (`max_concurrent: 1`)"
    assert [queue.waits(hall.host, hall.ticket(name).run_dir) for name in ("a", "b", "x")] == [
        False,
        True,
        False,
    ]
    hall.dead.add("b")
    assert said("c") == "position 1 of 1 in the queue, 1 run works (`max_concurrent: 1`)"


def test_any_history_of_comers_goers_and_deaths_keeps_limit_and_order(
    hall: Hall,
) -> None:
    """A fixed sequence of 200 acts; never more than 2 work, and nobody overtakes."""
    came: list[str] = []
    works: set[str] = set()
    state = 7
    for number in range(200):
        state = (state * 1103515245 + 12345) % 2**31
        act, pick = state // 65536 % 4, state // 262144
        if act == 0 or not (came or works):
            name = f"run-{number}"
            works.add(name) if hall.enter(name).position == 0 else came.append(name)
        elif act == 1 and came:
            name = came[pick % len(came)]
            if hall.advance(name).position == 0:
                # Those before it that live have their turn too, as soon as they look.
                assert came.index(name) + len(works) < 2
                came.remove(name)
                works.add(name)
        elif act == 2 and works:
            name = sorted(works)[pick % len(works)]
            hall.leave(name)
            works.discard(name)
        elif act == 3 and pick % 3 == 0:
            everyone = [*came, *sorted(works)]
            name = everyone[pick % len(everyone)]
            hall.dead.add(name)
            works.discard(name)
            came = [each for each in came if each != name]
        assert len(works) <= 2
        assert [name for name, admitted in hall.rows() if not admitted and name in came] == came
