"""`adw completion`, and what a shell is offered."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, call, made_run, repository
from tests.support.adw import Adw
from tests.support.repo import Repo


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_adw_for_words(repo: Repo, shell: str) -> None:
    said = call(repo, "completion", shell)

    assert (said.code, said.err) == (0, "")
    assert f"_ADW_COMPLETE={shell}_complete" in said.out


@pytest.mark.skipif(
    shutil.which("bash") is None, reason="bash is not installed: its completion was NOT tested"
)
def test_bash_can_read_the_script(repo: Repo) -> None:
    script = call(repo, "completion", "bash").out

    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(repo: Repo) -> None:
    said = call(repo, "completion", "tcsh")

    assert (said.code, said.out) == (2, "")
    assert "`tcsh` is not one of `bash`, `zsh`, `fish`" in said.err


def offered(adw: Adw, *words: str) -> list[str]:
    env = {"COMP_WORDS": " ".join(["adw", *words]), "COMP_CWORD": str(len(words))}
    out = adw.env(_ADW_COMPLETE="bash_complete", **env).run().ok()
    return [line.removeprefix("plain,") for line in out.raw_stdout.split()]


def test_ids_phases_workflows_and_commands_are_offered(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    made_run(repo, handmade.failed(), ID)
    made_run(repo, handmade.failed(), OTHER)
    adw = Adw(tmp_path, _repo=repo)

    assert offered(adw, "status", "") == [ID, OTHER]
    assert offered(adw, "logs", "dd") == [OTHER]
    assert offered(adw, "logs", ID, "tes") == ["test"]
    assert offered(adw, "graph", "") == ["w", ID, OTHER]
    assert offered(adw, "his") == ["history"]


def test_outside_of_a_repository_nothing_is_offered_and_nothing_breaks(tmp_path: Path) -> None:
    adw = Adw(tmp_path).cwd(tmp_path)

    assert offered(adw, "status", "") == []
