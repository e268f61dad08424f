"""What became of an attempt, from its exit record, its result file and the worktree around it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from adw import failpoints
from adw.app import promoting
from adw.app.effecting import unknown_words
from adw.app.promoting import Promotion
from adw.app.secrecy import Words
from adw.core.decide import Live
from adw.core.graph import Graph
from adw.core.interfaces import Ended, ExitRecord, Supervision, Workspace
from adw.core.outcome import Verdict, judge, one_line, settable, told_by
from adw.errors import StoreError, Survivor
from adw.ids import child_id
from adw.model.result import LIMIT, Result, parse_result
from adw.model.state import ADWStateData, HistoryEntry
from adw.store import attempts, files
from adw.store.effects import Shelf
from adw.store.state import first_fault

BUILTIN_ENSURE: Final = frozenset({"changed", "committed", "clean"})
TAIL_BYTES: Final = 8192  # of a log, for the signature of a failure


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads what an attempt left; decides nothing about what runs next."""

    run_dir: str
    graph: Graph
    worktree: Workspace
    supervision: Supervision
    shelf: Shelf = field(default_factory=Shelf)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values of what phases name as secrets."""

    def observed(
        self, live: Live, child: str, record: ExitRecord, state: ADWStateData, stopped_as: str
    ) -> tuple[Verdict, dict[str, Any]]:
        """Judge an exit record.

        Returns:
            The verdict, and the state fields that a success sets.

        Raises:
            Survivor: Processes of the attempt live on; nothing was judged.
        """
        if record.survivors:
            # They may have died since: what was written then is no fact now.
            lines = attempts.read_lines(self._folder(child))
            self._none_alive(child, self.supervision.end_tree(child, lines).survivors)
        words = self._words(live.phase)
        result = words.result(self._result(child))
        verdict = self._unsure(child, record) or judge(record, result, stopped_as)
        if verdict.detail is not None:
            verdict = replace(verdict, detail=one_line(verdict.detail))
        if verdict.success:
            verdict = self._unmet(live, child) or verdict
        if not verdict.success or not isinstance(result, Result):
            return verdict, {}
        fields = settable(result, state)
        if not isinstance(fields, str):
            fields = self._there(fields, words)
        if isinstance(fields, str):
            return Verdict(success=False, reason="result_invalid", detail=fields), {}
        return verdict, fields

    def lost(self, child: str) -> Verdict:
        """End what a dead supervisor left, and judge an attempt without exit line.

        Raises:
            Survivor: Something of it lives on.
        """
        lines = attempts.read_lines(self._folder(child))
        end = self.supervision.end_tree(child, lines)
        self._none_alive(child, end.survivors)
        if attempts.find(lines, "supervisor") is None:
            return Verdict(success=False, reason="interrupted", detail="never started")
        tree = "" if end.proved else "; tree: unproved"
        return Verdict(success=False, reason="lost", detail=f"its supervisor died{tree}")

    def before(self, phase: str, history: Sequence[HistoryEntry]) -> str | None:
        """Fingerprint of the tree before the first attempt since the phase's last success."""
        if ("changed",) not in self.graph.phases[phase].ensure:
            return None
        first = None
        for entry in reversed(history):
            if entry.phase == phase and entry.success:
                break
            if entry.phase == phase and entry.attempt:
                first = self._launch(child_id(phase, entry.attempt)).get("before") or first
        return first or self.worktree.fingerprint()

    def blotted(self, phase: str, verdict: Verdict) -> Verdict:
        """The verdict, without what is known to be secret of its phase."""
        if verdict.detail is None:
            return verdict
        return replace(verdict, detail=self._words(phase).blotted(verdict.detail))

    def _words(self, phase: str) -> Words:
        return Words.of(self.graph.phases.get(phase), self.secrets)

    def _there(self, fields: dict[str, Any], words: Words) -> dict[str, Any] | str:
        """The fields, or what they name that is not in the worktree: a claim is not a fact."""
        for name, value in fields.items():
            if words.tells(value):
                return f"`{name}` has a secret in it"
        plan = fields.get("plan_file")
        if plan and not os.path.isfile(os.path.join(self.worktree.path, plan)):
            return "`plan_file` names no file of the worktree"
        return fields

    def delivered(
        self, live: Live, child: str, claimed: dict[str, Any], state: ADWStateData
    ) -> tuple[Verdict | None, Promotion | None]:
        """Check and promote what a successful attempt owes.

        Args:
            live: The attempt.
            child: Its name.
            claimed: State fields that its result sets.
            state: The state that they are set in.

        Returns:
            The failure, if there is one; what was found, where anything was owed.

        Raises:
            StoreError: A copy could not be written.
        """
        phase = self.graph.phases.get(live.phase)  # None: of the workflow before this one
        if phase and not phase.outputs:
            return None, None
        try:
            owed = promoting.promised(self._launch(child))
        except ValueError as error:
            return Verdict(success=False, reason="contract", detail=str(error)), Promotion()
        if not owed:
            return None, None
        try:
            found = promoting.promote(self.run_dir, child, owed, self.worktree.path)
        except OSError as error:
            raise StoreError.of(
                error, error.filename or os.path.join(self.run_dir, "artifacts")
            ) from error
        failpoints.hit("outputs.copied")
        words = self._words(live.phase)
        for fault in found.faults:
            fault["detail"] = words.cleaned(fault["detail"])
        refused = _refusal(found, claimed, state, words)
        if refused is None:
            return found.verdict, found
        promoting.discard(self.run_dir, child)
        return refused, Promotion(faults=found.faults)

    def note(self, ended: Ended, verdict: Verdict, found: Promotion | None) -> dict[str, Any]:
        """Write the verdict line where the exit line alone does not tell it all.

        Returns:
            The line, written or not.
        """
        line = promoting.verdict_line(verdict, found)
        record, plain = ended.record, False
        if record is not None and found is None:
            reason, detail = (record.reason, told_by(record)) if record.reason else (None, None)
            plain = (verdict.reason, verdict.detail) == (reason, detail)
        # One that is there already is of a killed orchestrator, or the phase wrote it itself.
        if not plain or attempts.find(self._lines(ended.child_id), "verdict"):
            promoting.write_verdict(self.run_dir, ended.child_id, line)
            failpoints.hit("verdict.written")
        return line

    def tail(self, child: str) -> str:
        """The end of what an attempt printed: stderr, or stdout where that is empty."""
        return attempts.log_tail(self._folder(child), TAIL_BYTES)

    def effects(self, child: str) -> dict[str, dict[str, Any]]:
        """Records of the outside effects that an attempt tried, by path."""
        return self.shelf.of_child(self.run_dir, child)

    def _unsure(self, child: str, record: ExitRecord) -> Verdict | None:
        """An effect that nobody can tell of holds the run, whatever the program says of itself."""
        if record.reason == "stopped":
            return None
        for found in self.effects(child).values():
            if found["state"] == "unknown":
                text = unknown_words(os.path.basename(self.run_dir), found)
                return Verdict(success=False, reason="effect_unknown", detail=text)
        return None

    def _unmet(self, live: Live, child: str) -> Verdict | None:
        """The first built-in post-condition that does not hold after exit 0."""
        phase = self.graph.phases.get(live.phase)  # None: of the workflow before this one
        for condition in phase.ensure if phase else ():
            if condition == ("changed",):
                before = self._launch(child).get("before")
                if self.worktree.fingerprint() == before:
                    text = "nothing in the worktree changed"
                    return Verdict(success=False, reason="no_change", detail=text)
            elif condition[0] in BUILTIN_ENSURE and not self.worktree.clean():
                text = f"`{condition[0]}` is not met: the worktree has uncommitted changes"
                return Verdict(success=False, reason="contract", detail=text)
        return None

    def _result(self, child: str) -> Result | str | None:
        path = os.path.join(self.run_dir, "children", child, "result.json")
        try:
            data = files.read_if_exists(path, limit=LIMIT)
            return None if data is None else parse_result(data)
        except OSError as error:
            return error.strerror or str(error)
        except ValueError as error:
            return first_fault(error)

    def _launch(self, child: str) -> dict[str, Any]:
        return attempts.find(self._lines(child), "launch") or {}

    def _lines(self, child: str) -> list[dict[str, Any]]:
        return attempts.read_lines(self._folder(child))

    def _folder(self, child: str) -> str:
        return attempts.dir_of(self.run_dir, child)

    def _none_alive(self, child: str, survivors: Sequence[int]) -> None:
        if survivors:
            pids = ", ".join(map(str, survivors))
            raise Survivor(child_id=child, pids=pids, adw_id=os.path.basename(self.run_dir))


def _refusal(
    found: Promotion, claimed: Mapping[str, Any], state: ADWStateData, words: Words
) -> Verdict | None:
    """Why good outputs cannot be recorded: by their names, or by what the result claims."""
    for name, output in found.outputs.items():
        if words.tells(output["source"]):
            text = f"the name of the file found for output `{name}` has a secret in it"
            return Verdict(success=False, reason="contract", detail=text)
    try:
        state.changed(**found.fields)
    except ValueError:
        names = ", ".join(f"`{name}`" for name in found.fields)
        text = f"the name of the file found cannot be recorded as {names}"
        return Verdict(success=False, reason="contract", detail=text)
    for name, value in found.fields.items():
        if claimed.get(name, value) != value:
            text = f"`{name}` of result.json is `{claimed[name]}`, the output found `{value}`"
            return Verdict(success=False, reason="result_invalid", detail=one_line(text))
    return None
