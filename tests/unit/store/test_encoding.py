"""Values on their way to a durable file: written as JSON has them, or refused before it is opened."""

import json
import math
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.model.state import ADWStateData
from adw.phases.api import write_result
from adw.store import attempts, requests
from adw.store.encoding import json_bytes, text_bytes
from adw.store.history import History

CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
UNFIT: dict[str, Any] = {
    "an object": object(),
    "bytes": b"x",
    "a set": {1},
    "NaN": math.nan,
    "infinity": -math.inf,
    "a circle": CIRCLE,
    "a tuple as a key": {(1, 2): 3},
}
INSTANTS = {
    "2026-03-01T12:00:00+00:00": datetime(2026, 3, 1, 12, tzinfo=UTC),
    "2026-03-01T12:00:00.000001-05:30": datetime(
        2026, 3, 1, 12, 0, 0, 1, tzinfo=timezone(-timedelta(hours=5, minutes=30))
    ),
    "2026-03-01": date(2026, 3, 1),
    "12:30:00": time(12, 30),
}


@pytest.mark.parametrize("text", INSTANTS)
def test_case_A8_a_date_or_an_instant_is_written_as_ISO_8601_has_it(text: str) -> None:
    assert json.loads(json_bytes({"deep": [{"at": INSTANTS[text]}]})) == {"deep": [{"at": text}]}


@pytest.mark.parametrize("what", UNFIT)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.hostile("H31")
def test_case_A8_what_is_no_JSON_is_refused(what: str, indent: int | None) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        json_bytes({"deep": [UNFIT[what]]}, indent=indent)
    assert "0x" not in str(caught.value), "no address of an object"


def _event(run_dir: str, value: Any) -> None:
    history = History(run_dir)
    try:
        history.add("warning", {"detail": value}, entries=0)
        history.flush()
    finally:
        os.close(history._fd)


def _launch(run_dir: str, value: Any) -> None:
    packet = attempts.write_packet(run_dir, "a-1", b"task\n", {"argv": value})
    os.close(packet.lock_fd)


def _verdict(run_dir: str, value: Any) -> None:
    attempts.note_verdict(run_dir, "a-1", {"at": value})


def _request(run_dir: str, value: Any) -> None:
    requests.ask(run_dir, "pause", 0, {"at": value})


def _result(run_dir: str, value: Any) -> None:
    write_result(data={"at": value}, path=f"{run_dir}/result.json")


WRITERS: list[Callable[[str, Any], None]] = [_event, _launch, _verdict, _request, _result]


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    for name in ("state", "children", "attempts", "requests/applied"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "state/task_history.jsonl").touch()
    (tmp_path / "requests/.lock").touch()
    (tmp_path / "result.json").write_text("{}")
    return str(tmp_path)


def _seen(run_dir: str) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in Path(run_dir).rglob("*")}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("what", UNFIT)
def test_case_A8_a_bad_value_leaves_no_file_and_no_half_of_one(
    run_dir: str, write: Callable[[str, Any], None], what: str
) -> None:
    before = _seen(run_dir)

    with pytest.raises((ValueError, TypeError, AssertionError)):
        write(run_dir, UNFIT[what])

    assert _seen(run_dir) == before


@pytest.mark.parametrize("value", [*INSTANTS.values(), *UNFIT.values()])
def test_case_A8_the_state_takes_no_value_that_its_file_could_not_hold(value: Any) -> None:
    state = ADWStateData(adw_id="cc73faf1", issue_number=47)
    for name in ("updated_at", "plan_file", "branch_name", "issue_number"):
        with pytest.raises(ValueError, match=name):
            state.changed(**{name: value})


@given(st.text() | st.text(st.characters(categories=["Cs"])))
def test_a_text_of_any_characters_comes_back_from_JSON(text: str) -> None:
    pairs = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(json_bytes([text])) == [pairs]


@given(st.binary())
def test_a_path_of_any_bytes_keeps_them(name: bytes) -> None:
    text = os.fsdecode(name)
    assert text_bytes(text) == name
    assert os.fsencode(json.loads(json_bytes(text))) == name
