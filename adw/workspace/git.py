"""The one place that runs git, in two hardened sets of settings.

- `read`: looking and plumbing. No hook, file-system monitor, pager, prompt, credential helper or
  `ext::` transport of the repository's shared configuration runs, since a phase can write there.
- `commit`: keeps the user's hooks, filters and signing, and makes git sync what it writes.

In both, every inherited `GIT_*` variable is dropped (one of them could point git at another
repository), messages are untranslated, and no garbage collection starts behind our back.
Filters of the user (clean, smudge) run in both: without them a checkout has other content.
"""

import contextlib
import errno
import functools
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from adw.errors import EnvironmentFault, GitError, RepositoryError

Kind = Literal["read", "commit"]

OLDEST: Final = (2, 36)  # the first with core.fsync
LOCK_WAIT_S: Final = 10.0
_MORE_PROCESSES: Final = (
    "raise the limit on processes: `ulimit -u`, or pids.max of the control group"
)
_STDERR_LINES: Final = 6
_CHUNK: Final = 1 << 16
_COMMAND_LIMIT: Final = 200  # characters of a command shown in an error

_BOTH: Final = ("core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false")
_CONFIG: Final[Mapping[Kind, tuple[str, ...]]] = {
    "read": (
        *_BOTH,
        "core.hooksPath=/dev/null",
        "core.pager=cat",
        "protocol.ext.allow=never",
        "credential.helper=",
    ),
    "commit": (*_BOTH, "core.fsync=all"),
}
# GIT_OPTIONAL_LOCKS: a look at a tree must not take the index lock from the phase that works there.
# LANGUAGE: untranslated messages, while LC_* stay as hooks and filters need them.
_ENV: Final[Mapping[Kind, Mapping[str, str]]] = {
    "read": {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LANGUAGE": "C"},
    "commit": {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":", "LANGUAGE": "C"},
}
_CONTENDED: Final = re.compile(
    rb"Unable to create '[^'\n]*\.lock': File exists|could not lock config file"
)
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s'\"]+@")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a git process ended."""

    exit_code: int
    """As subprocess has it: negative for a signal."""
    stdout: bytes
    stderr: bytes


def run_git(
    args: Sequence[str],
    cwd: str,
    *,
    kind: Kind,
    stdin: bytes | None = None,
    timeout_s: float | None = 120.0,
    env: Mapping[str, str] | None = None,
    hold: int | None = None,
) -> bytes:
    """Run git and expect exit code 0.

    Args:
        args: Everything after `git`.
        cwd: Working directory.
        kind: Which hardened set.
        stdin: What git reads; nothing by default.
        timeout_s: Limit for each try; None for no limit.
        env: More variables, `GIT_*` ones too.
        hold: A lock's descriptor that git inherits, so that the lock outlives a killed adw for
            as long as its git does.

    Returns:
        Its standard output.

    Raises:
        GitError: With exit code and the last lines of stderr. A `*.lock` file that another git
            holds was waited for, up to 10 s.
    """
    done = ask_git(args, cwd, kind=kind, stdin=stdin, timeout_s=timeout_s, env=env, hold=hold)
    if done.exit_code != 0:
        raise failure(args, done)
    return done.stdout


def ask_git(
    args: Sequence[str],
    cwd: str,
    *,
    kind: Kind,
    stdin: bytes | None = None,
    timeout_s: float | None = 120.0,
    env: Mapping[str, str] | None = None,
    hold: int | None = None,
) -> Outcome:
    """As `run_git`, for commands whose exit code is an answer.

    Raises:
        GitError: Only where the time limit was reached.
    """

    def once() -> Outcome:
        return _start(args, cwd, kind, stdin, timeout_s, environment(kind, env), hold)

    done = once()
    if not contended(done):
        return done
    from tenacity import Retrying, retry_if_result, stop_after_delay, wait_random_exponential

    again = Retrying(
        retry=retry_if_result(contended),
        stop=stop_after_delay(LOCK_WAIT_S),
        wait=wait_random_exponential(multiplier=0.02, max=0.5),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else done,
    )
    found: Outcome = again(once)
    return found


def chunks_of_git(args: Sequence[str], cwd: str) -> Iterator[bytes]:
    """Run a git that reads, and take its standard output in pieces: memory stays flat.

    Raises:
        GitError: It ended with another exit code than 0.
    """
    process = _spawn(args, cwd, "read", environment("read"), stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process, _ended_on_error(process, own_group=True):
        while chunk := process.stdout.read(_CHUNK):
            yield chunk
    if process.returncode != 0:
        raise failure(args, Outcome(process.returncode, b"", b""))


def contended(done: Outcome) -> bool:
    """Tell whether git failed only because another git holds a lock file."""
    return done.exit_code > 1 and _CONTENDED.search(done.stderr) is not None


def failure(args: Sequence[str], done: Outcome) -> GitError:
    """Make the error of a git process that failed."""
    fix = None
    if contended(done):
        fix = "another git holds that lock; if none is running, remove the file"
    return GitError(
        command=without_credentials(shlex.join(args))[:_COMMAND_LIMIT],
        exit_code=done.exit_code,
        stderr=last_lines(done.stderr) or None,
        fix=fix,
    )


def last_lines(stderr: bytes) -> str:
    """The last lines of git's own text, safe to print on a terminal, without credentials."""
    text = stderr.decode("utf-8", "replace").replace("\r", "\n")
    kept = [line for line in text.splitlines() if line.strip()][-_STDERR_LINES:]
    return without_credentials("\n".join(_CONTROL.sub("?", line) for line in kept))


def without_credentials(text: str) -> str:
    """A text without what stands before the `@` of a URL."""
    return _CREDENTIALS.sub("", text)


def on_one_line(path: str) -> str:
    """A path in a line for people."""
    return "".join(c if c.isprintable() else "?" for c in path)


def stand_in_identity(
    words: Sequence[str], cwd: str, env: Mapping[str, str] | None = None
) -> list[str]:
    """Settings that stand in for an identity which the user has not configured.

    Args:
        words: What stands before git's command, such as `--git-dir`.
        cwd: Where git runs.
        env: More variables.
    """
    args = [*words, "config", "--name-only", "--get-regexp", r"^user\.(name|email)$"]
    done = ask_git(args, cwd, kind="read", env=env)
    have = set(done.stdout.decode("utf-8", "replace").split())
    stand_in = {"user.name": "adw", "user.email": "adw@localhost"}
    missing = [f"{key}={value}" for key, value in stand_in.items() if key not in have]
    return [part for setting in missing for part in ("-c", setting)]


def environment(kind: Kind, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment as git gets it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return {**kept, **_ENV[kind], **(more or {})}


@functools.cache
def require_version() -> tuple[int, int]:
    """Look once whether git is new enough.

    Raises:
        EnvironmentFault: It is older than 2.36, or missing.
    """
    text = run_git(["version"], "/", kind="read").decode("utf-8", "replace")
    found = re.search(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST:
        raise EnvironmentFault(
            detail=f"`{text.strip()}` is installed, 2.36 or newer is expected",
            fix="install a newer git",
        )
    return version


def _start(
    args: Sequence[str],
    cwd: str,
    kind: Kind,
    stdin: bytes | None,
    timeout_s: float | None,
    env: Mapping[str, str],
    hold: int | None,
) -> Outcome:
    process = _spawn(args, cwd, kind, env, takes=stdin is not None, hold=hold)
    with process, _ended_on_error(process, own_group=kind == "read"):
        try:
            out, err = process.communicate(stdin, timeout_s)
        except subprocess.TimeoutExpired:
            raise GitError(
                command=shlex.join(args)[:_COMMAND_LIMIT],
                exit_code="none",
                stderr=f"not done after {timeout_s} s",
                fix=None,
            ) from None
    return Outcome(process.returncode, out, err)


def _spawn(
    args: Sequence[str],
    cwd: str,
    kind: Kind,
    env: Mapping[str, str],
    *,
    takes: bool = False,
    hold: int | None = None,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    settings = [part for each in _CONFIG[kind] for part in ("-c", each)]
    try:
        return subprocess.Popen(
            ["git", *settings, *args],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE if takes else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=() if hold is None else (hold,),
            # The terminal's Ctrl-C is for adw, which ends its git in an orderly way itself. Inside
            # a phase git stays in the group that the supervisor ends.
            process_group=0 if kind == "read" else None,
        )
    except FileNotFoundError:
        if not os.path.isdir(cwd):
            raise RepositoryError(
                detail=f"the directory `{cwd}` does not exist", path=cwd, fix=None
            ) from None
        raise EnvironmentFault(
            detail="`git` is not on PATH", reason=None, fix="install git 2.36 or newer"
        ) from None
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.ENOMEM}:
            raise
        raise EnvironmentFault(
            detail="`git` could not be started", reason=error.strerror, fix=_MORE_PROCESSES
        ) from error


@contextlib.contextmanager
def _ended_on_error(process: subprocess.Popen[bytes], *, own_group: bool) -> Iterator[None]:
    """Leave no git behind: SIGTERM lets it remove its lock files, SIGKILL is the limit."""
    try:
        yield
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                if own_group:
                    os.killpg(process.pid, number)
                else:
                    process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=2.0)
                break
        raise
