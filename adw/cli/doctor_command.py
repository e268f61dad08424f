"""`adw doctor`: what is wrong with adw's files here, and what would mend it."""

from typing import Any

import click

from adw.cli.arguments import complete_run, json_option, places_here
from adw.cli.layout import show
from adw.cli.output import print_bytes, print_json


@click.command("doctor")
@click.argument("adw_id", metavar="[ID]", required=False, shell_complete=complete_run)
@click.option(
    "--restore",
    is_flag=True,
    help="Put the last good state of run ID back, if it is damaged or gone.",
)
@click.option("--all", "every", is_flag=True, help="With `--restore`: all runs that are gone.")
@click.option(
    "--rebuild", is_flag=True, help="Make again what is derived from the files of run ID."
)
@click.option("--repair", is_flag=True, help="Mend what a kill left, of run ID or of all.")
@click.option(
    "--print-unit",
    is_flag=False,
    flag_value="systemd",
    type=click.Choice(["systemd"]),
    help="Print a service unit that goes on with interrupted runs at boot.",
)
@json_option
@click.pass_obj
def command(  # noqa: PLR0913  one parameter an option
    nursery: Any,
    adw_id: str | None,
    *,
    restore: bool,
    every: bool,
    rebuild: bool,
    repair: bool,
    print_unit: str | None,
    as_json: bool,
) -> int:
    """Look for what is wrong: damaged states, torn files, left-overs; of run ID alone, or of all.

    Nothing is changed without an option. `--restore` keeps damaged bytes beside the state, and
    brings back a run whose directory is gone (`git clean -fdx`) from a copy of its state under
    the git directory; `--rebuild` writes latest.json, RESPONSE.md and manifest.json, and refuses a
    run that is driven. `--repair` removes temporary files and half-made runs, ends processes that
    outlived a killed adw, mends how git knows worktrees, and gives back ports; it leaves runs
    that live alone. Ends with 0 whatever is found.
    """
    from adw.app.doctoring import examine

    places = places_here()
    _refuse_mixture(adw_id, restore=restore, every=every, rebuild=rebuild)
    _refuse_more(adw_id, repair=repair, unit=print_unit, other=restore or every or rebuild)
    if print_unit:
        from adw.app.unit import unit

        print_bytes(unit(places).encode("utf-8", "surrogateescape"))
        return 0
    if repair:
        return _repair(places, adw_id, as_json=as_json)
    if every:
        return _restore_all(places, nursery, as_json=as_json)
    if restore and adw_id is not None:
        return _restore(places, adw_id, nursery, as_json=as_json)
    run_dir = None if adw_id is None else places.run_dir(adw_id)
    if rebuild:
        return _rebuild(places, str(run_dir), nursery, as_json=as_json)
    found = examine(places, run_dir)
    if as_json:
        print_json(found)
    else:
        show([*_facts(found["facts"]), "", *_findings(found["findings"])])
    return 0


def _refuse_mixture(adw_id: str | None, *, restore: bool, every: bool, rebuild: bool) -> None:
    from adw.errors import UsageError

    if restore and rebuild:
        detail = "`--restore` and `--rebuild` are two things"
        raise UsageError(detail=detail, fix="adw doctor --restore ID, then --rebuild")
    if every and (adw_id is not None or not restore):
        detail = "`--all` goes with `--restore`, and without an ID"
        raise UsageError(detail=detail, fix="adw doctor --restore --all")
    if (restore or rebuild) and adw_id is None and not every:
        option = "--restore" if restore else "--rebuild"
        raise UsageError(detail=f"`{option}` needs an ID", fix=f"adw doctor {option} ID")


def _refuse_more(adw_id: str | None, *, repair: bool, unit: str | None, other: bool) -> None:
    from adw.errors import UsageError

    if repair and other:
        detail = "`--repair` goes with none of the other options"
        raise UsageError(detail=detail, fix="adw doctor --repair")
    if unit and (adw_id is not None or repair or other):
        detail = "`--print-unit` goes with no ID and none of the other options"
        raise UsageError(detail=detail, fix="adw doctor --print-unit")


def _repair(places: Any, adw_id: str | None, *, as_json: bool) -> int:
    """Mend, and say what is left; 4 where something could not be mended."""
    from adw.app.doctoring import examine
    from adw.app.repairing import repair
    from adw.errors import ExitCode

    run_dir = None if adw_id is None else places.run_dir(adw_id)
    done = repair(places, run_dir)
    left = examine(places, run_dir)["findings"]
    if as_json:
        print_json({**done, "findings": left})
    else:
        mended = [_mended(each) for each in done["repaired"]] or ["there was nothing to mend"]
        show([*mended, *(["", "left as it is:", *_findings(left)] if left else [])])
    failed = any(each["failed"] for each in done["repaired"])
    return int(ExitCode.ENVIRONMENT if failed else ExitCode.OK)


def _mended(each: dict[str, Any]) -> str:
    subject = f"run {each['adw_id']}, " if each["adw_id"] else ""
    said = each["done"] or f"NOT mended: {each['failed']}"
    return f"{subject}{each['kind']}: {said} ({each['path']})"


def _restore(places: Any, text: str, nursery: Any, *, as_json: bool) -> int:
    import os

    from adw.app import bringing_back
    from adw.app.restoring import restore
    from adw.errors import UnknownName

    try:
        run_dir = places.run_dir(text)
    except UnknownName:
        adw_id = bringing_back.find(places, text)
        return _bring_back(places, adw_id, nursery, as_json=as_json)
    adw_id = os.path.basename(run_dir)
    done = restore(places, run_dir)
    if as_json:
        changed = done.replaced or bool(done.filled)
        more = {"restored": changed, "evidence": done.evidence, "filled": done.filled, "lost": []}
        print_json({"schema_version": 1, "adw_id": adw_id, **more})
        return 0
    lines = []
    if done.replaced:
        kept = f"; the damaged one is kept as {done.evidence}" if done.evidence else ""
        lines.append(f"restored a state with {done.entries} entries{kept}")
    lines += [f"put back {name}" for name in done.filled]
    if lines:
        show([*lines, f"  next: adw resume {adw_id}"])
    else:
        show([f"the state of run {adw_id} is valid, there is nothing to restore"])
    return 0


def _bring_back(places: Any, adw_id: str, nursery: Any, *, as_json: bool) -> int:
    from adw.app import bringing_back
    from adw.cli.quiet import quiet_host

    done = bringing_back.bring_back(places, adw_id, quiet_host(nursery))
    if as_json:
        print_json({"schema_version": 1, **_as_json(done)})
    else:
        show(_brought_back(places, done))
    return 0


def _restore_all(places: Any, nursery: Any, *, as_json: bool) -> int:
    """Bring back all that is gone; one that cannot be brought back does not keep the others."""
    from adw.app import bringing_back
    from adw.cli.output import print_error
    from adw.cli.quiet import quiet_host
    from adw.errors import AdwError

    done, code = [], 0
    for adw_id in bringing_back.gone(places):
        try:
            done.append(bringing_back.bring_back(places, adw_id, quiet_host(nursery)))
        except AdwError as error:
            code = max(code, print_error(error, as_json=False))
    if as_json:
        print_json({"schema_version": 1, "runs": [_as_json(each) for each in done]})
    else:
        lines = [line for each in done for line in _brought_back(places, each)]
        show(lines or ["no run is gone that a copy tells of"])
    return code


def _as_json(done: Any) -> dict[str, Any]:
    more = {"restored": True, "evidence": None, "filled": [], "lost": done.lost}
    return {"adw_id": done.adw_id, **more}


def _brought_back(places: Any, done: Any) -> list[str]:
    from adw.app import reading

    view = reading.status(places.run_dir(done.adw_id))
    return [
        f"brought back run {done.adw_id} with {done.entries} entries",
        *[f"  lost: {line}" for line in done.lost],
        f"  next: {view['next_action']}",
    ]


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
