"""`adw status`: all runs as a table, or one run with its phases."""

import os
from typing import Any

import click

from adw.cli.arguments import complete_run, json_option, places_to_read
from adw.cli.layout import columns, instant, show, standing, took
from adw.cli.output import print_json
from adw.core.isolation import isolation_words


@click.command("status")
@click.argument("adw_id", metavar="[ID]", required=False, shell_complete=complete_run)
@json_option
def command(adw_id: str | None, *, as_json: bool) -> int:
    """Show all runs, the latest last; or one run with its phases."""
    from adw.app import reading

    places = places_to_read()
    if adw_id is None:
        found = reading.listing(places.agents_dir)
        if as_json:
            print_json(found)
        else:
            show(_all_runs(found["runs"], places.gone()))
        return 0
    run_dir = places.run_dir(adw_id)
    view = reading.status(run_dir)
    if as_json:
        print_json(view)
    else:
        more = [*_living(view), *_stopped(view), *_damage(run_dir)]
        show([*_head(view, run_dir), "", *_phases(view), *more])
    return 0


def _all_runs(found: list[dict[str, Any]], gone: list[str]) -> list[str]:
    from adw.app.places import gone_words

    words = gone_words(len(gone))
    lost = [words, "  hint: adw doctor"] if words else []
    if not found:
        return lost or ["no runs yet; `adw run WORKFLOW ISSUE` starts one"]
    ordered = sorted(found, key=lambda run: (run["updated_at"] or "", run["adw_id"]))
    rows = [
        (
            run["adw_id"],
            run["workflow"],
            run["issue_number"],
            run["status"],
            instant(run["updated_at"]),
        )
        for run in ordered
    ]
    broken = [line for run in ordered if "error" in run for line in _broken(run)]
    table = columns(("ID", "WORKFLOW", "ISSUE", "STATUS", "UPDATED"), rows)
    return [*table, *broken, *([""] if lost else []), *lost]


def _broken(run: dict[str, Any]) -> list[str]:
    error = run["error"]
    why = error["fields"].get("reason")
    return [
        "",
        f"{run['adw_id']} is broken: {error['message']}" + (f": {why}" if why else ""),
        f"  hint: {error['hint']}",
    ]


def _head(view: dict[str, Any], run_dir: str) -> list[str]:
    status = standing(view)
    if _driven(view):
        from adw.store.runs import holder_pid

        pid = holder_pid(run_dir)
        status += f" (process {pid})" if pid else ""
    facts = (
        ("workflow", view["workflow"]),
        ("issue", view["issue_number"]),
        ("branch", view["state"].get("branch_name")),
        ("reason", None if status.startswith("interrupted") else view["reason"]),
        ("until", instant(view["until"])),
        ("isolation", isolation_words(view["isolation"])),
        ("next", view["next_action"]),
    )
    lines = [f"  {name:<9} {value}" for name, value in facts if value is not None]
    return [f"run {view['adw_id']} {status}", *lines]


def _phases(view: dict[str, Any]) -> list[str]:
    rows = []
    for phase in view["phases"]:
        last = phase["attempts"][-1] if phase["attempts"] else {}
        rows.append(
            (
                phase["phase"],
                "not needed" if _uncalled(view, phase) else phase["status"],
                last.get("attempt"),
                instant(last.get("started_at")),
                took(last, running=phase["status"] == "running"),
                _reason(last),
            )
        )
    return columns(("PHASE", "STATUS", "ATTEMPT", "STARTED", "TOOK", "REASON"), rows)


def _uncalled(view: dict[str, Any], phase: dict[str, Any]) -> bool:
    """Whether it is a repair phase of a run that succeeded without it."""
    pending: bool = phase["status"] == "pending" and not phase["attempts"]
    return pending and view["status"] == "succeeded"


def _reason(last: dict[str, Any]) -> str:
    if not last:
        return ""
    reason = last["reason"] or (last.get("detail") if last["success"] is None else None)
    if reason == "exit" and last["exit_code"] is not None:
        reason = f"exit code {last['exit_code']}"
    return ", ".join(word for word in (reason, "adopted" if last["adopted"] else "") if word)


def _living(view: dict[str, Any]) -> list[str]:
    """Phases that live on though no orchestrator does."""
    lines = []
    for each in [] if _driven(view) else view["living"]:
        phase, _, attempt = each["child_id"].rpartition("-")
        process = f", process {each['pid']}" if each["pid"] else ""
        lines.append(f"phase {phase} still runs (attempt {attempt}{process})")
    return ["", *lines] if lines else []


def _stopped(view: dict[str, Any]) -> list[str]:
    """Processes of adw that somebody stopped, and how each goes on."""
    lines = []
    for each in view["stopped"]:
        of = f" of {each['child_id']}" if each["child_id"] else ""
        who = "adw" if each["process"] == "adw" else f"the {each['process']}{of}"
        lines.append(f"{who} stands still: process {each['pid']} is stopped")
        lines.append(f"  hint: kill -CONT {each['pid']}")
    return ["", *lines] if lines else []


def _driven(view: dict[str, Any]) -> bool:
    return bool(view["next_action"].startswith("adw watch"))


def _damage(run_dir: str) -> list[str]:
    from adw.store.history import read_history
    from adw.store.runs import held

    found = [str(each["line"]) for each in read_history(run_dir) if each["event"] == "damaged"]
    if not found or held(run_dir):  # while it is held, its last line may be on its way
        return []
    where = ", ".join(found[:8])
    action = f"`adw doctor {os.path.basename(run_dir)}` says more"
    return ["", f"the history is damaged in line {where}; {action}"]
