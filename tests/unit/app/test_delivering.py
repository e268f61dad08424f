"""Deliverables in the folder for output: exact, idempotent, and never the run's undoing."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from adw.app.delivering import deliver
from adw.store import files

ADW_ID = "cc73faf1"


class Delivery:
    """A run that hands files over, and the folder for output."""

    def __init__(self, base: Path) -> None:
        self.run_dir = base / "agents" / ADW_ID
        self.output = base / "out"
        self.target = self.output / "artifacts" / ADW_ID
        self.manifest: dict[str, dict[str, Any]] = {}

    def hand_over(self, name: str, data: bytes, file: str = "x.md", child: str = "a-1") -> Path:
        path = f"artifacts/{name}/{child}/{file}"
        copy = self.run_dir / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        self.manifest[name] = {"path": path, "size_bytes": len(data), "sha256": sha256}
        return copy

    def deliver(self) -> list[str]:
        return deliver(str(self.run_dir), self.manifest, str(self.output))

    def there(self) -> dict[str, bytes]:
        found = (path for path in self.target.rglob("*") if path.is_file())
        return {str(path.relative_to(self.target)): path.read_bytes() for path in found}


@pytest.fixture
def delivery(tmp_path: Path) -> Delivery:
    return Delivery(tmp_path)


def test_FS_19_each_is_copied_under_its_logical_name(delivery: Delivery) -> None:
    delivery.hand_over("plan", b"plan\n", "specs.md")
    delivery.hand_over("report", b"x" * (3 << 20), "r.json")

    assert delivery.deliver() == []

    assert delivery.there() == {"plan/specs.md": b"plan\n", "report/r.json": b"x" * (3 << 20)}
    mode = (delivery.target / "plan/specs.md").stat().st_mode
    assert mode & 0o044, "others may read it, unlike the run's own files"


def test_a_second_time_changes_nothing(delivery: Delivery) -> None:
    delivery.hand_over("plan", b"plan\n")
    delivery.deliver()
    path = delivery.target / "plan/x.md"
    before = path.stat()

    assert delivery.deliver() == []

    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_changed_is_replaced_and_what_is_not_named_any_more_is_removed(
    delivery: Delivery,
) -> None:
    delivery.hand_over("plan", b"first\n", "a.md")
    delivery.hand_over("old", b"old\n")
    delivery.deliver()
    delivery.hand_over("plan", b"again\n", "b.md", child="a-2")
    del delivery.manifest["old"]
    (delivery.target / "stray").write_bytes(b"")

    assert delivery.deliver() == []

    assert delivery.there() == {"plan/b.md": b"again\n"}
    assert not (delivery.target / "old").exists()


def test_one_that_was_spoilt_where_it_lies_is_delivered_again(delivery: Delivery) -> None:
    delivery.hand_over("plan", b"plan\n")
    delivery.deliver()
    (delivery.target / "plan/x.md").write_bytes(b"PLAN\n")

    assert delivery.deliver() == []

    assert delivery.there() == {"plan/x.md": b"plan\n"}


def test_other_runs_are_left_alone(delivery: Delivery) -> None:
    other = delivery.output / "artifacts" / "dd01aa22" / "plan" / "x.md"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"theirs")
    delivery.hand_over("plan", b"plan\n")

    delivery.deliver()
    delivery.manifest.clear()
    delivery.deliver()

    assert other.read_bytes() == b"theirs"
    assert delivery.there() == {}


def test_a_run_that_handed_nothing_over_makes_no_folder(delivery: Delivery) -> None:
    assert delivery.deliver() == []
    assert not delivery.output.exists()


def test_a_copy_that_has_changed_is_told_and_what_was_delivered_stays(delivery: Delivery) -> None:
    copy = delivery.hand_over("plan", b"plan\n")
    delivery.deliver()
    (delivery.target / "plan/x.md").write_bytes(b"older")
    copy.write_bytes(b"evil\n")

    told = delivery.deliver()

    assert told == [f"plan is not delivered: `{copy}`: it is not what was handed over"]
    assert delivery.there() == {"plan/x.md": b"older"}


def test_a_link_in_place_of_a_copy_is_not_followed(delivery: Delivery, tmp_path: Path) -> None:
    copy = delivery.hand_over("plan", b"plan\n")
    secret = tmp_path / "secret"
    secret.write_bytes(b"plan\n")
    copy.unlink()
    copy.symlink_to(secret)

    (told,) = delivery.deliver()

    assert told.startswith(f"plan is not delivered: `{copy}`: ")
    assert delivery.there() == {}


def test_what_was_too_large_to_be_copied_is_told(delivery: Delivery) -> None:
    delivery.manifest["dump"] = {"path": None, "source": "big.bin", "size_bytes": 1, "sha256": ""}

    assert delivery.deliver() == [
        "dump is not delivered: it was too large to be copied, see `big.bin`"
    ]


@pytest.mark.hostile("H18")
def test_H18_a_record_that_leads_elsewhere_is_not_followed(
    delivery: Delivery, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    path = os.path.relpath(secret, delivery.run_dir)
    entry = {"size_bytes": 6, "sha256": hashlib.sha256(b"secret").hexdigest()}
    delivery.manifest["plan"] = {**entry, "path": path}
    delivery.hand_over("plain", b"plain")
    delivery.manifest["../up"] = delivery.manifest.pop("plain")

    told = delivery.deliver()

    assert [line.partition(": ")[2] for line in told] == [
        "somebody else changed the record of it"
    ] * 2
    assert delivery.there() == {}
    assert not (delivery.output / "artifacts" / "up").exists()


def test_a_folder_that_cannot_be_made_is_told_for_each(delivery: Delivery) -> None:
    delivery.output.write_bytes(b"a file")
    delivery.hand_over("plan", b"plan\n")
    delivery.hand_over("report", b"{}\n")

    told = delivery.deliver()

    assert [line.partition(":")[0] for line in told] == [
        "plan is not delivered",
        "report is not delivered",
    ]


def test_a_full_disk_at_any_write_leaves_no_half_file(
    delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery.hand_over("plan", b"x" * (3 << 20))
    real, left = files.write_all, [0]

    def full(fd: int, data: bytes) -> None:
        if not left[0]:
            raise OSError(28, "No space left on device", os.readlink(f"/proc/self/fd/{fd}"))
        left[0] -= 1
        real(fd, data)

    monkeypatch.setattr(files, "write_all", full)
    for writes in range(3):
        left[0] = writes
        (told,) = delivery.deliver()
        assert told.endswith("No space left on device")
        assert delivery.there() == {}
    left[0] = 3
    assert delivery.deliver() == []
    assert delivery.there() == {"plan/x.md": b"x" * (3 << 20)}


@pytest.mark.parametrize("name", ["artifacts/cc73faf1", "artifacts/cc73faf1/plan"])
def test_case_H18_nothing_behind_a_link_is_replaced_or_removed(
    delivery: Delivery, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "precious"
    outside.mkdir()
    for each in ("note", "x.md", ".x.tmp"):
        (outside / each).write_bytes(b"precious")
    link = delivery.output / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    delivery.hand_over("plan", b"plan\n")

    told = delivery.deliver()

    assert told
    assert all("is a link" in line for line in told)
    assert sorted(os.listdir(outside)) == [".x.tmp", "note", "x.md"]
    assert (outside / "x.md").read_bytes() == b"precious"
