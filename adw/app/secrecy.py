"""What a phase says of itself, without the secrets that it was given.

Its words end up in history, reports and the tasks of others. They are cleaned as they are read,
before they are cut to a line, since the half of a secret is not recognised any more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from adw.core.graph import Phase
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

    def result(self, found: Result | str | None) -> Result | str | None:
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


def _forms(secret: str) -> Iterator[str]:
    """A secret, and how it looks in words that are one line each."""
    if not secret:
        return
    yield secret
    yield "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in secret)
    for line in secret.splitlines():
        if len(line.strip()) >= _SHORTEST:
            yield line.strip()
