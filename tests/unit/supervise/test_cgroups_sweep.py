"""Groups of dead nurseries are removed; what others named is none of adw's business."""

from pathlib import Path

from adw.supervise import cgroups


def test_only_groups_of_dead_nurseries_are_swept(tmp_path: Path) -> None:
    for name in ("adw-47", "adw-47-x-1", "adwance", "adw-999999999-1-1"):
        (tmp_path / name).mkdir()
    cgroups.sweep(str(tmp_path))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["adw-47", "adw-47-x-1", "adwance"]
