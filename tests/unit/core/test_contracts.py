"""Signatures: equal failures are told apart from new ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.core.contracts import COUNTED, TRANSIENT, normalised, signature
from adw.core.standing import FAILURE, FINAL, FREE, HELD

PYTEST = """
=================================== FAILURES ===================================
E   assert 3 == 4
tests/test_x.py:12: AssertionError
FAILED tests/test_x.py::test_add - assert 3 == 4
============================== 1 failed in {time} ===============================
"""


def same(one: str, two: str) -> bool:
    found = signature("exit", 1, one), signature("exit", 1, two)
    assert None not in found
    return found[0] == found[1]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("5 failed in 0.12s", "3 failed in 12.50s"),
        ("object at 0x7f3a91c2d0", "object at 0xDEADBEEF00"),
        ("commit cc73faf1 is bad", "commit 19ae07d is bad"),
        ("at 2026-01-02T03:04:05.123Z: no", "at 2027-11-12 13:14:15+02:00: no"),
        ("12:01:02 no such table", "09:30:00,123 no such table"),
        ("open /tmp/pytest-of-me/pytest-3/x.db: no", "open /tmp/tmpab_c/y/x.db: no"),
        ("open '/var/folders/ab/T/x': no", "open '/var/folders/cd/T/z': no"),
        ("\x1b[31merror\x1b[0m: no", "error: no"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174abc"),
        ("a   b\n\n\nc", "a b\nc"),
        (PYTEST.format(time="0.05s"), PYTEST.format(time="10.05s").replace("= 1", " 1")),
    ],
)
def test_case_F10_numbers_and_places_are_ignored(one: str, two: str) -> None:
    assert same(one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("FAILED test_a", "FAILED test_b"),
        ("no such table: users", "no such table: issues"),
        ("defaced", "effaced"),
        ("src/a.py: error", "src/b.py: error"),
    ],
)
def test_other_words_are_another_failure(one: str, two: str) -> None:
    assert not same(one, two)


def test_the_exit_code_and_the_kind_tell_failures_apart() -> None:
    found = {signature("exit", 1, "x"), signature("exit", 2, "x"), signature("contract", 1, "x")}
    assert len(found) == 3


@pytest.mark.parametrize("reason", sorted((FAILURE | FREE | FINAL | HELD) - COUNTED))
def test_case_F10_transient_failures_have_no_signature(reason: str) -> None:
    assert signature(reason, 1, "the same words") is None


def test_every_failure_kind_is_counted_or_not_on_purpose() -> None:
    assert COUNTED | TRANSIENT | {"rejected"} == FAILURE


def test_a_failure_that_says_nothing_is_unknown() -> None:
    assert signature("exit", 1, " \n\x1b[0m\n") is None


def test_only_the_end_counts() -> None:
    lines = "\n".join("same" for _ in range(60))
    assert same(f"first\n{lines}", f"other\n{lines}")


@given(st.text(max_size=300), st.integers(-300, 300))
def test_any_text_gives_16_hex_digits_or_none(tail: str, code: int) -> None:
    found = signature("exit", code, tail)
    assert found is None or (len(found) == 16 and int(found, 16) >= 0)
    assert normalised(normalised(tail)) == normalised(tail)
