"""The state file's one writer: append-only, whole versions, foreign bytes set aside."""

import os
import resource
from pathlib import Path

import pytest

from adw.errors import ReadError, StateError, StateVersion, StoreError
from adw.model.state import ADWStateData, HistoryEntry, encode_head, encode_state
from adw.store.state import StateFile, load_state


def _entry(phase: str, *, success: bool = True) -> HistoryEntry:
    return HistoryEntry(phase=phase, attempt=1, success=success)


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    folder = tmp_path / "cc73faf1"
    folder.mkdir()
    state = ADWStateData(adw_id="cc73faf1", issue_number=47)
    (folder / "adw_state.json").write_bytes(encode_state(encode_head(state), []))
    return str(folder)


def _open(run_dir: str) -> tuple[StateFile, ADWStateData]:
    state, data = load_state(run_dir)
    return StateFile(run_dir, state, data), state


def test_what_was_saved_is_read_again_and_the_version_before_is_kept(run_dir: str) -> None:
    file, state = _open(run_dir)
    before = Path(run_dir, "adw_state.json").read_bytes()
    file.save(state.appended([_entry("plan")]))

    assert [e.phase for e in load_state(run_dir)[0].phase_history] == ["plan"]
    assert Path(run_dir, "adw_state.prev.json").read_bytes() == before


def test_a_history_that_does_not_go_on_is_a_bug_ST_9(run_dir: str) -> None:
    file, state = _open(run_dir)
    longer = state.appended([_entry("plan"), _entry("build")])
    file.save(longer)

    for bad in (state, state.appended([_entry("test"), _entry("build"), _entry("ship")])):
        with pytest.raises(AssertionError, match="append-only"):
            file.save(bad)
    assert len(load_state(run_dir)[0].phase_history) == 2


def test_an_exception_before_the_rename_leaves_the_old_state(run_dir: str) -> None:
    file, state = _open(run_dir)
    before = Path(run_dir, "adw_state.json").read_bytes()

    def refuse() -> None:
        raise StoreError(path="exit line", reason="EIO", fix=None)

    with pytest.raises(StoreError):
        file.save(state.appended([_entry("plan")]), refuse)
    assert Path(run_dir, "adw_state.json").read_bytes() == before
    assert [n for n in os.listdir(run_dir) if n.endswith(".tmp")] == []


@pytest.mark.parametrize("how", ["in_place", "renamed", "removed"])
@pytest.mark.hostile("H40")
def test_foreign_bytes_are_kept_aside_and_the_last_version_put_back(run_dir: str, how: str) -> None:
    file, state = _open(run_dir)
    file.save(state.appended([_entry("plan")]))
    path = Path(run_dir, "adw_state.json")
    good = path.read_bytes()
    forged = good.replace(b'"plan"', b'"ship"')
    if how == "in_place":
        path.write_bytes(forged)
    elif how == "renamed":
        other = Path(run_dir, "other")
        other.write_bytes(forged)
        other.rename(path)
    else:
        path.unlink()

    assert file.restore() == "adw_state.tampered.1.json"
    assert path.read_bytes() == good
    kept = Path(run_dir, "adw_state.tampered.1.json").read_bytes()
    assert kept == (b"" if how == "removed" else forged)
    assert file.restore() is None


def test_an_untouched_state_is_not_called_changed(run_dir: str) -> None:
    file, state = _open(run_dir)
    assert file.restore() is None
    file.save(state.appended([_entry("plan")]))
    os.utime(Path(run_dir, "adw_state.json"))

    assert file.restore() is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"{", "Expecting property name"),
        (b'{"adw_id": "cc73faf1", "adw_id": "x"}', "the key `adw_id` occurs twice"),
        (b'{"adw_id": "cc73faf1", "plan": "text"}', "unknown key `plan`"),
        (b'{"adw_id": "cc73faf2"}', "it is the state of run `cc73faf2`"),
    ],
)
def test_ST_8_case_A3_A9_a_damaged_state_is_refused_by_name_and_left_as_it_is(
    run_dir: str, data: bytes, reason: str
) -> None:
    path = Path(run_dir, "adw_state.json")
    path.write_bytes(data)
    with pytest.raises(StateError) as caught:
        load_state(run_dir)

    assert reason in str(caught.value.line("why"))
    assert str(path) in caught.value.message
    assert path.read_bytes() == data


@pytest.mark.fault("F25", by="a limit of descriptors that is reached at the read of a state")
def test_a_state_that_no_descriptor_is_left_for_is_not_called_damaged(run_dir: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0), limits[1]))
    try:
        with pytest.raises(ReadError, match="Too many open files"):
            load_state(run_dir)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.hostile("H36")
def test_case_A10_a_newer_version_is_refused_by_number(run_dir: str) -> None:
    path = Path(run_dir, "adw_state.json")
    path.write_bytes(b'{"schema_version": 2, "adw_id": "cc73faf1", "new_key": 1}')
    with pytest.raises(StateVersion) as caught:
        load_state(run_dir)

    assert "schema version 2" in caught.value.message


def test_the_state_stays_small_after_a_hundred_phases_ST_3(run_dir: str) -> None:
    file, state = _open(run_dir)
    for number in range(100):
        state = state.appended([_entry(f"phase_{number}")])
        file.save(state)

    assert Path(run_dir, "adw_state.json").stat().st_size < 100 * 220
