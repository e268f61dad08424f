"""Ways to tell people something: a webhook, a command, the desktop. Each is bounded in time.

A message is JSON-ready data with at least `text` and `key`; the same key again is the same message.
What goes wrong is told in one line that names no path of a URL, since that may be a secret.
"""

import contextlib
import json
import os
import re
import select
import signal
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

LIMIT_S: Final = 10.0  # for one message by one way
WAYS: Final = ("webhook", "command", "desktop")

_DESKTOP: Final = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
_TOLD_BYTES: Final = 4096  # of what a command printed
_LINE_CHARS: Final = 200


class NotSent(Exception):
    """It was not told, or nobody knows; says why in one line."""


def ways(channels: Mapping[str, Any]) -> list[str]:
    """The ways that `notify` of adw.yaml names."""
    return [way for way in WAYS if channels.get(way)]


def send(way: str, channels: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Tell a message by one way.

    Args:
        way: One of `WAYS`.
        channels: `notify` of adw.yaml.
        message: What is told.

    Raises:
        NotSent: It was not told, or not as far as is known.
    """
    if way == "webhook":
        _post(str(channels["webhook"]), message)
    elif way == "command":
        _run([str(word) for word in channels["command"]], _bytes(message))
    elif any(os.environ.get(name) for name in _DESKTOP):
        text = str(message["text"])
        _run(["notify-send", "--app-name=adw", "--", "adw", text], b"")


def _bytes(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


# --- webhook -----------------------------------------------------------------------------


def _post(address: str, message: Mapping[str, Any]) -> None:
    import http.client
    import urllib.error
    import urllib.request

    class Straight(urllib.request.HTTPRedirectHandler):
        """A redirect is an error: the message would go elsewhere, or be lost."""

        def redirect_request(self, *_: Any) -> None:
            return None

    url = _url(address)
    shown = re.sub(r"\A(https?://[^/?#]+).*", r"\1", url, flags=re.DOTALL)
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Idempotency-Key": str(message["key"]),
        "User-Agent": "adw",
    }
    try:
        request = urllib.request.Request(url, _bytes(message), headers, method="POST")  # noqa: S310
        with _within(LIMIT_S):
            opened = urllib.request.build_opener(Straight).open(request, timeout=LIMIT_S)
            opened.close()
    except urllib.error.HTTPError as error:
        error.close()
        message_ = f"{shown} answered {error.code}"
        raise NotSent(message_) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or type(reason).__name__
        if isinstance(reason, TimeoutError):
            why = f"no answer within {LIMIT_S:g} s"
        words = f"{shown}: {why}"
        raise NotSent(words) from None


def _url(address: str) -> str:
    """The URL, which may stand in an environment variable."""
    if not address.startswith("$"):
        return address
    found = os.environ.get(address[1:], "")
    if not re.match(r"https?://[^\s@]+\Z", found):
        what = "is not set" if not found else "has no http or https URL"
        words = f"`{address[1:]}` {what}"
        raise NotSent(words)
    return found


@contextlib.contextmanager
def _within(limit_s: float) -> Iterator[None]:
    """Bound a block as a whole: a remote may give a byte now and then for ever.

    Raises:
        TimeoutError: It took too long.
    """

    def late(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- command -----------------------------------------------------------------------------


def _run(argv: list[str], data: bytes) -> None:
    """Run a command that reads `data`, to its end or the limit; then its group is killed."""
    told, given = (os.memfd_create(name) for name in ("told", "given"))
    try:
        os.write(given, data)
        os.lseek(given, 0, os.SEEK_SET)
        copies = [
            (os.POSIX_SPAWN_DUP2, fd, number) for fd, number in ((given, 0), (told, 1), (told, 2))
        ]
        try:
            pid = os.posix_spawnp(
                argv[0],
                argv,
                os.environ,
                file_actions=copies,
                setpgroup=0,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        except OSError as error:
            words = f"`{argv[0]}` cannot be started: {error.strerror}"
            raise NotSent(words) from None
        exit_code = _ended(pid)
        if exit_code is None:
            words = f"`{argv[0]}` was not done after {LIMIT_S:g} s"
            raise NotSent(words)
        if exit_code:
            last = _last_line(told)
            words = f"`{argv[0]}` ended with exit code {exit_code}" + (f": {last}" if last else "")
            raise NotSent(words)
    finally:
        os.close(told)
        os.close(given)


def _ended(pid: int) -> int | None:
    """Exit code, or minus the signal; None where it took too long and was killed."""
    end = os.pidfd_open(pid)
    deadline = time.monotonic() + LIMIT_S
    try:
        over = False
        while not over and (left := deadline - time.monotonic()) > 0:
            over = bool(select.select([end], [], [], left)[0])
    finally:
        os.close(end)
        if not over:
            os.killpg(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status) if over else None


def _last_line(fd: int) -> str:
    size = os.lseek(fd, 0, os.SEEK_END)
    data = os.pread(fd, _TOLD_BYTES, max(0, size - _TOLD_BYTES))
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    last = lines[-1][:_LINE_CHARS] if lines else ""
    return "".join(c if c.isprintable() else "?" for c in last)
