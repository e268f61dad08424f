"""`adw doctor`: what is wrong with adw's files here, and what would mend it."""

from typing import Any

import click

from adw.cli.arguments import complete_run, json_option, places_here
from adw.cli.layout import show
from adw.cli.output import print_json


@click.command("doctor")
@click.argument("adw_id", metavar="[ID]", required=False, shell_complete=complete_run)
@click.option(
    "--restore", is_flag=True, help="Put the last good state of run ID back, if it is damaged."
)
@click.option(
    "--rebuild", is_flag=True, help="Make again what is derived from the files of run ID."
)
@json_option
@click.pass_obj
def command(
    nursery: Any, adw_id: str | None, *, restore: bool, rebuild: bool, as_json: bool
) -> int:
    """Look for what is wrong: damaged states, torn files, left-overs; of run ID alone, or of all.

    Nothing is changed without an option. `--restore` keeps the damaged bytes beside the state;
    `--rebuild` writes latest.json, RESPONSE.md and manifest.json, and refuses a run that is driven.
    Ends with 0 whatever is found.
    """
    from adw.app.doctoring import examine
    from adw.errors import UsageError

    places = places_here()
    run_dir = places.run_dir(adw_id) if adw_id else None
    if restore or rebuild:
        option = "--restore" if restore else "--rebuild"
        if run_dir is None:
            raise UsageError(detail=f"`{option}` needs an ID", fix=f"adw doctor {option} ID")
        if restore and rebuild:
            detail = "`--restore` and `--rebuild` are two things"
            raise UsageError(detail=detail, fix="adw doctor --restore ID, then --rebuild")
        if rebuild:
            return _rebuild(places, run_dir, nursery, as_json=as_json)
        return _restore(run_dir, as_json=as_json)
    found = examine(places, run_dir)
    if as_json:
        print_json(found)
    else:
        show([*_facts(found["facts"]), "", *_findings(found["findings"])])
    return 0


def _restore(run_dir: str, *, as_json: bool) -> int:
    import os

    from adw.app.restoring import restore

    adw_id = os.path.basename(run_dir)
    done = restore(run_dir)
    if as_json:
        more = {"restored": done is not None, "evidence": done.evidence if done else None}
        print_json({"schema_version": 1, "adw_id": adw_id, **more})
    elif done is None:
        show([f"the state of run {adw_id} is valid, there is nothing to restore"])
    else:
        kept = f"; the damaged one is kept as {done.evidence}" if done.evidence else ""
        show(
            [f"restored a state with {done.entries} entries{kept}", f"  next: adw resume {adw_id}"]
        )
    return 0


def _rebuild(places: Any, run_dir: str, nursery: Any, *, as_json: bool) -> int:
    import os

    from adw.app.derived import rebuild
    from adw.cli.quiet import quiet_host

    adw_id = os.path.basename(run_dir)
    done = rebuild(places, run_dir, quiet_host(nursery))
    if as_json:
        more = {"written": done.written, "recovered_events": done.recovered_events}
        print_json({"schema_version": 1, "adw_id": adw_id, **more})
        return 0
    lines = [f"wrote {path}" for path in done.written]
    if done.recovered_events:
        lines.append(f"wrote {done.recovered_events} events that the history had lost")
    show(lines or [f"all that is derived of run {adw_id} was as it should be"])
    return 0


def _facts(facts: dict[str, Any]) -> list[str]:
    lacking = [name for name, there in facts["capabilities"].items() if not there]
    rows = (
        ("adw", f"{facts['adw']}, python {facts['python']}, git {facts['git'] or 'unusable'}"),
        ("repository", facts["repository"]),
        ("runs", f"{facts['runs']} in {facts['agents_dir']}"),
        ("tree end", facts["tree_end"]),
        ("isolation", facts["isolation"]),
        ("lacking", ", ".join(lacking) or "nothing"),
    )
    return [f"{name:<10}  {value}" for name, value in rows]


def _findings(findings: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in findings:
        subject = f"run {each['adw_id']}, " if each["adw_id"] else ""
        lines.append(f"{subject}{each['kind']}: {each['detail']}")
        lines.append(f"  at: {each['path']}")
        if each["hint"]:
            lines.append(f"  hint: {each['hint']}")
    return lines or ["nothing is wrong"]
