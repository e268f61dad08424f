"""`adw doctor --rebuild`, and what `adw doctor` says of files that are derived."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli import handmade
from tests.cli.handed import PLAN, hand_over
from tests.cli.handmade import ID, call, entry, made_run
from tests.support.ground import WAIT, Ground, kill, phase
from tests.support.repo import Repo

DERIVED = ("state/latest.json", "RESPONSE.md", "artifacts/manifest.json")


def findings(repo: Repo) -> list[tuple[str, str, str]]:
    said = call(repo, "doctor", "--json")
    assert (said.code, said.err) == (0, "")
    return [(each["kind"], each["path"], each["detail"]) for each in said.json()["findings"]]


@pytest.fixture
def run_dir(repo: Repo) -> Path:
    """A run that handed over a plan twice; nothing is wrong with it."""
    made = made_run(repo, [entry("plan"), entry("plan", 2), entry("test"), entry("commit")])
    hand_over(made, "plan-1", {"plan": PLAN})
    hand_over(made, "plan-2", {"plan": PLAN})
    return made


class TestFindings:
    @pytest.mark.usefixtures("run_dir")
    def test_where_all_is_well_there_are_none(self, repo: Repo) -> None:
        assert findings(repo) == []

    def test_a_manifest_that_says_something_else(self, repo: Repo, run_dir: Path) -> None:
        path = run_dir / "artifacts/manifest.json"
        for damage in (b"{}\n", b"{torn", b'{"plan": {"path": "../secret"}}\n', None):
            path.unlink()
            if damage is not None:
                path.write_bytes(damage)

            told = "it does not say what the attempts handed over"
            assert findings(repo) == [("derived", str(path), told)]
            if damage is None:
                path.write_bytes(b"")

    def test_a_view_whose_digest_vouches_for_something_else(self, ground: Ground) -> None:
        ground.go()
        ground.adw("run", "w", "47")
        path = ground.run_dir / "state/latest.json"
        view = json.loads(path.read_bytes())
        assert ground_findings(ground) == []
        view["phases"][1]["attempts"][0]["reason"] = "timeout"
        path.write_text(json.dumps(view))

        told = "it says something else than the state that it names"
        assert ground_findings(ground) == [("derived", str(path), told)]
        path.write_bytes(b"\x00")
        assert ground_findings(ground) == [("derived", str(path), "it cannot be read")]

    def test_copies_that_are_gone_or_changed(self, repo: Repo, run_dir: Path) -> None:
        path = run_dir / "artifacts/plan/plan-2/plan.md"
        path.write_bytes(PLAN.upper())
        changed = findings(repo)
        path.unlink()
        missing = findings(repo)

        assert changed == [
            ("artifact", str(path), "the copy of `plan` has changed since it was made")
        ]
        assert missing == [("artifact", str(path), "the copy of `plan` is missing")]

    def test_copies_that_no_success_stands_behind(self, repo: Repo, run_dir: Path) -> None:
        folder = run_dir / "artifacts"
        (folder / "plan/plan-7").mkdir()
        (folder / "notes.txt").write_bytes(b"mine")

        assert findings(repo) == [
            ("leftover", f"{folder}/notes.txt", "a file that is no copy"),
            (
                "leftover",
                f"{folder}/plan/plan-7",
                "a copy that no attempt which succeeded has handed over",
            ),
        ]

    def test_of_a_run_that_is_driven_nothing_is_said(self, repo: Repo, run_dir: Path) -> None:
        (run_dir / "artifacts/manifest.json").unlink()

        with handmade.held(run_dir):
            assert findings(repo) == []


def ground_findings(ground: Ground) -> list[tuple[str, str, str]]:
    return findings(ground.repo)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    plan = {"path": "plan.md", "root": "artifacts", "description": "The plan"}
    made = Ground(
        tmp_path / "g",
        {
            "a": phase('echo planned > "$ADW_ARTIFACTS/plan.md"', outputs={"plan": plan}),
            "b": phase(f"{WAIT}; false", needs=["a"]),
        },
    )
    yield made
    made.end()


def content(run_dir: Path) -> dict[str, Any]:
    """What is derived, without the instant of its writing."""
    paths = [*(run_dir / name for name in DERIVED), *run_dir.glob("children/*/RESPONSE.md")]
    found: dict[str, Any] = {str(p.relative_to(run_dir)): p.read_bytes() for p in paths}
    view = json.loads(found["state/latest.json"])
    del view["updated_at"]
    return found | {"state/latest.json": view}


@pytest.mark.sweep
def test_case_B27_FS_17_all_that_is_derived_is_made_again_equal(ground: Ground) -> None:
    ground.go()
    assert ground.adw("run", "w", "47").exit_code == 1
    before, adw_id = content(ground.run_dir), ground.adw_id
    state = (ground.run_dir / "adw_state.json").read_bytes()
    for name in (*DERIVED, "children/a-1/RESPONSE.md", "children/b-1/RESPONSE.md"):
        (ground.run_dir / name).unlink()
    (ground.run_dir / "state/task_history.jsonl").unlink()

    done = ground.ok("doctor", "--rebuild", adw_id)

    assert content(ground.run_dir) == before
    assert done.stdout == (
        "wrote RESPONSE.md\n"
        "wrote artifacts/manifest.json\n"
        "wrote children/a-1/RESPONSE.md\n"
        "wrote children/b-1/RESPONSE.md\n"
        "wrote state/latest.json\n" + done.stdout.partition("state/latest.json\n")[2]
    )
    assert "events that the history had lost\n" in done.stdout
    completed = ground.events("child_completed")
    assert [(e["child_id"], e["recovered"]) for e in completed] == [("a-1", True), ("b-1", True)]
    assert (ground.run_dir / "adw_state.json").read_bytes() == state
    assert ground.ok("doctor", "--rebuild", adw_id).stdout == (
        f"all that is derived of run {adw_id} was as it should be\n"
    )


@pytest.mark.sweep
def test_case_B27_a_run_is_resumed_by_its_id_from_its_truth_alone(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("b-1", "body")
    kill(run.pid)
    adw_id = ground.adw_id
    ground.go()
    for name in (*DERIVED, "state/task_history.jsonl"):
        (ground.run_dir / name).unlink(missing_ok=True)
    shutil.rmtree(ground.run_dir / "children/a-1/artifacts")

    assert [run["adw_id"] for run in ground.status()["runs"]] == [adw_id]
    resumed = ground.adw("resume", adw_id)

    assert resumed.exit_code == 1, "b fails, as it always would have"
    assert ground.ran("a") == ["a-1"], "what had succeeded is kept"
    manifest = json.loads((ground.run_dir / "artifacts/manifest.json").read_bytes())
    assert manifest["plan"]["producer"] == "a-1"
    assert f"# Run {adw_id}: failed" in (ground.run_dir / "RESPONSE.md").read_text()


def test_case_A13_what_one_command_changed_all_others_say(ground: Ground) -> None:
    ground.go()
    ground.adw("run", "w", "47")
    adw_id = ground.adw_id

    ground.ok("state", "set", adw_id, "plan_file=specs/x.md")

    def said(*words: str) -> Any:
        return call(ground.repo, *words, adw_id, "--json").json()

    assert call(ground.repo, "state", "get", adw_id, "plan_file").out == "specs/x.md\n"
    assert said("status")["state"]["plan_file"] == "specs/x.md"
    assert said("show")["plan_file"] == "specs/x.md"
    assert said("history")["events"][-1]["event"] == "request_applied"
    # Now by hand, behind adw's back, and with a view that nobody has made again.
    path = ground.run_dir / "adw_state.json"
    path.write_bytes(path.read_bytes().replace(b"specs/x.md", b"specs/y.md"))
    assert call(ground.repo, "state", "get", adw_id, "plan_file").out == "specs/y.md\n"
    assert said("status")["state"]["plan_file"] == "specs/y.md"
    assert said("show")["plan_file"] == "specs/y.md"
    assert [said(name)["status"] for name in ("status", "why", "show")] == ["failed"] * 3


def test_a_lying_view_is_not_believed_by_a_rebuild(ground: Ground) -> None:
    ground.go()
    ground.adw("run", "w", "47")
    before = content(ground.run_dir)
    path = ground.run_dir / "state/latest.json"
    view = json.loads(path.read_bytes())
    view["phases"][0]["attempts"] = []
    path.write_text(json.dumps(view))

    said = ground.ok("doctor", ground.adw_id, "--rebuild", "--json")

    assert json.loads(said.stdout) == {
        "schema_version": 1,
        "adw_id": ground.adw_id,
        "written": ["state/latest.json"],
        "recovered_events": 0,
    }
    assert content(ground.run_dir) == before


@pytest.mark.sweep
def test_a_paused_run_stays_paused(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "p", {"b": phase(WAIT), "c": phase("true", needs=["b"])})
    try:
        run = ground.start("run", "w", "47")
        ground.await_line("b-1", "body")
        ground.ok("pause", ground.adw_id)
        ground.go()
        assert run.wait(20) == 6
        assert is_paused(ground)

        ground.ok("doctor", "--rebuild", ground.adw_id)
        assert is_paused(ground)
        ground.ok("state", "set", ground.adw_id, "issue_class=chore")
        assert is_paused(ground)
        ground.ok("resume", ground.adw_id)
        assert not is_paused(ground)
    finally:
        ground.end()


def is_paused(ground: Ground) -> object:
    return call(ground.repo, "status", ground.adw_id, "--json").json()["paused"]


def test_a_run_that_is_driven_is_not_rebuilt(repo: Repo, run_dir: Path) -> None:
    before = (run_dir / "artifacts/manifest.json").read_bytes()

    with handmade.held(run_dir):
        said = call(repo, "doctor", "--rebuild", ID)

    assert said.code == 5
    assert said.err.startswith(f"error: run `{ID}` is in use by ")
    assert (run_dir / "artifacts/manifest.json").read_bytes() == before


REFUSED: list[tuple[tuple[str, ...], Callable[[str], bool]]] = [
    (
        ("--rebuild",),
        lambda err: err == "error: `--rebuild` needs an ID\n  hint: adw doctor --rebuild ID\n",
    ),
    (
        ("--rebuild", "--restore", ID),
        lambda err: err.startswith("error: `--restore` and `--rebuild` are two things\n"),
    ),
]


@pytest.mark.parametrize(("words", "fits"), REFUSED)
def test_what_makes_no_sense_is_refused(
    repo: Repo, words: tuple[str, ...], fits: Callable[[str], bool]
) -> None:
    made_run(repo)

    said = call(repo, "doctor", *words)

    assert (said.code, said.out) == (2, "")
    assert fits(said.err)


def test_a_damaged_state_has_nothing_to_derive_from(repo: Repo, run_dir: Path) -> None:
    (run_dir / "adw_state.json").write_bytes(b"{torn")

    said = call(repo, "doctor", "--rebuild", ID)

    assert said.code == 2
    assert "is not a valid state file" in said.err


@pytest.mark.sweep
def test_a_rebuild_that_was_killed_anywhere_is_finished_by_the_next(ground: Ground) -> None:
    ground.go()
    ground.adw("run", "w", "47")
    before, fired = content(ground.run_dir), []
    points = ("publish.before", "manifest.written", "history.written", "latest.written")
    for point in (*points, "response.written"):
        for name in DERIVED:
            (ground.run_dir / name).unlink()
        done = ground.adw("doctor", "--rebuild", ground.adw_id, ADW_FAILPOINT=point)
        fired.append(done.exit_code)

        ground.ok("doctor", "--rebuild", ground.adw_id)

        assert content(ground.run_dir) == before, point
    assert fired == [-9] * 5, "every point is reached"
