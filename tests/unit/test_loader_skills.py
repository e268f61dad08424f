"""Role instructions that a workflow names: where they may lie, what they may be, what they change."""

import json
import os
from pathlib import Path

import pytest

from adw.core.graph import to_json
from adw.errors import WorkflowError
from adw.loader import load_bytes, load_workflow, validate_file

SKILLED = "name: w\nphases:\n  a: {run: x, skill: skills/a.md}\n  b: {run: x}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workflows" / "skills").mkdir(parents=True)
    (tmp_path / "workflows" / "w.yaml").write_text(SKILLED, encoding="utf-8")
    (tmp_path / "workflows" / "skills" / "a.md").write_bytes(b"You review.\r\n")
    return tmp_path / "workflows"


def test_a_skill_is_read_from_the_workflows_folder_to_the_byte(folder: Path) -> None:
    found = load_workflow(str(folder / "w.yaml"))

    assert found.resources == {"skills/a.md": b"You review.\r\n"}
    assert found.graph.phases["a"].skill == "skills/a.md"
    assert "You review" not in json.dumps(to_json(found.graph))
    assert validate_file(str(folder / "w.yaml")) == []


def test_a_skill_counts_in_the_digest_by_what_it_says() -> None:
    def digests(path: str, text: bytes) -> list[str]:
        data = SKILLED.replace("skills/a.md", path).encode()
        phases = load_bytes(data, "w.yaml", {path: text}).graph.phases
        return [phases[name].digest for name in ("a", "b")]

    first = digests("skills/a.md", b"You review.")

    assert digests("roles/b.md", b"You review.") == first
    assert digests("skills/a.md", b"You build.")[0] != first[0]
    assert digests("skills/a.md", b"You build.")[1] == first[1]


def test_a_pinned_skill_is_taken_and_no_file_is_looked_at() -> None:
    found = load_bytes(SKILLED.encode(), "/nowhere/w.yaml", {"skills/a.md": b"Pinned."})

    assert found.resources == {"skills/a.md": b"Pinned."}


def test_a_link_to_a_skill_may_stay_in_the_folder_and_not_lead_out(
    folder: Path, tmp_path: Path
) -> None:
    real = folder / "skills" / "a.md"
    real.rename(folder / "skills" / "real.md")
    real.symlink_to("real.md")
    assert load_workflow(str(folder / "w.yaml")).resources["skills/a.md"] == b"You review.\r\n"

    (tmp_path / "secret").write_text("hush", encoding="utf-8")
    real.unlink()
    real.symlink_to("../../secret")
    with pytest.raises(WorkflowError) as caught:
        load_workflow(str(folder / "w.yaml"))
    assert caught.value.message == (
        "`skills/a.md` is a symbolic link that leads out of the workflow file's folder"
    )

    real.unlink()
    (folder / "skills").rename(tmp_path / "moved")
    (tmp_path / "moved" / "a.md").write_text("hush", encoding="utf-8")
    (folder / "skills").symlink_to(tmp_path / "moved")
    with pytest.raises(WorkflowError):
        load_workflow(str(folder / "w.yaml"))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "`skills/a.md` is empty"),
        (b" \n\t\n", "`skills/a.md` is empty"),
        (b"ab\xff", "`skills/a.md` is not UTF-8: byte 0xff at 2"),
        (b"x" * (256 * 1024 + 1), "cannot read `skills/a.md`: larger than 262144 bytes"),
    ],
)
def test_a_file_that_is_no_skill_is_refused_with_its_place(
    folder: Path, data: bytes, told: str
) -> None:
    (folder / "skills" / "a.md").write_bytes(data)

    (error,) = validate_file(str(folder / "w.yaml"))

    assert (error.message, error.fields["line"], error.fields["column"]) == (told, 3, 22)
    with pytest.raises(WorkflowError) as caught:
        load_workflow(str(folder / "w.yaml"))
    assert caught.value.message == told


def test_a_fifo_or_folder_in_place_of_a_skill_is_refused_at_once(folder: Path) -> None:
    (folder / "skills" / "a.md").unlink()
    os.mkfifo(folder / "skills" / "a.md")
    (error,) = validate_file(str(folder / "w.yaml"))
    assert error.message == "cannot read `skills/a.md`: not a regular file"

    (folder / "skills" / "a.md").unlink()
    (folder / "skills" / "a.md").mkdir()
    (error,) = validate_file(str(folder / "w.yaml"))
    assert error.message == "cannot read `skills/a.md`: not a regular file"


def test_a_skill_of_the_largest_size_is_taken(folder: Path) -> None:
    (folder / "skills" / "a.md").write_bytes(b"x" * (256 * 1024))

    assert len(load_workflow(str(folder / "w.yaml")).resources["skills/a.md"]) == 256 * 1024
