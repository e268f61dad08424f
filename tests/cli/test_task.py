"""`adw task show` and `adw task add`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.cli import task_command
from adw.store import requests
from tests.cli import handmade
from tests.cli.handmade import ID, call, entry, made_run
from tests.support.ground import WAIT, Ground, kill, phase
from tests.support.repo import Repo
from tests.support.wait import until


class TestShow:
    def test_the_task_of_the_run_byte_for_byte(self, repo: Repo) -> None:
        run_dir = made_run(repo)
        strange = b"# Tabs\tand \x1b[31m\r\n" + b"no newline"
        (run_dir / "TASK.md").write_bytes(strange)

        said = call(repo, "task", "show", ID)

        assert (said.code, said.err) == (0, "")
        assert said.out.encode() == strange
        assert call(repo, "task", "show", ID, "--json").json() == {
            "schema_version": 1,
            "adw_id": ID,
            "path": str(run_dir / "TASK.md"),
            "text": strange.decode(),
        }

    def test_the_task_of_the_latest_attempt_or_of_the_one_named(self, repo: Repo) -> None:
        run_dir = made_run(repo, [entry("plan"), *(entry("test", n, "exit") for n in (1, 2, 10))])
        for n in (1, 2, 10):
            (run_dir / f"children/test-{n}/TASK.md").write_text(f"try {n}\n")

        assert call(repo, "task", "show", ID, "test").out == "try 10\n"
        assert call(repo, "task", "show", ID, "test", "--attempt", "2").out == "try 2\n"

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (("tets",), "error: unknown phase `tets`\n  hint: did you mean `test`?\n"),
            (
                ("commit",),
                "error: unknown attempt `commit-1`\n  hint: it has not been started yet\n",
            ),
            (
                ("test", "--attempt", "7"),
                "error: unknown attempt `test-7`\n  hint: known: test-1, test-2\n",
            ),
            (
                ("--attempt", "7"),
                "error: `--attempt` needs a phase\n  hint: adw task show ID PHASE --attempt N\n",
            ),
        ],
    )
    def test_what_is_not_there_is_named(
        self, repo: Repo, words: tuple[str, ...], told: str
    ) -> None:
        made_run(repo, handmade.failed())

        said = call(repo, "task", "show", ID, *words)

        assert (said.code, said.out, said.err) == (2, "", told)

    def test_a_run_that_was_written_elsewhere_has_no_task(self, repo: Repo) -> None:
        path = made_run(repo) / "TASK.md"
        path.unlink()

        said = call(repo, "task", "show", ID)

        assert (said.code, said.err) == (2, f"error: `{path}` does not exist\n")


class TestRefused:
    @pytest.mark.parametrize(
        ("data", "told"),
        [
            (b" \n\t", "error: the text is empty\n"),
            (b"a\0b", "error: the text has a NUL byte\n"),
            (b"ab\xff", "error: the text is not UTF-8 at byte 2\n"),
            (
                b"x" * (requests.TEXT_LIMIT + 1),
                (
                    "error: the text has more than 262144 bytes\n"
                    "  hint: put it into a file of the repository, and name that file in the text\n"
                ),
            ),
        ],
    )
    def test_a_text_that_is_none_is_refused_and_nothing_asked(
        self, repo: Repo, tmp_path: Path, data: bytes, told: str
    ) -> None:
        run_dir = made_run(repo)
        path = tmp_path / "text"
        path.write_bytes(data)

        said = call(repo, "task", "add", ID, "plan", "--file", str(path))

        assert (said.code, said.out, said.err) == (2, "", told)
        assert requests.names(str(run_dir)) == []

    def test_an_unknown_phase_is_refused_with_the_nearest(self, repo: Repo, tmp_path: Path) -> None:
        made_run(repo)
        (tmp_path / "text").write_text("more")

        said = call(repo, "task", "add", ID, "plam", "--file", str(tmp_path / "text"))

        assert (said.code, said.out) == (2, "")
        assert said.err == "error: unknown phase `plam`\n  hint: did you mean `plan`?\n"

    def test_a_file_that_is_not_there(self, repo: Repo, tmp_path: Path) -> None:
        made_run(repo)
        path = tmp_path / "nothing"

        said = call(repo, "task", "add", ID, "plan", "--file", str(path))

        assert said.code == 2
        assert said.err == f"error: cannot read `{path}`: No such file or directory\n"

    def test_from_inside_a_phase_of_the_run_it_is_refused(
        self, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made_run(repo)
        (tmp_path / "text").write_text("more")
        for name, value in (("ADW_ID", ID), ("ADW_CHILD", "plan-1"), ("ADW_PHASE", "plan")):
            monkeypatch.setenv(name, value)

        said = call(repo, "task", "add", ID, "plan", "--file", str(tmp_path / "text"))

        assert said.code == 2
        assert said.err.startswith("error: `adw task add` is for people")

    def test_no_more_than_what_fits_is_taken_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "big").write_bytes(b"x" * (4 << 20))

        assert len(task_command._text(str(tmp_path / "big"))) == requests.TEXT_LIMIT + 1


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(
        tmp_path / "g",
        {
            "a": phase("true"),
            "b": phase(f'{WAIT}; grep -q "old fl[a]g" "$ADW_TASK"', needs=["a"]),
            "c": phase('cp "$ADW_TASK" "$GROUND/c.md"', needs=["b"]),
        },
    )
    (made.base / "text").write_text("Keep the old flag working: $1 `x` ünï.\n")
    yield made
    made.end()


@pytest.mark.sweep
def test_FS_7_what_is_added_reaches_the_attempt_that_runs_and_is_one_event(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("b-1", "body")
    text = str(ground.base / "text")

    running = ground.ok("task", "add", ground.adw_id, "b", "--file", text).stdout
    later = ground.ok("task", "add", ground.adw_id, "c", "--file", text).stdout
    done = ground.ok("task", "add", ground.adw_id, "a", "--file", text).stdout
    task = call(ground.repo, "task", "show", ground.adw_id, "b").out
    ground.go()

    assert running == "added to the task of b-1, which is running\n"
    assert later == "added; the next attempt of `c` has it in its task\n"
    assert done == "added; phase `a` is done, so it counts when it runs again\n"
    assert "Keep the old flag working: $1 `x` ünï.\n" in task
    assert run.wait(20) == 0
    assert "Keep the old flag working: $1 `x` ünï.\n" in (ground.base / "c.md").read_text()
    added = ground.events("task_added")
    assert [(e["stage"], e["child_id"]) for e in added] == [
        ("b", "b-1"),
        ("c", None),
        ("a", None),
    ]
    assert len({e["request"] for e in added}) == 3
    assert [r.fields["phase"] for r in requests.applied_of(str(ground.run_dir), "task_add")] == [
        "b",
        "c",
        "a",
    ]
    assert requests.names(str(ground.run_dir)) == []


@pytest.mark.sweep
def test_FS_7_where_nobody_drives_the_run_the_asker_adds_it(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("b-1", "body")
    kill(run.pid)
    before = (ground.run_dir / "adw_state.json").read_bytes()

    text = str(ground.base / "text")
    said = ground.ok("task", "add", ground.adw_id, "b", "--file", text).stdout

    assert said == "added to the task of b-1, which is running\n"
    state = json.loads((ground.run_dir / "adw_state.json").read_bytes())
    assert state["phase_history"] == json.loads(before)["phase_history"]
    assert len(ground.events("task_added")) == 1
    assert "Keep the old flag" in (ground.run_dir / "children/b-1/TASK.md").read_text()
    ground.go()
    until(lambda: not ground.status(ground.adw_id)["living"])
    ground.ok("resume", ground.adw_id)
    assert len(ground.events("task_added")) == 1


@pytest.mark.sweep
def test_FS_7_an_asker_killed_before_it_was_applied_has_asked(ground: Ground) -> None:
    ground.go()
    assert ground.adw("run", "w", "47").exit_code == 1, "its task says nothing of the flag"
    text = str(ground.base / "text")
    ground.adw("task", "add", ground.adw_id, "b", "--file", text, ADW_FAILPOINT="request.applied")

    assert len(requests.names(str(ground.run_dir))) == 1
    ground.ok("resume", ground.adw_id)

    assert requests.names(str(ground.run_dir)) == []
    assert len(ground.events("task_added")) == 1
    assert "Keep the old flag" in (ground.run_dir / "children/b-2/TASK.md").read_text()
    assert "old flag" not in (ground.run_dir / "children/b-1/TASK.md").read_text()


def test_a_text_from_stdin(ground: Ground) -> None:
    ground.go()
    ground.adw("run", "w", "47")

    said = ground.adw(
        "task", "add", ground.adw_id, "c", "--file", "-",
        wrap=("sh", "-c", 'exec "$@" < "$0"', str(ground.base / "text")),
    )  # fmt: skip

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == "added; the next attempt of `c` has it in its task\n"
    (request,) = requests.applied_of(str(ground.run_dir), "task_add")
    assert request.fields == {"phase": "c", "text": "Keep the old flag working: $1 `x` ünï.\n"}
