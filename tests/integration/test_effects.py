"""Outside effects in whole runs: once a round, looked up, held for a person, settled.

The outside is a file of the ground; `adw effect` is called as a phase would call it.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import files_of, row_of
from tests.support.ground import WAIT, Done, Ground, phase
from tests.support.wait import until

ADW = f'"{sys.executable}" -m adw'
POST = """sh -c 'echo "$ADW_CHILD" >> "$GROUND/posted"; echo posted by "$ADW_CHILD"'"""


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[list[Ground]]:
    found: list[Ground] = []
    yield found
    for ground in found:
        ground.end()


def posted(ground: Ground) -> list[str]:
    path = ground.base / "posted"
    return path.read_text().split() if path.exists() else []


def recorded(ground: Ground) -> list[tuple[str, int, str, str]]:
    events = ground.events("effect_recorded")
    return [(e["child_id"], e["round"], e["key"], e["state"]) for e in events]


def test_case_G12_a_retry_finds_the_receipt_and_does_the_rest(
    tmp_path: Path, grounds: list[Ground]
) -> None:
    """A failed effect is tried again alone; the one beside it is not repeated."""
    text = (
        f"{ADW} effect comment -- {POST};"
        f" {ADW} effect label -- sh -c 'echo label >> \"$GROUND/labelled\"';"
        ' [ "$ADW_ATTEMPT" = 2 ]'
    )
    ground = Ground(tmp_path / "g", {"tell": phase(text, retry={"attempts": 2})})
    grounds.append(ground)

    ground.ok("run", "w", "47")

    assert posted(ground) == ["tell-1"]
    assert (ground.base / "labelled").read_text() == "label\n"
    logs = [(ground.run_dir / f"attempts/tell-{n}/stdout.log").read_text() for n in (1, 2)]
    assert logs == ["posted by tell-1\n"] * 2
    assert sorted(recorded(ground)) == [
        ("tell-1", 1, "comment", "done"),
        ("tell-1", 1, "label", "done"),
    ]
    assert [name for name in files_of(ground.run_dir) if row_of(name) is None] == []


def test_two_rounds_of_one_key_are_two_effects(tmp_path: Path, grounds: list[Ground]) -> None:
    """A second review round comments again; once in the run stays once."""
    tell = f"{ADW} effect comment -- {POST}; {ADW} effect hello --once -- {POST}"
    phases: dict[str, Any] = {
        "build": phase("true"),
        "tell": phase(tell, needs=["build"]),
        "review": phase(
            'test -e "$GROUND/mended"',
            needs=["tell"],
            repair={"phase": "patch", "rounds": 2, "back_to": "build"},
        ),
        "patch": phase('touch "$GROUND/mended"'),
    }
    ground = Ground(tmp_path / "g", phases)
    grounds.append(ground)

    ground.ok("run", "w", "47")

    assert posted(ground) == ["tell-1", "tell-1", "tell-2"]
    rounds = [(ground.line(f"tell-{n}", "launch") or {})["round"] for n in (1, 2)]
    assert rounds == [1, 2]
    assert recorded(ground)[-1] == ("tell-2", 2, "comment", "done")


def test_one_that_died_after_the_act_is_looked_up(tmp_path: Path, grounds: list[Ground]) -> None:
    """Case G3: killed between the effect and its receipt."""
    act = """sh -c 'echo x >> "$GROUND/posted"; kill -9 $PPID'"""
    probe = """'test -e "$GROUND/posted" && echo found'"""
    text = f"{ADW} effect comment --probe {probe} -- {act}"
    ground = Ground(tmp_path / "g", {"tell": phase(text, retry={"attempts": 2})})
    grounds.append(ground)

    ground.ok("run", "w", "47")

    assert [entry[:3] for entry in ground.entries()] == [("tell", 1, False), ("tell", 2, True)]
    assert posted(ground) == ["x"]
    assert recorded(ground) == [
        ("tell-1", 1, "comment", "intent"),
        ("tell-2", 1, "comment", "done"),
    ]


UNSURE = f"""{ADW} effect deploy -- sh -c '
if [ -e "$GROUND/well" ]; then echo y >> "$GROUND/posted"; else
echo x >> "$GROUND/posted"; exit 1; fi'"""


@pytest.mark.sweep
@pytest.mark.parametrize(("word", "outside"), [("--done", ["x"]), ("--not-done", ["x", "y"])])
def test_without_a_look_up_the_run_is_held_until_a_person_settles_it(
    tmp_path: Path, grounds: list[Ground], word: str, outside: list[str]
) -> None:
    phases = {
        "ship": phase(UNSURE, retry={"attempts": 3}),
        "after": phase("true", needs=["ship"]),
    }
    ground = Ground(tmp_path / "g", phases)
    grounds.append(ground)
    done = ground.adw("run", "w", "47")
    assert done.exit_code == 6, done.told()
    assert ground.entries() == [("ship", 1, False, "exit"), ("ship", 2, False, "effect_unknown")]
    adw_id = ground.adw_id
    (ground.base / "well").touch()
    command = f"adw effect settle {adw_id} deploy --done (or --not-done)"
    assert command in ground.status(adw_id)["reason"]
    assert command in ground.ok("why", adw_id, "ship").stdout
    look = f"adw effect list {adw_id}"
    assert ground.status(adw_id)["next_action"] == look
    assert (ground.run_dir / "RESPONSE.md").read_text().endswith(f"\n{look}\n")
    assert (
        f"look, then: {command}\nand then: adw resume {adw_id}"
        in ground.ok(*look.split()[1:]).stdout
    )
    # A resume without a word changes nothing.
    assert ground.adw("resume", adw_id).exit_code == 6
    assert posted(ground) == ["x"]

    said = ground.ok("effect", "settle", adw_id, "deploy", word).stdout

    assert f"go on with `adw resume {adw_id}`" in said
    assert ground.status(adw_id)["next_action"] == f"adw resume {adw_id}"
    assert "look, then" not in ground.ok(*look.split()[1:]).stdout
    ground.ok("resume", adw_id)
    assert posted(ground) == outside
    assert ground.ran("after") == ["after-1"]
    settled = [(e["key"], e["round"], e["state"]) for e in ground.events("effect_settled")]
    assert settled == [("deploy", 1, "done" if word == "--done" else "not_done")]
    listed = json.loads(ground.ok("effect", "list", adw_id, "--json").stdout)["effects"]
    assert [(e["key"], e["state"]) for e in listed] == [("deploy", "done")]


def test_an_exit_code_of_0_does_not_hide_that_nobody_can_tell(
    tmp_path: Path, grounds: list[Ground]
) -> None:
    """A claim is not a fact."""
    twice = f"{UNSURE} || true; {UNSURE} || true"
    ground = Ground(tmp_path / "g", {"ship": phase(twice)})
    grounds.append(ground)

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 6, done.told()
    assert ground.entries() == [("ship", 1, False, "effect_unknown")]
    assert posted(ground) == ["x"]


@pytest.mark.sweep
def test_what_cannot_be_settled_is_refused(tmp_path: Path, grounds: list[Ground]) -> None:
    ground = Ground(
        tmp_path / "g",
        {"tell": phase(f"{ADW} effect comment -- {POST}; {ADW} effect settle x y --done || true")},
    )
    grounds.append(ground)
    ground.ok("run", "w", "47")
    adw_id = ground.adw_id

    def told(*words: str) -> str:
        done = ground.adw("effect", "settle", adw_id, *words)
        assert done.exit_code == 2, done.told()
        return done.stderr.splitlines()[0]

    assert told("comment", "--done") == (
        "error: effect `comment` is done: there is nothing to settle"
    )
    assert told("coment", "--done") == "error: unknown effect `coment`"
    assert told("comment", "--done", "--round", "2") == "error: unknown effect `comment`"
    assert told("comment") == "error: one of `--done` and `--not-done` is expected"
    assert told("comment", "--done", "--not-done") == (
        "error: one of `--done` and `--not-done` is expected"
    )


@pytest.mark.sweep
def test_the_holder_settles_what_is_asked_of_it(tmp_path: Path, grounds: list[Ground]) -> None:
    """A phase is held by its effect while another one of the run still works."""
    phases = {
        "work": phase(WAIT, writes=False),
        "ship": phase(UNSURE, writes=False, retry={"attempts": 3}),
    }
    ground = Ground(tmp_path / "g", {**phases})
    grounds.append(ground)
    run = ground.start("run", "w", "47")
    until(
        lambda: ground.ids() and ground.entries()[-1:] == [("ship", 2, False, "effect_unknown")],
        what="the held phase",
    )

    said = ground.ok("effect", "settle", ground.adw_id, "deploy", "--done").stdout

    assert "is settled as done" in said
    assert run.poll() is None
    ground.go()
    assert Done.of(run).exit_code == 6
    ground.ok("resume", ground.adw_id)
    assert posted(ground) == ["x"]
    assert len(ground.events("effect_settled")) == 1


@pytest.mark.sweep
def test_a_phase_that_runs_alone_is_in_the_round_that_the_whole_workflow_says(
    tmp_path: Path, grounds: list[Ground]
) -> None:
    """`--only` cuts off what the phase needs, and a new result of that begins a round all the same."""
    phases = {
        "build": phase("true"),
        "tell": phase(f"{ADW} effect comment -- {POST}", needs=["build"]),
    }
    ground = Ground(tmp_path / "g", phases)
    grounds.append(ground)
    ground.ok("run", "w", "47")
    again = ("run", "w", "47", "--adw-id", ground.adw_id)
    ground.ok(*again, "--only", "tell")
    assert posted(ground) == ["tell-1"]

    ground.ok(*again, "--from", "build", "--until", "build")
    ground.ok(*again, "--only", "tell")

    assert posted(ground) == ["tell-1", "tell-3"]
    assert (ground.line("tell-3", "launch") or {})["round"] == 2


@pytest.mark.hostile("H45")
def test_case_J5_what_is_kept_of_an_effect_has_no_secret_in_it(
    tmp_path: Path, grounds: list[Ground]
) -> None:
    text = (
        f"{ADW} effect tell -- sh -c 'echo \"used $TOKEN\"';"
        f" {ADW} effect fail -- sh -c 'echo \"$TOKEN\" >&2; exit 1' || true"
    )
    phases = {"tell": phase(text, secrets=["TOKEN"])}
    ground = Ground(tmp_path / "g", phases, env={"TOKEN": "canary-0123456789"})
    grounds.append(ground)

    ground.ok("run", "w", "47")

    kept = [path.read_text() for path in (ground.run_dir / "effects").glob("*.json")]
    assert len(kept) == 2
    assert any("used [redacted]" in text for text in kept)
    assert not any("canary" in text for text in kept)
