"""`adw doctor --repair`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from adw.workspace import leases
from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, Said, call, held, made_run
from tests.support.repo import Repo


def everything(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and time of all there is, folders included."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        info = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (data, info.st_mode, info.st_mtime_ns)
    return found


def repaired(said: Said) -> list[tuple[str, str | None, str]]:
    assert said.err == ""
    found = said.json()["repaired"]
    return [
        (e["kind"], e["adw_id"], e["done"] or e["failed"]) for e in found if e["kind"] != "group"
    ]


def damage(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with its worktree, and around it what kills can leave."""
    run_dir = made_run(repo, handmade.failed())
    branch = json.loads((run_dir / "adw_state.json").read_text())["branch_name"]
    tree = repo.path / "trees" / ID
    repo.git("worktree", "add", "-q", "-b", branch, str(tree))
    admin = repo.path / ".git" / "worktrees" / ID
    (admin / "commondir").write_bytes(b"")
    (admin / "index.lock").touch()
    for folder in ("", "state", "artifacts", "children/test-1", "requests", "definitions"):
        (run_dir / folder / ".x.json.7.1.tmp").write_bytes(b"half")
    (run_dir / "effects").mkdir()
    (run_dir / "effects" / f".{'0' * 64}.json.7.1.tmp").write_bytes(b"half")
    (repo.path / "agents" / ".y.7.2.tmp").touch()
    new = repo.path / "agents" / f".new-{OTHER}-00000000"
    new.mkdir()
    (new / "lock").touch()
    host = repo.path.parent / "host"
    monkeypatch.setenv("ADW_HOST_DIR", str(host))
    gone = str(repo.path.resolve() / "agents" / "0123abcd")
    monkeypatch.setattr(leases, "port_free", lambda _port: True)
    leases.lease(str(host), "0123abcd", gone, None, 100, lambda _: True)
    return run_dir


def test_nothing_is_changed_without_the_word(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = damage(repo, monkeypatch)
    before = everything(repo.path.parent)

    kinds = {each["kind"] for each in call(repo, "doctor", "--json").json()["findings"]}
    call(repo, "doctor", ID)
    call(repo, "doctor", "--print-unit")

    assert kinds >= {"leftover", "lease", "lock", "worktree"}
    assert everything(repo.path.parent) == before
    assert run_dir.is_dir()


@pytest.mark.fault("F41", "F47", by="files as kills leave them, then adw doctor --repair")
def test_what_kills_left_is_mended_and_told_in_a_line_each(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty `commondir` stops `git worktree list` for the whole repository."""
    run_dir = damage(repo, monkeypatch)

    said = call(repo, "doctor", "--repair", "--json")

    assert said.code == 0
    one = "removed 1 temporary file of a killed adw"
    assert repaired(said) == [
        ("leftover", None, "removed a run that was never finished being created"),
        ("leftover", None, one),
        ("lease", "0123abcd", "gave back ports 9179 and 9279"),
        *[("leftover", ID, one)] * 5,
        ("leftover", ID, "removed temporary files"),
        ("leftover", ID, "removed a temporary file"),
        ("worktree", ID, "wrote its `commondir` anew"),
        ("lock", ID, "removed the lock file"),
    ]
    assert not list(repo.path.rglob("*.tmp"))
    assert ID in repo.git("worktree", "list")
    assert repo.git("-C", str(repo.path / "trees" / ID), "status", "--short") == ""
    state = (run_dir / "adw_state.json").read_bytes()

    again = call(repo, "doctor", "--repair", "--json")

    assert repaired(again) == []
    assert (run_dir / "adw_state.json").read_bytes() == state
    assert again.json()["findings"] == call(repo, "doctor", "--json").json()["findings"]


def test_people_read_a_line_for_each_and_what_is_left(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / ".x.7.1.tmp").touch()
    (run_dir / "adw_state.damaged.1.json").touch()

    said = call(repo, "doctor", "--repair", ID)

    assert said.out == (
        f"run {ID}, leftover: removed 1 temporary file of a killed adw ({run_dir})\n"
        "\n"
        "left as it is:\n"
        f"run {ID}, evidence: bytes that were set aside\n"
        f"  at: {run_dir}/adw_state.damaged.1.json\n"
    )
    assert call(repo, "doctor", "--repair", ID).out.startswith("there was nothing to mend\n")


def test_a_damaged_state_is_shown_and_not_restored(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / "adw_state.json").write_bytes(b"{torn")

    said = call(repo, "doctor", "--repair", "--json")

    assert (run_dir / "adw_state.json").read_bytes() == b"{torn"
    [found] = [each for each in said.json()["findings"] if each["kind"] == "state"]
    assert found["hint"] == f"adw doctor --restore {ID}"
    assert "is good, has" in found["detail"]


def test_a_run_that_lives_is_left_alone(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / ".x.7.1.tmp").touch()
    with held(run_dir):
        before = everything(run_dir)

        assert repaired(call(repo, "doctor", "--repair", "--json")) == []
        said = call(repo, "doctor", "--repair", ID)

        assert everything(run_dir) == before
    assert said.code == 5
    assert f"run `{ID}` is in use by process" in said.err


def test_a_registration_of_nobody_is_taken_away_and_a_persons_stays(repo: Repo) -> None:
    """A worktree that is named like a run is somebody's, unless it lies where adw makes them."""
    for name in ("trees/0123abcd", "../feature-login"):
        repo.git("worktree", "add", "-q", "--detach", str(repo.path / name))
    for name in ("0123abcd", "feature-login"):
        os.rename(
            repo.path / ("trees/0123abcd" if name == "0123abcd" else "../feature-login"),
            repo.path.parent / f"moved-{name}",
        )

    said = call(repo, "doctor", "--repair", "--json")

    assert [(kind, adw_id) for kind, adw_id, _ in repaired(said)] == [("worktree", None)]
    assert sorted(os.listdir(repo.path / ".git" / "worktrees")) == ["feature-login"]


def test_one_that_cannot_be_mended_gives_4_and_keeps_no_other(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = damage(repo, monkeypatch)

    def refuse(_host: str, _run_dir: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(leases, "end", refuse)
    said = call(repo, "doctor", "--repair")

    assert said.code == 4
    assert "lease: NOT mended: Permission denied" in said.out
    assert not list(run_dir.rglob("*.tmp"))


@pytest.mark.parametrize(
    "args",
    [
        ("--repair", "--rebuild", ID),
        ("--repair", "--restore", ID),
        ("--print-unit", "systemd", "--repair"),
    ],
)
def test_mixtures_are_refused(repo: Repo, args: tuple[str, ...]) -> None:
    made_run(repo)

    assert call(repo, "doctor", *args).code == 2


def unit_of(text: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(section, []).append((name, value))
    return found


def test_the_unit_resumes_at_boot_and_kills_no_supervisor(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADW_HOST_DIR", '/srv/ho"st 100%')

    said = call(repo, "doctor", "--print-unit")

    service = dict(unit_of(said.out)["Service"])
    assert (said.code, said.err) == (0, "")
    assert service["KillMode"] == "process"
    assert service["OOMPolicy"] == "continue"
    assert service["WorkingDirectory"] == str(repo.path.resolve())
    assert service["ExecStart"].endswith(' "-P" "-m" "adw" "resume" "--all"')
    assert ("Environment", '"ADW_HOST_DIR=/srv/ho\\"st 100%%"') in unit_of(said.out)["Service"]
    assert unit_of(said.out)["Install"] == [("WantedBy", "default.target")]


def test_systemd_has_nothing_to_say_against_the_unit(repo: Repo, tmp_path: Path) -> None:
    import shutil
    import subprocess

    program = shutil.which("systemd-analyze")
    said = call(repo, "doctor", "--print-unit")
    path = tmp_path / "adw-test.service"
    path.write_text(said.out)

    if program is None:  # then the keys are checked above, if not by systemd itself
        return
    done: Any = subprocess.run(
        [program, "verify", "--user", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    complaints = [line for line in done.stderr.splitlines() if "adw-test" in line]
    assert complaints == []
