"""Who needs a place."""

from pathlib import Path

import pytest

from adw.app.queueing import Place
from adw.errors import StoreError
from adw.model.state import ADWStateData

STATE = ADWStateData(adw_id="cc73faf1")


@pytest.mark.parametrize("config", [{}, {"max_concurrent": None}])
def test_without_a_limit_a_run_may_work_at_once_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, object]
) -> None:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))

    with Place.of(str(tmp_path), str(tmp_path), STATE, config) as place:
        assert place.admitted
        assert place.look() is None

    assert not (tmp_path / "host").exists()


def test_a_run_inside_a_phase_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would wait for the run that waits for it."""
    config = {"max_concurrent": 1}
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    assert not Place.of(str(tmp_path), str(tmp_path), STATE, config).admitted

    monkeypatch.setenv("ADW_CHILD", "test-1")

    assert Place.of(str(tmp_path), str(tmp_path), STATE, config).admitted


def test_a_place_is_taken_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    table = tmp_path / "host" / "queue.json"

    with Place.of(str(tmp_path), str(tmp_path), STATE, {"max_concurrent": 1}) as place:
        found = place.look()
        assert found is not None
        assert (place.admitted, found.position) == (True, 0)
        assert b"cc73faf1" in table.read_bytes()

    assert b"cc73faf1" not in table.read_bytes()


def test_a_host_directory_that_cannot_be_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host").write_text("a file")
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))

    with (
        Place.of(str(tmp_path), str(tmp_path), STATE, {"max_concurrent": 1}) as place,
        pytest.raises(StoreError) as caught,
    ):
        place.look()

    assert caught.value.render() == (
        f"error: cannot write `{tmp_path}/host`: File exists\n"
        "  hint: ADW_HOST_DIR names a folder that can be written, or no `max_concurrent` in adw.yaml"
    )
