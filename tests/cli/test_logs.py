"""`adw logs`."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, call, log, made_run
from tests.support.adw import command
from tests.support.ground import Ground, phase
from tests.support.repo import Repo
from tests.support.wait import until


@pytest.fixture
def run_dir(repo: Repo) -> Path:
    made = made_run(repo, handmade.failed())
    log(made, "plan-1", "stdout.log", b"planned\n")
    log(made, "test-1", "stdout.log", b"one\n")
    log(made, "test-1", "stderr.log", b"no end of line")
    log(made, "test-2", "stdout.log", b"")
    log(made, "test-2", "stderr.log", b"two\xff\n")
    return made


@pytest.mark.usefixtures("run_dir")
class TestPrinting:
    def test_case_J1_all_attempts_are_there_in_order_each_headed(self, repo: Repo) -> None:
        said = call(repo, "logs", ID)

        assert (said.code, said.err) == (0, "")
        assert said.out == (
            "==> plan-1 stdout.log\n"
            "planned\n"
            "==> test-1 stdout.log\n"
            "one\n"
            "==> test-1 stderr.log\n"
            "no end of line\n"
            "==> test-2 stderr.log\n"
            "two\udcff\n"
        )

    def test_case_J1_the_failed_attempt_is_listed_with_its_reason_and_times(
        self, repo: Repo
    ) -> None:
        phases = call(repo, "status", ID, "--json").json()["phases"]

        found = phases[1]["attempts"]
        assert [(a["attempt"], a["reason"], a["exit_code"]) for a in found] == [
            (1, "exit", 3),
            (2, "exit", 3),
        ]
        assert found[0]["started_at"] == "2026-01-02T03:00:01.000000Z"
        assert found[0]["ended_at"] == "2026-01-02T03:00:02.500000Z"

    def test_one_phase_and_one_attempt(self, repo: Repo) -> None:
        assert call(repo, "logs", ID, "plan").out == "planned\n"
        assert call(repo, "logs", ID, "test", "--attempt", "2").out == "two\udcff\n"
        assert call(repo, "logs", ID, "--attempt", "1").out.count("==>") == 3

    @pytest.mark.hostile("H46")
    def test_case_H46_on_a_terminal_control_characters_are_shown(
        self, repo: Repo, run_dir: Path
    ) -> None:
        evil = "\x1b]52;c;eHg=\x07 \x9b1A \u202e\rgone\tü\r\nnext".encode()
        log(run_dir, "plan-1", "stdout.log", evil)

        shown = call(repo, "logs", ID, "plan", terminal=True).out
        raw = call(repo, "logs", ID, "plan").out

        assert shown == "\\x1b]52;c;eHg=\\x07 \\x9b1A \\u202e\\rgone\tü\nnext\n"
        assert raw.encode() == evil

    def test_without_output_a_line_on_stderr_says_so(self, repo: Repo) -> None:
        said = call(repo, "logs", ID, "commit")

        assert (said.code, said.out, said.err) == (0, "", "nothing was written\n")

    def test_an_unknown_phase_is_refused_with_the_nearest_name(self, repo: Repo) -> None:
        said = call(repo, "logs", ID, "tset")

        assert (said.code, said.out) == (2, "")
        assert said.err == "error: unknown phase `tset`\n  hint: did you mean `test`?\n"

    def test_as_json_paths_and_sizes_are_given(self, repo: Repo, run_dir: Path) -> None:
        view = call(repo, "logs", ID, "plan", "--json").json()

        assert view == {
            "schema_version": 1,
            "adw_id": ID,
            "logs": [
                {
                    "child_id": "plan-1",
                    "phase": "plan",
                    "attempt": 1,
                    "stream": "stdout",
                    "path": str(run_dir / "attempts" / "plan-1" / "stdout.log"),
                    "size_bytes": 8,
                }
            ],
        }

    def test_following_and_json_exclude_each_other(self, repo: Repo) -> None:
        said = call(repo, "logs", ID, "-f", "--json")

        assert (said.code, json.loads(said.out)["error"]["code"]) == (2, "usage")

    def test_logs_of_a_run_with_a_damaged_state_can_be_read(
        self, repo: Repo, run_dir: Path
    ) -> None:
        (run_dir / "adw_state.json").write_bytes(b"")

        assert call(repo, "logs", ID, "plan").out == "planned\n"

    def test_following_a_run_that_nobody_drives_ends_at_once(self, repo: Repo) -> None:
        assert call(repo, "logs", ID, "plan", "-f").out == "==> plan-1 stdout.log\nplanned\n"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    text = 'echo begun; while [ ! -e "$GROUND/go" ]; do sleep 0.02; done; echo ended'
    made = Ground(tmp_path / "g", {"a": phase(text), "b": phase("echo last", needs=["a"])})
    yield made
    made.end()


def test_following_prints_what_comes_until_the_run_ends(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("a-1", "body")
    log_path = ground.run_dir / "attempts" / "a-1" / "stdout.log"
    until(lambda: log_path.exists() and log_path.read_bytes() == b"begun\n")
    follower = ground.start("logs", ground.adw_id, "-f")
    assert follower.stdout is not None
    first = follower.stdout.readline() + follower.stdout.readline()

    ground.go()
    rest, err = follower.communicate(timeout=20)

    assert first == b"==> a-1 stdout.log\nbegun\n"
    assert rest == b"ended\n==> b-1 stdout.log\nlast\n"
    assert (follower.returncode, err) == (0, b"")
    assert run.wait(20) == 0


def test_a_reader_that_leaves_is_an_orderly_end(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    log(run_dir, "plan-1", "stdout.log", b"line\n" * 100_000)

    done = subprocess.run(
        ["bash", "-c", '"$@" | head -n 1; echo "${PIPESTATUS[0]}"', "sh", *command("logs", ID)],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )

    assert (done.stdout, done.stderr) == ("line\n0\n", "")
