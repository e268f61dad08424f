"""Which places are tried is chosen by the seed alone, and each phase comes first."""

from adw.app.chaos.points import Reached, known, plan
from adw.app.chaos.report import Point

REACHED = Reached(
    failpoints=[
        "create.before_rename", "shim.recorded", "shim.body_ended", "state.before_rename",
        "shim.recorded", "shim.body_ended", "state.before_rename",
    ],
    attempts=["plan-1", "build-1"],
    bodies=frozenset({"plan-1"}),
)  # fmt: skip


def writes(found: list[Point]) -> list[tuple[str, int]]:
    return sorted((each.name, each.nth) for each in found if each.how == "failpoint")


def test_the_same_seed_chooses_the_same_places() -> None:
    assert plan(REACHED, 12, 7) == plan(REACHED, 12, 7)
    assert plan(REACHED, 12, 7) != plan(REACHED, 12, 8)


def test_each_phase_runs_twice_in_full_and_is_cut_in_its_middle_before_all_else() -> None:
    first = plan(REACHED, 4, 1)

    assert writes(first) == [("shim.body_ended", 1), ("shim.body_ended", 2)]
    assert sorted(each.name for each in first if each.target == "all") == ["build-1", "plan-1"]


def test_every_durable_write_is_tried_once_where_there_are_rounds_enough() -> None:
    found = plan(REACHED, 40, 1)

    assert len(writes(found)) == known(REACHED) == 7
    assert len(set(writes(found))) == 7
    assert len(found) == 40


def test_a_supervisors_place_names_its_attempt() -> None:
    found = [each for each in plan(REACHED, 40, 1) if each.name.startswith("shim.")]

    assert {(each.nth, each.attempt) for each in found} == {(1, "plan-1"), (2, "build-1")}
    assert {each.target for each in found} == {"supervisor"}


def test_a_body_is_killed_alone_only_where_nothing_else_comes_of_it() -> None:
    alone = [each.name for each in plan(REACHED, 40, 1) if each.target == "body"]

    assert alone == ["plan-1"]


def test_fewer_rounds_are_the_beginning_of_more() -> None:
    assert plan(REACHED, 30, 3)[:5] == plan(REACHED, 5, 3)
