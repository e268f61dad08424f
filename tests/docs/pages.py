"""What is made from the code, pages and JSON Schemas; `python -m tests.docs.pages` writes it.

The tests beside this file compare what is written with what would be written.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from adw import errors
from adw.cli.main import COMMANDS, group
from adw.model import event, event_schema, schemas
from adw.workspace import table

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
SPECS: Final = ROOT / "specs"


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
    return "\n".join(
        [
            "# Events",
            "",
            (
                "`state/task_history.jsonl` in a run's directory has one event a line, in order of"
                " `seq`."
            ),
            "It is an audit trail: nothing is decided by it, and `adw history ID` prints it.",
            "Every event has these keys, and those of its kind:",
            "",
            "| Key | Type | Meaning |",
            "| --- | --- | --- |",
            *_rows(event.COMMON),
            "",
            "| Event | Meaning | More keys |",
            "| --- | --- | --- |",
            *(
                f"| `{kind}` | {event_schema.MEANING[kind]} | {_slots(slots) or 'none'} |"
                for kind, slots in event.KINDS.items()
            ),
            "",
            *_EVENT_NOTES,
            "",
        ]
    )


def _rows(slots: Mapping[str, str]) -> Iterator[str]:
    for name, word in slots.items():
        yield f"| `{name}` | {word.replace('|', ' or ')} | {event_schema.SLOTS[name]} |"


_EVENT_NOTES: Final = (
    "`cause` of `packet_written` is `attempt`, `narrowed_retry` or `addendum`.",
    (
        "`action` of `recovery_decided` is `retry`, `narrowed_retry`, `rerun`, `repair`, `wait`,"
        " `hold`, `excuse` or `give_up`; [Failure kinds](failure-kinds.md) says when."
    ),
    "A line once written stays; a wrong one is put right by a `correction` that names its `seq`.",
    "Keys and types of a kind change only together with `schema_version`.",
    "`adw schema event` prints the JSON Schema, with the meaning of each key.",
)


def _slots(slots: Mapping[str, str]) -> str:
    """Such as: `pid` (int), `base` (str or null)."""
    words = {name: word.replace("|", " or ") for name, word in slots.items()}
    return ", ".join(f"`{name}` ({word})" for name, word in words.items())


def commands_page() -> str:
    """`reference/commands.md`: every command with its arguments and options."""
    lines = [
        "# Commands",
        "",
        "Where an ID stands, a unique prefix or `@47` (the latest run of issue 47) will do.",
        "Results are on stdout, everything else on stderr.",
        "[Exit codes](exit-codes.md) are the same for all commands.",
    ]
    context = click.Context(group, info_name="adw")
    for name in sorted(COMMANDS):
        command = group.get_command(context, name)
        assert command is not None
        lines += _command(f"adw {name}", command)
    return "\n".join([*lines, ""])


def _command(title: str, command: click.Command) -> list[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    words = [f" {_argument(each)}" for each in arguments]
    lines = ["", f"## {title}{''.join(words)}", "", _help(command)]
    if options:
        lines += ["", "| Option | Meaning |", "| --- | --- |"]
        lines += [f"| `{_option(each)}` | {each.help or ''} |" for each in options]
    if isinstance(command, click.Group):
        for name, child in sorted(command.commands.items()):
            lines += _command(f"{title} {name}", child)
    return lines


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    name += "…" if argument.nargs == -1 and not name.endswith(("…", "...")) else ""
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _option(option: click.Option) -> str:
    names = ", ".join(option.opts)
    if option.is_flag:
        return names
    kind = option.type
    choices = "\\|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else None
    return f"{names} {option.metavar or choices or (option.name or '').upper()}"


def _help(command: click.Command) -> str:
    # A paragraph that begins with \b is an example: click leaves its lines alone.
    paragraphs = inspect.cleandoc(command.help or "").partition("\f")[0].strip().split("\n\n")
    return "\n\n".join(
        "```text" + each.removeprefix("\b").rstrip() + "\n```" if each.startswith("\b") else each
        for each in paragraphs
    )


def worktrees_page() -> str:
    """`reference/worktrees.md`: what people wrote, with the truth table of the code."""
    page = (DOCS / "reference/worktrees.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(_TABLE_BEGINS)
    _, _, after = rest.partition(_TABLE_ENDS)
    return f"{before}{_TABLE_BEGINS}\n{table.markdown()}\n{_TABLE_ENDS}{after}"


_TABLE_BEGINS: Final = "<!-- made from adw/workspace/table.py -->"
_TABLE_ENDS: Final = "<!-- end -->"

PAGES: Final[dict[str, Callable[[], str]]] = {
    "reference/commands.md": commands_page,
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
    "reference/worktrees.md": worktrees_page,
}


def _family(top: type[errors.AdwError]) -> Iterator[type[errors.AdwError]]:
    for child in top.__subclasses__():
        if child.__module__ == "adw.errors":
            yield child
            yield from _family(child)


def _first_line(kind: type[object]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


def schema_text(name: str) -> str:
    """`specs/<name>.schema.json`."""
    return json.dumps(schemas.schema(name), ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    for name in schemas.NAMES:
        (SPECS / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")
