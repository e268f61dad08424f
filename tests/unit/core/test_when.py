"""The language of `when`: what it says, what it refuses, and that a checked one cannot fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.core.when import FIELDS, MAX_LENGTH, OUTCOMES, BadExpression, check, holds

STATE: dict[str, object] = {
    "issue_class": "bug",
    "issue_number": 47,
    "branch_name": "bug-47-cc73faf1-x",
    "plan_file": None,
    "model_set": "base",
}
NEEDS = ("test", "lint")
NAMES = {**STATE, "test": "done", "lint": "excused"}


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ('issue_class == "bug"', True),
        ('issue_class != "bug"', False),
        ('issue_class in ["bug", "chore"]', True),
        ('issue_class not in ("feature", "chore")', True),
        ("issue_number == 47", True),
        ("plan_file == null", True),
        ("plan_file", False),
        ("not plan_file", True),
        ('test == "done" and lint == "excused"', True),
        ('test == "skipped" or model_set == "heavy"', False),
        ('not (test == "done")', False),
        ('  issue_class == "bug"  ', True),
        ("issue_number != -1", True),
        ('plan_file or issue_class == "bug"', True),
    ],
)
def test_an_expression_says_what_it_reads_like(expr: str, expected: bool) -> None:
    assert check(expr, NEEDS) is None
    assert holds(expr, NAMES) is expected


KNOWN = "`issue_class`, `issue_number`, `branch_name`, `plan_file`, `model_set`, `test`, `lint`"


@pytest.mark.parametrize(
    ("expr", "fault"),
    [
        ("", "not an expression"),
        ("a b", "not an expression"),
        ("issue_class = 'bug'", "not an expression"),
        ("x; y", "not an expression"),
        ("a\x00b", "not an expression"),
        ("(" * 240 + "1" + ")" * 240, "not an expression"),
        ("x" * 501, f"an expression of 501 characters is longer than {MAX_LENGTH}"),
        ("tset == 'done'", f"unknown name `tset`; known here: {KNOWN}"),
        ("build == 'done'", f"unknown name `build`; known here: {KNOWN}"),
        ("__import__ == 1", f"unknown name `__import__`; known here: {KNOWN}"),
        ("len(plan_file) == 0", "a call is not allowed"),
        ("plan_file.strip == 1", "an attribute is not allowed"),
        ("plan_file[0] == 'x'", "an index is not allowed"),
        ("issue_number == 9 ** 9 ** 9", "arithmetic is not allowed"),
        ("branch_name == 'x' * 1000000", "arithmetic is not allowed"),
        ("(lambda: 1) == 1", "a function is not allowed"),
        ("f'{plan_file}' == 'x'", "a formatted string is not allowed"),
        ("(plan_file := 1) == 1", "this is not allowed"),
        ("[x for x in [1]] == 1", "this is not allowed"),
        ("plan_file if test else 1", "a conditional is not allowed"),
        ("issue_number > 3", "only ==, !=, in and not in can compare"),
        ("plan_file is null", "only ==, !=, in and not in can compare"),
        ('"x" in plan_file', '`in` needs a list on its right, such as ["bug", "chore"]'),
        ("issue_class in [plan_file]", "a list may hold text and numbers only"),
        ("issue_number == 1.5", "`1.5` is not allowed"),
        ("branch_name == b'x'", "`b'x'` is not allowed"),
        (
            "issue_class == 'feat'",
            "`issue_class` is never 'feat'; it is one of chore, bug, feature",
        ),
        ("test == 'ok'", "`test` is never 'ok'; it is one of done, skipped, excused"),
        ("'ok' == test", "`test` is never 'ok'; it is one of done, skipped, excused"),
        ("test in ['done', 'ok']", "`test` is never 'ok'; it is one of done, skipped, excused"),
        ("test", '`test` alone is always true; write test == "done"'),
        ("plan_file and not test", '`test` alone is always true; write test == "done"'),
        ("true", "a value alone is always the same"),
        ("plan_file or 'x'", "a value alone is always the same"),
    ],
)
def test_what_is_outside_the_language_is_refused_by_name(expr: str, fault: str) -> None:
    assert check(expr, NEEDS) == fault


def test_a_phase_called_like_a_field_cannot_be_meant() -> None:
    assert check("plan_file == null", ("plan_file",)) == (
        "`plan_file` is a field of the state and a phase too; give the phase another name"
    )


def test_an_expression_that_was_never_checked_does_no_harm() -> None:
    for expr in ("unknown", "len([1])", "list(branch_name)", "issue_number ** 2", "().__class__"):
        with pytest.raises(BadExpression):
            holds(expr, NAMES)


_LITERALS = st.sampled_from(["null", "true", "1", "-3", "'x'", "''", "'done'", "'bug'"])
_SIMPLE = st.sampled_from([*FIELDS, *NEEDS])


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner),
    )


EXPRESSIONS = st.recursive(
    st.one_of(
        _SIMPLE,
        st.builds("{} {} {}".format, _SIMPLE, st.sampled_from(["==", "!="]), _LITERALS),
        st.builds("{} {} [{}]".format, _SIMPLE, st.sampled_from(["in", "not in"]), _LITERALS),
    ),
    _wider,
    max_leaves=6,
)


@given(
    expr=EXPRESSIONS,
    state=st.fixed_dictionaries(
        {
            "issue_class": st.sampled_from([None, "bug", "feature", "chore"]),
            "issue_number": st.one_of(st.none(), st.integers(1, 99)),
            "branch_name": st.one_of(st.none(), st.text(max_size=5)),
            "plan_file": st.one_of(st.none(), st.text(max_size=5)),
            "model_set": st.sampled_from(["base", "heavy"]),
            "test": st.sampled_from(OUTCOMES),
            "lint": st.sampled_from(OUTCOMES),
        }
    ),
)
def test_a_checked_expression_always_has_a_verdict(expr: str, state: dict[str, object]) -> None:
    if check(expr, NEEDS) is None:
        assert holds(expr, state) in {True, False}


@given(st.text(max_size=80))
def test_any_text_is_judged_without_an_exception(text: str) -> None:
    fault = check(text, NEEDS)

    assert fault is None or fault
