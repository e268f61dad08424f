"""F10: whoever started a run goes away in every way there is; the run goes on, or is resumable."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import MakeGround, swept
from tests.support.ground import ADW, WAIT, Done, Ground, dead, phase
from tests.support.wait import until

ENDED = [("build", 1, True, None), ("test", 1, True, None)]
ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "adw", *sys.argv[1:]])
"""
"""adw as the leader of the session of a terminal, as a shell's command is."""


def two(make_ground: MakeGround) -> Ground:
    return make_ground(
        {"build": phase(f"{WAIT}; echo loud"), "test": phase("echo loud", needs=["build"])}
    )


def started(ground: Ground, **keys: Any) -> "subprocess.Popen[bytes]":
    argv = keys.pop("argv", [*ADW, "run", "w", "47"])
    env = {**os.environ, **ground.env, "TERM": "xterm"}
    process = subprocess.Popen(argv, cwd=ground.repo.path, env=env, **keys)
    ground.started.append(process)
    ground.pid()
    ground.await_line("build-1", "body")
    return process


@pytest.mark.sweep
@pytest.mark.fault("F10", by="the reader of standard output, or of both, closed")
@pytest.mark.parametrize("which", ["stdout", "both"])
def test_a_run_whose_reader_leaves_goes_on_to_its_end(make_ground: MakeGround, which: str) -> None:
    ground = two(make_ground)
    errors = ground.base / "errors"
    reader, writer = os.pipe()
    with errors.open("wb") as file:
        both = writer if which == "both" else file
        process = started(ground, stdin=subprocess.DEVNULL, stdout=writer, stderr=both)
    os.close(writer)
    os.close(reader)
    ground.go()

    assert process.wait(30) == 0
    assert errors.read_bytes() == b""
    assert ground.entries() == ENDED
    ground.all_gone()


@pytest.mark.sweep
@pytest.mark.fault("F10", by="the terminal closed: a pseudo-terminal whose master closes")
@pytest.mark.parametrize("moment", ["at once", "when it writes"])
def test_a_run_whose_terminal_closes_goes_on_to_its_end(
    make_ground: MakeGround, moment: str
) -> None:
    ground = two(make_ground)
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, b"\x18\x00\x50\x00" + bytes(4))
    argv = [sys.executable, "-c", ON_A_TERMINAL, "run", "w", "47"]
    errors = ground.base / "errors"
    with errors.open("wb") as file:
        process = started(ground, argv=argv, stdin=other, stdout=other, stderr=file)
    os.close(other)
    os.set_blocking(main, False)
    if moment == "at once":
        os.close(main)
        ground.go()
    else:
        os.read(main, 1 << 16)
        ground.go()
        os.close(main)

    assert process.wait(30) == 0
    assert errors.read_bytes() == b""
    assert ground.entries() == ENDED
    assert ground.status(ground.adw_id)["status"] == "succeeded"
    ground.all_gone()


@pytest.mark.fault("F10", by="SIGQUIT, SIGPIPE")
@pytest.mark.parametrize("number", swept([signal.SIGQUIT, signal.SIGPIPE], signal.SIGQUIT))
def test_a_signal_that_nobody_expects_leaves_a_run_that_goes_on_or_is_resumed(
    make_ground: MakeGround, number: signal.Signals
) -> None:
    ground = two(make_ground)
    process = ground.start("run", "w", "47")
    body = ground.pid()
    supervisor = ground.await_line("build-1", "supervisor")
    ground.await_line("build-1", "body")
    process.send_signal(number)
    if number == signal.SIGQUIT:
        done = Done.of(process)
        assert (done.exit_code, done.stderr) == (-signal.SIGQUIT, ""), done.told()
        assert not dead(body)
        assert ground.status(ground.adw_id)["status"] == "interrupted"
        resumed = ground.start("resume", ground.adw_id)
        until(lambda: ground.events("child_adopted"), what="adoption")
    else:
        resumed = process
    os.kill(supervisor["pid"], signal.SIGPIPE)
    ground.go()
    done = Done.of(resumed)

    assert (done.exit_code, done.stderr) == (0, ""), done.told()
    assert ground.entries() == ENDED
    assert ground.ran("build") == ["build-1"]
    assert not list(Path(ground.repo.path).rglob("core*"))


@pytest.mark.fault("F10", by="the reader, or the terminal, closed before the last words")
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
@pytest.mark.parametrize(
    "words",
    [
        ("resume",),
        pytest.param(("resume", "--json"), marks=pytest.mark.sweep),
        pytest.param(("logs",), marks=pytest.mark.sweep),
        pytest.param(("status",), marks=pytest.mark.sweep),
    ],
    ids=" ".join,
)
def test_last_words_that_nobody_reads_change_no_exit_code(
    make_ground: MakeGround, kind: str, words: tuple[str, ...]
) -> None:
    ground = make_ground({"build": phase("echo loud")})
    ground.ok("run", "w", "47")
    main, other = os.pipe() if kind == "pipe" else pty.openpty()
    os.close(main)
    argv = [*ADW, *words, ground.adw_id]
    done = subprocess.run(
        argv,
        cwd=ground.repo.path,
        env={**os.environ, **ground.env, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=other,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(other)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.sweep
@pytest.mark.fault("F10", by="the reader, or the terminal, closed before an error")
@pytest.mark.parametrize("kind", ["pipe", "terminal"])
@pytest.mark.parametrize("more", [(), ("--json",)], ids=" ".join)
def test_an_error_that_nobody_reads_keeps_its_exit_code(
    make_ground: MakeGround, kind: str, more: tuple[str, ...]
) -> None:
    ground = make_ground({"build": phase("true")})
    main, other = os.pipe() if kind == "pipe" else pty.openpty()
    os.close(main)
    argv = [*ADW, "status", "12345678", *more]
    env = {**os.environ, **ground.env}
    done = subprocess.run(
        argv, cwd=ground.repo.path, env=env, stdout=other, stderr=other, check=False
    )
    os.close(other)
    assert done.returncode == 2
