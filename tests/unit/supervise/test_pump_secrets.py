"""H45: secrets in each form, cut at each byte, beside and across each other; floods in one line."""

import base64
import itertools
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.supervise.pump import BLOT, CHUNK, CappedLog, Redactor

SECRET = "s3cr3t/K\xffy?42>~~x\n"  # its base64 has "+", "/" and ends in "=", its URL form escapes
PLAIN = SECRET.encode()

FORMS: dict[str, bytes] = {
    "plain": PLAIN,
    "hex": PLAIN.hex().encode(),
    "HEX": PLAIN.hex().upper().encode(),
    "url": quote(SECRET).encode(),
    "url with escaped slash": quote(SECRET, safe="").encode(),
    **{
        f"{name} between {shift} and {more}": code(b"\0" * shift + PLAIN + b"~" * more)
        for name, code in (
            ("base64", base64.b64encode),
            ("url-safe base64", base64.urlsafe_b64encode),
        )
        for shift, more in itertools.product(range(3), range(3))
    },
}


def shown(secrets: Iterable[str], pieces: Iterable[bytes]) -> bytes:
    redactor = Redactor(tuple(secrets))
    return b"".join([*map(redactor.feed, pieces), redactor.rest()])


def test_the_secret_tries_every_escape() -> None:
    texts = b"".join(FORMS.values())

    assert len(set(FORMS.values())) == len(FORMS)
    assert [each for each in (b"+", b"/", b"-", b"_", b"%2F", b"%C3") if each not in texts] == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.hostile("H45")
def test_a_secret_cut_at_any_byte_is_blotted_in_each_form(form: str) -> None:
    coded = FORMS[form]
    text = b"token: " + coded + b" done"

    for cut in range(len(text) + 1):
        told = shown([SECRET], [text[:cut], text[cut:]])

        begin, blot, end = told.partition(BLOT)
        assert blot, (cut, told)
        # A shifted base64 has up to three characters before, and four behind, of its neighbours.
        assert begin.startswith(b"token: ")
        assert len(begin) <= 7 + 4
        assert end.endswith(b" done")
        assert len(end) <= 5 + 6


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.hostile("H45")
def test_a_secret_that_comes_byte_by_byte_is_blotted_in_each_form(form: str) -> None:
    text = b"token: " + FORMS[form] + b" done"

    told = shown([SECRET], [bytes([byte]) for byte in text])

    assert told == shown([SECRET], [text])
    assert BLOT in told


@pytest.mark.parametrize("ends", [b"", b" ", b"\n"])
def test_a_secret_that_the_output_ends_with_is_blotted(ends: bytes) -> None:
    for cut in range(len(PLAIN)):
        assert shown([SECRET], [PLAIN[:cut], PLAIN[cut:] + ends]) == BLOT + ends


def test_a_secret_that_is_a_prefix_of_another_hides_neither() -> None:
    short, long = "hunter2", "hunter2-and-more"
    for text, told in (
        (b"hunter2-and-more", BLOT),
        (b"hunter2-and-less", BLOT + b"-and-less"),
        (b"hunter2hunter2-and-more", BLOT + BLOT),
        (b"hunterhunter2", b"hunter" + BLOT),
    ):
        for cut in range(len(text) + 1):
            assert shown([short, long], [text[:cut], text[cut:]]) == told


def test_a_secret_within_another_hides_neither() -> None:
    text = b"x outer-inner-outer y inner z"
    for cut in range(len(text) + 1):
        told = shown(["inner", "outer-inner-outer"], [text[:cut], text[cut:]])
        assert told == b"x " + BLOT + b" y " + BLOT + b" z"


def test_secrets_that_overlap_are_both_gone_wherever_they_are_cut() -> None:
    text = b"<abcdef-middle-uvwxyz>"
    for cut in range(len(text) + 1):
        told = shown(["abcdef-middle", "middle-uvwxyz"], [text[:cut], text[cut:]])
        assert b"abcdef-middle" not in told
        assert b"middle-uvwxyz" not in told
        assert BLOT in told


small = st.text("xyz", min_size=1, max_size=5)


@settings(max_examples=300)
@given(
    secrets=st.lists(small, min_size=1, max_size=4),
    text=st.text("xyz-", max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=5),
)
@pytest.mark.hostile("H45")
def test_no_secret_is_left_whole_and_no_other_byte_is_lost(
    secrets: list[str], text: str, cuts: list[int]
) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    told = shown(secrets, [text[a:b].encode() for a, b in itertools.pairwise(places)]).decode()

    assert not any(secret in told for secret in secrets)
    assert told.count("-") == text.count("-")
    covered = {
        at + n
        for secret in secrets
        for at in range(len(text))
        if text.startswith(secret, at)
        for n in range(len(secret))
    }
    if not covered:
        assert told == text
    kept = [letter for n, letter in enumerate(text) if n not in covered]
    rest = iter(told.replace(BLOT.decode(), ""))
    assert all(letter in rest for letter in kept)  # in their order


def _plain() -> Iterable[bytes]:
    return itertools.repeat(b"x" * CHUNK, 800)


def _nearly() -> Iterable[bytes]:
    """Each piece ends with what may begin the secret, and the next one goes on otherwise."""
    return itertools.repeat(b"y" * (CHUNK - len(PLAIN) + 1) + PLAIN[:-1], 800)


def _secrets_only() -> Iterable[bytes]:
    return itertools.repeat((PLAIN * (CHUNK // len(PLAIN) + 1))[:CHUNK], 800)


def _nul() -> Iterable[bytes]:
    return itertools.repeat(bytes(CHUNK), 800)


@pytest.mark.sweep
@pytest.mark.parametrize("pieces", [_plain, _nearly, _secrets_only, _nul])
def test_fifty_megabytes_in_one_line_are_pumped_in_flat_memory(
    tmp_path: Path, pieces: Callable[[], Iterable[bytes]]
) -> None:
    """50 MiB without a newline; the file stays under its cap all the time."""
    head = tail = 1 << 20
    path = tmp_path / "stdout.log"
    log = CappedLog(str(path), head, tail, (SECRET,))
    log.write(b"begin ")

    tracemalloc.start()
    try:
        for piece in pieces():
            log.write(piece)
            assert path.stat().st_size <= head + 64 + 2 * tail + 2 * CHUNK
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    log.write(b" end")
    log.finish(sync=False)

    assert peak < 16 * CHUNK
    assert log.error is None
    kept = path.read_bytes()
    assert head + tail <= len(kept) <= head + tail + 2 * 64
    assert kept.startswith(b"begin ")
    assert kept.endswith(b" end")
    assert PLAIN not in kept
