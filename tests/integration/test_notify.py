"""Telling people of the end of a run, and `use: notify`; the receiver is a server on loopback."""

import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from adw.phases import sending
from adw.phases.sending import NotSent, send
from tests.support.documents import files_of, row_of
from tests.support.fake_remote import Remote, serving
from tests.support.ground import Ground, phase

LOOK = (
    'cat > "$GROUND/told"; id=$(ls "$GROUND/repo/agents");'
    f' "{sys.executable}" -m adw status "$id" --json > "$GROUND/seen"'
)


@pytest.fixture
def remote() -> Iterator[Remote]:
    with serving(Remote()) as found:
        yield found


@pytest.fixture
def grounds() -> Iterator[list[Ground]]:
    found: list[Ground] = []
    yield found
    for ground in found:
        ground.end()


def make(
    base: Path, grounds: list[Ground], notify: dict[str, Any], text: str = "true", **phases: Any
) -> Ground:
    config = {"notify": notify, "ports": "none"}
    env = {"GROUND": str(base / "g"), "SECRET_URL": ""}
    ground = Ground(base / "g", {"build": phase(text), **phases}, env=env, config=config)
    grounds.append(ground)
    return ground


def told(remote: Remote) -> list[dict[str, Any]]:
    return [json.loads(each) for each in remote.look()[1]]


def owed(ground: Ground) -> list[list[str]]:
    found = json.loads((ground.run_dir / "notices.json").read_bytes())
    return [each["ways"] for each in found["owed"]]


def warnings(ground: Ground) -> list[str]:
    return [each["detail"] for each in ground.events("warning")]


@pytest.mark.sweep
def test_an_end_is_told_once_when_the_run_is_as_it_was_told(
    tmp_path: Path, grounds: list[Ground], remote: Remote
) -> None:
    channels = {"webhook": remote.url + "/hook", "command": ["sh", "-c", LOOK]}
    ground = make(tmp_path, grounds, channels)

    ground.ok("run", "w", "47")

    (message,) = told(remote)
    adw_id = ground.adw_id
    branch = ground.status(adw_id)["state"]["branch_name"]
    assert message.pop("at").endswith("Z")
    next_action = message.pop("next_action")
    assert message == {
        "schema_version": 1,
        "kind": "end",
        "key": f"{adw_id}/succeeded/1",
        "adw_id": adw_id,
        "workflow": "w",
        "issue_number": 47,
        "status": "succeeded",
        "reason": None,
        "branch": branch,
        "text": f"run {adw_id} (w, issue 47) succeeded\nnext: {next_action}",
    }
    assert json.loads((ground.base / "told").read_bytes())["key"] == message["key"]
    assert json.loads((ground.base / "seen").read_bytes())["status"] == "succeeded"
    assert (owed(ground), warnings(ground)) == ([], [])
    assert [name for name in files_of(ground.run_dir) if row_of(name) is None] == []
    # Nothing has happened since.
    ground.ok("resume", adw_id)
    assert len(told(remote)) == 1


@pytest.mark.sweep
def test_case_G9_who_cannot_be_told_changes_nothing_and_is_told_at_the_next_end(
    tmp_path: Path, grounds: list[Ground], remote: Remote
) -> None:
    ground = make(
        tmp_path,
        grounds,
        {
            "webhook": remote.url + "/services/s3cret",
            "command": ["sh", "-c", "cat >> $GROUND/told"],
        },
        'test -e "$GROUND/well"',
    )
    remote.again(["down"])

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    line = f"the end of the run (failed) is not told by webhook: {remote.url} answered 503"
    assert f"warning: {line}\n" in done.stderr
    assert warnings(ground) == [line]
    assert owed(ground) == [["webhook"]]
    assert "s3cret" not in done.stdout + done.stderr + str(ground.events())
    (ground.base / "well").touch()

    ground.ok("resume", ground.adw_id)

    assert [each["status"] for each in told(remote)] == ["failed", "succeeded"]
    by_command = (ground.base / "told").read_text().splitlines()
    assert [json.loads(each)["status"] for each in by_command] == ["failed", "succeeded"]
    assert owed(ground) == []
    assert ground.ok("doctor", ground.adw_id).exit_code == 0


KILL = 'touch "$GROUND/well"; kill -9 '
ORCHESTRATOR = """$(sed 's/.*"pid": *\\([0-9]*\\).*/\\1/' "$GROUND"/repo/agents/*/lock)"""


@pytest.mark.sweep
@pytest.mark.parametrize("who", ["$PPID", ORCHESTRATOR], ids=["teller", "orchestrator"])
def test_what_was_begun_when_somebody_died_is_told_again(
    tmp_path: Path, grounds: list[Ground], who: str
) -> None:
    text = f'cat >> "$GROUND/told"; [ -e "$GROUND/well" ] || {{ {KILL} "{who}"; }}'
    ground = make(tmp_path, grounds, {"command": ["sh", "-c", text]})

    done = ground.adw("run", "w", "47")

    assert done.exit_code == (0 if who == "$PPID" else -9), done.told()
    ground.all_gone()
    assert owed(ground) == [["command"]]
    ground.ok("resume", ground.adw_id)
    keys = [json.loads(each)["key"] for each in (ground.base / "told").read_text().splitlines()]
    assert keys == [f"{ground.adw_id}/succeeded/1"] * 2
    assert owed(ground) == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ({"webhook": "$SECRET_URL"}, "webhook: `SECRET_URL` is not set"),
        ({"webhook": "http://127.0.0.1:1/x"}, "webhook: http://127.0.0.1:1: Connection refused"),
        (
            {"command": ["/no/such"]},
            "command: `/no/such` cannot be started: No such file or directory",
        ),
        (
            {"command": ["sh", "-c", "echo oh no >&2; exit 3"]},
            "command: `sh` ended with exit code 3: oh no",
        ),
    ],
)
def test_what_went_wrong_is_told_in_one_line(
    tmp_path: Path, grounds: list[Ground], channels: dict[str, Any], why: str
) -> None:
    ground = make(tmp_path, grounds, channels)

    done = ground.ok("run", "w", "47")

    assert f"warning: the end of the run (succeeded) is not told by {why}\n" in done.stderr


@pytest.mark.sweep
def test_only_ends_that_are_asked_for_are_told(
    tmp_path: Path, grounds: list[Ground], remote: Remote
) -> None:
    channels = {"webhook": remote.url, "on": ["succeeded"]}
    ground = make(tmp_path, grounds, channels, 'test -e "$GROUND/well"')
    assert ground.adw("run", "w", "47").exit_code == 1
    assert told(remote) == []
    (ground.base / "well").touch()

    ground.ok("resume", ground.adw_id)

    assert [each["status"] for each in told(remote)] == ["succeeded"]


def test_a_phase_tells_once_a_round_and_one_way_harms_no_other(
    tmp_path: Path, grounds: list[Ground], remote: Remote
) -> None:
    tell = {
        "use": "notify",
        "needs": ["build"],
        "writes": False,
        "with": {"text": "Issue {issue_number} is built"},
        "retry": {"attempts": 2},
    }
    channels = {"webhook": remote.url, "command": ["sh", "-c", "cat >> $GROUND/told"]}
    ground = make(tmp_path, grounds, {**channels, "on": ["cancelled"]}, tell=tell)
    remote.again(["down"])

    ground.ok("run", "w", "47")

    assert ground.entries()[1:] == [("tell", 1, False, "exit"), ("tell", 2, True, None)]
    (message,) = told(remote)
    assert message["text"] == "Issue 47 is built"
    assert message["key"] == f"{ground.adw_id}/tell/1/notify webhook"
    assert len((ground.base / "told").read_text().splitlines()) == 1
    stderr = (ground.run_dir / "attempts" / "tell-1" / "stderr.log").read_text()
    assert stderr == f"error: not told by webhook: {remote.url} answered 503\n"


@pytest.mark.parametrize("argv", [["sleep", "60"], ["sh", "-c", "sleep 60 & wait"]])
def test_a_command_that_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch, argv: Sequence[str]
) -> None:
    monkeypatch.setattr(sending, "LIMIT_S", 0.2)

    with pytest.raises(NotSent, match=f"`{argv[0]}` was not done after 0.2 s"):
        send("command", {"command": argv}, {"text": "x", "key": "k"})


def test_F52_a_webhook_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        with pytest.raises(NotSent, match=r"no answer within 0\.2 s"):
            send("webhook", {"webhook": url}, {"text": "x", "key": "k"})


def test_without_a_desktop_the_desktop_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sending._DESKTOP:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")

    send("desktop", {"desktop": True}, {"text": "x", "key": "k"})


def test_the_desktop_is_told_by_notify_send(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "notify-send"
    script.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > "{tmp_path}/words"\n')
    script.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    send("desktop", {"desktop": True}, {"text": "-run\nx", "key": "k"})

    assert (tmp_path / "words").read_text() == "--app-name=adw|--|adw|-run\nx|"
