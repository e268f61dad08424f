"""`adw artifacts`."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handed import AT, PLAN, hand_over
from tests.cli.handmade import ID, call, made_run
from tests.cli.test_status import HEAVY, modules
from tests.support.repo import Repo

SHA = hashlib.sha256(PLAN).hexdigest()


@pytest.fixture
def run_dir(repo: Repo) -> Path:
    made = made_run(repo, handmade.done())
    hand_over(made, "plan-1", {"plan": PLAN})
    hand_over(made, "test-1", {"report": b"{}\n"})
    return made


@pytest.mark.usefixtures("run_dir")
def test_a_table_names_each_with_its_producer(repo: Repo) -> None:
    said = call(repo, "artifacts", "@47")

    assert (said.code, said.err) == (0, "")
    first, second = "artifacts/plan/plan-1/plan.md", "artifacts/report/test-1/report.md"
    assert said.out == (
        "NAME    PATH                               BYTES  PRODUCER  CREATED               DESCRIPTION\n"
        f"plan    {first}      21     plan-1    2026-01-02T03:00:07Z  The plan\n"
        f"report  {second}  3      test-1    2026-01-02T03:00:07Z  The report\n"
    )


def test_where_nothing_was_handed_over_it_says_so(repo: Repo) -> None:
    made_run(repo)

    assert call(repo, "artifacts", ID).out == "no phase has handed anything over\n"


def test_as_json_it_has_the_documented_shape(repo: Repo, run_dir: Path) -> None:
    said = call(repo, "artifacts", ID, "--json")

    assert (said.code, said.err) == (0, "")
    found = said.json()
    assert list(found) == ["schema_version", "adw_id", "run_dir", "artifacts"]
    assert found["artifacts"][0] == {
        "name": "plan",
        "path": "artifacts/plan/plan-1/plan.md",
        "description": "The plan",
        "producer": "plan-1",
        "created_at": AT,
        "root": "artifacts",
        "source": "plan.md",
        "size_bytes": len(PLAN),
        "sha256": SHA,
        "copied": True,
        "file": str(run_dir / "artifacts/plan/plan-1/plan.md"),
    }


def test_with_a_name_it_prints_the_path_and_nothing_else(repo: Repo, run_dir: Path) -> None:
    said = call(repo, "artifacts", ID, "plan")

    path = run_dir / "artifacts" / "plan" / "plan-1" / "plan.md"
    assert (said.code, said.out, said.err) == (0, f"{path}\n", "")
    path.unlink()
    assert call(repo, "artifacts", ID, "plan").err == f"`{path}` does not exist any more\n"


@pytest.mark.usefixtures("run_dir")
def test_an_unknown_name_is_refused_with_the_nearest(repo: Repo) -> None:
    said = call(repo, "artifacts", ID, "plam")

    assert (said.code, said.out) == (2, "")
    assert said.err == "error: unknown artifact `plam`\n  hint: did you mean `plan`?\n"


def test_verify_tells_what_is_no_longer_what_was_handed_over(repo: Repo, run_dir: Path) -> None:
    (run_dir / "artifacts/plan/plan-1/plan.md").write_bytes(PLAN.upper())
    (run_dir / "children/test-1/artifacts/report.md").unlink()

    said = call(repo, "artifacts", ID, "--verify", "--json")

    assert said.code == 0, "a reading command"
    assert [each["verified"] for each in said.json()["artifacts"]] == [
        {"copy": "changed", "source": "ok"},
        {"copy": "ok", "source": "missing"},
    ]
    table = call(repo, "artifacts", ID, "--verify").out.split("\n")
    assert [line.split()[5:7] for line in table[:3]] == [
        ["COPY", "SOURCE"],
        ["changed", "ok"],
        ["ok", "missing"],
    ]


def test_a_source_in_the_worktree_is_looked_at_there(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.done())
    hand_over(run_dir, "plan-1", {"plan": PLAN}, root="worktree")

    def source() -> object:
        (found,) = call(repo, "artifacts", ID, "--verify", "--json").json()["artifacts"]
        return found["verified"]["source"]

    assert source() is None, "there is no worktree"
    tree = repo.path / "trees" / ID
    tree.mkdir(parents=True)
    assert source() == "missing"
    (tree / "plan.md").write_bytes(PLAN)
    assert source() == "ok"
    (tree / "plan.md").unlink()
    (tree / "plan.md").symlink_to(run_dir / "artifacts/plan/plan-1/plan.md")
    assert source() == "changed", "a link is not the file that was handed over"


def test_FS_15_the_latest_success_of_a_phase_counts_and_the_file_is_not_believed(
    repo: Repo,
) -> None:
    run_dir = made_run(repo, [handmade.entry("plan"), handmade.entry("plan", 2)])
    hand_over(run_dir, "plan-1", {"plan": PLAN})
    hand_over(run_dir, "plan-2", {"plan": b"second\n"})
    (run_dir / "artifacts/manifest.json").write_text(json.dumps({"plan": "a lie"}))

    (found,) = call(repo, "artifacts", ID, "--json").json()["artifacts"]

    assert (found["producer"], found["size_bytes"]) == ("plan-2", 7)


def test_a_run_that_was_copied_away_is_read_without_its_repository(
    repo: Repo, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    shutil.copytree(run_dir, away / ID)
    shutil.rmtree(run_dir)
    outside = Repo(tmp_path / "nowhere")
    outside.path.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("ADW_AGENTS_DIR", str(away))

    for place in (repo, outside):
        found = call(place, "artifacts", ID, "plan")
        assert (found.code, found.err) == (0, "")
        assert Path(found.out.strip()).read_bytes() == PLAN
    assert call(outside, "status", ID).out.startswith(f"run {ID} succeeded\n")
    refused = call(outside, "resume", ID)
    assert (refused.code, "not a git repository" in refused.err) == (2, True)


@pytest.mark.hostile("H46")
def test_names_of_strangers_cannot_steer_the_terminal(repo: Repo, run_dir: Path) -> None:
    path = run_dir / "attempts/plan-1/attempt.jsonl"
    path.write_bytes(path.read_bytes().replace(b"The plan", b"\\u001b[31mred"))

    out = call(repo, "artifacts", ID).out

    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


@pytest.mark.usefixtures("run_dir")
def test_it_loads_nothing_heavy(repo: Repo) -> None:
    loaded = modules(repo, "artifacts", ID)

    assert not loaded & (HEAVY | {"pydantic", "pydantic_core"})
