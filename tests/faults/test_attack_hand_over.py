"""What a phase, a person or a crash may do to the files that hand a run over, and what then holds."""

import json
import os
from pathlib import Path

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import phase

FOLDERS = ("artifacts", "children")


# --- links in place of folders: nothing outside is swept or written -----------------------


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_link_in_place_of_a_folder_stops_the_run_and_harms_nothing_outside(
    make_ground: MakeGround, tmp_path: Path, folder: str
) -> None:
    """H18: a resume swept what lay behind the link, and a boundary wrote there."""
    outside = tmp_path / "outside"
    precious = {"some/work-1/file", "notes/file", "build-7/file", "manifest.json", "latest.json"}
    for name in precious:
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("precious")
    text = f'mv "$ADW_STATE_ROOT/{folder}" "$GROUND/kept"; ln -s "$GROUND/out" "$ADW_STATE_ROOT/{folder}"'
    ground = make_ground(
        {
            "build": phase("echo x > x", outputs={"x": {"path": "x"}}),
            "rob": phase(text, needs=["build"]),
        }
    )
    (ground.base / "out").symlink_to(outside)

    done = ground.adw("run", "w", "47")
    again = ground.adw("resume", ground.adw_id)
    rebuilt = ground.adw("doctor", "--rebuild", ground.adw_id)

    for each in (done, again, rebuilt):
        assert each.exit_code == 4, each.told()
        assert f"{folder}`: a symbolic link stands in place of the folder" in each.stderr
    found = {path.relative_to(outside).as_posix() for path in outside.rglob("*") if path.is_file()}
    assert found == precious
    assert all((outside / name).read_text() == "precious" for name in precious)

    (ground.run_dir / folder).unlink()
    (ground.base / "kept").rename(ground.run_dir / folder)
    ground.ok("resume", ground.adw_id)
    assert ground.ran("rob") == ["rob-1"]


def test_a_folder_that_a_phase_made_among_the_packets_is_left_alone(
    make_ground: MakeGround,
) -> None:
    """What is no packet by its name is somebody's own."""
    ground = make_ground({"build": phase('mkdir "$ADW_STATE_ROOT/children/notes"; exit 1')})
    ground.adw("run", "w", "47")

    ground.adw("resume", ground.adw_id)

    assert (ground.run_dir / "children" / "notes").is_dir()


@pytest.mark.parametrize("name", ["RESPONSE.md", "state/latest.json", "artifacts/manifest.json"])
def test_a_directory_in_place_of_a_derived_file_stops_nothing(
    make_ground: MakeGround, name: str
) -> None:
    """It is kept aside, and the file is written."""
    text = f'rm -f "$ADW_STATE_ROOT/{name}"; mkdir "$ADW_STATE_ROOT/{name}"; echo x > x'
    ground = make_ground({"build": phase(text, outputs={"x": {"path": "x"}})})

    ground.ok("run", "w", "47")

    assert (ground.run_dir / name).is_file()
    manifest = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert list(manifest) == ["x"]
    beside = os.listdir((ground.run_dir / name).parent)
    assert any(each.endswith(".dir") for each in beside), beside


def test_a_directory_with_the_name_of_a_temporary_file_stops_no_resume(
    make_ground: MakeGround,
) -> None:
    """Only files are swept."""
    text = 'mkdir "$ADW_STATE_ROOT/.x.tmp"; test -e "$GROUND/go"'
    ground = make_ground({"build": phase(text)})
    ground.adw("run", "w", "47")
    ground.go()
    (ground.run_dir / ".x.tmp").mkdir(exist_ok=True)

    done = ground.adw("resume", ground.adw_id)

    assert "Is a directory" not in done.stderr
