"""The whole of `adw chaos`: copy, two undisturbed runs, the rounds, and what they showed."""

import hashlib
import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from adw import clock
from adw.app.chaos import killing, points
from adw.app.chaos.comparing import Reference, compare
from adw.app.chaos.copying import Copy, prepare, remove
from adw.app.chaos.isolating import environment, leave_network
from adw.app.chaos.observing import Observed, observe
from adw.app.chaos.report import OWN, Fact, Report, Round
from adw.errors import ExitCode, UsageError
from adw.ids import new_id
from adw.store import attempts, files
from adw.supervise import procs

if TYPE_CHECKING:
    from adw.app.places import Places
    from adw.core.graph import Graph

_REFERENCE_LIMIT_S: Final = 3600.0
_ROUND_MIN_S: Final = 30.0
_ROUND_TIMES: Final = 4.0
"""A command of a round may take so many times as long as the undisturbed run, and 30 s more."""
_RESUMES: Final = 3
_TAIL_LINES: Final = 15
_SEEDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asked for."""

    rounds: int
    seed: int | None = None
    only: int | None = None
    """This round alone."""
    network: bool = False
    keep: bool = False


class Audience(Protocol):
    """Whoever is told how it goes."""

    def begun(self, report: Report, folder: str) -> None:
        """The copy is made."""

    def printed(self, lines: Sequence[str]) -> None:
        """This was printed by an undisturbed run that did not succeed."""

    def referred(self, report: Report) -> None:
        """The undisturbed runs are over."""

    def round(self, report: Report, each: Round) -> None:
        """A round is over."""


def perform(
    places: "Places", workflow: str, issue: int, options: Options, audience: Audience
) -> Report:
    """Run a workflow in a copy of the repository, disturb it, and tell what came of it.

    This process leaves the network for good, unless it is allowed.

    Args:
        places: The real repository; nothing in it is changed.
        workflow: Name.
        issue: Number of an issue that it has.
        options: How.
        audience: Told after each part.

    Raises:
        EnvironmentFault: The network is not allowed, and cannot be left.
        UsageError: No such workflow or issue; the undisturbed run does not succeed; a round that
            is not in the plan.
    """
    from adw.config import load_config
    from adw.loader import find_workflow, load_workflow

    config = load_config(places.repo.root)
    graph = load_workflow(find_workflow(workflow, places.repo.root), config.setup).graph
    seed = options.seed if options.seed is not None else random.randrange(_SEEDS)  # noqa: S311
    network = "allowed" if options.network else "none"
    report = Report(workflow, issue, seed, options.rounds, network)
    if not options.network:
        leave_network()
    procs.become_subreaper()
    with _folder(keep=options.keep) as folder, _interruptible():
        copy = prepare(places, config.to_json(), folder)
        audience.begun(report, folder)
        if options.keep:
            report.folder = folder
        secrets = [name for phase in graph.phases.values() for name in phase.secrets]
        env = environment(copy.round, config.env_pass, secrets, network=options.network)
        _Chaos(copy, env, graph, report, audience, options).play()
    return report


@contextmanager
def _folder(*, keep: bool) -> Iterator[str]:
    """A new temporary folder; whatever happens, nothing of it lives afterwards."""
    base = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - mode 0700
    path = os.path.join(base, f"adw-chaos-{new_id()}")
    files.make_dir(path)
    try:
        yield path
    finally:
        killing.clear_up()
        if keep:
            Copy(path).end()
        else:
            remove(path)


@contextmanager
def _interruptible() -> Iterator[None]:
    """A wish to end is heard as an interrupt, so that all is cleaned up."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class _Chaos:
    """One command's work, in order: the undisturbed runs, then the rounds."""

    copy: Copy
    env: dict[str, str]
    graph: "Graph"
    report: Report
    audience: Audience
    options: Options

    @property
    def _adw_id(self) -> str:
        """The same in all rounds, so that names made of it do not differ."""
        return hashlib.sha256(f"adw chaos {self.report.seed}".encode()).hexdigest()[:8]

    @property
    def _run_dir(self) -> str:
        return os.path.join(self.copy.agents, self._adw_id)

    @property
    def _words(self) -> tuple[str, ...]:
        return ("run", self.report.workflow, str(self.report.issue), "--adw-id", self._adw_id)

    def play(self) -> None:
        one, reached, took = self._undisturbed()
        other, _, _ = self._undisturbed()
        reference = Reference.of(one, other)
        self.report.left_out = sorted(reference.left_out)
        self.report.known = points.known(reached)
        self.report.attempts = len(reached.attempts)
        plan = points.plan(reached, self.report.wanted, self.report.seed)
        self.audience.referred(self.report)
        only = self.options.only
        if only is not None and not 1 <= only <= len(plan):
            raise UsageError(detail=f"there is no round {only}", fix=f"1 to {len(plan)}")
        try:
            for number, point in enumerate(plan, 1):
                if only in {None, number}:
                    self._play_round(Round(number, point), reference, took)
        except KeyboardInterrupt:
            self.report.interrupted = True  # what was found so far is worth knowing

    def _play_round(self, each: Round, reference: Reference, took: dict[str, float]) -> None:
        self._round(each, reference, took)
        self.report.rounds.append(each)
        self.audience.round(self.report, each)
        if self.options.keep:
            self.copy.keep(f"round-{each.number}")

    # --- undisturbed ---------------------------------------------------------------------

    def _undisturbed(self) -> tuple[Observed, points.Reached, dict[str, float]]:
        """Run it in peace.

        Returns:
            Its end, what it reached, and how long each attempt took, in seconds.
        """
        self.copy.begin()
        hands = killing.Hands(self.copy.repo, self.env, _REFERENCE_LIMIT_S)
        log = os.path.join(self.copy.round, "failpoints")
        began = clock.monotonic()
        done = hands.adw(*self._words, failpoint=f"*@{log}")
        self.report.reference_s = clock.monotonic() - began
        left = killing.left_behind(hands.own)
        found = observe(self.copy, self._run_dir)
        if done.exit_code != 0 or found.status != "succeeded" or left:
            if self.options.keep:
                self.copy.keep("undisturbed")
            raise self._no_reference(done, found, left)
        names = files.read(log).decode().split()
        ids = [each["child_id"] for phase in found.attempts.values() for each in phase]
        reached = points.Reached(names, self._in_order(ids), self._bodies(ids))
        return found, reached, {child: self._took(child) for child in ids}

    def _no_reference(self, done: killing.Command, found: Observed, left: list[str]) -> UsageError:
        if found.status == "succeeded" and left:
            self.audience.printed(left)
            detail = "the undisturbed run leaves processes behind"
            return UsageError(detail=detail, fix="let its phases end what they start")
        self.audience.printed(done.lines[-_TAIL_LINES:])
        status = f"`{found.status}`" if found.status != "none" else "no run at all"
        detail = f"the undisturbed run came out as {status}, `succeeded` is expected"
        fix = "it has no secrets, network and home there; --keep keeps it, to look at"
        if self.options.keep:
            fix = f"look at it in {self.copy.folder}/undisturbed"
        return UsageError(detail=detail, fix=fix)

    def _lines(self, child: str) -> list[dict[str, Any]]:
        return attempts.read_lines(os.path.join(self._run_dir, "attempts", child))

    def _in_order(self, ids: list[str]) -> list[str]:
        begun = {
            child: (attempts.find(self._lines(child), "launch") or {}).get("at") for child in ids
        }
        return sorted(ids, key=lambda child: str(begun[child]))

    def _took(self, child: str) -> float:
        from datetime import datetime

        line = attempts.find(self._lines(child), "exit") or {}
        try:
            began, ended = (datetime.fromisoformat(line[key]) for key in ("started_at", "ended_at"))
        except (KeyError, TypeError, ValueError):
            return 0.0
        return max(0.0, (ended - began).total_seconds())

    def _bodies(self, ids: list[str]) -> frozenset[str]:
        """A killed body is a failed attempt: where that has consequences, it is left alone."""
        whens = " ".join(phase.when or "" for phase in self.graph.phases.values())
        found = set()
        for child in ids:
            phase = self.graph.phases.get(child.rpartition("-")[0])
            if phase is None or phase.repair or phase.allow_failure or phase.name in whens:
                continue
            if phase.name not in self.graph.owners:
                found.add(child)
        return frozenset(found)

    # --- disturbed -----------------------------------------------------------------------

    def _round(self, each: Round, reference: Reference, took: dict[str, float]) -> None:
        began = clock.monotonic()
        self.copy.begin()
        limit_s = _ROUND_MIN_S + _ROUND_TIMES * self.report.reference_s
        hands = killing.Hands(self.copy.repo, self.env, limit_s)
        first = self._disturb(each, hands, took)
        self._go_on(each, hands, first)
        left = killing.left_behind(hands.own)
        found = observe(self.copy, self._run_dir)
        each.status = found.status
        more = compare(reference, found, self._run_dir)
        # Where adw itself failed, the end of the run only follows.
        each.facts += [fact for fact in more if fact.kind != OWN or not each.facts]
        if each.resumes > 1 and found.status == reference.one.status:
            each.facts.append(Fact(OWN, None, f"{each.resumes} resumes were needed"))
        each.facts += [Fact(OWN, None, "a process was left behind", tuple(left))] * bool(left)
        each.facts = list(dict.fromkeys(each.facts))
        each.seconds = clock.monotonic() - began

    def _disturb(
        self, each: Round, hands: killing.Hands, took: dict[str, float]
    ) -> killing.Command:
        point = each.point
        if point.how == "failpoint":
            count = os.path.join(self.copy.round, "failpoints")
            done = hands.adw(*self._words, failpoint=f"{point.name}:{point.nth}@{count}")
            each.fired = _size(count) >= point.nth
            return done
        killer = killing.Killer(point, self._run_dir, took.get(point.name, 0.0))
        done = hands.adw(*self._words, watch=killer.look)
        each.fired, each.killed = killer.fired, killer.killed
        return done

    def _go_on(self, each: Round, hands: killing.Hands, done: killing.Command) -> None:
        """One plain resume, where the run is not over; more of them to see what is wrong."""
        each.facts += _own_faults(done)
        wishes = self._words
        while done.exit_code != 0 and each.resumes < _RESUMES:
            if os.path.isdir(self._run_dir):
                wishes = ("resume", self._adw_id)
                each.resumes += 1
            elif wishes == self._words and each.commands:
                return  # the same command twice, and no run came of it
            done = hands.adw(*wishes)
            each.commands.append(done.told)
            each.facts += _own_faults(done)
            if done.exit_code in {ExitCode.FAILED, ExitCode.HELD}:
                return  # it says so itself: what failed is told from the history


def _own_faults(done: killing.Command) -> list[Fact]:
    """What no kill may lead to."""
    tail = tuple(done.lines[-_TAIL_LINES:])
    if done.exit_code is None:
        return [Fact(OWN, None, f"`adw {done.words[0]}` did not end in time", tail)]
    if done.exit_code in {ExitCode.USAGE, ExitCode.BUG, ExitCode.ENVIRONMENT, ExitCode.BUSY}:
        words = f"`adw {done.words[0]}` ended with {done.exit_code}"
        return [Fact(OWN, None, words, tail)]
    return []


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0
