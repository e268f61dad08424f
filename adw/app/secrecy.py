"""What a phase says of itself, without the secrets that it was given.

Its words end up in history, reports and the tasks of others. They are cleaned as they are read,
before they are cut to a line, since the half of a secret is not recognised any more.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adw.core.graph import Phase, from_json
from adw.store import files

if TYPE_CHECKING:
    from adw.model.result import Result

_SHORTEST: Final = 6  # characters of a secret's line that is blotted out alone


@dataclass(frozen=True, slots=True)
class Words:
    """Reads the words of one phase."""

    values: tuple[str, ...] = ()
    """Of its secrets, in each form that stands in a line of text."""
    unset: tuple[str, ...] = ()
    """Names of its secrets whose values are not known here: no word can be cleaned of them."""

    @classmethod
    def of(cls, phase: Phase | None, known: Mapping[str, str]) -> "Words":
        """Those of a phase; None: of a workflow that the run has left."""
        names = phase.secrets if phase else ()
        values = {form for name in names for form in _forms(known.get(name, ""))}
        return cls(tuple(sorted(values)), tuple(name for name in names if name not in known))

    def cleaned(self, text: str) -> str:
        """A text that the phase wrote, as it may be told."""
        if self.unset:
            return f"its words are not shown, as `{self.unset[0]}` is not set to clean them of it"
        return self.blotted(text)

    def blotted(self, text: str) -> str:
        """A text without what is known to be secret, plain or encoded."""
        if not self.values:
            return text
        from adw.supervise.pump import Redactor

        redactor = Redactor(self.values)
        data = text.encode("utf-8", "surrogatepass")
        return (redactor.feed(data) + redactor.rest()).decode("utf-8", "replace")

    def tells(self, text: object) -> bool:
        """Whether a text has a secret in it."""
        return isinstance(text, str) and self.blotted(text) != text

    def result(self, found: "Result | str | None") -> "Result | str | None":
        """What result.json says, or what is wrong with it, as it may be told."""
        if isinstance(found, str):
            return self.cleaned(found)
        if found is None or not (self.values or self.unset):
            return found
        blocker, summary = found.blocker, found.summary
        if blocker:
            blocker = blocker.model_copy(update={"question": self.cleaned(blocker.question)})
        if summary is not None:
            summary = self.cleaned(summary)
        return found.model_copy(update={"blocker": blocker, "summary": summary})


class Claims:
    """Tells readers what phases of a run say of themselves in their result.json, cleaned.

    The values are those of the reader's environment; where one is not set there, nothing is told.
    """

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._phases: dict[str, list[Phase]] | None = None

    def of(self, phase: str, result: Mapping[str, Any]) -> dict[str, Any]:
        """`summary` and `usage` of a result, checked by nobody; None where it says nothing."""
        summary, usage = result.get("summary"), result.get("usage")
        if not isinstance(summary, str):
            summary = None
        if not isinstance(usage, dict):
            usage = None
        if summary is None and usage is None:
            return {"summary": None, "usage": None}
        known = self._words(phase)
        if known is None:
            reason = "the workflow that names its secrets is not there"
            return {"summary": summary and f"its words are not shown, as {reason}", "usage": None}
        for words in known:
            summary = summary and words.cleaned(summary)
            if words.unset or any(words.tells(text) for text in _texts(usage)):
                usage = None
        return {"summary": summary, "usage": usage}

    def _words(self, phase: str) -> list[Words] | None:
        """One for each definition of the run that has the phase: it may have had other secrets."""
        if self._phases is None:
            self._phases = {}
            for each in _pinned(self._run_dir):
                self._phases.setdefault(each.name, []).append(each)
        known = self._phases.get(phase)
        return None if known is None else [Words.of(each, os.environ) for each in known]


def _texts(value: object) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _pinned(run_dir: str) -> Iterator[Phase]:
    """The phases of all definitions of a run whose compiled graph is there."""
    folder = os.path.join(run_dir, "definitions")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if not name.endswith(".graph.json"):
            continue
        try:
            graph = from_json(json.loads(files.read(os.path.join(folder, name)))["graph"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        yield from graph.phases.values() if graph else ()


def searched(secrets: Mapping[str, str]) -> dict[bytes, str]:
    """Names of secrets, by each form in which one may stand in a file: plain or encoded.

    What is shorter than six bytes is not among them: it stands in innocent text too often.
    """
    from adw.supervise.pump import forms

    return {
        form: name
        for name, value in secrets.items()
        for line in _forms(value)
        for form in forms(line)
        if len(form) >= _SHORTEST
    }


def _forms(secret: str) -> Iterator[str]:
    """A secret, and how it looks in words that are one line each."""
    if not secret:
        return
    yield secret
    yield "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in secret)
    for line in secret.splitlines():
        if len(line.strip()) >= _SHORTEST:
            yield line.strip()
