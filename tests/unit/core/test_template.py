"""`{name}`: what is replaced, what stays, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.core.template import NAMES, VARIABLES, NoValue, check, check_shell, fill, names_in

VALUES: dict[str, object] = {
    "adw_id": "cc73faf1",
    "issue_number": 47,
    "issue_class": "feature",
    "branch_name": "feat-47-cc73faf1-oauth2",
    "plan_file": None,
    "worktree": "/repo/trees/cc73faf1",
    "python": "/usr/bin/python3",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("specs/issue-{issue_number}-adw-{adw_id}.md", "specs/issue-47-adw-cc73faf1.md"),
        ("{python}{python}", "/usr/bin/python3/usr/bin/python3"),
        ("{}", "{}"),
        ("{other} { adw_id } {adw_id", "{other} { adw_id } {adw_id"),
        ('{"adw_id": 1}', '{"adw_id": 1}'),
        ("{{adw_id}}", "{cc73faf1}"),
        ("${adw_id} $adw_id", "${adw_id} $adw_id"),
        ("{ADW_ID}", "{ADW_ID}"),
        ("a{1,2}b{3}", "a{1,2}b{3}"),
    ],
)
def test_known_names_are_replaced_and_every_other_brace_stays(text: str, expected: str) -> None:
    assert fill(text, VALUES) == expected


def test_a_value_is_never_read_as_a_template() -> None:
    assert fill("{branch_name}", {"branch_name": "{python}"}) == "{python}"


@pytest.mark.parametrize("values", [VALUES, {}])
def test_a_name_without_value_is_told_by_name(values: dict[str, object]) -> None:
    with pytest.raises(NoValue) as caught:
        fill("cat {plan_file}", values)

    assert caught.value.name == "plan_file"
    assert str(caught.value) == "`{plan_file}` has no value: no phase has set `plan_file` yet"


def test_an_input_may_be_named_where_the_phase_has_it() -> None:
    assert check("{inputs.plan} {inputs.report}", ["plan", "report"]) is None
    assert check("{inputs.plan} {inputs.report}", ["plan"]) == (
        "`{inputs.report}` is found, but `report` is not among the phase's `inputs`"
    )
    assert check("{inputs} {adw_id} {anything}") is None
    assert fill("<{inputs.plan}>", {"inputs.plan": "/t/specs/a.md"}) == "</t/specs/a.md>"


def test_a_shell_script_may_not_hold_a_name_but_its_own_variables() -> None:
    assert check_shell("cat {plan_file}") == (
        "`{plan_file}` is found in a shell script, where nothing is replaced"
    )
    assert check_shell('for i in {1..3}; do echo "${branch_name}" {x}; done') is None


def test_every_name_but_the_interpreter_has_a_variable() -> None:
    assert {*VARIABLES, "python"} == set(NAMES)


@given(st.text(alphabet="{}$adw_i. x", max_size=30))
def test_a_text_without_known_names_is_left_as_it_is(text: str) -> None:
    if not names_in(text):
        assert fill(text, VALUES) == text
