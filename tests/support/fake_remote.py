"""A remote that keeps comments, on loopback, and can fail in the ways that matter for effects.

`POST /comments` keeps the body; `GET /comments` gives all bodies as a JSON list. Each POST takes
the next of `modes`; when there are none left, all is well:

- `ok`: kept, answered 201
- `lost`: kept, and the connection is closed without an answer
- `bad_gateway`: kept, answered 502
- `held`: kept, answered 201 when `release` is set
- `cut`: not kept, the connection is closed
- `busy`, `down`: not kept, answered 429 or 503 with `Retry-After: 0`

Each GET takes the next of `looks`: `ok`, `down` (503) or `cut`.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

STATUS: Final = {"ok": 201, "held": 201, "bad_gateway": 502, "busy": 429, "down": 503}
KEPT: Final = frozenset({"ok", "held", "lost", "bad_gateway"})


class Remote:
    """What the remote keeps, and how it behaves; safe to be asked from several threads."""

    def __init__(self, modes: Sequence[str] = (), looks: Sequence[str] = ()) -> None:
        self.modes = list(modes)
        self.looks = list(looks)
        self.comments: list[str] = []
        self.url = ""
        self.release = threading.Event()
        self._lock = threading.Lock()

    def post(self, text: str) -> str:
        """Take a comment; the mode says how it is answered."""
        with self._lock:
            mode = self.modes.pop(0) if self.modes else "ok"
            if mode in KEPT:
                self.comments.append(text)
            return mode

    def look(self) -> tuple[str, list[str]]:
        """The mode of this look, and all comments."""
        with self._lock:
            return (self.looks.pop(0) if self.looks else "ok"), list(self.comments)

    def again(self, modes: Sequence[str] = (), looks: Sequence[str] = ()) -> None:
        """Forget all comments and behave so from now on."""
        with self._lock:
            self.comments.clear()
            self.modes[:], self.looks[:] = modes, looks


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    remote: Remote

    def handle_error(self, *_: object) -> None:
        """A client that was killed is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 5

    def do_POST(self) -> None:
        """Keep a comment."""
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:
            return  # the client died before it had asked
        mode = self.server.remote.post(body.decode())
        if mode == "held":
            self.server.remote.release.wait(30)
        self._answer(STATUS.get(mode), b"{}")

    def do_GET(self) -> None:
        """Give all comments."""
        mode, comments = self.server.remote.look()
        self._answer({"ok": 200, "down": 503}.get(mode), json.dumps(comments).encode())

    def _answer(self, status: int | None, body: bytes) -> None:
        self.close_connection = True
        if status is None:
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def serving(remote: Remote) -> Iterator[Remote]:
    """Serve it on a port of its own; `url` is set meanwhile."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.remote = remote
        remote.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield remote
        finally:
            remote.release.set()
            server.shutdown()
            thread.join()
