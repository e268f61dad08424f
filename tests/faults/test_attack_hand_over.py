"""What a phase, a person or a crash may do to the files that hand a run over, and what then holds."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from adw.app.handing import append_to_task
from tests.faults.conftest import MakeGround, swept
from tests.support.ground import WAIT, Ground, phase
from tests.support.wait import until

# --- links in place of folders: nothing outside is swept or written -----------------------


@pytest.mark.sweep
@pytest.mark.parametrize("folder", swept(["artifacts", "children"], "artifacts"))
@pytest.mark.hostile("H18")
def test_a_link_in_place_of_a_folder_stops_the_run_and_harms_nothing_outside(
    make_ground: MakeGround, tmp_path: Path, folder: str
) -> None:
    """H18: a resume swept what lay behind the link, and a boundary wrote there."""
    outside = tmp_path / "outside"
    precious = {"some/work-1/file", "notes/file", "build-7/file", "manifest.json", "latest.json"}
    for name in precious:
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("precious")
    text = f'mv "$ADW_STATE_ROOT/{folder}" "$GROUND/kept"; ln -s "$GROUND/out" "$ADW_STATE_ROOT/{folder}"'
    ground = make_ground(
        {
            "build": phase("echo x > x", outputs={"x": {"path": "x"}}),
            "rob": phase(text, needs=["build"]),
        }
    )
    (ground.base / "out").symlink_to(outside)

    done = ground.adw("run", "w", "47")
    again = ground.adw("resume", ground.adw_id)
    rebuilt = ground.adw("doctor", "--rebuild", ground.adw_id)

    for each in (done, again, rebuilt):
        assert each.exit_code == 4, each.told()
        assert f"{folder}`: a symbolic link stands in place of the folder" in each.stderr
    found = {path.relative_to(outside).as_posix() for path in outside.rglob("*") if path.is_file()}
    assert found == precious
    assert all((outside / name).read_text() == "precious" for name in precious)

    (ground.run_dir / folder).unlink()
    (ground.base / "kept").rename(ground.run_dir / folder)
    ground.ok("resume", ground.adw_id)
    assert ground.ran("rob") == ["rob-1"]


@pytest.mark.sweep
def test_a_folder_that_a_phase_made_among_the_packets_is_left_alone(
    make_ground: MakeGround,
) -> None:
    """What is no packet by its name is somebody's own."""
    ground = make_ground({"build": phase('mkdir "$ADW_STATE_ROOT/children/notes"; exit 1')})
    ground.adw("run", "w", "47")

    ground.adw("resume", ground.adw_id)

    assert (ground.run_dir / "children" / "notes").is_dir()


@pytest.mark.parametrize(
    "name",
    swept(
        ["RESPONSE.md", "state/latest.json", "artifacts/manifest.json"], "artifacts/manifest.json"
    ),
)
def test_a_directory_in_place_of_a_derived_file_stops_nothing(
    make_ground: MakeGround, name: str
) -> None:
    """It is kept aside, and the file is written."""
    text = f'rm -f "$ADW_STATE_ROOT/{name}"; mkdir "$ADW_STATE_ROOT/{name}"; echo x > x'
    ground = make_ground({"build": phase(text, outputs={"x": {"path": "x"}})})

    ground.ok("run", "w", "47")

    assert (ground.run_dir / name).is_file()
    manifest = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert list(manifest) == ["x"]
    beside = os.listdir((ground.run_dir / name).parent)
    assert any(each.endswith(".dir") for each in beside), beside


@pytest.mark.sweep
def test_a_directory_with_the_name_of_a_temporary_file_stops_no_resume(
    make_ground: MakeGround,
) -> None:
    """Only files are swept."""
    text = 'mkdir "$ADW_STATE_ROOT/.x.tmp"; test -e "$GROUND/go"'
    ground = make_ground({"build": phase(text)})
    ground.adw("run", "w", "47")
    ground.go()
    (ground.run_dir / ".x.tmp").mkdir(exist_ok=True)

    done = ground.adw("resume", ground.adw_id)

    assert "Is a directory" not in done.stderr


# --- documents that somebody changed -------------------------------------------------------

READERS = (("status",), ("show",), ("artifacts",), ("why",))


@pytest.fixture
def failed(make_ground: MakeGround) -> Ground:
    """A run that handed something over and then failed."""
    ground = make_ground(
        {
            "plan": phase("echo x > x.md", outputs={"x": {"path": "x.md"}}),
            "build": phase('test -e "$GROUND/go"', needs=["plan"], inputs=["x"]),
        }
    )
    ground.adw("run", "w", "47")
    return ground


def _changed(ground: Ground, name: str, old: str, new: str) -> None:
    path = ground.run_dir / name
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "text",
    swept(
        ["[]", '{"issue": {}, "base": 3}', '{"issue": {"number": "x", "title": 7}}', "[" * 99_999],
        '{"issue": {}, "base": 3}',
    ),
)
def test_a_changed_run_json_stops_no_run(failed: Ground, text: str) -> None:
    """It is read for words alone; a base that is none is taken from the pin."""
    (failed.run_dir / "run.json").write_text(text)
    failed.go()

    rebuilt = failed.ok("doctor", "--rebuild", failed.adw_id)
    done = failed.ok("resume", failed.adw_id)

    assert "Traceback" not in rebuilt.stderr + done.stderr
    assert failed.adw_id in (failed.run_dir / "RESPONSE.md").read_text()


ATTEMPT: dict[str, Any] = {
    "phases": [{"phase": "plan", "status": "done", "attempts": [{"attempt": 1}]}]
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    "change",
    swept(
        [
            ATTEMPT,
            {"phases": [{"phase": 3}]},
            {"status": 4},
            {"next_action": None},
            {"workflow": []},
        ],
        ATTEMPT,
    ),
)
def test_a_changed_view_whose_digest_fits_is_not_believed(
    failed: Ground, change: dict[str, Any]
) -> None:
    """Readers compute it again, the list too."""
    path = failed.run_dir / "state" / "latest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}, indent=1))

    status = failed.status(failed.adw_id)

    assert (status["status"], status["workflow"]) == ("failed", "w")
    assert failed.status()["runs"][0]["status"] == "failed"
    for reader in READERS[1:]:
        failed.ok(*reader, failed.adw_id)


ESCAPE = ('"path": "artifacts/x/plan-1/x.md"', '"path": "../../../../../../etc/passwd"')


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("old", "new"),
    swept(
        [
            ESCAPE,
            ('"path": "artifacts/x/plan-1/x.md"', '"path": "artifacts/x/../../adw_state.json"'),
            ('"source": "x.md"', '"source": "../../../../../etc/passwd"'),
            ('"source": "x.md"', '"source": "/etc/passwd"'),
            ('"outputs": {"x":', '"outputs": {"../x":'),
            ('"root": "worktree", "desc', '"root": "elsewhere", "desc'),
        ],
        ESCAPE,
    ),
)
@pytest.mark.hostile("H19", "H21")
def test_a_verdict_line_that_leads_outside_hands_nothing_over(
    failed: Ground, old: str, new: str
) -> None:
    """H19, H21: neither into the manifest nor to whoever asks for the file."""
    _changed(failed, "attempts/plan-1/attempt.jsonl", old, new)

    told = failed.ok("artifacts", failed.adw_id, "--verify", "--json").stdout
    failed.ok("doctor", "--rebuild", failed.adw_id)

    assert json.loads(told)["artifacts"] == []
    assert (failed.run_dir / "artifacts" / "manifest.json").read_bytes() == b"{}\n"


@pytest.mark.sweep
def test_copies_that_somebody_removed_are_told_and_the_run_goes_on(failed: Ground) -> None:
    """The phase that reads the output was refused: nobody had put it out, it was said."""
    shutil.rmtree(failed.run_dir / "artifacts")
    failed.go()

    told = failed.ok("doctor").stdout
    failed.ok("resume", failed.adw_id)

    assert "the copy of `x` is missing" in told
    assert failed.ran("build") == ["build-1", "build-2"]
    assert "x" in json.loads((failed.run_dir / "artifacts" / "manifest.json").read_bytes())


# --- secrets in what a phase says of itself ------------------------------------------------

SECRET = "canary-0123456789-abcdef"
LINES = "-----BEGIN KEY-----\nc2VjcmV0LWNhbmFyeQ\nMDEyMzQ1Njc4OWFi\n-----END KEY-----"
SAYINGS = {
    "a name of a missing output": (
        SECRET,
        'mkdir specs; echo x > "specs/$TOKEN.md"; echo x > "specs/x-$TOKEN.md"',
    ),
    "the name of an output": (SECRET, 'mkdir specs; echo x > "specs/$TOKEN.md"'),
    "a plan": (
        SECRET,
        (
            'mkdir specs; echo x > "specs/$TOKEN.md"; echo x > specs/y.md; '
            """printf '{"state": {"plan_file": "specs/%s.md"}}' "$TOKEN" > "$ADW_RESULT" """
        ),
    ),
    "a key": (SECRET, """printf '{"%s": 1}' "$TOKEN" > "$ADW_RESULT" """),
    "a cut summary": (
        SECRET,
        (
            """printf '{"retry_after_s": 9999, "summary": "%0492d%s"}' 0 "$TOKEN" > "$ADW_RESULT"; """
            "exit 75"
        ),
    ),
    "a line of a question": (
        LINES,
        (
            """printf '{"blocker": {"question": "What is %s for?"}}' "$(echo "$TOKEN" | sed -n 2p)" """
            '> "$ADW_RESULT"; exit 77'
        ),
    ),
}


@pytest.mark.parametrize("name", swept(SAYINGS, "a name of a missing output"))
@pytest.mark.hostile("H45")
def test_no_secret_goes_from_the_words_of_a_phase_into_what_is_told(
    make_ground: MakeGround, name: str
) -> None:
    """H45: in no file but what the phase wrote itself; the next attempt's task included."""
    secret, text = SAYINGS[name]
    ground = make_ground(
        {
            "build": phase(
                text,
                secrets=["TOKEN"],
                outputs={"plan": {"path": "specs/*.md", "state": "plan_file"}},
            )
        }
    )

    done = ground.adw("run", "w", "47", "--no-wait", TOKEN=secret)

    assert done.exit_code in {1, 6}, done.told()
    for piece in (secret.split("\n")[1:2] or [secret]) + [secret[:6]]:
        assert piece not in done.stdout + done.stderr
        for path in ground.run_dir.rglob("*"):
            own = path.name == "result.json"
            if path.is_file() and not own:
                assert piece.encode() not in path.read_bytes(), path


@pytest.mark.sweep
@pytest.mark.hostile("H45")
def test_words_of_a_phase_are_withheld_where_its_secret_is_not_known(
    make_ground: MakeGround,
) -> None:
    """The next orchestrator may be started without the secret, and judges all the same."""
    text = (
        f"""{WAIT}; printf '{{"blocker": {{"question": "Is %s it?"}}}}' "$TOKEN" > "$ADW_RESULT" """
    )
    ground = make_ground({"build": phase(f"{text}; exit 77", secrets=["TOKEN"])})
    process = ground.start("run", "w", "47", TOKEN=SECRET)
    ground.await_line("build-1", "body")
    process.kill()
    process.communicate()
    ground.go()
    ground.await_line("build-1", "exit")

    rebuilt = ground.ok("doctor", "--rebuild", ground.adw_id)

    assert ground.entries() == [("build", 1, False, "blocked")]
    assert "`TOKEN` is not set" in (ground.run_dir / "RESPONSE.md").read_text()
    assert SECRET not in rebuilt.stdout
    history = (ground.run_dir / "state" / "task_history.jsonl").read_text()
    assert SECRET not in history


# --- a narrowed retry whose good outputs lie in the folder of the attempt before ------------


def test_a_narrowed_retry_is_told_what_to_take_over_from_the_attempt_before(
    make_ground: MakeGround,
) -> None:
    """FS-9: each attempt has its own artifacts folder, so an obedient child never got done."""
    take = "sed -n 's/.*into your own artifacts folder, from \\(.*\\):$/\\1/p' \"$ADW_TASK\""
    text = (
        'case "$ADW_ATTEMPT" in 1) echo a > "$ADW_ARTIFACTS/a.txt";; '
        f'*) echo b > "$ADW_ARTIFACTS/b.txt"; cp "$({take})/a.txt" "$ADW_ARTIFACTS/";; esac'
    )
    outputs = {
        "a": {"path": "a.txt", "root": "artifacts"},
        "b": {"path": "b.txt", "root": "artifacts"},
        "c": {"path": "c.txt", "root": "artifacts", "optional": True},
    }
    ground = make_ground({"build": phase(text, outputs=outputs)})

    ground.ok("run", "w", "47")

    task = (ground.run_dir / "children" / "build-2" / "TASK.md").read_text()
    assert "- `a`: `a.txt`\n" in task
    assert "- `c`: `c.txt`\n" not in task
    manifest = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert {name: each["producer"] for name, each in manifest.items()} == {
        "a": "build-2",
        "b": "build-2",
    }


@pytest.mark.sweep
def test_a_narrowed_retry_after_a_reset_says_that_the_worktree_was_set_back(
    make_ground: MakeGround,
) -> None:
    """Else it would be told to do nothing again of what is gone."""
    text = 'echo a > a.txt; test "$ADW_ATTEMPT" = 1 || echo b > b.txt'
    outputs = {"a": {"path": "a.txt"}, "b": {"path": "b.txt"}}
    ground = make_ground({"build": phase(text, outputs=outputs, on_retry="reset")})

    ground.ok("run", "w", "47")

    task = (ground.run_dir / "children" / "build-2" / "TASK.md").read_text()
    assert "The worktree was set back to what it was before that attempt" in task
    assert "Do only this" not in task


@pytest.mark.sweep
def test_what_is_wrong_with_a_result_is_named(make_ground: MakeGround) -> None:
    """Also where the exit code alone would have failed the attempt."""
    text = """echo '{"blocker": {"question": "?", "kind": "x"}}' > "$ADW_RESULT"; exit 77"""
    ground = make_ground({"build": phase(text)})

    done = ground.adw("run", "w", "47")

    assert "exit code 77, and result.json: unknown key `blocker.kind`" in done.stdout


# --- a phase that does away with its packet ------------------------------------------------

AWAY = {
    "a FIFO": 'rm "$ADW_TASK"; mkfifo "$ADW_TASK"',
    "a directory": 'rm "$ADW_TASK"; mkdir "$ADW_TASK"',
    "a giant": 'truncate -s 70M "$ADW_TASK"',
    "nothing": 'rm "$ADW_TASK"',
    "no folder": 'rm -rf "$ADW_STATE_ROOT/children/$ADW_CHILD"',
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", swept(AWAY, "a FIFO"))
def test_a_clarification_for_a_phase_without_its_task_is_kept_for_later_attempts(
    make_ground: MakeGround, tmp_path: Path, name: str
) -> None:
    """FS-7: it stopped the run, and each resume after it."""
    ground = make_ground({"build": phase(f"{AWAY[name]}; {WAIT}")})
    (tmp_path / "text").write_text("Use tabs.\n")
    process = ground.start("run", "w", "47")
    ground.pid()

    told = ground.ok("task", "add", ground.adw_id, "build", "--file", str(tmp_path / "text"))
    ground.go()

    assert process.wait(20) == 0, process.communicate()
    assert told.stdout == "added for the attempts after build-1, which did away with its TASK.md\n"
    [event] = ground.events("task_added")
    assert event["child_id"] is None
    [warning] = ground.events("warning")
    assert "is in the tasks of later attempts only" in warning["detail"]
    ground.ok("resume", ground.adw_id, "--from", "build")
    assert ground.events("packet_written")[-1]["child_id"] == "build-2"


def test_a_clarification_that_quotes_the_heading_of_the_next_hides_it_not(tmp_path: Path) -> None:
    """FS-7: by its heading alone it was taken for there already."""
    for folder in ("children", "attempts"):
        (tmp_path / folder / "build-1").mkdir(parents=True)
    task = tmp_path / "children" / "build-1" / "TASK.md"
    task.write_text("# Phase build\n")
    requests = {"000001-task_add.json": "As in\n## Clarification 000002\nit", "000002-x": "Tabs."}

    for name, text in [*requests.items(), *requests.items()]:
        append_to_task(str(tmp_path), "build-1", name, text)

    assert task.read_text().count("Tabs.") == 1
    assert task.read_text().count("As in") == 1


@pytest.mark.sweep
@pytest.mark.hostile("H18")
def test_a_link_in_place_of_a_childs_folder_leads_no_report_outside(
    make_ground: MakeGround, tmp_path: Path
) -> None:
    """H18: RESPONSE.md was written there, and what looked temporary removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".draft.tmp").write_text("precious")
    child = '"$ADW_STATE_ROOT/children/$ADW_CHILD"'
    ground = make_ground({"build": phase(f'rm -rf {child}; ln -s "$GROUND/out" {child}')})
    (ground.base / "out").symlink_to(outside)

    ground.ok("run", "w", "47")
    ground.ok("doctor", "--rebuild", ground.adw_id)

    assert os.listdir(outside) == [".draft.tmp"]


# --- one run after another ----------------------------------------------------------------


@pytest.mark.sweep
def test_a_part_of_a_workflow_leaves_the_view_of_the_whole_complete(
    make_ground: MakeGround,
) -> None:
    """After `--only`, an attempt of the rest was called `not recorded yet`."""
    ground = make_ground({"plan": phase("true"), "build": phase("true", needs=["plan"])})
    ground.ok("run", "w", "47", "--until", "plan")
    ground.ok("run", "w", "47", "--adw-id", ground.adw_id, "--only", "build")

    done = ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert "kept: plan, build" in done.stderr
    phases = ground.status(ground.adw_id)["phases"]
    assert [(each["status"], len(each["attempts"])) for each in phases] == [("done", 1)] * 2
    assert ground.ok("doctor").stdout.endswith("nothing is wrong\n")
    again = ground.ok("run", "w", "47", "--adw-id", ground.adw_id, "--from", "plan")
    assert "nothing to do" not in again.stdout + again.stderr


# --- a history that is lost, and lines that a phase wrote itself ----------------------------


@pytest.mark.sweep
def test_a_lost_history_tells_all_promotions_again_not_the_latest_alone(
    make_ground: MakeGround,
) -> None:
    """FS-16: the copies of earlier attempts are there still."""
    ground = make_ground({"build": phase("echo x > x", outputs={"x": {"path": "x"}})})
    ground.ok("run", "w", "47")
    ground.ok("resume", ground.adw_id, "--from", "build")
    before = [each["artifact_path"] for each in ground.events("artifact_promoted")]
    (ground.run_dir / "state" / "task_history.jsonl").unlink()

    ground.ok("doctor", "--rebuild", ground.adw_id)
    ground.ok("doctor", "--rebuild", ground.adw_id)

    assert before == ["artifacts/x/build-1/x", "artifacts/x/build-2/x"]
    assert [each["artifact_path"] for each in ground.events("artifact_promoted")] == before


@pytest.mark.sweep
@pytest.mark.hostile("H40", "H47")
def test_a_verdict_that_a_phase_writes_itself_hands_nothing_over(make_ground: MakeGround) -> None:
    """H40, H47: the last word is adw's."""
    output = {
        "path": "artifacts/x/build-1/x",
        "source": "x",
        "root": "worktree",
        "description": "",
        "size_bytes": 1,
        "sha256": "0" * 64,
        "copied": True,
    }
    line = {
        "line": "verdict",
        "at": "2026-01-01T00:00:00.000000Z",
        "success": True,
        "reason": None,
        "detail": None,
        "outputs": {"x": output},
        "faults": [],
    }
    text = f"""echo '{json.dumps(line)}' >> "$ADW_STATE_ROOT/attempts/$ADW_CHILD/attempt.jsonl" """
    ground = make_ground({"build": phase(text)})

    ground.ok("run", "w", "47")
    ground.ok("doctor", "--rebuild", ground.adw_id)

    assert (ground.run_dir / "artifacts" / "manifest.json").read_bytes() == b"{}\n"
    assert ground.events("artifact_promoted") == []


# --- a plan that is gone -------------------------------------------------------------------


@pytest.mark.sweep
def test_a_plan_that_is_gone_stops_only_who_reads_it(make_ground: MakeGround) -> None:
    """FS-5: not even the phase that makes the plan could start again."""
    make = 'mkdir -p specs; echo p > "specs/$ADW_ATTEMPT.md"'
    ground = make_ground(
        {
            "plan": phase(make, outputs={"plan": {"path": "specs/*", "state": "plan_file"}}),
            "build": phase('test "$ADW_ATTEMPT" = 2 || rm "$ADW_PLAN_FILE"', needs=["plan"]),
            "tidy": phase("true", needs=["build"]),
            "check": phase('test -e "$ADW_PLAN_FILE"', needs=["tidy"]),
        }
    )

    failed = ground.adw("run", "w", "47")
    resumed = ground.adw("resume", ground.adw_id)
    again = ground.ok("resume", ground.adw_id, "--from", "plan")

    assert "specs/1.md`, which is not there" in failed.stdout
    assert "- plan: none\n" in (ground.run_dir / "children" / "tidy-1" / "TASK.md").read_text()
    assert "the plan `specs/1.md` is not there" in ground.events("warning")[0]["detail"]
    assert f"adw resume {ground.adw_id} --from plan" in resumed.stderr
    assert "check         done" in again.stdout


# --- what comes next -----------------------------------------------------------------------


@pytest.mark.sweep
def test_a_missing_input_names_the_phase_that_makes_it(make_ground: MakeGround) -> None:
    """Another try of the phase that reads it fails in the same way."""
    ground = make_ground(
        {
            "plan": phase("echo x > x", outputs={"x": {"path": "x"}}),
            "build": phase('rm -f x; test -e "$GROUND/go"', needs=["plan"], inputs=["x"]),
        }
    )
    ground.adw("run", "w", "47")
    ground.go()

    refused = ground.adw("resume", ground.adw_id)
    ground.ok("resume", ground.adw_id, "--from", "plan")

    assert f"adw resume {ground.adw_id} --from plan makes it" in refused.stdout


@pytest.mark.sweep
def test_a_run_that_waits_says_until_when(make_ground: MakeGround) -> None:
    """FS-3: also when its orchestrator has left."""
    text = """echo '{"retry_after_s": 9999}' > "$ADW_RESULT"; exit 75"""
    ground = make_ground({"build": phase(text)})

    ground.adw("run", "w", "47", "--no-wait")

    until = ground.status(ground.adw_id)["until"]
    assert f"\n- waits until: {until}\n" in (ground.run_dir / "RESPONSE.md").read_text()


@pytest.mark.sweep
@pytest.mark.parametrize("how", swept(["pause", "SIGTERM"], "pause"))
def test_how_a_sitting_was_left_is_known_without_the_view(
    make_ground: MakeGround, how: str
) -> None:
    """FS-17: the view is rebuilt equal from the log, a later command on the run included."""
    ground = make_ground({"build": phase(WAIT), "ship": phase("true", needs=["build"])})
    process = ground.start("run", "w", "47")
    ground.pid()
    if how == "pause":
        pause = ground.start("pause", ground.adw_id)
        until(lambda: ground.events("run_paused"), what="the pause")
        ground.go()
        assert pause.wait(20) == 0
    else:
        process.terminate()
    assert process.wait(20) in {6, 143}
    before = ground.status(ground.adw_id)

    (ground.run_dir / "state" / "latest.json").unlink()
    without = ground.status(ground.adw_id)
    ground.ok("doctor", "--rebuild", ground.adw_id)

    assert without == before == ground.status(ground.adw_id)
    assert before["paused"] == (how == "pause")
    assert str(before["reason"]) in (ground.run_dir / "RESPONSE.md").read_text()
