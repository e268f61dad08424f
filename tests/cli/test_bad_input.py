"""What cannot be worked with: one clear error, the documented exit code, nothing written."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.handmade import call
from tests.support.adw import Adw

WORKFLOW = "name: w\nphases:\n  a: {run: 'true'}\n"


@pytest.fixture
def adw(tmp_path: Path) -> Adw:
    found = Adw(tmp_path).workflow("w", WORKFLOW).issue(47, "Fix it")
    found.repo.commit("workflow")
    return found


def _written(adw: Adw) -> list[str]:
    """Names that a refused command must not have made."""
    return [name for name in ("agents", "trees") if (adw.repo.path / name).exists()]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("run", "nope", "47"), "unknown workflow `nope`"),
        (("run", "w", "48"), "unknown issue `48`"),
        (("run", "w", "47", "--only", "b"), "unknown phase `b`"),
        (("run", "w", "47", "--until", "aa"), "did you mean `a`?"),
        (("run", "w"), "an issue number or `--task FILE` is expected"),
        (("run", "w", "47", "--set", "branch_name=x"), "unknown settable field `branch_name`"),
        (("run", "w", "47", "--set", "novalue"), "`novalue` is not of the form key=value"),
        (("run", "w", "47", "--adw-id", "../x"), "is not an ADW ID"),
        (("run", "w", "0"), "0 is not in the range"),
        (("resume", "cc73faf1"), "unknown run `cc73faf1`"),
        (("resume", "../../etc"), "`../../etc` is not an ADW ID"),
        (("resume",), "0 interrupted runs, one is expected"),
        (("statsu",), "unknown command `statsu`"),
        (("run", "w", "47", "--nope"), "no such option"),
    ],
)
def test_a_wrong_word_is_refused_with_2_and_writes_nothing(
    adw: Adw, args: tuple[str, ...], says: str
) -> None:
    said = call(adw.repo, *args)

    assert (said.code, said.out) == (2, "")
    assert says in said.err
    assert said.err.startswith("error: ")
    assert _written(adw) == []


def _no_repository(base: Path) -> Path:
    (base / "plain").mkdir()
    return base / "plain"


def _no_commit(base: Path) -> Path:
    _git(base, "init", "-q", "empty")
    (base / "empty" / "workflows").mkdir()
    (base / "empty" / "issues").mkdir()
    (base / "empty" / "workflows" / "w.yaml").write_text(WORKFLOW)
    (base / "empty" / "issues" / "47.md").write_text("# Fix it\n")
    return base / "empty"


def _bare(base: Path) -> Path:
    _git(base, "init", "-q", "--bare", "bare.git")
    return base / "bare.git"


def _separate(base: Path) -> Path:
    _git(base, "init", "-q", "--separate-git-dir", str(base / "elsewhere"), "apart")
    return base / "apart"


def _git(cwd: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=cwd, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (_no_repository, "this is not a git repository"),
        (_no_commit, "no commit"),
        (_bare, "bare"),
    ],
)
def test_a_place_without_a_usable_checkout_is_refused_with_2(
    tmp_path: Path, place: Callable[[Path], Path], says: str
) -> None:
    there = place(tmp_path)
    before = sorted(os.listdir(there))
    out = Adw(tmp_path).cwd(there).run("run", "w", "47").fails(2)

    assert says in out.stderr
    assert sorted(os.listdir(there)) == before


def test_a_dirty_or_detached_checkout_is_no_error_but_told(adw: Adw) -> None:
    adw.repo.write({"notes.txt": "not committed\n"})
    adw.repo.git("checkout", "-q", "--detach")
    out = adw.run("run", "w", "47").ok()

    assert "1 untracked file" in out.stderr
    assert "error" not in out.stderr


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("name: w\nphases:\n  a: {run: 'true', neds: [b]}\n", "3:20", "unknown key `neds`"),
        ("name: w\nphases:\n  a: {run: 'true', needs: [b]}\n", "3:28", "unknown phase `b`"),
        (
            "name: w\nphases:\n  a: {run: x, needs: [b]}\n  b: {run: x, needs: [a]}\n",
            "3:",
            "2 phases need each other in a circle",
        ),
        ("name: w\nphases:\n  a: {agent: {prompt: p.md}}\n", "3:7", "not supported yet"),
        ("name: w\nphases: &x\n  a: {run: 'true'}\n", "2:", "anchor"),
        ("name: w\nname: v\nphases:\n  a: {run: 'true'}\n", "2:1", "`name`"),
        ("name: w\nphases:\n\ta: 1\n", "3:", ""),
    ],
)
def test_a_faulty_workflow_is_refused_at_its_place(
    adw: Adw, text: str, place: str, says: str
) -> None:
    adw.workflow("w", text)
    said = call(adw.repo, "run", "w", "47")

    assert said.code == 2
    assert f"workflows/w.yaml:{place}" in said.err
    assert says in said.err
    assert _written(adw) == []


@pytest.mark.sweep
def test_case_K1_a_second_run_of_a_live_issue_names_the_first(adw: Adw) -> None:
    adw.workflow("slow", "name: slow\nphases:\n  a: {run: [sleep, '60']}\n")
    adw.repo.commit("slow")
    adw_id = adw.run("run", "slow", "47", "--detach").ok().raw_stdout.strip()
    try:
        out = adw.run("run", "w", "47").fails(5)
        adw.run("run", "w", "47", "--parallel").ok()
    finally:
        adw.run("cancel", adw_id).ok()

    assert f"issue 47 already has the live run `{adw_id}`" in out.raw_stderr
