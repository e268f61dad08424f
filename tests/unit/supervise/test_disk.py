"""Adding up what a tree takes on disk, in pieces."""

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest

from adw.supervise import disk
from adw.supervise.disk import Gauge, reserve_bytes, shortage, size_words

FILES = 10_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with many small files; 4 KiB each on usual disks."""
    folder = tmp_path_factory.mktemp("large")
    fd = os.open(folder, os.O_RDONLY)
    for n in range(FILES):
        file = os.open(f"{n}", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
        os.write(file, b"x")
        os.close(file)
    os.close(fd)
    return folder


def test_a_large_tree_is_walked_in_slices(large: Path) -> None:
    gauge = Gauge(100 << 20, 0, [("here", str(large))])
    instants = [time.thread_time()]

    def given_up() -> bool:
        instants.append(time.thread_time())
        return False

    assert gauge.measure(given_up) is None

    spans = [after - before for before, after in pairwise(instants)]
    assert len(spans) >= 2
    assert max(spans) < 0.1


def test_who_gives_up_is_told_nothing_and_at_once(large: Path) -> None:
    gauge = Gauge(1, 0, [("here", str(large))])
    begun = time.thread_time()
    assert gauge.measure(lambda: True) is None
    assert time.thread_time() - begun < 0.1
    assert "M of it are in here itself; " in str(gauge.measure(lambda: False))


@pytest.mark.sweep
def test_between_slices_is_rest(large: Path) -> None:
    gauge = Gauge(100 << 20, 0, [("here", str(large))])
    time.sleep(1.05)  # the first walk is due
    begun = time.monotonic()
    assert gauge.look() is None
    assert gauge.next_at - begun >= 0.2


@pytest.mark.sweep
def test_a_walk_that_has_passed_the_limit_makes_haste(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_SLICE_S", 0.002)
    gauge = Gauge(8 << 20, 0, [("here", str(large))])
    time.sleep(1.05)
    ahead = []
    while (over := gauge.look()) is None:
        ahead.append(gauge.next_at - time.monotonic())
        assert len(ahead) < 1000
    assert " of it are in here itself" in over
    assert ahead[-1] <= 0


def test_what_cannot_be_seen_takes_nothing(tmp_path: Path) -> None:
    gauge = Gauge(1, 0, [("here", str(tmp_path / "gone"))])
    assert gauge.look() is None
    assert gauge.measure(lambda: False) is None


def test_the_place_is_the_second_name_only_where_most_is_there(tmp_path: Path) -> None:
    for name, kib in (("a/x", 100), ("a/y", 300), ("b/x", 300), ("b/y", 300), ("c", 50)):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "deep\nfile").write_bytes(b"x" * (kib << 10))

    def told() -> str:
        return str(Gauge(1, 0, [("here", str(tmp_path))]).measure(lambda: False))

    assert " are in `b` in here; " in told()
    (tmp_path / "a/y/more").mkdir()
    (tmp_path / "a/y/more/big").write_bytes(b"x" * (900 << 10))
    assert " are in `a/y` in here; " in told()
    (tmp_path / "a/y").rename(tmp_path / "a/\x1b[2Jy")
    assert " are in `a/?[2Jy` in here; " in told()


def test_the_reserve_is_what_is_set_or_a_part_of_a_small_disk(tmp_path: Path) -> None:
    assert reserve_bytes(None, 1 << 40) == 100 << 20
    assert reserve_bytes(None, 50 << 20) == 1 << 20
    assert reserve_bytes(7, 50 << 20) == 7
    assert shortage([str(tmp_path)], 0) is None
    assert shortage([str(tmp_path / "gone")], 1 << 60) is None
    found = shortage([str(tmp_path / "gone"), str(tmp_path)], 1 << 60)
    assert found is not None
    assert (found[0], found[2]) == (str(tmp_path), 1 << 60)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1K"),
        (1536, "1.5K"),
        (20 << 20, "20M"),
        ((1 << 30) + (1 << 29), "1.5G"),
        (1 << 50, "1024T"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert size_words(size) == words
