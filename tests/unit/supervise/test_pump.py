"""Redaction across borders, and logs that keep their beginning and end."""

import base64
import itertools
import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.supervise.pump import BLOT, CHUNK, CappedLog, Redactor

SECRET = "s3cr3t/Key+42"


def _redacted(secrets: tuple[str, ...], pieces: list[bytes]) -> bytes:
    redactor = Redactor(secrets)
    return b"".join(redactor.feed(piece) for piece in pieces) + redactor.rest()


@given(
    before=st.binary(max_size=20),
    after=st.binary(max_size=20),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_a_secret_is_blotted_wherever_the_stream_is_cut(
    before: bytes, after: bytes, cuts: list[int]
) -> None:
    data = before + SECRET.encode() + after
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert SECRET.encode() not in _redacted((SECRET,), pieces)
    assert BLOT in _redacted((SECRET,), pieces)


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=6))
def test_other_text_is_left_as_it_is(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert _redacted((SECRET,), pieces) == data


@given(shift=st.binary(max_size=5), after=st.binary(max_size=5))
@pytest.mark.hostile("H45")
def test_a_secret_within_base64_is_blotted(shift: bytes, after: bytes) -> None:
    coded = base64.b64encode(shift + SECRET.encode() + after)
    shown = _redacted((SECRET,), [coded])
    assert BLOT in shown
    # One character at each end holds bits of its neighbours, and "=" fills up.
    assert len(shown) - len(BLOT) <= 4 * (len(shift) + len(after)) / 3 + 8


@pytest.mark.parametrize(
    "form",
    [
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        quote(SECRET),
        quote(SECRET, safe=""),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
@pytest.mark.hostile("H45")
def test_a_secret_in_another_form_is_blotted(form: str) -> None:
    assert _redacted((SECRET,), [b"a ", form.encode(), b" b"]).startswith(b"a [redacted]")


def test_the_longer_of_two_secrets_wins_though_it_comes_late() -> None:
    assert _redacted(("hunter2", "hunter2-long"), [b"hunter2", b"-long!"]) == BLOT + b"!"
    assert _redacted(("hunter2", "hunter2-long"), [b"hunter2", b"-lo"]) == BLOT + b"-lo"


def test_text_that_begins_no_secret_is_shown_at_once() -> None:
    redactor = Redactor(("hunter2",))
    assert redactor.feed(b"line\n") == b"line\n"
    assert redactor.feed(b"more hunt") == b"more "
    assert redactor.feed(b"ing") == b"hunting"


def test_an_empty_secret_blots_nothing() -> None:
    assert _redacted(("",), [b"abc"]) == b"abc"


@given(
    sizes=st.lists(st.integers(0, 3 * CHUNK), max_size=8),
    head=st.sampled_from([0, 1, 1000, CHUNK]),
    tail=st.sampled_from([0, 1, 1000, CHUNK]),
)
def test_a_log_keeps_its_beginning_and_its_end(sizes: list[int], head: int, tail: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "stdout.log"
        log = CappedLog(str(path), head, tail, ())
        whole = b""
        for n, size in enumerate(sizes):
            piece = bytes([65 + n % 26]) * size
            whole += piece
            log.write(piece)
            if path.exists():
                assert path.stat().st_size <= head + 64 + 2 * tail + CHUNK + size
        log.finish(sync=False)
        assert log.error is None
        kept = path.read_bytes() if path.exists() else b""
    if len(whole) <= head + tail:
        assert kept == whole
    elif kept != whole:
        mark, end = kept[head : head + 64], kept[head + 64 :]
        assert kept[:head] == whole[:head]
        assert tail <= len(end) <= tail + 64
        assert whole.endswith(end)
        left_out = len(whole) - head - len(end)
        assert mark == f"\n[adw: {left_out} bytes left out here]".ljust(63).encode() + b"\n"


def test_a_full_disk_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: bytes, offset: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("adw.supervise.pump.files.write_at", full)
    log = CappedLog(str(tmp_path / "stderr.log"), 10, 10, ())
    log.write(b"abc")
    log.write(b"def")
    log.finish(sync=False)
    assert log.error == "`stderr.log`: No space left on device"
