"""`adw show`."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handed import PLAN, events, hand_over, result
from tests.cli.handmade import COMMIT, ID, call, log, made_run
from tests.cli.test_status import HEAVY, modules
from tests.support.ground import WAIT, Ground, phase
from tests.support.repo import Repo

RECOVERY = {"attempt": 1, "reason": "exit", "action": "retry", "target": None, "detail": None}


@pytest.fixture
def run_dir(repo: Repo) -> Path:
    """A run whose `test` failed twice, with all that such a run leaves."""
    made = made_run(repo, handmade.failed())
    hand_over(made, "plan-1", {"plan": PLAN})
    result(made, "plan-1", summary="planned it", usage={"input_tokens": 7, "cost_usd": 0.25})
    result(made, "test-1", usage={"cost_usd": 0.5, "models": {"a": 1}})
    log(made, "test-2", "stderr.log", b"assert 5 == 6\n")
    held = {
        "attempt": 2,
        "reason": "exit",
        "action": "give_up",
        "target": None,
        "detail": "none left",
    }
    events(
        made,
        ("recovery_decided", "test", "test-1", {**RECOVERY, "action": "wait"}),
        ("recovery_decided", "test", "test-1", RECOVERY),
        ("recovery_decided", "test", "test-2", held),
        ("warning", "test", "test-1", {"detail": "it was loud"}),
    )
    return made


def test_the_whole_run_stands_on_one_page_and_ends_with_one_action(
    repo: Repo, run_dir: Path
) -> None:
    said = call(repo, "show", "@47")

    assert (said.code, said.err) == (0, "")
    updated = "2026-01-02T03:00:00Z"
    assert said.out == (
        f"run {ID} failed\n"
        "  issue     47, Mend it\n"
        "  workflow  w\n"
        f"  branch    bug-47-{ID}-mend-it\n"
        f"  worktree  trees/{ID}\n"
        "  reason    phase `test` failed: exit code 3 (attempt 2)\n"
        f"  updated   {updated}\n"
        "  isolation none (phases run with your rights)\n"
        "\n"
        "Phases\n"
        "  PHASE   STATUS   ATTEMPT  STARTED               TOOK   COMMIT        OUTCOME\n"
        "  plan    done     1        2026-01-02T03:00:01Z  1.5 s  012345678901  done, left plan\n"
        "  test             1        2026-01-02T03:00:01Z  1.5 s  012345678901  exit: exit code 3\n"
        "  test    failed   2        2026-01-02T03:00:02Z  1.5 s  012345678901  exit: exit code 3\n"
        "  commit  pending  -        -                     -      -\n"
        "\n"
        "Said and used\n"
        "  plan-1: planned it; input_tokens 7, cost_usd 0.25\n"
        "  test-1: cost_usd 0.5\n"
        "\n"
        "Handed over\n"
        "  NAME  PATH                           BYTES  PRODUCER  DESCRIPTION\n"
        "  plan  artifacts/plan/plan-1/plan.md  21     plan-1    The plan\n"
        "\n"
        "Decided after failures\n"
        "  test-1: exit, so retry\n"
        "  test-2: exit, so give up (none left)\n"
        "\n"
        "Warnings\n"
        "  test-1: it was loud\n"
        "\n"
        "Look at\n"
        f"  {run_dir}/TASK.md\n"
        f"  {run_dir}/RESPONSE.md\n"
        f"  {run_dir}/children/test-2/TASK.md\n"
        f"  {run_dir}/attempts/test-2/stderr.log\n"
        "\n"
        f"next: adw resume {ID}\n"
    )


@pytest.mark.usefixtures("run_dir")
def test_case_J1_J2_each_attempt_has_its_prompt_reason_time_cost_and_transcript(
    repo: Repo,
) -> None:
    found = call(repo, "show", ID, "--json").json()

    test = next(each for each in found["phases"] if each["phase"] == "test")
    assert test["attempts"] == [
        {
            "attempt": n,
            "child_id": f"test-{n}",
            "success": False,
            "reason": "exit",
            "exit_code": 3,
            "started_at": f"2026-01-02T03:00:0{n}.000000Z",
            "ended_at": f"2026-01-02T03:00:0{n + 1}.500000Z",
            "adopted": False,
            "detail": "exit code 3",
            "duration_s": 1.5,
            "commit": COMMIT,
            "artifacts": [],
            "summary": None,
            "usage": usage,
            "files": [f"children/test-{n}/TASK.md", *more],
        }
        for n, usage, more in (
            (1, {"cost_usd": 0.5, "models": {"a": 1}}, ["children/test-1/result.json"]),
            (2, None, ["attempts/test-2/stderr.log"]),
        )
    ]


@pytest.mark.usefixtures("run_dir")
def test_as_json_it_has_the_documented_shape(repo: Repo) -> None:
    found = call(repo, "show", ID, "--json").json()

    assert list(found) == [
        "schema_version",
        "adw_id",
        "run_dir",
        "workflow",
        "definition",
        "issue_number",
        "title",
        "status",
        "reason",
        "paused",
        "isolation",
        "until",
        "branch",
        "worktree",
        "plan_file",
        "updated_at",
        "phases",
        "earlier",
        "artifacts",
        "recoveries",
        "warnings",
        "look_at",
        "next_action",
    ]
    assert [each["name"] for each in found["artifacts"]] == ["plan"]
    assert [(each["phase"], each["action"]) for each in found["recoveries"]] == [
        ("test", "retry"),
        ("test", "give_up"),
    ]
    assert [each["detail"] for each in found["warnings"]] == ["it was loud"]
    assert found["look_at"][-1] == "attempts/test-2/stderr.log"


def test_a_copy_elsewhere_tells_the_same_without_repository_and_worktree(
    repo: Repo, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = call(repo, "show", ID, "--json").json()
    shutil.copytree(run_dir, tmp_path / "away" / ID)
    shutil.rmtree(run_dir)
    outside = Repo(tmp_path / "nowhere")
    outside.path.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("ADW_AGENTS_DIR", str(tmp_path / "away"))

    there = call(outside, "show", ID, "--json").json()

    assert there.pop("run_dir") == str(tmp_path / "away" / ID)
    del here["run_dir"]
    assert there == here


def test_damaged_files_for_display_are_told_and_harm_nothing(repo: Repo, run_dir: Path) -> None:
    before = call(repo, "show", ID, "--json").json()
    (run_dir / "state/latest.json").write_bytes(b"{torn")
    (run_dir / "artifacts/manifest.json").unlink()
    (run_dir / "children/plan-1/result.json").write_bytes(b"[1, 2")
    (run_dir / "run.json").write_bytes(b"")
    with (run_dir / "state/task_history.jsonl").open("ab") as file:
        file.write(b"\x00\x00\n")

    after = call(repo, "show", ID, "--json").json()

    assert after["title"] is None
    assert (after["artifacts"], after["recoveries"]) == (before["artifacts"], before["recoveries"])
    assert after["phases"][0]["attempts"][0]["usage"] is None
    line = after["warnings"][-1]["detail"]
    assert line.startswith("the history is damaged in line ")


def test_a_damaged_state_is_an_error_that_says_what_to_do(repo: Repo, run_dir: Path) -> None:
    (run_dir / "adw_state.json").write_bytes(b"{torn")

    said = call(repo, "show", ID)

    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f"hint: adw doctor {ID}\n")


@pytest.mark.hostile("H46")
def test_what_strangers_wrote_cannot_steer_the_terminal(repo: Repo, run_dir: Path) -> None:
    info = json.loads((run_dir / "run.json").read_bytes())
    info["issue"]["title"] = "red \x1b[31m\nnext: rm -rf"
    (run_dir / "run.json").write_text(json.dumps(info))
    result(run_dir, "plan-1", summary="\x1b]0;title\x07")

    out = call(repo, "show", ID).out

    assert "\x1b" not in out
    assert "red \\x1b[31m\\nnext: rm -rf\n" in out
    assert [line for line in out.split("\n") if line.startswith("next:")] == [
        f"next: adw resume {ID}"
    ]


def test_a_run_written_elsewhere_is_shown_with_what_it_says(repo: Repo) -> None:
    path = made_run(repo) / "adw_state.json"
    path.write_text(
        f'{{"adw_id": "{ID}", "phase_history": [{{"phase": "plan", "status": "failed",'
        ' "reason": "exit", "attempt": 1}]}'
    )

    said = call(repo, "show", ID)

    assert (said.code, said.err) == (0, "")
    assert "\n  plan   failed  1        -        -     -       exit\n" in said.out


def test_J_1_attempts_of_the_workflow_before_this_one_are_listed_too(repo: Repo) -> None:
    first = [handmade.entry("design", 1, "exit"), handmade.entry("design", 2)]
    run_dir = made_run(repo, [*first, *handmade.done()])
    log(run_dir, "design-1", "stdout.log", b"tried\n")

    found = call(repo, "show", ID, "--json").json()
    page = call(repo, "show", ID).out

    (design,) = found["earlier"]
    assert (design["phase"], design["status"]) == ("design", None)
    assert [(each["child_id"], each["reason"]) for each in design["attempts"]] == [
        ("design-1", "exit"),
        ("design-2", None),
    ]
    assert "attempts/design-1/stdout.log" in design["attempts"][0]["files"]
    assert list(design["attempts"][0]) == list(found["phases"][0]["attempts"][0])
    assert "\n  design           1 " in page
    assert "\n  design  earlier  2 " in page


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(
        tmp_path / "g",
        {
            "a": phase('[ "$ADW_ATTEMPT" = 2 ]', retry={"attempts": 2, "delay": "0s"}),
            "b": phase(f"{WAIT}; false", needs=["a"]),
        },
    )
    yield made
    made.end()


def test_case_J4_a_run_that_lives_and_one_that_failed_have_their_summary(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("b-1", "body")
    alive = call(ground.repo, "show", ground.adw_id, "--json").json()
    ground.go()
    assert run.wait(20) == 1

    page = call(ground.repo, "show", ground.adw_id).out
    failed = call(ground.repo, "show", ground.adw_id, "--json").json()

    assert (alive["status"], alive["next_action"]) == ("running", f"adw watch {ground.adw_id}")
    assert [each["success"] for each in alive["phases"][0]["attempts"]] == [False, True]
    assert alive["phases"][1]["attempts"][0]["duration_s"] is None
    assert failed["status"] == "failed"
    assert f"# Run {ground.adw_id}: failed" in (ground.run_dir / "RESPONSE.md").read_text()
    assert page.startswith(f"run {ground.adw_id} failed\n")
    assert "\n  a-1: exit, so retry" in page
    assert f"\nnext: adw resume {ground.adw_id}\n" in page
    loaded = modules_of(ground, "show", ground.adw_id)
    assert not loaded & (HEAVY | {"pydantic", "pydantic_core"})


def modules_of(ground: Ground, *args: str) -> set[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ground.env.items():
            patch.setenv(name, value)
        return modules(ground.repo, *args)
