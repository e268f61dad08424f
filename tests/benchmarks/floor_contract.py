"""The floor LC: the smallest plain program that keeps the contract of a supervised phase.

    floor_contract.py COUNT PARALLEL DIRECTORY WORKTREE COMMAND [ARGUMENT...]    (`python -I`)

A nursery is forked first; it forks supervisors, which are used again. For each phase:

    packet and launch line written, lock taken and handed over
    | supervisor: its line, syncs of packet, waits for "go"  | both at once
    | orchestrator: commit of the phase before               |
    "go", body in a group of its own, tree over, exit line told, synced ("durable", which the
    commit waits for before its rename), event appended unsynced

What ended together shares one commit; history entries are kept encoded. Left out is all that a
real engine does beyond: deciding, output, limits, results, views. WORKTREE is `-`, or a worktree
whose files that name repository, branch and commit are read before and after each phase; before
it, one `git status` tells that the tree is clean.
"""

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
LOCK = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
RIGHTS = socket.CMSG_SPACE(struct.calcsize("i"))


def send(sock: socket.socket, message: dict[str, object], fd: int | None = None) -> None:
    """Send one message, and a descriptor with it."""
    rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    sock.sendmsg([json.dumps(message).encode()], rights)


def receive(sock: socket.socket) -> tuple[dict[str, str], int]:
    """Block for one message; ({}, -1) when the other end is gone."""
    data, rights, _, _ = sock.recvmsg(1 << 16, RIGHTS, socket.MSG_CMSG_CLOEXEC)
    fd = struct.unpack("i", rights[0][2])[0] if rights else -1
    return (json.loads(data) if data else {}), fd


def append(fd: int, line: dict[str, object]) -> None:
    """Append a line."""
    os.write(fd, json.dumps(line).encode() + b"\n")


def sync(path: str) -> None:
    """Sync a file or directory by name."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(fd)
    os.close(fd)


def now() -> str:
    """This instant."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


# --- nursery and supervisors ------------------------------------------------------------------


def nursery(sock: socket.socket) -> None:
    """Fork a supervisor whenever asked."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    children = 0
    while receive(sock)[0]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            os.setsid()
            ours.close()
            sock.close()
            supervise(theirs)
            os._exit(0)
        children += 1
        theirs.close()
        send(sock, {"op": "supervisor"}, ours.fileno())
        ours.close()
    for _ in range(children):
        os.wait()


def supervise(sock: socket.socket) -> None:
    """One attempt after another."""
    while True:
        launch, fd = receive(sock)
        if not launch:
            return
        append(fd, {"line": "supervisor", "pid": os.getpid()})
        os.fsync(fd)
        for name in ("task", "child", "attempt"):
            sync(launch[name])
        if not receive(sock)[0]:
            return
        command: list[str] = launch["command"]  # type: ignore[assignment]
        os.chdir(launch["cwd"])
        started = now()
        pid = os.posix_spawn(command[0], command, os.environ, setpgroup=0)
        os.chdir("/")
        append(fd, {"line": "body", "pid": pid})
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(ChildProcessError):  # this is how it knows that the tree is over
            os.waitpid(-1, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status)
        append(fd, {"line": "exit", "exit_code": code, "started_at": started, "ended_at": now()})
        send(sock, {"op": "exited", "child": launch["name"]})
        os.fdatasync(fd)
        os.close(fd)
        send(sock, {"op": "durable", "child": launch["name"]})


# --- the orchestrator -------------------------------------------------------------------------


class Orchestrator:
    """Runs `count` phases, `parallel` at a time."""

    def __init__(self, sock: socket.socket, root: str, worktree: str, command: list[str]) -> None:
        self.sock = sock
        self.root = root
        self.worktree = worktree
        self.command = command
        self.entries: list[bytes] = []
        self.idle: list[socket.socket] = []
        self.by_fd: dict[int, socket.socket] = {}
        self.of: dict[str, socket.socket] = {}
        self.undurable: set[str] = set()
        self.poll = select.poll()
        self.dir_fd = os.open(root, os.O_RDONLY)
        for name in ("children", "attempts"):
            os.mkdir(f"{root}/{name}", 0o700)
        self.events = os.open(f"{root}/events.jsonl", FRESH | os.O_APPEND, 0o600)

    def run(self, count: int, parallel: int) -> None:
        """All phases."""
        started = done = 0
        ended: list[str] = []
        while done < count:
            launched = []
            while started < count and started - done < parallel:
                started += 1
                launched.append(f"p{started}-1")
                self.launch(launched[-1])
            if ended:
                self.commit(ended)
            if launched:
                sync(f"{self.root}/children")
                sync(f"{self.root}/attempts")
            for name in launched:
                send(self.of[name], {"op": "go"})
            facts = [{"event": "ended", "child": name} for name in ended]
            facts += [{"event": "launched", "child": name} for name in launched]
            os.write(self.events, b"".join(json.dumps(fact).encode() + b"\n" for fact in facts))
            ended = self.wait()
            done += len(ended)
        self.commit(ended)

    def launch(self, name: str) -> None:
        """Write the packet, take its lock, hand it over."""
        self.check()
        self.clean()
        child, attempt = f"{self.root}/children/{name}", f"{self.root}/attempts/{name}"
        os.mkdir(child, 0o700)
        os.mkdir(attempt, 0o700)
        task = os.open(f"{child}/TASK.md", FRESH, 0o600)
        os.write(task, f"# {name}\n\n{' '.join(self.command)}\n".encode())
        os.close(task)
        fd = os.open(f"{attempt}/attempt.jsonl", FRESH | os.O_APPEND, 0o600)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, LOCK)
        append(fd, {"line": "launch", "name": name, "at": now(), "command": self.command})
        supervisor = self.idle.pop() if self.idle else self.born()
        self.of[name] = supervisor
        message = {"name": name, "task": f"{child}/TASK.md", "child": child, "attempt": attempt}
        cwd = self.root if self.worktree == "-" else self.worktree
        send(supervisor, {**message, "command": self.command, "cwd": cwd}, fd)
        os.close(fd)

    def born(self) -> socket.socket:
        """Ask the nursery for a supervisor."""
        send(self.sock, {"op": "fork"})
        _, fd = receive(self.sock)
        supervisor = socket.socket(fileno=fd)
        self.by_fd[fd] = supervisor
        self.poll.register(fd, select.POLLIN)
        return supervisor

    def wait(self) -> list[str]:
        """Names of attempts that are over, at least one."""
        ended: list[str] = []
        while not ended:
            for fd, _ in self.poll.poll():
                ended += self.hear(self.by_fd[fd])
        return ended

    def hear(self, supervisor: socket.socket) -> list[str]:
        """Take one message in."""
        message, _ = receive(supervisor)
        name = message["child"]
        if message["op"] == "durable":
            self.undurable.discard(name)
            return []
        self.check()
        self.undurable.add(name)
        self.idle.append(supervisor)
        entry = {"phase": name, "attempt": 1, "success": True, "reason": None}
        self.entries.append(json.dumps({**entry, "ended_at": now(), "commit": "0" * 40}).encode())
        return [name]

    def commit(self, ended: list[str]) -> None:
        """Replace the state once what it names is durable."""
        temp = os.open(f"{self.root}/state.tmp", FRESH, 0o600)
        os.write(temp, b'{"phase_history": [\n' + b",\n".join(self.entries) + b"\n]}\n")
        os.fsync(temp)
        os.close(temp)
        for name in ended:
            while name in self.undurable:
                self.hear(self.of[name])
            del self.of[name]
        os.rename(f"{self.root}/state.tmp", f"{self.root}/state.json")
        os.fsync(self.dir_fd)

    def check(self) -> None:
        """Read what says whose worktree it is, on which branch, at which commit."""
        if self.worktree == "-":
            return
        admin = text(f"{self.worktree}/.git").removeprefix("gitdir: ")
        common = os.path.join(admin, text(f"{admin}/commondir"))
        branch = text(f"{admin}/HEAD").removeprefix("ref: ")
        assert len(text(f"{common}/{branch}")) >= 40

    def clean(self) -> None:
        """Ask git whether anything is modified or untracked."""
        if self.worktree == "-":
            return
        reader, writer = os.pipe()
        command = ["git", "-C", self.worktree, "status", "--porcelain=v2", "-z", "-uall"]
        actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
        pid = os.posix_spawnp("git", command, os.environ, file_actions=actions)
        os.close(writer)
        with open(reader, "rb") as answer:
            assert answer.read() == b""
        os.waitpid(pid, 0)


def text(path: str) -> str:
    """A small file's first line."""
    with open(path, "rb") as file:
        return file.read().decode().strip()


def main() -> None:
    """Fork the nursery, run, reap it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        nursery(theirs)
        os._exit(0)
    theirs.close()
    orchestrator = Orchestrator(ours, sys.argv[3], sys.argv[4], sys.argv[5:])
    orchestrator.run(int(sys.argv[1]), int(sys.argv[2]))
    for supervisor in orchestrator.by_fd.values():
        supervisor.close()
    ours.close()
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
