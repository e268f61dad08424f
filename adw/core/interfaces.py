"""What the engine knows of the rooms above it: Protocols and the values that cross them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from adw.core.decide import Decision, Live, Start
from adw.core.graph import Graph


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """All that a supervisor must know of one attempt; crosses its socket as JSON."""

    child_id: str
    """`<phase>-<attempt>`; also the value of ADW_CHILD, by which strays are found."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the body."""
    cwd: str
    """Absolute path."""
    attempt_dir: str
    """Absolute; holds attempt.jsonl, and takes stdout.log and stderr.log."""
    sync_files: tuple[str, ...]
    """Absolute paths that the supervisor fsyncs before it reads "go"."""
    sync_dirs: tuple[str, ...]
    timeout_s: float | None = None
    """Wall limit of body and `ensure` together."""
    idle_timeout_s: float | None = None
    """Longest silence on stdout and stderr together."""
    memory_bytes: int | None = None
    """Most memory of all its processes together."""
    processes: int | None = None
    """Most processes and threads at a time."""
    disk_bytes: int | None = None
    """Most bytes below `disk_roots`."""
    disk_reserve: int | None = None
    """With `disk_bytes`: what stays free on the disks; None: as adw.supervise.disk says."""
    disk_roots: tuple[tuple[str, str], ...] = ()
    """What each folder is called, and its absolute path."""
    grace_s: float = 5.0
    """From SIGTERM to SIGKILL when the tree is ended."""
    ensure: tuple[tuple[str, ...], ...] = ()
    """Commands run after exit 0, in `cwd` and `env`, each of which must exit 0."""
    redact: tuple[str, ...] = ()
    """Secret values to blot out of the logs."""
    head_bytes: int = 4 << 20
    """How much of the beginning of each log is kept."""
    tail_bytes: int = 1 << 20
    """How much of the end of each log is kept beyond `head_bytes`."""

    def with_log(self, log_bytes: int | None) -> Self:
        """The same, keeping so much of each log, four fifths of it of the beginning; None: as it is."""
        if log_bytes is None:
            return self
        tail = log_bytes // 5
        return replace(self, head_bytes=log_bytes - tail, tail_bytes=tail)


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """The supervisor's observation: the exit line of attempt.jsonl."""

    reason: str | None
    """None: body and `ensure` exited 0; else exit, timeout, idle, signal, oom, disk, contract,
    spawn_failed, interrupted (no body was started), stopped (somebody asked)."""
    started_at: str | None
    ended_at: str
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    """For people: which `ensure` command failed, why the program could not be started."""
    survivors: tuple[int, ...] = ()
    """Processes of the tree that could not be ended."""

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> "ExitRecord":
        """Read an exit line; keys that a newer adw adds are left out."""
        return cls(
            reason=line.get("reason"),
            started_at=line.get("started_at"),
            ended_at=line["ended_at"],
            exit_code=line.get("exit_code"),
            signal=line.get("signal"),
            error=line.get("error"),
            survivors=tuple(line.get("survivors") or ()),
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt is over: its exit line is written (not yet durable), or never will be."""

    child_id: str
    record: ExitRecord | None
    """None: the supervisor died without an exit line."""
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """What became of the processes of an attempt whose supervisor is dead."""

    proved: bool
    """False in mode `tag` when nursery and supervisor were both killed in this boot."""
    survivors: tuple[int, ...] = ()


class Supervision(Protocol):
    """Starts attempts, waits for them, stops them; the real one is adw.supervise.local."""

    tree_end: str
    """`cgroup` or `tag`."""

    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        """Give an attempt, with its locked attempt.jsonl, to an idle or a new supervisor.

        The caller's descriptor is closed. Nothing runs before `go`.
        """

    def go(self, child_id: str) -> None:
        """Let the body start."""

    def adopt(self, child_id: str, attempt_dir: str, supervisor: Mapping[str, Any]) -> bool:
        """Watch an attempt that another orchestrator started.

        Args:
            child_id: Its name.
            attempt_dir: Its directory.
            supervisor: The supervisor line of its attempt.jsonl.

        Returns:
            False where no such supervisor lives: the caller looks at the file again.
        """

    def wait(self, timeout_s: float | None) -> Sequence[Ended]:
        """Sleep until an attempt is over, a descriptor of `wake_fds` is readable or time is up."""

    def await_durable(self, child_ids: Sequence[str]) -> None:
        """Block until the exit lines of these ended attempts are on disk.

        Raises:
            StoreError: A supervisor said that its sync failed.
        """

    def stop(self, child_id: str) -> None:
        """Ask for the end of a running attempt; `wait` tells when it is over."""

    def end_tree(self, child_id: str, lines: Sequence[Mapping[str, Any]]) -> TreeEnd:
        """End what a dead supervisor left, by the lines of its attempt.jsonl."""

    def close(self) -> None:
        """Let idle supervisors go; running attempts live on."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What was seen of the worktree."""

    head: str | None
    """Commit that HEAD names."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A tree that was kept as a commit."""

    ref: str
    """Its full name, such as `refs/adw/cc73faf1/build-1-before`."""
    commit: str
    left_out: tuple[str, ...] = ()
    """Paths that are not in it, each with the reason."""


class Workspace(Protocol):
    """The run's worktree; the real one is adw.workspace.worktree."""

    path: str
    """Absolute."""

    def check(self) -> Tree:
        """Assert top level, git directory and branch.

        Raises:
            WorktreeError: It is not the tree that the state names.
        """

    def fingerprint(self) -> str:
        """Id of all content, tracked and untracked; equal ids mean nothing changed."""

    def clean(self) -> bool:
        """Whether nothing is modified, staged or untracked."""

    def contains(self, commit: str) -> bool:
        """Whether a commit is in the history of the run's branch."""

    def settings_changed(self, *, anew: bool = False) -> list[str]:
        """Which of git's settings that start programs are not what they were at the first call.

        Args:
            anew: Take them as they are now.
        """

    def keep(self, name: str, exclude: Sequence[str], *, always: bool = False) -> Kept | None:
        """Keep a tree that is not clean as a commit under a ref; with `always`, a clean one too."""

    def pin(self, name: str, commit: str) -> Kept:
        """Keep a commit under a ref."""

    def back_to(
        self, head: str, commit: str | None, name: str, exclude: Sequence[str], known: str | None
    ) -> Kept | None:
        """Put tree and branch back to what they were; what is there now is kept first.

        Args:
            head: Commit that the branch names afterwards.
            commit: The kept tree; None: it was clean.
            name: Ref for what is there now; a number is added.
            exclude: Copied files, which stay.
            known: Ref that may hold what is there now already.
        """

    def mend_locks(self) -> list[str]:
        """Remove locks that a killed git of this run left; only while nothing of it lives."""


class Ticker(Protocol):
    """The wall clock that never goes back."""

    def now(self) -> float:
        """Seconds since 1970 UTC."""


class RunRecord(Protocol):
    """What one open run knows and writes; the engine drives it, the real one is adw.app.session."""

    graph: Graph

    def running(self) -> Sequence[Live]:
        """Attempts that live and have no entry yet."""

    def wish(self) -> str | None:
        """What ends this sitting: `signal`, `cancel`, `pause`, or None."""

    def record(self, ended: Ended) -> None:
        """Append the entry of an attempt that is over."""

    def record_skip(self, phase: str) -> None:
        """Append a skip."""

    def record_cancel(self, now: float) -> None:
        """With a wish to cancel and nothing running: mark all that could still start."""

    def decide(self, now: float) -> Decision:
        """What runs next."""

    def prepare(self, start: Start) -> tuple[LaunchSpec, int] | None:
        """Write the packet of a start; None where an entry was recorded instead (`workspace`)."""

    def dirty(self) -> bool:
        """Whether something waits for the next commit."""

    def commit(self, before_rename: Callable[[], None]) -> None:
        """Replace the state file, if anything changed, and make new packets' names durable."""

    def launched(self, child_id: str) -> None:
        """The body of a packet may have started."""

    def publish(self, decision: Decision) -> None:
        """Write events, RESPONSE.md and latest.json; tell whoever watches."""

    def tick_s(self) -> float | None:
        """How soon `tick` must be called, by watchers or for views held back; None: need not be."""

    def tick(self) -> None:
        """Take up requests, write views that were held back, let whoever watches look."""
