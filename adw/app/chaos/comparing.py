"""What the end of a disturbed run says, held against an undisturbed one."""

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from adw.app.chaos.observing import Observed
from adw.app.chaos.report import DOUBLED, OWN, TORN, UNKNOWN, UNSAFE, Fact
from adw.store import files

_CUT_OFF: Final = frozenset({"interrupted", "lost", "signal"})
"""Reasons of an attempt that ends because something was killed."""
_OPEN: Final = frozenset({"intent", "unknown"})
_TAIL_LINES: Final = 12
_DIFF_BYTES: Final = 1 << 16
_SHOWN: Final = 8
_COUNTS: Final = {"commits": "is there {} times", "pushes": "was pushed {} times"}


@dataclass(frozen=True, slots=True)
class Reference:
    """The undisturbed runs."""

    one: Observed
    left_out: frozenset[str]
    """Names of things that differ between two of them."""

    @staticmethod
    def of(one: Observed, other: Observed) -> "Reference":
        """From two undisturbed runs."""
        names = one.things.keys() | other.things.keys()
        return Reference(
            one, frozenset(name for name in names if one.things.get(name) != other.things.get(name))
        )


def compare(reference: Reference, found: Observed, run_dir: str) -> list[Fact]:
    """All that is wrong with the end of a disturbed run.

    Args:
        reference: What it should be like.
        found: The disturbed run at its end.
        run_dir: Its directory, for the logs of attempts that failed.
    """
    again = [
        phase for phase in found.attempts if found.counted(phase) > reference.one.counted(phase)
    ]
    facts = [*_failed_again(reference, found, again, run_dir), *_held(reference, found)]
    if found.status != reference.one.status:
        if not facts:
            words = f"the run ended as {found.status}, not as {reference.one.status}"
            why = [found.reason] if found.reason else []
            facts.append(Fact(OWN, None, words, tuple(why)))
        return facts  # what else differs comes of it
    return [*facts, *_differing(reference, found, again)]


def _failed_again(
    reference: Reference, found: Observed, again: Sequence[str], run_dir: str
) -> Iterator[Fact]:
    """A phase that failed by itself where it did not in the undisturbed run, after a cut."""
    for phase in again:
        failed = _strange(reference, found, phase)
        if failed is not None:
            words = f"fails when it is run again ({_words_on(failed)})"
            yield Fact(UNSAFE, phase, words, tuple(_tail(run_dir, failed["child_id"])))
            return  # whatever fails after it fails because of it
    for phase in found.attempts if again else ():
        failed = _strange(reference, found, phase)
        if failed is not None:
            words = f"after it was run again, {phase} fails ({_words_on(failed)})"
            log = tuple(_tail(run_dir, failed["child_id"]))
            yield Fact(UNSAFE, " or ".join(again), words, log)
            return


def _strange(reference: Reference, found: Observed, phase: str) -> dict[str, Any] | None:
    """The first attempt that failed by itself, and not so in the undisturbed run."""
    usual = [_outcome(each) for each in _own(reference.one, phase)]
    for at, attempt in enumerate(_own(found, phase)):
        if not attempt["success"] and usual[at : at + 1] != [_outcome(attempt)]:
            return attempt
    return None


def _own(observed: Observed, phase: str) -> list[dict[str, Any]]:
    """The attempts of a phase that came to an end by themselves."""
    left_out = {*_CUT_OFF, "effect_unknown"}
    found = observed.attempts.get(phase, [])
    return [each for each in found if each["success"] or each["reason"] not in left_out]


def _outcome(attempt: dict[str, Any]) -> tuple[Any, ...]:
    return attempt["success"], attempt["reason"], attempt["exit_code"]


def _words_on(attempt: dict[str, Any]) -> str:
    if attempt["reason"] == "exit":
        return f"exit code {attempt['exit_code']}"
    return str(attempt["reason"])


def _held(reference: Reference, found: Observed) -> Iterator[Fact]:
    """Effects of which nobody can tell whether they took place."""
    for name, state in found.things.items():
        kind, _, what = name.partition(":")
        wanted = reference.one.things.get(name)
        if kind == "effect" and state != wanted and _OPEN & set(state.decode().split()):
            phase = what.rpartition(" of ")[2].partition(",")[0]
            words = f"effect `{what}` needs a person after a kill: give it a look-up (--probe)"
            yield Fact(UNKNOWN, phase, words)


def _differing(reference: Reference, found: Observed, again: Sequence[str]) -> list[Fact]:
    blamed = " or ".join(again) or None
    grouped: dict[tuple[str, str], list[str]] = {}
    for name in sorted(reference.one.things.keys() | found.things.keys()):
        wanted, is_ = reference.one.things.get(name), found.things.get(name)
        if wanted == is_ or name in reference.left_out:
            continue
        kind, words = _difference(name, wanted, is_)
        grouped.setdefault((kind, words), []).append(_stat(name, wanted, is_))
    facts = []
    for (kind, words), details in grouped.items():
        told = [
            *details[:_SHOWN],
            *([f"and {len(details) - _SHOWN} more"] * (len(details) > _SHOWN)),
        ]
        facts.append(Fact(kind if blamed else OWN, blamed, words, tuple(told)))
    return facts


def _difference(name: str, wanted: bytes | None, is_: bytes | None) -> tuple[str, str]:
    kind, _, what = name.partition(":")
    if kind in _COUNTS:
        more = int(is_ or 0) > int(wanted or 0)
        words = _COUNTS[kind].format(f"{int(is_ or 0)}, not {int(wanted or 0)},")
        return (DOUBLED if more else UNSAFE), f"`{what}` {words}"
    if kind == "output":
        torn = is_ is not None and wanted is not None and wanted.startswith(is_)
        return TORN, f"output `{what}` {'is cut short' if torn else 'differs'}"
    if kind == "outside":
        grown = wanted is not None and is_ is not None and is_.startswith(wanted)
        verb = "has more in it" if grown else "differs"
        return (DOUBLED if grown else UNSAFE), f"a file outside of the worktree {verb}"
    if kind == "effect":
        return DOUBLED, f"effect `{what}` is {_state(is_)}, not {_state(wanted)}"
    if kind == "phase":
        return UNSAFE, f"phase {what} ends as {_state(is_)}, not as {_state(wanted)}"
    return UNSAFE, "leaves other files when it is run again"


def _state(data: bytes | None) -> str:
    return "missing" if data is None else data.decode().replace("_", " ")


def _stat(name: str, wanted: bytes | None, is_: bytes | None) -> str:
    """One line on how much differs."""
    what = name.partition(":")[2]
    if wanted is None or is_ is None:
        return f"{what}: {'is missing' if is_ is None else 'should not be there'}"
    if len(wanted) + len(is_) > _DIFF_BYTES or b"\0" in wanted + is_:
        return f"{what}: {len(is_)} bytes, not {len(wanted)}"
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (wanted, is_))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
    plus = [line for line in lines if line.startswith("+")]
    minus = [line for line in lines if line.startswith("-")]
    shown = next(iter([*plus, *minus]), "")[:80]
    return f"{what}: +{len(plus)} -{len(minus)}, such as `{shown}`"


def _tail(run_dir: str, child: str) -> Iterator[str]:
    for name in ("stderr.log", "stdout.log"):
        try:
            data = files.read(os.path.join(run_dir, "attempts", child, name))
        except OSError:
            continue
        lines = data.decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        yield from (f"{name} of {child}: {line}" for line in lines)
