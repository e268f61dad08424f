"""Requests of one kind, those that wait and those that were applied."""

import os
from pathlib import Path

import pytest

from adw.store import requests


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    os.makedirs(tmp_path / requests.APPLIED)
    return str(tmp_path)


def texts(run_dir: str) -> list[str]:
    return [each.fields["text"] for each in requests.applied_of(run_dir, "task_add")]


def test_applied_ones_and_waiting_ones_come_in_the_order_in_which_they_were_asked(
    run_dir: str,
) -> None:
    for number in range(4):
        requests.ask(run_dir, "task_add", 0, {"phase": "a", "text": str(number)})
        requests.ask(run_dir, "pause", 0, {})
    first, _, _, fourth = requests.applied_of(run_dir, "task_add")

    requests.applied(run_dir, first)
    requests.applied(run_dir, fourth)

    assert texts(run_dir) == ["0", "1", "2", "3"]
    assert [each.kind for each in requests.pending(run_dir)].count("task_add") == 2


def test_one_that_moves_between_the_two_looks_is_there_once(
    run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests.ask(run_dir, "task_add", 0, {"phase": "a", "text": "x"})
    real = requests._read

    def moved(folder: str, name: str, ending: str = ".json") -> list[requests.Request]:
        found = real(folder, name, ending)
        if name == requests.DIR:
            for each in found:
                requests.applied(run_dir, each)
        return found

    monkeypatch.setattr(requests, "_read", moved)

    assert texts(run_dir) == ["x"]


def test_the_largest_text_fits_whatever_its_characters(run_dir: str) -> None:
    for char in ("\x01", "é", "𝄞", '"'):
        text = char * (requests.TEXT_LIMIT // len(char.encode()))
        path = requests.ask(run_dir, "task_add", 0, {"phase": "a", "text": text})

        assert os.path.getsize(path) < requests.LIMIT
        assert requests.pending(run_dir)[-1].fields["text"] == text


def test_a_damaged_one_is_left_out(run_dir: str) -> None:
    requests.ask(run_dir, "task_add", 0, {"phase": "a", "text": "x"})
    (Path(run_dir) / requests.APPLIED / "000007-task_add.json").write_bytes(b"{")

    assert texts(run_dir) == ["x"]
