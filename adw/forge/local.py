"""Issues as Markdown files of the repository: `issues/<number>.md`, or any file as a task.

A file may begin with front matter (`title`, `labels`, `class`); the rest is the body, which is a
stranger's text: it goes into files only, never into a command or the environment.
"""

import difflib
import os
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

from adw.errors import UnknownName, UsageError, WorkflowError
from adw.ids import slug
from adw.source.parse import parse
from adw.source.places import Source, kind_of, shown
from adw.source.read import read_text_file

MAX_BODY_BYTES: Final = 1 << 20
MAX_TITLE: Final = 300

_CLASSES: Final = ("feature", "bug", "chore")
_PREFIX: Final = {"feature": "feat", "bug": "bug", "chore": "chore", None: "adw"}
_KEYS: Final = ("title", "labels", "class")
_NUMBERED: Final = re.compile(r"([1-9][0-9]{0,17})\.md\Z")
_HEADING: Final = re.compile(r"\A\s*#{1,6}(?:\s+|\Z)|\s+#+\s*\Z")


@dataclass(frozen=True, slots=True)
class Issue:
    """What a run is to do."""

    number: int | None
    """None: a task given by file."""
    title: str
    """One line without control characters, at most MAX_TITLE characters."""
    labels: tuple[str, ...]
    issue_class: str | None
    """feature, bug, chore, or None where nothing says."""
    body: str
    """A stranger's text, as it was found."""


def read_issue(repo_root: str, number: int) -> Issue:
    """Read `issues/<number>.md` of the main checkout.

    Raises:
        UnknownName: There is no such issue.
        WorkflowError: Its text is not valid; with the place.
        UsageError: The file cannot be read.
    """
    folder = os.path.join(repo_root, "issues")
    path = os.path.join(folder, f"{number}.md")
    try:
        data = read_text_file(path, MAX_BODY_BYTES)
    except FileNotFoundError:
        numbers = known_issues(repo_root)
        raise UnknownName(
            kind="issue",
            name=str(number),
            reason=None if numbers else f"there is no issue in `{folder}`",
            suggestion=_listed(numbers) if numbers else f"write it to issues/{number}.md",
        ) from None
    return parse_issue(data, path, number)


def read_task(path: str) -> Issue:
    """Read a task file, for a run without an issue; as `read_issue`.

    Raises:
        UsageError: The file cannot be read.
        WorkflowError: Its text is not valid; with the place.
    """
    try:
        data = read_text_file(path, MAX_BODY_BYTES)
    except FileNotFoundError:
        detail = f"cannot read the task file `{path}`: no such file"
        raise UsageError(detail=detail, fix=None) from None
    return parse_issue(data, path, None)


def known_issues(repo_root: str) -> list[int]:
    """The numbers of all local issues, ascending."""
    try:
        names = os.listdir(os.path.join(repo_root, "issues"))
    except OSError:
        return []
    return sorted(int(found[1]) for name in names if (found := _NUMBERED.match(name)))


def parse_issue(data: bytes, file: str, number: int | None) -> Issue:
    """Read the bytes of an issue.

    Args:
        data: Front matter and body, or the body alone.
        file: Its name, for messages.
        number: Its number.

    Raises:
        WorkflowError: Not UTF-8, front matter with a fault, or no title; with the place.
    """
    text = _decode(data, file)
    if text.startswith(("---\n", "---\r\n")):
        source, body, first_line = _split(text, file)
    else:
        source, body, first_line = None, text, 1
    head: dict[str, Any] = source.value if source else {}
    if source:
        _check_head(source)
    labels = _labels(source) if source else ()
    title = head.get("title")
    if title is None:
        title = _first_line(body, file, first_line)
        place = (first_line, 1)
    else:
        assert source is not None
        place = source.place(("title",))[:2]
    return Issue(
        number=number,
        title=_clean_title(title, file, place),
        labels=labels,
        issue_class=_class(source, labels),
        body=body,
    )


def branch_name(issue: Issue, adw_id: str) -> str:
    """The branch of a run: `feat-47-cc73faf1-oauth2`; no number for a task."""
    number = [] if issue.number is None else [str(issue.number)]
    return "-".join([_PREFIX[issue.issue_class], *number, adw_id, slug(issue.title)])


# --- parts -------------------------------------------------------------------------------


def _decode(data: bytes, file: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8")) + 1
        detail = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
        raise _fault(file, (line, column), detail, "save the file as UTF-8") from None
    found = text.find("\0")
    if found >= 0:
        place = (text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found))
        raise _fault(file, place, "a NUL character is found", "save the file as UTF-8")
    return text.removeprefix("\ufeff")


def _split(text: str, file: str) -> tuple[Source, str, int]:
    """Front matter, body, and the line where the body begins."""
    lines = text.split("\n")
    for i, line in enumerate(lines[1:], start=1):
        if line.rstrip() in {"---", "..."}:
            head = "\n".join(each.removesuffix("\r") for each in lines[1:i])
            source = parse(head.encode(), file, first_line=2, may_be_empty=True)
            return source, "\n".join(lines[i + 1 :]).lstrip("\r\n"), i + 2
    raise _fault(file, (1, 1), "the front matter has no end", "write a line `---` after it")


def _check_head(source: Source) -> None:
    head = source.value
    if not isinstance(head, dict):
        raise source.fault((), f"{kind_of(head)} is found, a mapping is expected")
    for key in head:
        close = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.75)
        if key not in _KEYS and close:  # other programs' keys are left alone
            fix = f"did you mean `{close[0]}`?"
            raise source.fault((key,), f"unknown key `{shown(key)}`", key=True, fix=fix)
    title = head.get("title")
    if title is not None and not isinstance(title, str):
        raise _not_text(source, ("title",), title)


def _labels(source: Source) -> tuple[str, ...]:
    value = source.value.get("labels")
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list):
        found = kind_of(value)
        raise source.fault(("labels",), f"{found} is found, a list is expected")
    for i, label in enumerate(value):
        if not isinstance(label, str):
            raise _not_text(source, ("labels", i), label)
    return tuple(value)


def _class(source: Source | None, labels: tuple[str, ...]) -> str | None:
    given = source.value.get("class") if source else None
    if given is None:
        return next((name for label in labels if (name := label.lower()) in _CLASSES), None)
    assert source is not None
    if given in _CLASSES:
        return str(given)
    close = difflib.get_close_matches(str(given), _CLASSES, n=1)
    raise source.fault(
        ("class",),
        f"`{shown(given)}` is found, `feature`, `bug` or `chore` is expected",
        fix=f"did you mean `{close[0]}`?" if close else None,
    )


def _not_text(source: Source, path: tuple[str | int, ...], value: object) -> WorkflowError:
    raw = source.place(path).raw
    if raw is None:
        return source.fault(path, f"{kind_of(value)} is found, a string is expected")
    detail = f"`{shown(raw)}` is {kind_of(value)}, a string is expected"
    return source.fault(path, detail, fix=f'write "{shown(raw)}" in quotes')


def _first_line(body: str, file: str, first_line: int) -> str:
    """The first line that is not blank, without the marks of a heading."""
    for line in body.split("\n"):
        if found := _HEADING.sub("", line).strip():
            return found
    detail = "neither a title nor a text is found"
    raise _fault(file, (first_line, 1), detail, "write `title:` into the front matter")


def _clean_title(title: str, file: str, place: tuple[int, int]) -> str:
    """One line without control and invisible characters, shortened."""
    if "\x00" in title:
        raise _fault(file, place, "a NUL character is found in the title", None)
    spaced = " ".join(title.split())  # every kind of line break and space
    clean = "".join(c for c in spaced if unicodedata.category(c)[0] != "C")
    clean = " ".join(clean.split())
    if not clean:
        raise _fault(file, place, "the title is empty", None)
    return clean if len(clean) <= MAX_TITLE else clean[: MAX_TITLE - 1] + "…"


def _fault(file: str, place: tuple[int, int], detail: str, fix: str | None) -> WorkflowError:
    return WorkflowError(file=file, line=place[0], column=place[1], detail=detail, fix=fix)


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - 12} more" if len(numbers) > 12 else ""  # noqa: PLR2004
    return f"known: {', '.join(str(n) for n in numbers[-12:])}{more}"
