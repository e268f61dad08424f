"""Whatever is found, one row of the truth table says what is done."""

import itertools
import string

from adw.workspace import table
from adw.workspace.table import ROWS, VALUES, Facts, Row


def all_facts() -> list[Facts]:
    return [
        Facts(**dict(zip(VALUES, values, strict=True)))
        for values in itertools.product(*VALUES.values())
    ]


def test_there_is_a_row_for_everything_and_each_row_is_reached() -> None:
    reached = {table.row_for(found).name for found in all_facts()}

    assert reached == {row.name for row in ROWS} == set(table.BY_NAME)
    assert len(ROWS) == len(reached)


def test_a_dirty_tree_is_treated_as_a_clean_one() -> None:
    for found in all_facts():
        rest = {name: getattr(found, name) for name in VALUES}
        assert table.row_for(Facts(**rest)) is table.row_for(Facts(**{**rest, "tree": "dirty"}))


def makes(row: Row) -> bool:
    return row.act in {"create", "fetch", "attach", "recreate"}


def test_nothing_is_made_where_something_lies() -> None:
    for found in all_facts():
        row = table.row_for(found)
        if makes(row):
            assert found.directory == "absent", found
            assert found.registered in {"no", "whole"}, found


def test_no_branch_is_invented_for_a_run_whose_phases_ran() -> None:
    for found in all_facts():
        if table.row_for(found).act == "create":
            assert (found.branch, found.ran) == ("absent", "no"), found


def test_what_is_used_is_on_its_branch() -> None:
    for found in all_facts():
        if table.row_for(found).act == "reuse":
            assert (found.registered, found.directory, found.head) == ("whole", "ours", "branch")
            assert found.branch in {"free", "elsewhere"}


def test_a_refusal_has_one_repair_and_nothing_else_has_any() -> None:
    for row in ROWS:
        assert (row.repair is not None) == (row.act == "refuse"), row.name
        texts = f"{row.says} {row.repair}"
        named = {name for _, name, _, _ in string.Formatter().parse(texts) if name}
        assert named <= {"name", "path", "branch", "found", "commit", "mend"}, row.name
