"""`adw effect`, as a phase calls it and as people do; whole runs are in tests/integration."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from adw.store import effects
from adw.store.effects import Effect
from tests.support.adw import Adw, command
from tests.support.wait import until

ID = "cc73faf1"


@pytest.fixture
def phase(tmp_path: Path) -> Adw:
    """A command that is started as a phase of a run would start it."""
    run_dir = tmp_path / "agents" / ID
    run_dir.mkdir(parents=True)
    env = dict.fromkeys(
        ("ADW_STATE", "ADW_TASK", "ADW_RESPONSE", "ADW_RESULT", "ADW_ARTIFACTS", "ADW_WORKTREE"),
        "/nowhere",
    )
    return Adw(tmp_path).env(
        ADW_ID=ID,
        ADW_PHASE="review",
        ADW_ROUND="1",
        ADW_ATTEMPT="1",
        ADW_CHILD="review-1",
        ADW_STATE_ROOT=str(run_dir),
        ADW_INPUTS="{}",
        OUTSIDE=str(tmp_path / "outside"),
        **env,
    )


def outside(tmp_path: Path) -> list[str]:
    path = tmp_path / "outside"
    return path.read_text().split() if path.exists() else []


POST = ("sh", "-c", 'echo x >> "$OUTSIDE"; echo posted')


def test_it_prints_what_the_command_printed_now_and_then(phase: Adw, tmp_path: Path) -> None:
    phase.run("effect", "comment", "--", *POST).stdout("posted\n").stderr("").ok()
    (
        phase.run("effect", "comment", "--", *POST)
        .stdout("posted\n")
        .stderr("effect `comment` was done before; nothing is done now\n")
        .ok()
    )

    assert outside(tmp_path) == ["x"]


def test_options_may_come_before_the_key_or_after_it(phase: Adw, tmp_path: Path) -> None:
    phase.run("effect", "--once", "hello", "--probe", "exit 1", "--", *POST).stdout("posted\n").ok()
    phase.run("effect", "perform", "hello", "--once", "--", *POST).stdout("posted\n").ok()

    assert outside(tmp_path) == ["x"]


def test_words_of_the_command_are_no_options_of_adw(phase: Adw) -> None:
    (
        phase.run("effect", "k", "--", "sh", "-c", 'printf %s "$*"', "sh", "--once", "--json", "-h")
        .stdout("--once --json -h")
        .ok()
    )


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("probe", "code", "out", "err", "done"),
    [
        (
            "echo seen",
            0,
            "seen\n",
            "effect `comment` was done before; nothing is done now\n",
            [],
        ),
        ("exit 1", 0, "posted\n", "", ["x"]),
        (
            "exit 2",
            4,
            "",
            (
                "error: effect `comment` could not be looked up, so nothing was done\n"
                "  why: 3 look-ups could not tell: the look-up ended with exit code 2\n"
            ),
            [],
        ),
    ],
)
def test_the_probe_decides(
    phase: Adw, tmp_path: Path, probe: str, code: int, out: str, err: str, done: list[str]
) -> None:
    phase.run("effect", "comment", "--probe", probe, "--", *POST).stdout(out).stderr(err).fails(
        code
    )

    assert outside(tmp_path) == done


def test_a_failed_command_gives_its_own_exit_code_and_says_what_follows(phase: Adw) -> None:
    (
        phase.run("effect", "comment", "--", "sh", "-c", "exit 7")
        .stdout("")
        .stderr(
            "effect `comment`: the command ended with exit code 7; it may have happened:"
            " the next try holds the run for a person, as it has no --probe\n"
        )
        .fails(7)
    )
    (
        phase.run("effect", "comment", "--", "true")
        .stderr(
            "error: effect `comment` may have happened: it was begun before, and there is no"
            " look-up\n  hint: look, then adw effect settle <id> comment --done (or --not-done),"
            " and resume\n"
        )
        .fails(79)
    )


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("kill -9 $$", 137, "the command was ended by signal 9"),
        ("exit 79", 1, "the command ended with exit code 79"),
    ],
)
def test_a_command_cannot_claim_that_nobody_can_tell(
    phase: Adw, text: str, code: int, words: str
) -> None:
    found = phase.run("effect", "comment", "--probe", "exit 1", "--", "sh", "-c", text).fails(code)

    assert found.stderr == (
        f"effect `comment`: {words}; the next try looks first whether it happened\n"
    )


def test_a_command_that_cannot_be_started_did_nothing(phase: Adw, tmp_path: Path) -> None:
    found = phase.run("effect", "comment", "--", "/no/such/program").fails(127)
    assert found.stderr == (
        "effect `comment`: `/no/such/program` cannot be started: No such file or directory;"
        " nothing happened\n"
    )

    phase.run("effect", "comment", "--", *POST).stdout("posted\n").ok()
    assert outside(tmp_path) == ["x"]


def test_what_the_command_leaves_behind_does_not_hold_it_up(phase: Adw) -> None:
    """F61: a process that keeps the pipe open."""
    text = 'sleep 60 2>/dev/null & echo $! > "$OUTSIDE"; echo posted'
    phase.run("effect", "comment", "--", "sh", "-c", text).stdout("posted\n").ok()

    os.kill(int(outside(phase.base)[0]), 9)


def test_much_output_is_kept_up_to_64_kib(phase: Adw) -> None:
    text = "head -c 1000000 /dev/zero | tr '\\0' x"
    found = phase.run("effect", "comment", "--", "sh", "-c", text).ok()

    assert found.raw_stdout == "x" * effects.OUTPUT_BYTES
    assert found.stderr.startswith("effect `comment`: the output had more than 65536 bytes")


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("comment",), "error: missing argument `-- CMD…`"),
        (
            ("comment", "--", ""),
            "effect `comment`: `` cannot be started: No such file or directory",
        ),
        (("", "--", "true"), "error: `` is no key of an effect"),
        (("a\nb", "--", "true"), "error: `a\\nb` is no key of an effect"),
        (("1/x", "--once", "--", "true"), "error: the key `1/x` of an effect begins with"),
    ],
)
def test_what_cannot_be_an_effect_is_refused(
    phase: Adw, words: tuple[str, ...], first: str
) -> None:
    found = phase.run("effect", *words).result()

    assert found.exit_code in {2, 127}
    assert found.stderr.startswith(first)


def test_outside_of_a_phase_there_is_no_effect(tmp_path: Path) -> None:
    found = Adw(tmp_path).run("effect", "comment", "--", "true").fails(2)

    assert found.stderr.startswith("error: not started as a phase of adw: 'ADW_ID'\n")


def test_the_list_shows_each_effect(phase: Adw, tmp_path: Path) -> None:
    run_dir = phase.repo.path / "agents" / ID
    (run_dir / "state").mkdir(parents=True)
    (run_dir / "adw_state.json").write_text(json.dumps({"adw_id": ID}))
    people = Adw(tmp_path, _repo=phase.repo)
    people.run("effect", "list", ID).stdout("no phase has had an effect recorded\n").ok()
    for number, key in ((1, "comment"), (2, "comment")):
        which = Effect(str(run_dir), "review", number, f"review-{number}", key)
        effects.perform(which, lambda: "https://example.invalid/1\x1b[31m")
    effects.perform(Effect(str(run_dir), "ship", 1, "ship-1", "deploy", once=True), lambda: "")

    people.run("effect", "list", ID).stdout("""
KEY      PHASE   ROUND  STATE  LAST TRIED BY  AT                    NOTE
comment  review  1      done   review-1       <time>  -
comment  review  2      done   review-2       <time>  -
deploy   ship    run    done   ship-1         <time>  -
""").ok()
    found = people.run("effect", "list", ID, "--json").ok().json()
    assert [each["key"] for each in found["effects"]] == ["comment", "comment", "deploy"]
    assert found["effects"][0]["effect"].startswith("effects/")


def test_doctor_names_a_damaged_record(tmp_path: Path) -> None:
    people = Adw(tmp_path)
    run_dir = people.repo.path / "agents" / ID
    path = run_dir / "effects" / f"{'0' * 64}.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")

    found = people.run("doctor", ID, "--json").result().json()["findings"]

    assert [each["path"] for each in found if each["kind"] == "effect"] == [str(path)]


def test_two_at_once_are_one_after_the_other(phase: Adw, tmp_path: Path) -> None:
    """The second waits for the first, and finds its receipt."""
    slow = 'echo x >> "$OUTSIDE"; while [ ! -e "$OUTSIDE.go" ]; do sleep 0.02; done; echo posted'
    env = {**os.environ, **phase._env}
    argv = command("effect", "comment", "--", "sh", "-c", slow)
    both = [
        subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    until(lambda: outside(tmp_path), what="the first act")
    (tmp_path / "outside.go").touch()

    assert [each.communicate(timeout=30)[0] for each in both] == [b"posted\n"] * 2
    assert outside(tmp_path) == ["x"]
