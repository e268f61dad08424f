"""`adw show`: a whole run on one page, for the morning after."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from adw.cli.arguments import json_option, run_argument, run_dir_of
from adw.cli.layout import columns, instant, show, standing, took
from adw.cli.output import print_json
from adw.core.isolation import isolation_words

_SHORT: Final = 12  # characters of a commit
_USAGE_WIDTH: Final = 100


@click.command("show")
@run_argument
@json_option
def command(adw_id: str, *, as_json: bool) -> int:
    """Show a whole run on one page: phases with all attempts, evidence, decisions, what is next."""
    from adw.app import showing

    found = showing.show(run_dir_of(adw_id))
    if as_json:
        print_json(found)
    else:
        show(_page(found))
    return 0


def _page(found: dict[str, Any]) -> Iterator[str]:
    yield from _head(found)
    yield from _section("Phases", _phases(found))
    yield from _section("Said and used", _claims(found))
    yield from _section("Handed over", _artifacts(found["artifacts"]))
    yield from _section("Decided after failures", map(_recovery, found["recoveries"]))
    yield from _section("Warnings", map(_warning, found["warnings"]))
    paths = (os.path.join(found["run_dir"], path) for path in found["look_at"])
    yield from _section("Look at", paths)
    yield ""
    yield f"next: {found['next_action']}"


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    """A titled part of the page; nothing where it has no lines."""
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
            yield title
        yield f"  {line}"


def _head(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"run {found['adw_id']} {standing(found)}"
    number, title = found["issue_number"], found["title"]
    facts = (
        ("issue", number if title is None else f"{number}, {title}" if number else title),
        ("workflow", found["workflow"]),
        ("branch", found["branch"]),
        ("worktree", found["worktree"]),
        ("plan", found["plan_file"]),
        ("reason", None if found["status"] == "interrupted" else found["reason"]),
        ("until", instant(found["until"])),
        ("updated", instant(found["updated_at"])),
        ("isolation", isolation_words(found["isolation"])),
    )
    yield from (f"  {name:<9} {value}" for name, value in facts if value is not None)


def _phases(found: Mapping[str, Any]) -> Iterator[str]:
    rows: list[tuple[object, ...]] = []
    for phase in [*found["earlier"], *found["phases"]]:
        uncalled = phase["status"] == "pending" and found["status"] == "succeeded"
        status = "not needed" if uncalled and not phase["attempts"] else phase["status"]
        status = status or "earlier"
        if not phase["attempts"]:
            rows.append((phase["phase"], status, None, None, None, None, ""))
        for number, each in enumerate(phase["attempts"]):
            last = number == len(phase["attempts"]) - 1
            rows.append(
                (
                    phase["phase"],
                    status if last else "",
                    each["attempt"],
                    instant(each["started_at"]),
                    took(each, running=last and phase["status"] == "running"),
                    each["commit"] and each["commit"][:_SHORT],
                    _outcome(each),
                )
            )
    yield from columns(("PHASE", "STATUS", "ATTEMPT", "STARTED", "TOOK", "COMMIT", "OUTCOME"), rows)


def _outcome(attempt: Mapping[str, Any]) -> str:
    """How an attempt ended, and what it handed over."""
    reason, detail = attempt["reason"], attempt["detail"]
    if attempt["success"] is None:
        return str(detail or "not over")
    if attempt["success"]:
        names = ", ".join(attempt["artifacts"])
        return f"done, left {names}" if names else "done"
    if not detail and reason == "exit" and attempt["exit_code"] is not None:
        detail = f"exit code {attempt['exit_code']}"
    return f"{reason}: {detail}" if detail else str(reason)


def _claims(found: Mapping[str, Any]) -> Iterator[str]:
    """What attempts say of themselves in their results."""
    for phase in [*found["earlier"], *found["phases"]]:
        for each in phase["attempts"]:
            parts = [each["summary"]] if each["summary"] else []
            if each["usage"]:
                parts.append(_usage(each["usage"]))
            if parts:
                yield f"{each['child_id']}: {'; '.join(parts)}"


def _usage(usage: Mapping[str, Any]) -> str:
    plain = (f"{key} {value}" for key, value in usage.items() if not isinstance(value, dict | list))
    text = ", ".join(plain)
    return text if len(text) <= _USAGE_WIDTH else text[: _USAGE_WIDTH - 1] + "…"


def _artifacts(found: list[dict[str, Any]]) -> Iterator[str]:
    rows = [
        (
            each["name"],
            each["path"] or f"{each['source']} (not copied)",
            each["size_bytes"],
            each["producer"],
            each["description"],
        )
        for each in found
    ]
    if rows:
        yield from columns(("NAME", "PATH", "BYTES", "PRODUCER", "DESCRIPTION"), rows)


def _recovery(each: Mapping[str, Any]) -> str:
    target = f" by `{each['target']}`" if each["target"] else ""
    detail = f" ({each['detail']})" if each["detail"] else ""
    action = each["action"].replace("_", " ")
    return f"{each['phase']}-{each['attempt']}: {each['reason']}, so {action}{target}{detail}"


def _warning(each: Mapping[str, Any]) -> str:
    return f"{each['child_id']}: {each['detail']}" if each["child_id"] else str(each["detail"])
