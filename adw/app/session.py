"""One open run: the record that the engine drives, from the taking of its lock to its release.

All changes are made in memory first and reach the disk in `commit`, which replaces the state file;
what is derived (events, RESPONSE.md, latest.json) is written afterwards in `publish`.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adw import clock, failpoints
from adw.app import handing, keeping, publish
from adw.app.entries import end_events, entry_of, report_of
from adw.app.packets import SHOWN, template_values
from adw.app.parts import Parts
from adw.app.promoting import Manifest, verdict_line, write_verdict
from adw.app.verdicts import Judge
from adw.core.decide import Decision, Fold, Live, Start, cancel_targets, decide
from adw.core.graph import Graph
from adw.core.interfaces import Ended, LaunchSpec
from adw.core.outcome import Verdict, one_line, outcome_word
from adw.core.recovery import blamed, recovery
from adw.core.view import PhaseBoard
from adw.errors import EnvironmentFault, StoreError
from adw.ids import child_id as name_child
from adw.model.state import MAX_ENTRIES, ADWStateData, HistoryEntry
from adw.store import files, runs
from adw.store.encoding import text_bytes


@dataclass(slots=True)
class _Run:
    """An attempt that lives."""

    live: Live
    started_at: str


@dataclass(slots=True)
class Session:
    """The open run; implements `adw.core.interfaces.RunRecord`."""

    parts: Parts
    graph: Graph = field(init=False)
    state: ADWStateData = field(init=False)
    board: PhaseBoard = field(init=False)
    fold: Fold = field(init=False)
    news: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    left: str | None = None
    """How this sitting ended before the run was over, or that it is queued; None while it works."""
    low: EnvironmentFault | None = None
    """Why nothing was started that could have been."""
    leaving: bool = False
    """What is published now is the last of this sitting: nobody goes on by himself."""
    _running: dict[str, _Run] = field(default_factory=dict)
    _entries: list[HistoryEntry] = field(default_factory=list)
    _fields: dict[str, Any] = field(default_factory=dict)
    _packets: list[str] = field(default_factory=list)
    _responses: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Child to path and text of the RESPONSE.md that it may have left to adw."""
    _outcomes: dict[str, str] = field(default_factory=dict)
    manifest: Manifest = field(init=False)
    addenda: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Phase to the clarifications made for it: request's name and text."""
    recoveries: list[dict[str, Any]] = field(default_factory=list)
    """The latest `recovery_decided` events."""
    told_settings: set[str] = field(default_factory=set)
    """Settings of git whose change was told."""
    undecided: list[tuple[HistoryEntry, bool]] = field(default_factory=list)
    """Failed attempts that the next decision is about; whether only outputs were wrong."""
    _judge: Judge = field(init=False)
    _views: publish.Views = field(default_factory=publish.Views)
    decision: Decision | None = None

    def __post_init__(self) -> None:
        self.graph = self.parts.graph
        self.state = self.parts.state
        self.board = PhaseBoard(self.graph)
        self.fold = Fold(self.graph)
        parts = self.parts
        self._judge = Judge(
            self.run_dir, self.graph, parts.worktree, parts.supervision, secrets=parts.secrets
        )
        self.manifest = Manifest(self.run_dir)
        for entry in self.state.phase_history:
            self._fold(entry)

    @property
    def run_dir(self) -> str:
        """Directory of the run."""
        return self.parts.lock.run_dir

    # --- what the engine asks ------------------------------------------------------------

    def running(self) -> Sequence[Live]:
        """Attempts that live and have no entry yet."""
        return [each.live for each in self._running.values()]

    def wish(self) -> str | None:
        """What ends this sitting, if anything."""
        return self.parts.wishes.wish

    def dirty(self) -> bool:
        """Whether something waits for the next commit."""
        return bool(self._entries or self._fields or self.parts.wishes.unmoved)

    def decide(self, now: float) -> Decision:
        """What runs next."""
        self.decision = decide(self.graph, self.fold, self.running(), now, self.holds)
        if self._room() <= 0:  # no entry could be made of what would start
            over = None if self.running() else "failed"
            self.decision = replace(self.decision, starts=(), skips=(), wake_at=None, closing=over)
        self._tell_recoveries(self.decision)
        self.low = self._disk_low() if self.decision.starts else None
        if self.low:
            self.decision = replace(self.decision, starts=())
        return self.decision

    def _disk_low(self) -> EnvironmentFault | None:
        """Why nothing may be started now; the history is told once."""
        from adw.supervise.disk import shortage, size_words

        paths = (self.run_dir, self.parts.worktree.path)
        found = shortage(paths, self.parts.config.get("disk_reserve"))
        if found is None:
            return None
        path, free, reserve = found[0], *map(size_words, found[1:])
        detail = f"no phase is started: {free} are free on the disk of `{path}`, "
        detail += f"{reserve} are to stay free"
        if self.low is None:
            self.event("warning", {"detail": detail})
        fix = f"make room (adw gc removes runs that are over), then adw resume {self.state.adw_id}"
        return EnvironmentFault(detail=detail, reason=None, fix=fix)

    def _tell_recoveries(self, decision: Decision) -> None:
        """Say what the decision makes of the attempts that failed just before it."""
        for entry, narrowed in self.undecided:
            known = [*self.state.phase_history, *self._entries]
            found = recovery(self.graph, decision, entry, known, narrowed=narrowed)
            slots = {"attempt": entry.attempt, "reason": entry.reason or "exit"} | found._asdict()
            child = name_child(entry.phase, entry.attempt)
            self.event("recovery_decided", slots, stage=entry.phase, child_id=child)
            self.recoveries.append({"child_id": child, **slots})
            del self.recoveries[: -2 * SHOWN]
        self.undecided.clear()

    def record(self, ended: Ended) -> None:
        """Append the entry of an attempt that is over."""
        run = self._running.pop(ended.child_id)
        runs.complete_dirs(self.run_dir)  # it may have put a link in place of one
        evidence = self.parts.state_file.restore()
        verdict, fields = self._judged(run, ended)
        if evidence:
            detail = f"the state file was changed by somebody else; see {evidence}"
            verdict = Verdict(success=False, reason="tampered", detail=detail)
            self.event("state_restored", {"evidence": evidence})
        verdict, head = keeping.look(self, run.live, ended.child_id, verdict)
        found = None
        if verdict.success:
            failure, found = self._judge.delivered(run.live, ended.child_id, fields, self.state)
            verdict = failure or verdict
        verdict = self._judge.blotted(run.live.phase, verdict)
        line = self._judge.note(ended, verdict, found)
        if verdict.success:
            self._fields.update({**fields, **(found.fields if found else {})})
        if not verdict.success:
            keeping.after(self, run.live, ended.child_id, verdict)
        tail = "" if verdict.success else self._judge.tail(ended.child_id)
        entry = entry_of(run.live, run.started_at, verdict, ended.record, tail)
        entry = entry.model_copy(update={"commit": head})
        self._completed(self.append(entry), ended, line)

    def _judged(self, run: _Run, ended: Ended) -> tuple[Verdict, dict[str, Any]]:
        if ended.record is None:
            return self._judge.lost(ended.child_id), {}
        stopped = "cancelled" if self.wish() == "cancel" else "interrupted"
        return self._judge.observed(run.live, ended.child_id, ended.record, self.pending(), stopped)

    def record_skip(self, phase: str) -> None:
        """Append a skip."""
        now = clock.stamp()
        self.append(HistoryEntry(phase=phase, success=True, reason="skipped", ended_at=now))
        self.event("phase_skipped", {"reason": "when"}, stage=phase)

    def record_mark(self, phase: str, reason: str = "resume", commit: str | None = None) -> None:
        """Append a mark: this phase starts again, with fresh counts.

        Args:
            phase: Its name.
            reason: For the history: `resume` (a person's word), `worktree_gone` or `rewind`.
            commit: Where the branch is from then on, if it was moved.
        """
        entry = HistoryEntry(phase=phase, success=False, reason="invalidated", commit=commit)
        self.append(entry.model_copy(update={"ended_at": clock.stamp()}))
        self.event("phase_marked", {"reason": reason}, stage=phase)

    def record_cancel(self, now: float) -> None:
        """Mark all that could still start as cancelled, once."""
        if self.parts.wishes.cancelled:
            return
        self.parts.wishes.cancelled = True
        if any(entry.reason == "cancelled" for entry in self._entries):
            return
        for phase in cancel_targets(self.graph, self.fold, self.running(), now, self.holds):
            at = clock.stamp()
            self.append(HistoryEntry(phase=phase, success=False, reason="cancelled", ended_at=at))
            self.event("phase_marked", {"reason": "cancelled"}, stage=phase)

    def prepare(self, start: Start) -> tuple[LaunchSpec, int] | None:
        """Write the packet of a start; None where an entry was recorded instead."""
        at = clock.stamp()
        history = [*self.state.phase_history, *self._entries]
        try:
            launched = handing.hand(self, start, at, history, self._judge.before)
        except handing.Refused as error:
            self._unstarted(start, error.reason, str(error))
            return None
        except OSError as error:
            raise StoreError.of(error, error.filename or self.run_dir) from error
        child = launched.spec.child_id
        self._running[child] = _Run(Live(start.phase, start.attempt, start.repairs), at)
        self._packets.append(child)
        return launched.spec, launched.lock_fd

    def commit(self, before_rename: Callable[[], None] | None = None) -> None:
        """Replace the state, if anything changed, and make new packets' names durable."""
        if self._entries or self._fields:
            self._keep_foreign()
            at = clock.stamp()
            state = self.state
            if self._fields:
                state = state.changed(**self._fields)
            state = state.model_copy(update={"updated_at": at}).appended(self._entries)
            self.parts.state_file.save(state, before_rename)
            self.state = state
            self._entries.clear()
            self._fields.clear()
        if self._packets:
            for name in ("children", "attempts"):
                files.sync_dir(os.path.join(self.run_dir, name))
            self._respond()  # a packet may name the report of the attempt before
        self.parts.wishes.tell_applied(self)

    def _keep_foreign(self) -> None:
        """Never write over bytes of somebody else: they are kept aside first."""
        evidence = self.parts.state_file.restore()
        if evidence:
            self.event("state_restored", {"evidence": evidence})

    def launched(self, child_id: str) -> None:
        """The body of a packet may have started."""
        run = self._running[child_id]
        self._packets.remove(child_id)
        live = run.live
        self.board.started(live.phase, live.attempt, child_id, run.started_at, adopted=False)
        slots = {"attempt": live.attempt, "repairs": live.repairs, "packet": f"children/{child_id}"}
        self.event("child_launched", slots, stage=live.phase, child_id=child_id)

    def publish(self, decision: Decision) -> None:
        """Write what is derived and tell whoever watches."""
        failpoints.hit("publish.before")
        self._respond()
        self.board.update(decision, {run.live.phase: child for child, run in self._running.items()})
        self._views.write(self, decision)
        self.parts.wishes.move_applied()
        news, self.news = self.news, []
        self.parts.reporter.changed(self.board, news)

    def _respond(self) -> None:
        """Write the reports that children left to adw."""
        for path, text in self._responses.values():
            if not os.path.lexists(path):
                files.replace(path, text_bytes(text), sync=False)
        self._responses.clear()

    def tick_s(self) -> float | None:
        """How soon `tick` must be called."""
        return self._views.soonest(self.parts.reporter.interval_s())

    def tick(self) -> None:
        """Take up requests; let whoever watches look."""
        self.parts.wishes.look(self)
        self._views.catch_up(self)
        self.parts.reporter.tick(self.board)

    # --- what the rest of app asks -------------------------------------------------------

    def adopted(self, live: Live, child_id: str, started_at: str, supervisor_pid: int) -> None:
        """Take over an attempt that another orchestrator started."""
        self._running[child_id] = _Run(live, started_at)
        self.board.started(live.phase, live.attempt, child_id, started_at, adopted=True)
        slots = {"attempt": live.attempt, "supervisor_pid": supervisor_pid}
        self.event("child_adopted", slots, stage=live.phase, child_id=child_id)

    def found(self, live: Live, child_id: str, started_at: str) -> None:
        """Take note of an attempt that is dead; its end is recorded next."""
        self._running[child_id] = _Run(live, started_at)
        self.board.started(live.phase, live.attempt, child_id, started_at, adopted=False)

    def append(self, entry: HistoryEntry) -> HistoryEntry:
        """Add an entry to the next commit; the last that fits is `stuck`, more are left out.

        Returns:
            The entry as it was added.
        """
        if self._room() <= 0:
            return entry
        if self._room() == 1:
            entry = entry.model_copy(update={"success": False, "reason": "stuck"})
        self._entries.append(entry)
        self._fold(entry)
        if entry.attempt == 0:
            self.board.ended(entry, None, None, None)
        return entry

    def _room(self) -> int:
        """How many more entries the state takes."""
        return MAX_ENTRIES - len(self.state.phase_history) - len(self._entries)

    def has_entries(self) -> bool:
        """Whether entries wait for the next commit."""
        return bool(self._entries)

    def pending(self) -> ADWStateData:
        """The state with the fields that the next commit sets; the next packet is made from it."""
        return self.state.model_copy(update=self._fields)

    def field(self, name: str) -> Any:
        """Value of a state field as the next commit has it."""
        return self._fields.get(name, getattr(self.state, name))

    def set_fields(self, fields: Mapping[str, Any]) -> None:
        """Add state fields to the next commit."""
        self._fields.update(fields)

    def event(
        self,
        kind: str,
        slots: dict[str, Any],
        stage: str | None = None,
        child_id: str | None = None,
    ) -> None:
        """Add an event; it is written by the next `publish`."""
        known = MAX_ENTRIES - self._room()
        self.parts.history.add(kind, slots, entries=known, stage=stage, child_id=child_id)
        self.news.append({"event": kind, "stage": stage, "child_id": child_id, **slots})

    # --- parts of recording --------------------------------------------------------------

    def _fold(self, entry: HistoryEntry) -> None:
        self.fold.add(entry)
        self._outcomes[entry.phase] = outcome_word(entry)

    def holds(self, phase: str, expression: str) -> bool:
        """Evaluate a `when` over state fields and the outcomes of what the phase needs."""
        needs = self.graph.phases[phase].needs
        outcomes = {name: self._outcomes.get(name, "excused") for name in needs}
        return self.parts.holds(expression, {**template_values(self.pending()), **outcomes})

    def _unstarted(self, start: Start, reason: str, detail: str) -> None:
        live = Live(start.phase, start.attempt, start.repairs)
        child = name_child(start.phase, start.attempt)
        verdict = Verdict(success=False, reason=reason, detail=one_line(detail))
        line = verdict_line(verdict, None)
        write_verdict(self.run_dir, child, line)
        entry = self.append(entry_of(live, clock.stamp(), verdict, None, ""))
        self._completed(entry, Ended(child, None), line)

    def _completed(self, entry: HistoryEntry, ended: Ended, line: Mapping[str, Any]) -> None:
        """Tell the end of an attempt, what it put out, and that something is to be decided."""
        child, code = ended.child_id, ended.record.exit_code if ended.record else None
        for kind, slots in end_events(entry, child, code, line, self._judge.effects(child)):
            self.event(kind, slots, stage=entry.phase, child_id=child)
        self.board.ended(entry, child, code, line["detail"])
        if entry.success:
            self.manifest.landed(child, line)
        else:
            narrowed = bool(blamed(entry.reason, line["faults"]))
            self.undecided.append((entry, narrowed))
        self.respond(entry, child, line)

    def respond(self, entry: HistoryEntry, child: str, line: Mapping[str, Any]) -> None:
        """Have a child's RESPONSE.md written soon, where it wrote none itself."""
        report = report_of(self.run_dir, entry, child, line)
        if report:
            self._responses[child] = report

    def packet_written(self, phase: str, child: str, digest: str, cause: str) -> None:
        """Tell that a TASK.md was written, or written again."""
        slots = {"packet": f"children/{child}", "task_sha256": digest, "cause": cause}
        self.event("packet_written", slots, stage=phase, child_id=child)
