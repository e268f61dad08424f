"""One sitting at a run, from the held lock to the end: prepare, open, drive, leave."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adw import clock, failpoints
from adw.app import chaining, define, furnishing, keeping, queueing, world
from adw.app.copying_state import Copies, Copying
from adw.app.define import Definition
from adw.app.opening import Opened, make_session
from adw.app.parts import Reporter
from adw.app.places import Places
from adw.app.rebuilding import bare_graph, read_info
from adw.app.session import Session
from adw.app.wishes import Wishes
from adw.core.decide import Fold, decide, only_marks, resume_marks
from adw.engine import Outcome, drive
from adw.errors import ExitCode, StoreError
from adw.model.state import ADWStateData
from adw.store import runs
from adw.store.runs import RunLock
from adw.store.state import StateFile
from adw.supervise.local import LocalSupervision
from adw.workspace import leases, tables
from adw.workspace.worktree import Worktree


def _nothing() -> None:
    """Nothing is to be done, nobody is to be told."""


@dataclass(frozen=True, slots=True)
class Host:
    """What the process gives: the nursery forked at its start, and who watches."""

    nursery: Any
    reporter: Reporter
    created: Callable[[str], None]
    """Called with the ADW ID as soon as the run exists, or its lock is held."""
    say: Callable[[str], None]
    """Takes one line for people."""
    in_line: Callable[[], None] = _nothing
    """Called as soon as the run has its place in the queue, or needs none."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """How a command's work on a run ended."""

    adw_id: str
    outcome: Outcome

    @property
    def exit_code(self) -> int:
        """Exit status of the command."""
        if self.outcome.closing == "succeeded":
            return ExitCode.OK
        if self.outcome.closing in {"failed", "cancelled"}:
            return ExitCode.FAILED
        if self.outcome.closing == "stuck":
            return ExitCode.BUG
        return ExitCode.HELD


@dataclass(slots=True)
class Work:
    """From a held lock to the end of the sitting."""

    places: Places
    host: Host
    lock: RunLock
    state: ADWStateData
    state_file: StateFile
    definition: Definition
    command: str
    parent: Definition | None = None
    """The definition before, when this one is new."""
    keep: bool = False
    update_base: bool = False
    """Bring the base branch's present tip in before anything else."""
    copies: Copies = field(init=False)

    def __post_init__(self) -> None:
        """Say where the copy of the run is kept."""
        self.copies = Copies(self.places.repo.git_dir, self.lock.run_dir, self.state_file)

    def go(self, from_phase: str | None, *, wait: bool) -> Sitting:
        """Prepare the workspace, drive until the sitting ends, leave.

        Raises:
            Interrupted: A signal ended it.
        """
        runs.complete_dirs(self.lock.run_dir)
        altered = self.copies.altered(self.state)
        self.copies.refresh()
        with self._opened() as (wishes, supervision), self._place() as place:
            over = self._over(from_phase)
            queued = None if over else self._queued(place, supervision, wishes, wait=wait)
            self.host.in_line()
            action = self._prepare() if place.admitted and not over else None
            remade = action not in {None, "reused"} and bool(self.state.phase_history)
            if action and not from_phase:
                world.check(self._worktree(), self.state, self.definition.graph, remade=remade)
            session = queued or make_session(self._parts(supervision, wishes))
            session.state = self.state if queued else session.state
            if action:
                names = {"worktree": self.state.worktree_path, "branch": self.state.branch_name}
                session.event("workspace_ready", {**names, "action": action})
                furnishing.furnish(self, session, action, altered)
            self._apply(session, supervision, from_phase)
            if remade:
                self._redo_unsaved(session)
            if place.admitted or over or session.wish():
                outcome = queueing.drive(place, session, supervision, self.host.say, wait=wait)
            else:
                outcome = self._not_waited(session)
            self._close(session, outcome)
        self._tell(outcome)
        if outcome.wish == "signal" and outcome.closing is None and wishes.signal is not None:
            raise Interrupted(self.state.adw_id, wishes.signal)
        if session.left == "disk" and session.low:
            raise session.low
        return Sitting(self.state.adw_id, outcome)

    def _place(self) -> queueing.Place:
        """Its place among the runs that may work at once; not taken yet."""
        config, root = self.definition.config, self.places.repo.root
        return queueing.Place.of(root, self.lock.run_dir, self.state, config)

    def _queued(
        self, place: queueing.Place, supervision: LocalSupervision, wishes: Wishes, *, wait: bool
    ) -> Session | None:
        """Wait for its turn; the session in which it waited, if it had to and could in one."""
        run_dir = self.lock.run_dir
        place.look(working=runs.attempt_alive(run_dir))
        self.host.in_line()
        if place.admitted:
            return None
        session = None
        if queueing.all_recorded(run_dir, self.state):
            session = make_session(self._parts(supervision, wishes))
        queueing.await_place(place, session, wishes, self.host.say, wait=wait)
        self.state = session.state if session else self.state
        return session

    def _not_waited(self, session: Session) -> Outcome:
        """Leave without a place, as `--no-wait` says."""
        session.left = queueing.NO_PLACE
        session.decide(clock.Clock().now())
        session.commit()
        return Outcome(None, None)

    def _launched_at(self, child: str) -> str | None:
        head: str | None = keeping.launch_of(self.lock.run_dir, child).get("head")
        return head

    def _redo_unsaved(self, session: Session) -> None:
        """Start phases again whose work was only in the worktree that is gone."""
        gone = world.unsaved(self.state, session.graph, self._launched_at)
        for phase in gone:
            session.record_mark(phase, "worktree_gone")
        if gone:
            names = ", ".join(gone)
            self.host.say(
                f"the worktree was gone, and with it what was in no commit: {names} again"
            )

    def _over(self, from_phase: str | None) -> bool:
        """Whether nothing is left to do, so that a worktree which is gone by now is no error."""
        if from_phase or self.parent is not None or self.command != "resume" or self.update_base:
            return False
        fold = Fold.of(self.definition.graph, self.state.phase_history)
        found = decide(self.definition.graph, fold, (), 0.0, _never)
        return found.closing == "succeeded"

    def settle(self, left: str | None = None, act: Callable[[Session], None] | None = None) -> None:
        """Apply what was asked of a run that nobody holds; nothing is started.

        Args:
            left: How the last sitting ended, where a person ended it; that is still so.
            act: What else is to be done, before the commit; not done where the run is cancelled.
        """
        runs.complete_dirs(self.lock.run_dir)
        with self._opened() as (wishes, supervision):
            session = make_session(self._parts(supervision, wishes))
            session.left, session.leaving = left, True
            if session.wish() == "cancel":
                self._close(session, drive(session, supervision, clock.Clock(), wait=False))
                return
            if act is not None:
                act(session)
            decision = session.decide(clock.Clock().now())
            session.commit()
            session.publish(decision)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Wishes, LocalSupervision]]:
        wishes = Wishes(self.lock.run_dir, self.lock.asked)
        wishes.open()
        supervision = LocalSupervision(self.host.nursery, wake_fds=wishes.fds)
        try:
            yield wishes, supervision
        finally:
            wishes.close()
            supervision.close()
            self.lock.close()

    def _prepare(self) -> str | None:
        """Ports, branch and worktree: each recorded before it is made, each idempotent."""
        self._lease()
        worktree = self._worktree()
        made = bool(self.state.phase_history)
        base = read_info(self.lock.run_dir)["base"] or self.definition.command.get("base")
        action: str | None = worktree.ensure(str(base), made=made)
        failpoints.hit("worktree.made")
        return action

    def _lease(self) -> None:
        ports = self.definition.config.get("ports")
        if ports == "none":
            return
        slots = ports.get("slots", 100) if isinstance(ports, dict) else 100
        back, front = self.state.backend_port, self.state.frontend_port
        wanted = (back, front) if back and front else None
        run_dir, serving = self.lock.run_dir, runs.attempt_alive(self.lock.run_dir)
        host, adw_id = tables.host_dir(), self.state.adw_id
        try:
            pair = leases.lease(host, adw_id, run_dir, wanted, slots, runs.alive, serving=serving)
        except StoreError as error:
            fix = "ADW_HOST_DIR names a folder that can be written, or `ports: none` in adw.yaml"
            raise error.with_fields(fix=fix) from error
        if pair != wanted:
            if wanted:
                self.host.say(
                    f"ports {wanted[0]} and {wanted[1]} are taken, using {pair[0]} and {pair[1]}"
                )
            changed = self.state.changed(
                backend_port=pair[0], frontend_port=pair[1], updated_at=clock.stamp()
            )
            self.state_file.save(changed)
            self.state = changed
        failpoints.hit("ports.leased")

    def _worktree(self) -> Worktree:
        path = self.places.worktree(self.state.adw_id, self.state.worktree_path)
        return Worktree(self.places.repo, path, self.state.branch_name or "")

    def _parts(self, supervision: LocalSupervision, wishes: Wishes) -> Opened:
        return Opened(
            lock=self.lock,
            state=self.state,
            state_file=self.state_file,
            definition=self.definition,
            run_info=read_info(self.lock.run_dir),
            worktree=self._worktree(),
            supervision=supervision,
            reporter=Copying(self.copies, self.host.reporter),
            wishes=wishes,
            command=self.command,
        )

    def _apply(
        self, session: Session, supervision: LocalSupervision, from_phase: str | None
    ) -> None:
        """A person's word: marks for what needs one, `--from`, another workflow."""
        now = clock.Clock().now()
        # What opening found was not over, whatever became of it: a crash gives no fresh counts.
        interrupted = bool(session.running()) or session.has_entries()
        if self.parent is not None:
            chaining.switch(
                session,
                self.parent,
                self.definition,
                self.host.say,
                keep=self.keep,
                again=from_phase is not None,
            )
        target = self.definition.command.get("only")
        if target and self.command == "run":
            for phase in only_marks(session.graph, session.fold, now, session.holds):
                session.record_mark(phase)
        if from_phase:
            chaining.start_from(session, supervision, from_phase)
        elif session.state.phase_history and not interrupted and session.wish() is None:
            for phase in resume_marks(session.graph, session.fold, now, session.holds):
                session.record_mark(phase)

    def _close(self, session: Session, outcome: Outcome) -> None:
        if self.copies.fault:
            detail = f"what guards this run against `git clean` is not whole: {self.copies.fault}"
            furnishing.warn(self, session, detail)
        if outcome.closing:
            slots = {"closing": outcome.closing, "reason": session.reason}
            session.event("run_closed", slots)
        session.leaving = True
        if outcome.wish == "pause":
            session.left = "pause"
        elif outcome.wish == "signal" and session.parts.wishes.signal is not None:
            session.left = signal.Signals(session.parts.wishes.signal).name
        elif session.low and not session.left:
            session.left = "disk"
        if session.left and not outcome.closing:
            session.event("run_left", {"by": session.left})
        assert session.decision is not None
        if self.places.output_dir:
            self._deliver(session, self.places.output_dir)
        session.publish(session.decision)

    def _tell(self, outcome: Outcome) -> None:
        """Tell people of the end, now that the run's lock is free."""
        channels = self.definition.config.get("notify")
        if channels and outcome.closing:
            from adw.app.notifying import tell_end

            tell_end(self.lock.run_dir, self.places.repo.root, channels, self.host.say)

    def _deliver(self, session: Session, output_dir: str) -> None:
        """Copy what was handed over to where its receiver looks; that fails no run."""
        from adw.app.delivering import deliver
        from adw.app.promoting import read_manifest

        for line in deliver(session.run_dir, read_manifest(session.run_dir), output_dir):
            furnishing.warn(self, session, line)


class Interrupted(Exception):
    """A signal ended the sitting; the run is resumable."""

    def __init__(self, adw_id: str, number: int) -> None:
        super().__init__(adw_id, number)
        self.adw_id = adw_id
        self.number = number


def definition_of(run_dir: str, state: ADWStateData) -> Definition:
    """The definition that a state names; a bare one for a state that was written elsewhere."""
    if state.workflow:
        return define.load(run_dir, state.workflow)
    graph = bare_graph(state)
    return Definition("", graph, graph, {"ports": "none"}, {}, "")


def _never(_phase: str, _expression: str) -> bool:
    """No `when` is asked of a run that is over."""
    return False
