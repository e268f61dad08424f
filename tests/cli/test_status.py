"""`adw status`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adw.store import attempts
from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, call, entry, made_run, repository
from tests.support.adw import Adw
from tests.support.repo import Repo


class TestAllRuns:
    def test_without_runs_the_first_step_is_named(self, repo: Repo) -> None:
        said = call(repo, "status")

        assert (said.code, said.err) == (0, "")
        assert said.out == "no runs yet; `adw run WORKFLOW ISSUE` starts one\n"

    def test_the_latest_comes_last(self, repo: Repo) -> None:
        made_run(repo, handmade.done(), ID, minute=2)
        made_run(repo, handmade.failed(), OTHER, minute=1)

        assert call(repo, "status").out == (
            "ID        WORKFLOW  ISSUE  STATUS     UPDATED\n"
            "dd01aa22  w         47     failed     2026-01-02T03:01:00Z\n"
            "cc73faf1  w         47     succeeded  2026-01-02T03:02:00Z\n"
        )

    def test_as_json_it_has_the_documented_shape(self, repo: Repo) -> None:
        made_run(repo, handmade.done())

        assert call(repo, "status", "--json").json() == {
            "schema_version": 1,
            "runs": [
                {
                    "adw_id": ID,
                    "workflow": "w",
                    "issue_number": 47,
                    "status": "succeeded",
                    "paused": False,
                    "updated_at": "2026-01-02T03:00:00.000000Z",
                }
            ],
        }

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"", "it is empty"),
            (b'{"adw_id": "cc', "Unterminated string starting at: line 1 column 12 (char 11)"),
            (b"{} trailing", "Extra data: line 1 column 4 (char 3)"),
        ],
    )
    def test_case_A3_a_damaged_run_is_broken_and_harms_no_other(
        self, repo: Repo, data: bytes, why: str
    ) -> None:
        made_run(repo, handmade.done(), OTHER)
        path = made_run(repo, handmade.failed()) / "adw_state.json"
        path.write_bytes(data)

        said = call(repo, "status")

        assert said.code == 0
        assert said.out == (
            "ID        WORKFLOW  ISSUE  STATUS     UPDATED\n"
            "cc73faf1  -         -      broken     -\n"
            "dd01aa22  w         47     succeeded  2026-01-02T03:00:00Z\n"
            "\n"
            f"cc73faf1 is broken: `{path}` is not a valid state file: {why}\n"
            "  hint: adw doctor cc73faf1\n"
        )
        assert path.read_bytes() == data

    def test_case_A3_asking_for_the_damaged_run_names_file_and_cause(self, repo: Repo) -> None:
        path = made_run(repo) / "adw_state.json"
        path.write_bytes(b"")

        for command in ("status", "path", "why"):
            said = call(repo, command, ID)
            assert said.code == 2
            assert said.err == (
                f"error: `{path}` is not a valid state file\n"
                "  why: it is empty\n"
                "  hint: adw doctor cc73faf1\n"
            )
            assert said.out == ""
        assert path.read_bytes() == b""

    def test_case_A9_resume_of_a_damaged_run_makes_no_new_one(self, tmp_path: Path) -> None:
        repo = repository(tmp_path / "repo")
        path = made_run(repo) / "adw_state.json"
        path.write_bytes(b"{")

        Adw(tmp_path, _repo=repo).run("resume", ID).stdout("").stderr(
            "error: `<tmp>/repo/agents/<id>/adw_state.json` is not a valid state file\n"
            "  why: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
            "  hint: adw doctor <id>\n"
        ).fails(2)
        assert [name for name in os.listdir(repo.path / "agents") if name[0] != "."] == [ID]
        assert path.read_bytes() == b"{"

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"schema_version": 2}, "has schema version 2, this adw reads up to 1"),
            ({"favourite": "x"}, "unknown key `favourite`"),
        ],
    )
    @pytest.mark.hostile("H35", "H36")
    def test_case_A10_a_newer_version_and_an_unknown_key_are_refused_untouched(
        self, repo: Repo, change: dict[str, object], told: str
    ) -> None:
        path = made_run(repo) / "adw_state.json"
        data = json.dumps({**json.loads(path.read_text()), **change}).encode()
        path.write_bytes(data)

        said = call(repo, "status", ID)

        assert said.code == 2
        assert told in said.err
        assert path.read_bytes() == data
        assert call(repo, "status", "--json").json()["runs"][0]["status"] == "broken"


class TestOneRun:
    def test_a_run_that_failed(self, repo: Repo) -> None:
        made_run(repo, handmade.failed())

        said = call(repo, "status", ID)

        assert (said.code, said.err) == (0, "")
        assert said.out == (
            "run cc73faf1 failed\n"
            "  workflow  w\n"
            "  issue     47\n"
            "  branch    bug-47-cc73faf1-mend-it\n"
            "  reason    phase `test` failed: exit code 3 (attempt 2)\n"
            "  isolation none (phases run with your rights)\n"
            "  next      adw resume cc73faf1\n"
            "\n"
            "PHASE   STATUS   ATTEMPT  STARTED               TOOK   REASON\n"
            "plan    done     1        2026-01-02T03:00:01Z  1.5 s\n"
            "test    failed   2        2026-01-02T03:00:02Z  1.5 s  exit code 3\n"
            "commit  pending  -        -                     -\n"
        )

    def test_case_B3_an_interrupted_run_names_its_dead_orchestrator(self, repo: Repo) -> None:
        made_run(repo, [entry("plan")])

        assert call(repo, "status", "@47").out == (
            "run cc73faf1 interrupted (orchestrator dead)\n"
            "  workflow  w\n"
            "  issue     47\n"
            "  branch    bug-47-cc73faf1-mend-it\n"
            "  isolation none (phases run with your rights)\n"
            "  next      adw resume cc73faf1\n"
            "\n"
            "PHASE   STATUS   ATTEMPT  STARTED               TOOK   REASON\n"
            "plan    done     1        2026-01-02T03:00:01Z  1.5 s\n"
            "test    pending  -        -                     -\n"
            "commit  pending  -        -                     -\n"
        )

    def test_a_phase_that_outlives_its_orchestrator_is_named(self, repo: Repo) -> None:
        run_dir = made_run(repo, [entry("plan")])
        launch = {"phase": "test", "attempt": 1, "repairs": None, "at": "2026-01-02T03:00:05Z"}
        packet = attempts.write_packet(str(run_dir), "test-1", b"", launch)
        os.write(packet.lock_fd, attempts.encode({"line": "body", "pid": 4711}) + b"\n")

        text = call(repo, "status", ID).out
        view = call(repo, "status", ID, "--json").json()
        os.close(packet.lock_fd)

        assert "\nphase test still runs (attempt 1, process 4711)\n" in text
        assert "\ntest    running  1        2026-01-02T03:00:05Z  " in text
        assert view["status"] == "interrupted"
        assert view["living"] == [{"child_id": "test-1", "pid": 4711}]
        assert view["phases"][1]["status"] == "running"
        after = call(repo, "status", ID, "--json").json()
        assert after["living"] == []
        assert after["phases"][1]["status"] == "pending"

    def test_a_held_lock_means_running_and_names_the_process(self, repo: Repo) -> None:
        run_dir = made_run(repo, [entry("plan")])

        with handmade.held(run_dir):
            said = call(repo, "status", ID)

        assert said.out.startswith(f"run {ID} running (process {os.getpid()})\n")
        assert "  next      adw watch cc73faf1\n" in said.out

    def test_case_B21_a_done_phase_keeps_its_attempt_and_time_and_a_skip_is_called_one(
        self, repo: Repo
    ) -> None:
        skip = handmade.skip("commit")
        made_run(repo, [entry("plan", 1, "lost"), entry("plan", 2), entry("test"), skip])

        lines = call(repo, "status", ID).out.split("\n")

        assert "plan    done     2        2026-01-02T03:00:02Z  1.5 s" in lines
        assert "commit  skipped  -        -                     -" in lines

    def test_damage_in_the_history_is_told_and_stops_nothing(self, repo: Repo) -> None:
        run_dir = made_run(repo)
        with (run_dir / "state" / "task_history.jsonl").open("ab") as file:
            file.write(b'{"event": "odd"}\ntorn')

        said = call(repo, "status", ID)

        assert said.code == 0
        assert said.out.endswith(
            "\nthe history is damaged in line 2, 3; `adw doctor cc73faf1` says more\n"
        )

    @pytest.mark.hostile("H46")
    def test_case_H46_a_phase_cannot_steer_the_terminal(self, repo: Repo) -> None:
        run_dir = made_run(repo, handmade.failed())
        line = {"line": "exit", "exit_code": 3, "signal": None, "reason": "exit"}
        evil = "\x1b]0;owned\x07 \x9b2J\r\nrun cc73faf1 succeeded"
        with (run_dir / "attempts" / "test-2" / "attempt.jsonl").open("ab") as file:
            file.write(attempts.encode({**line, "error": evil}) + b"\n")

        said = call(repo, "status", ID)

        assert "\\x1b]0;owned\\x07 \\x9b2J\\r\\nrun cc73faf1 succeeded" in said.out
        assert not {"\x1b", "\x07", "\x9b", "\r"} & set(said.out)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("zz", "error: unknown run `zz`\n  hint: adw status\n"),
            ("@9", "error: unknown run `@9`\n  hint: adw status\n"),
            (
                "../x",
                "error: `../x` is not an ADW ID: 6 to 64 of a-z, 0-9 and `-` are expected\n",
            ),
            (
                "cc",
                (
                    "error: `cc` fits several runs: cc73faf1, ccaaaaaa\n"
                    "  hint: give more characters of the id\n"
                ),
            ),
        ],
    )
    def test_an_id_that_names_no_run(self, repo: Repo, text: str, told: str) -> None:
        made_run(repo)
        made_run(repo, adw_id="ccaaaaaa")

        said = call(repo, "status", text)

        assert (said.code, said.out, said.err) == (2, "", told)

    def test_an_error_as_json_is_the_only_thing_on_stdout(self, repo: Repo) -> None:
        said = call(repo, "status", "zz", "--json")

        assert (said.code, said.err) == (2, "")
        assert said.json()["error"]["code"] == "name.unknown"


HEAVY = {"networkx", "structlog", "rich", "yaml", "tenacity", "simpleeval"}
LOADED = "import runpy, sys\nsys.argv = ['adw', *sys.argv[1:]]\ntry:\n    runpy.run_module('adw', run_name='__main__')\nexcept SystemExit as end:\n    assert not end.code, end.code\nprint(*sys.modules, file=sys.stderr)\n"


def modules(repo: Repo, *args: str) -> set[str]:
    """What a command has imported when it ends."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *args],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    return set(ran.stderr.split())


def test_version_imports_neither_click_nor_anything_heavy(repo: Repo) -> None:
    assert not modules(repo, "--version") & (HEAVY | {"click", "pydantic", "pydantic_core"})


@pytest.mark.sweep
def test_reading_commands_import_nothing_heavy_on_the_usual_path(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    repo.write({"adw.yaml": "# agents_dir: elsewhere\nports: none\n"})
    Adw(tmp_path, _repo=repo).run("run", "w", "47", "--until", "test").ok()

    for command in (["status"], ["status", "@47"], ["logs", "@47"], ["why", "@47"]):
        assert not modules(repo, *command) & (HEAVY | {"pydantic", "pydantic_core"}), command
    latest = next((repo.path / "agents").glob("*/state/latest.json"))
    latest.unlink()
    assert "pydantic" in modules(repo, "status"), "the test sees what is imported"
