"""`adw doctor --restore`: from the copy of a run's state under the git directory."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from adw import failpoints
from adw.app.copying_state import Copies
from adw.errors import StoreError
from adw.store import files
from adw.store.state import StateFile, load_state
from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, call, made_run
from tests.support.repo import Repo

LOST = "logs and packets of 3 attempts"


def copied(repo: Repo, adw_id: str = ID) -> Path:
    """A failed run and the copy of it that its orchestrator would have left."""
    run_dir = made_run(repo, handmade.failed(), adw_id)
    state_file = StateFile(str(run_dir), *load_state(str(run_dir)))
    Copies(str(repo.path / ".git"), str(run_dir), state_file).refresh()
    return run_dir


def _die(name: str) -> None:
    if name == "create.before_rename":
        os.kill(os.getpid(), signal.SIGKILL)


def restored(**more: Any) -> dict[str, Any]:
    return {"adw_id": ID, "restored": True, "evidence": None, "filled": [], "lost": [LOST], **more}


@pytest.mark.parametrize("name", [ID, ID[:4], "@47"])
def test_a_run_that_is_gone_is_brought_back_by_any_of_its_names(repo: Repo, name: str) -> None:
    run_dir = copied(repo)
    state = (run_dir / "adw_state.json").read_bytes()
    shutil.rmtree(repo.path / "agents")
    said = call(repo, "doctor", "--restore", name, "--json")

    assert (said.code, said.err) == (0, "")
    assert said.json() == {"schema_version": 1, **restored()}
    assert (run_dir / "adw_state.json").read_bytes() == state
    assert call(repo, "status", ID, "--json").json()["status"] == "failed"
    attempts = call(repo, "show", ID, "--json").json()["phases"][1]["attempts"]
    assert [each["exit_code"] for each in attempts] == [3, 3], "from what attempts recorded"


def test_all_that_are_gone_are_brought_back_and_one_that_cannot_be_keeps_none(repo: Repo) -> None:
    copied(repo)
    copied(repo, OTHER)
    made_run(repo, handmade.done(), "ee000000")
    for name in (ID, OTHER):
        shutil.rmtree(repo.path / "agents" / name)
    for slot in ("state.0", "state.1"):
        (repo.path / ".git" / "adw" / OTHER / slot).write_text("torn")
    said = call(repo, "doctor", "--restore", "--all", "--json")
    (repo.path / ".git" / "adw" / OTHER / "state.0").unlink()
    (repo.path / ".git" / "adw" / OTHER / "state.1").unlink()
    nothing = call(repo, "doctor", "--restore", "--all")

    assert said.code == 2
    assert "is not a valid copy of a state\n  why: it is missing, or was torn\n" in said.err
    assert said.json() == {"schema_version": 1, "runs": [restored()]}
    assert nothing.out == "no run is gone that a copy tells of\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--all",), "`--all` goes with `--restore`, and without an ID"),
        (("--restore", "--all", ID), "`--all` goes with `--restore`, and without an ID"),
        (("--restore",), "`--restore` needs an ID"),
        (("--restore", "dddddddd"), "unknown run `dddddddd`"),
        (("--restore", "@99"), "unknown run `@99`"),
    ],
)
def test_words_that_do_not_fit(repo: Repo, words: tuple[str, ...], message: str) -> None:
    copied(repo)
    said = call(repo, "doctor", *words)

    assert said.code == 2
    assert said.err.startswith(f"error: {message}\n")


def test_a_run_that_is_kept_elsewhere_is_not_gone(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = copied(repo)
    monkeypatch.setenv("ADW_AGENTS_DIR", str(repo.path.parent / "others"))
    told = call(repo, "doctor").out
    said = call(repo, "doctor", "--restore", ID)

    assert "lost: " not in told
    assert said.err == (
        f"error: run `{ID}` is there: `{run_dir}`\n"
        f"  hint: ADW_AGENTS_DIR={repo.path}/agents adw status {ID}\n"
    )
    assert said.code == 2


def test_a_damaged_state_is_restored_from_the_copy_which_is_newer_than_the_previous_version(
    repo: Repo,
) -> None:
    path = copied(repo) / "adw_state.json"
    good = path.read_bytes()
    path.write_bytes(b"{torn")
    told = call(repo, "doctor", ID).out
    said = call(repo, "doctor", "--restore", ID).out

    assert "the copy under the git directory is good, has 3 entries" in told
    assert said.startswith("restored a state with 3 entries; the damaged one is kept as")
    assert path.read_bytes() == good


def test_files_that_a_run_lost_are_put_back(repo: Repo) -> None:
    run_dir = copied(repo)
    (definition,) = [
        path.name for path in (run_dir / "definitions").iterdir() if ".graph." not in path.name
    ]
    shutil.rmtree(run_dir / "definitions")
    (run_dir / "run.json").unlink()
    told = call(repo, "doctor", ID).out
    said = call(repo, "doctor", "--restore", ID).out

    assert f"  hint: adw doctor --restore {ID}\n" in told
    assert said == (
        f"put back run.json\nput back definitions/{definition}\n  next: adw resume {ID}\n"
    )
    assert call(repo, "doctor", ID).out.endswith("\n\nnothing is wrong\n")


def test_a_copy_without_its_definition_says_how_the_run_gets_one(repo: Repo) -> None:
    copied(repo)
    shutil.rmtree(repo.path / "agents")
    shutil.rmtree(repo.path / ".git" / "adw" / ID / "definitions")
    lost = call(repo, "doctor", "--restore", ID, "--json").json()["lost"]

    assert lost[:2] == [
        LOST,
        f"its definition; `adw run WORKFLOW 47 --adw-id {ID}` gives it one",
    ]


def test_a_kill_while_it_is_brought_back_leaves_it_to_the_next_time(repo: Repo) -> None:
    copied(repo)
    shutil.rmtree(repo.path / "agents")
    pid = os.fork()
    if pid == 0:
        failpoints.hit = _die
        call(repo, "doctor", "--restore", ID)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    left = {path.name for path in (repo.path / "agents").iterdir()}
    assert ID not in left

    assert call(repo, "doctor", "--restore", ID).code == 0
    assert {path.name for path in (repo.path / "agents").iterdir()} == {".lock", ID}


def test_a_disk_that_refuses_leaves_no_half_run(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(repo)
    shutil.rmtree(repo.path / "agents")

    def full(path: str, data: bytes, **keys: Any) -> None:
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(files, "create", full)
        said = call(repo, "doctor", "--restore", ID)
    assert (said.code, "No space left on device" in said.err) == (StoreError.exit_code, True)
    assert not (repo.path / "agents" / ID).exists()
    assert call(repo, "doctor", "--restore", ID).code == 0


def test_whoever_misses_a_run_that_is_gone_is_told_of_the_copy(repo: Repo) -> None:
    copied(repo)
    copied(repo, OTHER)
    shutil.rmtree(repo.path / "agents")
    words = "the directories of 2 runs are gone; a copy of the state is there"

    assert call(repo, "status").out == f"{words}\n  hint: adw doctor\n"
    for name in (ID, "@47"):
        assert call(repo, "show", name).err == (
            f"error: unknown run `{name}`\n  why: {words}\n  hint: adw doctor\n"
        )
    assert call(repo, "resume", "--all").err == (
        f"nothing is interrupted\n{words}\n  hint: adw doctor\n"
    )

    call(repo, "doctor", "--restore", ID)
    told = call(repo, "status").out
    assert told.endswith(
        "\n\nthe directory of 1 run is gone; a copy of the state is there\n  hint: adw doctor\n"
    )
    assert "see None" not in call(repo, "show", ID).out
    assert "  `adw doctor --restore` put the state back\n" in call(repo, "show", ID).out
