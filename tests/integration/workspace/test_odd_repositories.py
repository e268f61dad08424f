"""Whole runs in repositories that are not plain: submodules, filters, sparse checkouts, odd names."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.adw import command
from tests.support.repo import Repo, make_repo

WORKFLOW: Mapping[str, Any] = {
    "look": {"run": "git status --porcelain; ls", "writes": False},
    "build": {"needs": ["look"], "run": "echo built >built", "ensure": ["changed"]},
    "commit": {"needs": ["build"], "use": "commit"},
}


class Odd:
    """A repository, and the adw that is called in it."""

    def __init__(self, path: Path, phases: Mapping[str, Any] = WORKFLOW, **config: Any) -> None:
        workflow = {"schema_version": 1, "name": "w", "phases": phases}
        self.files = {
            "workflows/w.yaml": json.dumps(workflow),
            "adw.yaml": json.dumps({"ports": "none", **config}),
            "issues/47.md": "---\ntitle: Mend it\n---\n",
        }
        self.repo = make_repo(path, self.files)

    def adw(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command(*args),
            cwd=self.repo.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=50,
        )

    def ok(self, *args: str) -> str:
        done = self.adw(*args)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stderr

    @property
    def tree(self) -> Repo:
        (name,) = os.listdir(self.repo.path / "trees")
        return Repo(self.repo.path / "trees" / name)

    @property
    def adw_id(self) -> str:
        return self.tree.path.name


# --- submodules --------------------------------------------------------------------------

INIT = "git -c protocol.file.allow=always submodule --quiet update --init"


def with_submodule(base: Path, **config: Any) -> Odd:
    part = make_repo(base / "part", {"p.txt": "part\n"})
    odd = Odd(base / "repo", **config)
    allow = ("-c", "protocol.file.allow=always")
    odd.repo.git(*allow, "submodule", "--quiet", "add", str(part.path), "lib/sub")
    odd.repo.commit("submodule")
    return odd


@pytest.mark.sweep
@pytest.mark.hostile("H14")
def test_a_submodule_is_empty_in_the_worktree_and_that_is_told_once(tmp_path: Path) -> None:
    odd = with_submodule(tmp_path)

    said = odd.ok("run", "w", "47")

    line = "warning: submodules are not checked out in the worktree: lib/sub; "
    assert said.count(line) == 1
    assert os.listdir(odd.tree.path / "lib/sub") == []
    assert odd.tree.git("show", "--stat", "--format=", "HEAD").split("\n")[0].startswith(" built")
    assert line not in odd.ok("resume", odd.adw_id)


@pytest.mark.sweep
def test_setup_checks_a_submodule_out_and_the_run_goes_on_over_it(tmp_path: Path) -> None:
    odd = with_submodule(tmp_path, setup=INIT)

    odd.ok("run", "w", "47")

    assert (odd.tree.path / "lib/sub/p.txt").read_text() == "part\n"
    assert odd.tree.git("diff", "--name-only", "main", "HEAD") == "built"
    assert odd.tree.git("status", "--porcelain") == ""


# --- filters, as git-lfs has them --------------------------------------------------------

LFS = {"clean": "sh clean.sh", "smudge": "sh smudge.sh", "required": "true"}
CLEAN = """
f=$(mktemp -p "$STORE"); cat >"$f"; name=$(sha256sum "$f" | cut -c1-64)
mv "$f" "$STORE/$name"; echo "pointer $name"
"""
SMUDGE = 'read -r _ name; cat "$STORE/$name"\n'


def with_filter(base: Path, monkeypatch: pytest.MonkeyPatch) -> Odd:
    (base / "store").mkdir()
    monkeypatch.setenv("STORE", str(base / "store"))
    phases = {**WORKFLOW, "build": {**WORKFLOW["build"], "run": "cat big.bin; echo x >new.bin"}}
    odd = Odd(base / "repo", phases, env={"STORE": str(base / "store")})
    (base / "clean.sh").write_text(CLEAN)
    (base / "smudge.sh").write_text(SMUDGE)
    for key, value in LFS.items():
        odd.repo.git("config", f"filter.lfs.{key}", value.replace("sh ", f"sh {base}/"))
    odd.repo.commit("big", {".gitattributes": "*.bin filter=lfs -text\n", "big.bin": "big\n"})
    return odd


@pytest.mark.sweep
def test_large_files_come_by_their_filter_and_go_back_as_pointers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = with_filter(tmp_path, monkeypatch)

    odd.ok("run", "w", "47")

    assert (odd.tree.path / "big.bin").read_text() == "big\n"
    assert odd.repo.git("show", "main:big.bin").startswith("pointer ")
    assert odd.tree.git("cat-file", "-p", "HEAD:new.bin").startswith("pointer ")
    assert odd.tree.git("diff", "--name-only", "main", "HEAD") == "new.bin"


def test_without_the_filters_program_the_pointers_are_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = with_filter(tmp_path, monkeypatch)
    for key in LFS:
        odd.repo.git("config", "--unset", f"filter.lfs.{key}")

    odd.ok("run", "w", "47")

    assert (odd.tree.path / "big.bin").read_text().startswith("pointer ")
    assert odd.tree.git("diff", "--name-only", "main", "HEAD") == "new.bin"


@pytest.mark.sweep
def test_a_filter_that_fails_is_told_in_gits_words_and_mended_by_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = with_filter(tmp_path, monkeypatch)
    os.rename(tmp_path / "store", tmp_path / "away")

    done = odd.adw("run", "w", "47")

    assert done.returncode == 4
    assert "external filter" in done.stderr
    assert "big.bin" in done.stderr
    os.rename(tmp_path / "away", tmp_path / "store")
    odd.ok("resume")
    assert (odd.tree.path / "big.bin").read_text() == "big\n"


# --- sparse checkouts --------------------------------------------------------------------


def test_a_sparse_checkout_stays_sparse_and_what_is_made_outside_is_committed(
    tmp_path: Path,
) -> None:
    build = {"run": "mkdir -p c/d; echo n >c/d/new; echo n >a/new"}
    phases = {**WORKFLOW, "build": {**WORKFLOW["build"], **build}}
    odd = Odd(tmp_path / "repo", phases)
    odd.repo.commit("files", {f"{name}/{name}.txt": f"{name}\n" for name in "abc"})
    odd.repo.git("sparse-checkout", "set", "a", "workflows", "issues")

    odd.ok("run", "w", "47")

    found = odd.tree
    assert not (found.path / "b").exists()
    assert found.git("diff", "--name-only", "main", "HEAD").split() == ["a/new", "c/d/new"]
    assert found.git("show", "HEAD:b/b.txt") == "b"
    assert found.git("status", "--porcelain") == ""


# --- names -------------------------------------------------------------------------------

NAMES = [b"with space", b"-dash", b"caf\xe9 \xff", "ñ ☃".encode(), b"$HOME `id` \"q\" 'q'", b"a\nb"]


def test_a_line_break_in_the_path_of_the_repository_is_refused(tmp_path: Path) -> None:
    odd = Odd(tmp_path / "a\nb")

    done = odd.adw("run", "w", "47")

    assert done.returncode == 2
    assert done.stderr.startswith("error: the path of the repository has a line break in it\n")


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES[:-1])
def test_a_repository_of_any_name_with_files_of_any_name(tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    build = {"run": 'for f in odd/*; do echo more >>"$f"; done'}
    phases = {**WORKFLOW, "build": {**WORKFLOW["build"], **build}}
    odd = Odd(path, phases, copy=["local"])
    odd.repo.commit("ignore", {".gitignore": "local\n"})
    odd.repo.write({f"odd/{os.fsdecode(each)}": "x\n" for each in NAMES})
    odd.repo.commit("odd files")
    odd.repo.write({f"local/{os.fsdecode(each)}": "y\n" for each in NAMES})

    odd.ok("run", "w", "47")

    found = odd.tree
    assert found.git("-c", "core.quotePath=true", "diff", "--name-only", "main").count("odd/") == 6
    assert sorted(os.listdir(os.fsencode(found.path / "local"))) == sorted(NAMES)
    assert found.git("status", "--porcelain") == ""
    assert odd.ok("resume", odd.adw_id) is not None
    assert odd.adw("status", odd.adw_id, "--json").returncode == 0
