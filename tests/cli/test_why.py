"""`adw why`."""

from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, call, entry, log, made_run
from tests.support.repo import Repo


@pytest.fixture
def run_dir(repo: Repo) -> Path:
    made = made_run(repo, handmade.failed())
    log(made, "test-2", "stdout.log", b"collected 3 tests\n")
    log(made, "test-2", "stderr.log", b"first\n\tassert 5 == 6\n\x1b[31mred\x1b[0m\n")
    return made


def test_a_failed_run_names_the_phase_the_output_and_the_next_command(
    repo: Repo, run_dir: Path
) -> None:
    said = call(repo, "why", ID)

    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"run {ID}: failed\n"
        "\n"
        "phase test: failed, exit code 3\n"
        "  it failed for good (exit): no try and no repair is left\n"
        "  a resume starts `test` again with fresh counts and keeps what is settled\n"
        "  attempt 1: exit at 2026-01-02T03:00:02.500000Z\n"
        "  attempt 2: exit at 2026-01-02T03:00:03.500000Z\n"
        "  tries: 2 of 2 used\n"
        "  last output of test-2:\n"
        "  | first\n"
        "  |         assert 5 == 6\n"
        "  | \\x1b[31mred\\x1b[0m\n"
        f"  logs: {run_dir}/attempts/test-2\n"
        "\n"
        f"mend it in the run's worktree: cd $(adw path {ID}); the main checkout is not looked at\n"
        "\n"
        f"next: adw resume {ID}\n"
    )


@pytest.mark.usefixtures("run_dir")
def test_an_unstarted_phase_names_what_it_waits_for(repo: Repo) -> None:
    said = call(repo, "why", ID, "commit")

    assert said.out == (
        f"run {ID}: failed\n"
        "\n"
        "phase commit: pending\n"
        "  it needs `test`, which is failed (exit)\n"
        "\n"
        f"next: adw resume {ID}\n"
    )


def test_a_run_that_succeeded_needs_no_explanation(repo: Repo) -> None:
    base = repo.head()
    made_run(repo, handmade.done())

    assert call(repo, "why", ID).out == (
        f"run {ID}: succeeded\n\nnext: git log -p {base[:12]}..bug-47-{ID}-mend-it\n"
    )


def test_an_interrupted_run_names_what_would_start(repo: Repo) -> None:
    made_run(repo, [entry("plan"), entry("test", 1, "lost")])

    view = call(repo, "why", "@47", "--json").json()

    assert (view["status"], view["next_action"]) == ("interrupted", f"adw resume {ID}")
    assert [each["phase"] for each in view["phases"]] == ["test"]
    assert call(repo, "why", "@47").out.startswith(f"run {ID}: interrupted (orchestrator dead)\n")


def test_as_json_it_has_the_documented_shape(repo: Repo, run_dir: Path) -> None:
    view = call(repo, "why", ID, "test", "--json").json()

    keys = ["schema_version", "adw_id", "status", "reason", "phases", "next_action"]
    assert list(view) == keys
    (found,) = view["phases"]
    lines = found.pop("lines")
    assert lines[0] == "it failed for good (exit): no try and no repair is left"
    assert found == {
        "phase": "test",
        "status": "failed",
        "detail": "exit code 3",
        "child_id": "test-2",
        "tail": ["first", "\tassert 5 == 6", "\x1b[31mred\x1b[0m"],
        "logs": f"{run_dir}/attempts/test-2",
    }


@pytest.mark.usefixtures("run_dir")
def test_an_unknown_phase_is_refused_with_the_nearest_name(repo: Repo) -> None:
    said = call(repo, "why", ID, "plam")

    assert (said.code, said.out) == (2, "")
    assert said.err == "error: unknown phase `plam`\n  hint: did you mean `plan`?\n"


def test_a_state_written_elsewhere_is_explained_by_what_it_says(repo: Repo) -> None:
    path = made_run(repo) / "adw_state.json"
    path.write_text(
        f'{{"adw_id": "{ID}", "phase_history": [{{"phase": "plan", "status": "failed",'
        ' "reason": "exit", "attempt": 1}]}'
    )

    said = call(repo, "why", ID, "plan")

    assert (said.code, said.err) == (0, "")
    assert "phase plan: failed\n" in said.out
