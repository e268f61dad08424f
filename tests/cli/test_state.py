"""`adw state get` and `adw state set`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, call, made_run
from tests.support.ground import WAIT, Ground, phase
from tests.support.repo import Repo


class TestGet:
    def test_ST_19_the_state_is_the_only_thing_on_stdout_all_fields_included(
        self, repo: Repo
    ) -> None:
        run_dir = made_run(repo, handmade.failed())

        said = call(repo, "state", "get", ID)

        assert (said.code, said.err) == (0, "")
        assert said.out.encode() == (run_dir / "adw_state.json").read_bytes()

    def test_ST_19_a_state_written_elsewhere_is_shown_with_all_its_fields(self, repo: Repo) -> None:
        path = made_run(repo) / "adw_state.json"
        path.write_text(json.dumps({"adw_id": ID, "issue_number": "47", "phase_history": []}))

        found = call(repo, "state", "get", ID).json()

        assert found["issue_number"] == 47
        assert (found["schema_version"], found["plan_file"], found["model_set"]) == (
            1,
            None,
            "base",
        )

    @pytest.mark.parametrize(
        ("field", "plain", "as_json"),
        [
            ("branch_name", f"bug-47-{ID}-mend-it\n", f'"bug-47-{ID}-mend-it"\n'),
            ("plan_file", "\n", "null\n"),
            ("issue_number", "47\n", "47\n"),
            ("all_adws", f'[\n  "{ID}"\n]\n', f'[\n  "{ID}"\n]\n'),
        ],
    )
    def test_one_field(self, repo: Repo, field: str, plain: str, as_json: str) -> None:
        made_run(repo)

        assert call(repo, "state", "get", ID, field).out == plain
        assert call(repo, "state", "get", ID, field, "--json").out == as_json

    def test_an_unknown_field_is_refused_with_the_nearest(self, repo: Repo) -> None:
        made_run(repo)

        said = call(repo, "state", "get", ID, "branch")

        assert (said.code, said.out) == (2, "")
        assert said.err == (
            "error: unknown state field `branch`\n  hint: did you mean `branch_name`?\n"
        )


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "g", {"a": phase(WAIT)})
    yield made
    made.end()


class TestSet:
    def test_while_the_run_is_running_its_holder_applies_it(self, ground: Ground) -> None:
        run = ground.start("run", "w", "47")
        ground.await_line("a-1", "body")

        done = ground.adw("state", "set", ground.adw_id, "plan_file=specs/x.md")
        got = ground.ok("state", "get", ground.adw_id, "plan_file").stdout
        ground.go()

        assert (done.exit_code, done.stdout, done.stderr) == (0, "applied\n", "")
        assert got == "specs/x.md\n"
        assert run.wait(20) == 0
        assert [e["fields"] for e in ground.events("state_set")] == [{"plan_file": "specs/x.md"}]

    @pytest.mark.parametrize(
        ("pairs", "told"),
        [
            (
                ("branch_name=x",),
                (
                    "error: unknown settable field `branch_name`\n"
                    "  hint: known: issue_class, model_set, plan_file\n"
                ),
            ),
            (
                ("plan_file",),
                (
                    "error: `plan_file` is found, key=value is expected\n"
                    "  hint: adw state set ID key=value\n"
                ),
            ),
            (
                ("issue_class=epic",),
                "error: `issue_class`: Input should be 'chore', 'bug' or 'feature'\n",
            ),
        ],
    )
    def test_what_cannot_be_set_is_refused_and_nothing_written(
        self, repo: Repo, pairs: tuple[str, ...], told: str
    ) -> None:
        run_dir = made_run(repo)
        before = (run_dir / "adw_state.json").read_bytes()

        said = call(repo, "state", "set", ID, *pairs)

        assert (said.code, said.out, said.err) == (2, "", told)
        assert (run_dir / "adw_state.json").read_bytes() == before
        assert sorted((run_dir / "requests").glob("*.json")) == []

    def test_from_inside_a_phase_of_the_run_it_is_refused(
        self, repo: Repo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made_run(repo)
        for name, value in (("ADW_ID", ID), ("ADW_CHILD", "plan-1"), ("ADW_PHASE", "plan")):
            monkeypatch.setenv(name, value)

        said = call(repo, "state", "set", ID, "plan_file=x")

        assert said.code == 2
        assert said.err == (
            "error: `adw state set` is for people and was called from inside phase `plan` "
            f"of run `{ID}`\n"
        )
