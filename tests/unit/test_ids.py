"""IDs and names from which paths are made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw import ids


def test_a_new_id_is_eight_hex_digits_and_another_each_time() -> None:
    made = {ids.new_id() for _ in range(100)}

    assert len(made) == 100
    assert all(len(each) == 8 and int(each, 16) >= 0 and ids.is_id(each) for each in made)


@pytest.mark.parametrize("text", ["cc73faf1", "abc-123", "a" * 64, "0-----"])
def test_st_5_ids_of_both_writers_are_ids(text: str) -> None:
    assert ids.is_id(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "cc73f", "a" * 65, "CC73FAF1", "../../etc", "cc73faf1/", "cc73faf1\n", "-c73faf1",
        ".cc73faf1", "cc73\0faf1", "cc73 faf1", "cc73faf\u0661", "é" * 8,
    ],
)  # fmt: skip
@pytest.mark.hostile("H9")
def test_st_20_what_could_lead_elsewhere_is_no_id(text: str) -> None:
    assert not ids.is_id(text)


@given(st.text(max_size=80))
def test_an_id_never_holds_a_separator(text: str) -> None:
    if ids.is_id(text):
        assert not set(text) - set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert text[0] != "-"


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Add OAuth2 login", "add-oauth2-login"),
        ("  --Fix: the `price`!  ", "fix-the-price"),
        ("Über größe", "ber-gr-e"),
        ("日本語", "work"),
        ("", "work"),
        ("word " * 20, "word-word-word-word-word-word-wo"),
        ("a" * 31 + " b", "a" * 31),
        ("../../etc/passwd\n$(rm -rf /)", "etc-passwd-rm-rf"),
    ],
)
def test_a_slug_is_short_and_harmless(title: str, slug: str) -> None:
    assert ids.slug(title) == slug


def test_a_child_is_named_by_phase_and_attempt() -> None:
    assert ids.child_id("build", 3) == "build-3"
