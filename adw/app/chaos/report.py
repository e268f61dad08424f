"""What chaos found, as plain data; the document of `adw chaos --json`."""

from dataclasses import dataclass, field
from typing import Any, Final

from adw.errors import ExitCode

UNSAFE: Final = "unsafe_phase"
DOUBLED: Final = "doubled_effect"
TORN: Final = "torn_output"
UNKNOWN: Final = "effect_unknown"
OWN: Final = "adw"
KINDS: Final = (UNSAFE, DOUBLED, TORN, UNKNOWN, OWN)
"""From the phase, from the phase, from the phase, an effect without look-up, a fault of adw."""


BODY_ENDED: Final = "shim.body_ended"
"""The failpoint at which a phase has done all that it does, and nobody knows it yet."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a round kills."""

    how: str
    """`failpoint`: at the nth time that a named place is reached; `instant`: while a phase runs."""
    target: str
    """`orchestrator`, `nursery`, `supervisor`, `body`, or `all`: as when the power fails."""
    name: str
    """Of the failpoint, or of the attempt during which it is to be."""
    nth: int = 1
    """Of a failpoint: counted over all processes of the run, from 1."""
    share: float = 0.0
    """Of an instant: which part of the attempt's time in the undisturbed run has passed."""
    attempt: str | None = None
    """Of a failpoint that each supervisor reaches once: the attempt that it is of."""

    @property
    def words(self) -> str:
        """For people."""
        if self.how == "failpoint":
            if self.attempt and self.name == BODY_ENDED:
                place = f"{self.name}:{self.nth}"
                return f"{self.target} after {self.attempt}, its end unrecorded ({place})"
            of = f" of {self.attempt}" if self.attempt else ""
            return f"{self.target} at {self.name}:{self.nth}{of}"
        return f"{self.target} at {self.share:.0%} of {self.name}"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something wrong that one round showed."""

    kind: str
    phase: str | None
    """None: no phase can be blamed."""
    words: str
    """What is wrong, without what varies from round to round."""
    details: tuple[str, ...] = ()
    """How much differs, or the end of a log; lines."""


@dataclass(slots=True)
class Round:
    """One run that was disturbed."""

    number: int
    point: Point
    fired: bool = False
    killed: tuple[str, ...] = ()
    """Attempts that lived when the kill came."""
    commands: list[str] = field(default_factory=list)
    """Each command after the kill, with its exit code."""
    resumes: int = 0
    status: str = ""
    seconds: float = 0.0
    facts: list[Fact] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """One of `rounds`."""
        failpoint = self.point.how == "failpoint"
        point = {
            "how": self.point.how,
            "target": self.point.target,
            "name": self.point.name,
            "attempt": self.point.attempt or (None if failpoint else self.point.name),
            "nth": self.point.nth if failpoint else None,
            "share": None if failpoint else round(self.point.share, 3),
        }
        return {
            "round": self.number,
            "point": point,
            "fired": self.fired,
            "killed": list(self.killed),
            "commands": self.commands,
            "resumes": self.resumes,
            "status": self.status,
            "seconds": round(self.seconds, 2),
            "found": len(self.facts),
        }


@dataclass(slots=True)
class Report:
    """What came of all rounds."""

    workflow: str
    issue: int
    seed: int
    wanted: int
    """Rounds of the whole plan: `--rounds`."""
    network: str
    """`none` or `allowed`."""
    known: int = 0
    """Durable writes that the undisturbed run makes: places to kill at."""
    attempts: int = 0
    """How many attempts the undisturbed run has."""
    reference_s: float = 0.0
    left_out: list[str] = field(default_factory=list)
    """What differs between two undisturbed runs."""
    rounds: list[Round] = field(default_factory=list)
    folder: str | None = None
    """Where the rounds are, with `--keep`."""
    interrupted: bool = False
    """Somebody ended it before the last round."""

    @property
    def exit_code(self) -> int:
        """0: nothing found."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        return 1 if any(each.facts for each in self.rounds) else 0

    def reproduce(self, number: int) -> str:
        """The command that repeats one round."""
        words = f"adw chaos {self.workflow} {self.issue} --seed {self.seed}"
        if self.network == "allowed":
            words += " --allow-network"
        return f"{words} --rounds {self.wanted} --only-round {number} --keep"

    def findings(self) -> list[tuple[Fact, list[Round]]]:
        """Each thing once, with the rounds that show it; what weighs most comes first."""
        found: dict[tuple[str, str | None, str], tuple[Fact, list[Round]]] = {}
        for each in self.rounds:
            for fact in each.facts:
                key = (fact.kind, fact.phase, fact.words)
                found.setdefault(key, (fact, []))[1].append(each)
        return sorted(found.values(), key=lambda one: (KINDS.index(one[0].kind), -len(one[1])))

    def to_json(self) -> dict[str, Any]:
        """The document of `adw chaos --json`."""
        return {
            "schema_version": 1,
            "workflow": self.workflow,
            "issue_number": self.issue,
            "seed": self.seed,
            "network": self.network,
            "reference_seconds": round(self.reference_s, 2),
            "points_known": self.known,
            "points_tried": len(self.rounds),
            "points_fired": sum(each.fired for each in self.rounds),
            "left_out": self.left_out,
            "findings": [self._finding(fact, rounds) for fact, rounds in self.findings()],
            "rounds": [each.to_json() for each in self.rounds],
            "folder": self.folder,
            "interrupted": self.interrupted,
        }

    def _finding(self, fact: Fact, rounds: list[Round]) -> dict[str, Any]:
        return {
            "kind": fact.kind,
            "phase": fact.phase,
            "message": fact.words,
            "details": list(fact.details),
            "rounds": [each.number for each in rounds],
            "kill": rounds[0].point.words,
            "reproduce": self.reproduce(rounds[0].number),
        }
