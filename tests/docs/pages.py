"""Reference pages that are made from the code; `python -m tests.docs.pages` writes them.

The tests beside this file compare what is written with what would be written.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from adw import errors
from adw.model import event

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"


def errors_page() -> str:
    """`reference/errors.md`: every code, its exit code and its meaning."""
    rows = [
        f"| `{kind.code}` | {int(kind.exit_code)} | {_first_line(kind)} |"
        for kind in sorted(_family(errors.AdwError), key=lambda kind: kind.code)
        if "code" in vars(kind)
    ]
    return "\n".join(
        [
            "# Errors",
            "",
            (
                "An error goes to stderr as `error:` and what happened, then where it applies `at:`,"
                " `why:` and `hint:`."
            ),
            'With `--json`, stdout has `{"error": {"code", "message", "hint", "fields"}}` instead.',
            "Codes are stable; the wording may improve.",
            "A failed phase is no error: the run ends with exit code 1, and `adw why ID` tells.",
            "",
            "| Code | Exit | Meaning |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def events_page() -> str:
    """`reference/events.md`: every event and its keys."""
    common = ", ".join(f"`{name}`" for name in event.COMMON)
    rows = [
        f"| `{kind}` | {', '.join(f'`{slot}`' for slot in slots) or 'none'} |"
        for kind, slots in event.KINDS.items()
    ]
    return "\n".join(
        [
            "# Events",
            "",
            (
                "`state/task_history.jsonl` in a run's directory has one event a line, in order of"
                " `seq`."
            ),
            "It is an audit trail: nothing is decided by it, and `adw history ID` prints it.",
            f"Every event has the keys {common}, and those of its kind:",
            "",
            "| Event | More keys |",
            "| --- | --- |",
            *rows,
            "",
            "`stage` is the phase, or null.",
            "`entries` is the length of `phase_history` when the event was written.",
            (
                "`recovered` is true where a crash had swallowed the event and the next `adw resume`"
                " wrote it from the state."
            ),
            "",
        ]
    )


PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
}


def _family(top: type[errors.AdwError]) -> Iterator[type[errors.AdwError]]:
    for child in top.__subclasses__():
        if child.__module__ == "adw.errors":
            yield child
            yield from _family(child)


def _first_line(kind: type[object]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
