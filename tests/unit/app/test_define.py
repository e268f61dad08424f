"""Definitions: pinned with their skills, read back without the files, and checked for inputs."""

import json
from pathlib import Path

import pytest

from adw.app import define
from adw.app.define import Missing, missing_inputs
from adw.core.cut import cut
from adw.core.graph import Output, Phase, Repair
from adw.errors import BrokenRun, UsageError
from adw.loader import load_bytes
from adw.model.snapshot import make_snapshot
from adw.store import definitions
from tests.unit.core.histories import graph

SKILLED = b"""\
name: w
phases:
  a: {run: x, skill: skills/a.md}
  b: {run: x, needs: [a], skill: skills/b.md}
"""
SKILLS = {"skills/a.md": b"You build.", "skills/b.md": b"You review.\xc3\xbc"}


def pinned(run_dir: Path, source: bytes, skills: dict[str, bytes]) -> define.Definition:
    (run_dir / "definitions").mkdir(exist_ok=True)
    loaded = load_bytes(source, "w.yaml", skills)
    definition, snapshot = define.pin(loaded, {}, {"only": None, "until": None})
    definitions.save_definition(str(run_dir), snapshot)
    define.keep(str(run_dir), definition)
    return definition


def test_a_definition_is_the_same_from_the_file_the_derived_form_and_the_pin(
    tmp_path: Path,
) -> None:
    first = pinned(tmp_path, SKILLED, SKILLS)

    assert define.load(str(tmp_path), first.workflow) == first
    (tmp_path / "definitions" / f"{first.id}.graph.json").unlink()
    assert define.load(str(tmp_path), first.workflow) == first


def test_a_skill_comes_from_the_pin_alone(tmp_path: Path) -> None:
    first = pinned(tmp_path, SKILLED, SKILLS)

    assert first.resource(str(tmp_path), "skills/b.md") == b"You review.\xc3\xbc"
    derived = (tmp_path / "definitions" / f"{first.id}.graph.json").read_bytes()
    assert b"You review" not in derived
    assert set(json.loads(derived)["skills"]) == set(SKILLS)
    with pytest.raises(BrokenRun) as caught:
        first.resource(str(tmp_path), "skills/c.md")
    assert "it has no skill `skills/c.md`" in caught.value.render()


def test_another_text_of_a_skill_is_another_definition_that_a_path_alone_is_not(
    tmp_path: Path,
) -> None:
    first = pinned(tmp_path, SKILLED, SKILLS)
    other = pinned(tmp_path, SKILLED, {**SKILLS, "skills/a.md": b"You build well."})

    assert first.id != other.id
    digests = [{n: p.digest for n, p in d.full.phases.items()} for d in (first, other)]
    assert digests[0]["a"] != digests[1]["a"]
    assert digests[0]["b"] == digests[1]["b"]


def test_a_workflow_without_skills_is_pinned_as_ever(tmp_path: Path) -> None:
    """Its id must not change with the version of adw: runs would see a changed definition."""
    source = b"name: w\nphases: {a: {run: x}}\n"
    expected = make_snapshot(
        "adw-workflow",
        {"command": ["command.json"], "config": ["config.json"], "workflow": ["workflow/*"]},
        {
            "workflow/w.yaml": source,
            "config.json": b"{}",
            "command.json": b'{"only":null,"path":"w.yaml","until":null}',
        },
    )

    assert pinned(tmp_path, source, {}).id == expected.id


def test_a_pin_that_lacks_a_skill_is_broken_and_not_filled_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a.md").write_text("not this one")
    snapshot = definitions.make_definition("w.yaml", SKILLED, {}, {}, {})
    definitions.save_definition(str(tmp_path), snapshot)

    with pytest.raises(BrokenRun) as caught:
        define.load(str(tmp_path), f"w@{snapshot.id}")

    assert "it has no skill `skills/a.md`" in caught.value.render()


# --- inputs that nothing would bring -----------------------------------------------------

SHAPE = graph(
    Phase("plan", outputs=(Output("plan", "x"), Output("notes", "y"))),
    Phase("build", needs=("plan",), inputs=("plan",), outputs=(Output("report", "z"),)),
    Phase("test", needs=("build",), inputs=("plan", "report"), repair=Repair("fix", 1)),
    Phase("fix", inputs=("notes",)),
)


@pytest.mark.parametrize(
    ("command", "have", "missing"),
    [
        ({}, set(), []),
        ({"until": "test"}, set(), []),
        ({"until": "build"}, set(), []),
        ({"only": "plan"}, set(), []),
        ({"only": "build"}, set(), [Missing("build", "plan", "plan")]),
        ({"only": "build"}, {"plan"}, []),
        (
            {"only": "test"},
            {"notes"},
            [Missing("test", "plan", "plan"), Missing("test", "report", "build")],
        ),
        ({"only": "test"}, {"plan"}, [Missing("test", "report", "build")]),
        ({"only": "fix"}, {"plan"}, [Missing("fix", "notes", "plan")]),
    ],
)
def test_an_input_is_missing_where_neither_the_run_nor_the_command_brings_it(
    command: dict[str, str], have: set[str], missing: list[Missing]
) -> None:
    assert missing_inputs(SHAPE, cut(SHAPE, command), have) == missing


@pytest.mark.parametrize(
    ("only", "told", "hint"),
    [
        ("build", "`build` reads the output `plan` of `plan`", "adw run w 47 --until build"),
        ("fix", "`fix` reads the output `notes` of `plan`", "adw run w 47 --until test"),
    ],
)
def test_it_is_refused_with_a_command_that_brings_it(only: str, told: str, hint: str) -> None:
    command = {"only": only}
    definition = define.Definition("0" * 64, cut(SHAPE, command), SHAPE, {}, command, "")

    with pytest.raises(UsageError) as caught:
        define.refuse_missing_inputs(definition, None, "adw run w 47")

    assert caught.value.render() == (f"error: {told}, which the run does not have\n  hint: {hint}")
