"""A bare repository behind `git http-backend` on loopback, which can fail in the ways that matter.

A token is required as password. The branch `main` is protected: a hook refuses it, as it refuses
every branch while `closed` is set. Each push (the POST that carries it) takes the next of `modes`;
when there are none left, all is well:

- `ok`: done, answered
- `lost`: done, and the connection is closed without an answer
- `cut`: done, and the connection is closed within the answer
- `bad_gateway`: done, answered 502
- `busy`, `down`: not done, answered 429 or 503
- `early`: not done, the connection is closed

Each look (`info/refs`) takes the next of `looks`: `ok`, `down`, `cut`, or `slow`, which gives a
byte every 50 ms until `release`.

Source: git-http-backend(1); RFC 3875 for the variables of a CGI program.
"""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

TOKEN: Final = "s3cret-t0ken-of-tests"
DONE: Final = frozenset({"ok", "lost", "cut", "bad_gateway"})
REFUSED: Final = {"busy": 429, "down": 503}
HOOK: Final = """#!/bin/sh
while read -r old new ref; do
  if [ "$ref" = refs/heads/main ] || [ -e closed ]; then
    echo "$ref is protected" >&2
    exit 1
  fi
done
"""


class GitRemote:
    """The repository, and how its server behaves; safe to be asked from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.modes: list[str] = []
        self.looks: list[str] = []
        self.address = ""
        """`127.0.0.1:<port>`"""
        self.users: set[str] = set()
        """Names that came with the token."""
        self.release = threading.Event()
        self._lock = threading.Lock()
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(path), cwd=path.parent)
        self.git("config", "core.logAllRefUpdates", "always")
        hook = path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(HOOK)
        hook.chmod(0o755)

    @property
    def url(self) -> str:
        """Without user and token."""
        return f"http://{self.address}/{self.path.name}"

    def git(self, *args: str, cwd: Path | None = None) -> str:
        """Run git in the bare repository."""
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.path, check=True, capture_output=True, text=True
        )
        return done.stdout.rstrip("\n")

    def refs(self) -> dict[str, str]:
        """Every ref and what it is."""
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def updates(self, ref: str) -> int:
        """How often a ref was changed."""
        log = self.path / "logs" / ref
        return len(log.read_text().splitlines()) if log.exists() else 0

    def close(self, *, closed: bool = True) -> None:
        """Have every push refused from now on, or not."""
        sign = self.path / "closed"
        if closed:
            sign.touch()
        else:
            sign.unlink(missing_ok=True)

    def again(self, modes: Sequence[str] = (), looks: Sequence[str] = ()) -> None:
        """Behave so from now on."""
        with self._lock:
            self.modes[:], self.looks[:] = modes, looks

    def next(self, *, push: bool) -> str:
        """How this request is to be answered."""
        with self._lock:
            queue = self.modes if push else self.looks
            return queue.pop(0) if queue else "ok"


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    remote: GitRemote

    def handle_error(self, *_: object) -> None:
        """A client that was killed is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        """Tell the refs."""
        if self._allowed():
            self._serve(b"", self.server.remote.next(push=False))

    def do_POST(self) -> None:
        """Take a pack, or give one."""
        body = self._body()
        if body is None or not self._allowed():
            return
        asks = not self.path.endswith("/git-receive-pack") or body == b"0000"
        self._serve(body, "ok" if asks else self.server.remote.next(push=True))

    def _allowed(self) -> bool:
        kind, _, word = (self.headers["Authorization"] or "").partition(" ")
        user, _, token = base64.b64decode(word).decode().partition(":")
        if kind == "Basic" and token == TOKEN:
            self.server.remote.users.add(user)
            return True
        self.close_connection = True
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def _body(self) -> bytes | None:
        if self.headers["Transfer-Encoding"] != "chunked":
            size = int(self.headers["Content-Length"])
            body = self.rfile.read(size)
            return body if len(body) == size else None  # else the client died before it had asked
        found = []
        while size := int(self.rfile.readline() or b"0", 16):
            found.append(self.rfile.read(size))
            self.rfile.readline()
        return b"".join(found)

    def _serve(self, body: bytes, mode: str) -> None:
        self.close_connection = True
        if mode in REFUSED:
            self._answer(f"{REFUSED[mode]} No", [("Retry-After", "0")], b"")
            return
        if mode == "early" or (mode == "cut" and self.command == "GET"):
            return
        if mode == "slow":
            self._slow()
            return
        head, _, data = self._backend(body).partition(b"\r\n\r\n")
        if mode == "lost":
            return
        if mode == "bad_gateway":
            self._answer("502 Bad Gateway", [], b"")
            return
        lines = [line.partition(": ") for line in head.decode().split("\r\n")]
        status = next((value for name, _, value in lines if name == "Status"), "200 OK")
        fields = [(name, value) for name, _, value in lines if name != "Status"]
        self._answer(status, fields, data, cut=mode == "cut")

    def _backend(self, body: bytes) -> bytes:
        path, _, query = self.path.partition("?")
        remote = self.server.remote
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(remote.path.parent),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "REMOTE_USER": "tests",
            "REMOTE_ADDR": "127.0.0.1",
        }
        argv = ["git", "http-backend"]
        return subprocess.run(argv, input=body, env=env, capture_output=True, check=False).stdout

    def _answer(
        self, status: str, fields: list[tuple[str, str]], data: bytes, *, cut: bool = False
    ) -> None:
        code, _, words = status.partition(" ")
        self.send_response(int(code), words)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)

    def _slow(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        while not self.server.remote.release.wait(0.05):
            self.wfile.write(b"0")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def git_remote(path: Path) -> Iterator[GitRemote]:
    """Serve a new bare repository on a port of its own."""
    remote = GitRemote(path)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.remote = remote
        remote.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield remote
        finally:
            remote.release.set()
            server.shutdown()
            thread.join()
