"""The models of a disk: what each may leave after a power cut, call by call."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.recording import NotUnderstood, Op
from tests.faults.replay import Disk, Ordered, Tree, choices, prefixes

ROOT = "/r"
FILES = ("/r/a", "/r/b", "/r/d/c")
MANY = 100_000


def synced(path: str, number: int = 1) -> list[Op]:
    return [Op("begin", path, number=number), Op("sync", path, number=number)]


def written(path: str, data: bytes) -> list[Op]:
    return [Op("make", path), Op("write", path, data=data)]


def disk_of(ops: Sequence[Op], model: type[Disk] = Disk) -> Disk:
    disk = model(ROOT)
    for op in ops:
        disk.apply(op)
    return disk


def left(ops: Sequence[Op], model: type[Disk] = Disk) -> list[Tree]:
    """Every different tree that may be there after the cut."""
    disk = disk_of(ops, model)
    pending = disk.pending
    rng = random.Random(1)
    chosen = prefixes(pending) if model is Ordered else choices(pending, rng, MANY)
    found: list[Tree] = []
    for each in chosen:
        tree = disk.after_cut(each)
        if tree not in found:
            found.append(tree)
    return found


# --- the weakest model ------------------------------------------------------------------------


def test_what_was_not_synced_is_there_by_any_part_or_not() -> None:
    found = left(written("/r/a", b"xyz1"))
    assert {} in found
    assert {tree["a"] for tree in found if tree} == {b"", b"xy", b"\0\0\0\0", b"xyz1"}


def test_a_synced_file_whose_folder_was_not_has_no_name() -> None:
    assert {} in left([*written("/r/a", b"xyz1"), *synced("/r/a")])


def test_a_name_that_was_synced_may_lead_to_nothing_yet() -> None:
    assert {"a": b""} in left([*written("/r/a", b"xyz1"), *synced("/r")])


def test_synced_file_and_folder_are_there() -> None:
    ops = [*written("/r/a", b"xyz1"), *synced("/r/a", 1), *synced("/r", 2)]
    assert left(ops) == [{"a": b"xyz1"}]


def test_a_sync_keeps_what_was_there_when_it_began() -> None:
    begin, end = synced("/r/a")
    more = Op("write", "/r/a", data=b"5")
    ops = [*written("/r/a", b"xyz1"), *synced("/r", 9), begin, more, end]
    assert {tree["a"] for tree in left(ops)} == {b"xyz1", b"xyz15", b"xyz1\0"}


def test_a_rename_is_both_names_or_none_and_never_two() -> None:
    base = [*written("/r/t", b"new!"), *synced("/r/t", 1), *synced("/r", 2)]
    assert left([*base, Op("rename", "/r/t", target="/r/a")]) == [{"t": b"new!"}, {"a": b"new!"}]


def test_a_rename_over_a_file_leaves_the_old_or_the_new_one() -> None:
    base = [*written("/r/a", b"old!"), *written("/r/t", b"new!")]
    base += [*synced("/r/a", 1), *synced("/r/t", 2), *synced("/r", 3)]
    found = left([*base, Op("rename", "/r/t", target="/r/a")])
    assert {tree["a"] for tree in found} == {b"old!", b"new!"}


def test_a_cut_and_a_removal_may_have_come_or_not() -> None:
    base = [*written("/r/a", b"xyz1"), *synced("/r/a", 1), *synced("/r", 2)]
    found = left([*base, Op("cut", "/r/a", offset=2)])
    assert [tree["a"] for tree in found] == [b"xyz1", b"xy"]
    assert left([*base, Op("remove", "/r/a")]) == [{"a": b"xyz1"}, {}]


def test_a_new_folder_needs_its_parents_sync() -> None:
    inside = [Op("dir", "/r/d"), *written("/r/d/c", b"data"), *synced("/r/d/c", 1)]
    assert {} in left([*inside, *synced("/r/d", 2)])
    assert left([*inside, *synced("/r/d", 2), *synced("/r", 3)]) == [{"d": None, "d/c": b"data"}]


def test_a_file_with_two_names_has_one_content() -> None:
    ops = [*written("/r/a", b"data"), *synced("/r/a", 1), Op("link", "/r/a", target="/r/b")]
    assert left([*ops, *synced("/r", 2)]) == [{"a": b"data", "b": b"data"}]


def test_those_who_live_see_all() -> None:
    ops = [*written("/r/a", b"1"), Op("write", "/r/a", data=b"2"), Op("dir", "/r/d")]
    assert disk_of(ops).now() == {"a": b"12", "d": None}


def test_what_is_not_understood_is_no_state() -> None:
    for op in (Op("unknown truncate", "/r/a"), Op("make", "/r/no/a"), Op("rename", "/r/a", "/r/b")):
        with pytest.raises(NotUnderstood):
            disk_of([op])


# --- what is tried ----------------------------------------------------------------------------


def test_few_changes_are_tried_in_all_combinations() -> None:
    pending = disk_of([*written("/r/a", b"xyz1"), *written("/r/b", b"xyz1")]).pending
    tried = list(choices(pending, random.Random(1), 64))
    # Each name or not; each write not, whole, by half, as zeros.
    assert len(tried) == len({tuple(sorted(each.items())) for each in tried}) == (2 * 4) ** 2


def test_of_many_changes_so_many_are_tried_with_nothing_and_all_among_them() -> None:
    pending = disk_of([op for n in range(30) for op in written(f"/r/{n}", b"x")]).pending
    tried = list(choices(pending, random.Random(1), 24))
    assert tried[:2] == [{}, dict.fromkeys(range(60), "whole")]
    assert len(tried) == 24
    assert tried == list(choices(pending, random.Random(1), 24)), "a seed names its choices"


# --- the ordered model ------------------------------------------------------------------------


def test_with_a_journal_what_came_later_is_not_there_without_what_came_before() -> None:
    ops = [*written("/r/a", b"1234"), *written("/r/b", b"5678")]
    found = left(ops, Ordered)
    assert {"b": b"5678"} in left(ops)
    assert all(tree["a"] == b"1234" for tree in found if "b" in tree)


def test_with_a_journal_any_sync_keeps_all_before_it() -> None:
    ops = [*written("/r/a", b"1234"), *written("/r/b", b"5678"), *synced("/r/b")]
    assert left(ops, Ordered) == [{"a": b"1234", "b": b"5678"}]
    assert {} in left(ops)


CALLS = st.one_of(
    st.sampled_from(FILES).map(lambda path: [Op("make", path)]),
    st.tuples(st.sampled_from(FILES), st.binary(min_size=1, max_size=3)).map(
        lambda each: [Op("write", each[0], data=each[1])]
    ),
    st.sampled_from([("/r/a", "/r/b"), ("/r/b", "/r/a"), ("/r/a", "/r/d/c")]).map(
        lambda each: [Op("rename", each[0], target=each[1])]
    ),
    st.sampled_from(FILES).map(lambda path: [Op("remove", path)]),
    st.sampled_from([*FILES, "/r", "/r/d"]).map(synced),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=6))
def test_what_a_journal_leaves_the_weakest_model_leaves_too(calls: list[list[Op]]) -> None:
    ops = [Op("dir", "/r/d"), *synced("/r", 99)]
    for each in calls:
        known = disk_of(ops)
        if each[0].call in {"make", "begin", "write"} or known.find(each[0].path):
            ops += each
    weakest = left(ops)
    assert disk_of(ops).now() in weakest
    assert [tree for tree in left(ops, Ordered) if tree not in weakest] == []
