"""H15, H16, H17: what a phase plants in git's settings or beside its code, and what adw makes of it."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adw.workspace.settings import Settings, named
from tests.support.ground import Done, Ground, phase
from tests.support.repo import make_repo

COMMIT: Final = {"use": "commit", "needs": ["build"]}
PLANTS: Final = {
    "filter": (
        "git config filter.x.clean \"touch $GROUND/planted; cat\"; echo '* filter=x' >.gitattributes",
        "`filter.x.clean`",
    ),
    "hook": (
        'printf "#!/bin/sh\\ntouch $GROUND/planted\\n" >"$H/pre-commit"; chmod +x "$H/pre-commit"',
        "`hooks/pre-commit`",
    ),
    "hooks elsewhere": ("git config core.hooksPath /tmp/x", "`core.hookspath`"),
    "included": ("git config include.path ../more", "`include.path`"),
    "signing": ("git config gpg.program false", "`gpg.program`"),
    "attributes": (
        'mkdir -p "$H/../info"; echo "* filter=x" >"$H/../info/attributes"',
        "`info/attributes`",
    ),
    "ssh": ("git config core.sshCommand false", "`core.sshcommand`"),
    "of the worktree": (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor false",
        "`core.fsmonitor`, `extensions.worktreeconfig`",
    ),
}


def planting(base: Path, text: str, **config: Any) -> Ground:
    hooks = (
        f'H="$(git rev-parse --path-format=absolute --git-common-dir)/hooks"; mkdir -p "$H"; {text}'
    )
    phases: Mapping[str, Mapping[str, Any]] = {
        "build": phase(f"echo built >built.txt; {hooks}"),
        "commit": COMMIT,
    }
    return Ground(base / "ground", phases, config={"ports": "none", **config})


@pytest.fixture(params=PLANTS)
def planted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Ground, str]]:
    text, says = PLANTS[request.param]
    ground = planting(tmp_path, text)
    yield ground, says
    ground.end()


@pytest.mark.sweep
@pytest.mark.hostile("H15")
def test_H15_no_commit_is_made_over_settings_that_a_phase_planted(
    planted: tuple[Ground, str],
) -> None:
    ground, says = planted

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    assert ground.entries()[-1][0::3] == ("commit", "workspace")
    assert f"git's settings have changed since this run was opened: {says}" in done.stdout
    assert [e["detail"] for e in ground.events("warning")] == [
        f"git's settings were changed while build-1 ran: {says}"
    ]
    assert not (ground.base / "planted").exists(), "what was planted did not run"


@pytest.mark.sweep
@pytest.mark.hostile("H15")
def test_H15_a_person_who_resumes_has_looked(tmp_path: Path) -> None:
    ground = planting(tmp_path, "git config core.hooksPath .husky")
    try:
        assert ground.adw("run", "w", "47").exit_code == 1
        ground.ok("resume", ground.adw_id)
        assert ground.commits() == 1
    finally:
        ground.end()


@pytest.mark.sweep
@pytest.mark.parametrize("text", ["git config user.name X; git config branch.x.y z", "true"])
def test_settings_that_start_nothing_may_change(tmp_path: Path, text: str) -> None:
    ground = planting(tmp_path, text, setup="git config filter.lfs.clean cat")
    try:
        ground.ok("run", "w", "47")
        assert ground.events("warning") == []
    finally:
        ground.end()


def test_a_change_is_named_by_its_key_and_its_value_is_not_told(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    git_dir = str(repo.path / ".git")
    settings = Settings(git_dir, git_dir)
    assert settings.changed() == []

    repo.git("config", "remote.origin.url", "https://user:token@example.invalid/x")
    repo.git("config", "core.abbrev", "12")
    repo.git("config", "filter.a\x1b[31m.clean", "cat")

    assert named(settings.changed()) == "`filter.a?[31m.clean`, `remote.origin.url`"
    assert Settings(git_dir, git_dir).changed() == []


TRAPS: Final = (
    "sitecustomize.py", "usercustomize.py", "conftest.py", "json.py", "adw/__init__.py", ".pth",
    "git", "Makefile", ".envrc", "pytest.ini", ".mcp.json", ".claude/settings.json",
)  # fmt: skip


@pytest.mark.sweep
@pytest.mark.hostile("H16", "H17")
@pytest.mark.parametrize("by", ["repository", "phase"])
def test_H16_H17_adws_own_programs_run_nothing_from_the_worktree(tmp_path: Path, by: str) -> None:
    """Such files are the repository's own, or a phase makes them where none was."""
    base = tmp_path / "ground"
    trap = f"import pathlib; pathlib.Path('{base}/trapped').touch(); raise SystemExit(9)\n"
    write = "; ".join(
        f'mkdir -p $(dirname {name}); printf %s "$TRAP" >{name}; chmod +x {name}' for name in TRAPS
    )
    phases = {
        "build": phase(
            "echo built >built.txt" if by == "repository" else write, env={"TRAP": trap}
        ),
        "commit": COMMIT,
        "effect": phase("adw effect once -- true", needs=["commit"]),
    }
    ground = Ground(base, phases, config={"ports": "none"})
    try:
        if by == "repository":
            ground.repo.commit(files=dict.fromkeys(TRAPS, trap))
        folder = os.path.dirname(sys.executable)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        done = Done.of(ground.start("run", "w", "47", argv=[f"{folder}/adw"], PATH=path))
        assert done.exit_code == 0, done.told()
        assert ground.entries()[1][:3] == ("commit", 1, True)
        assert ground.commits() == 1
        assert not (base / "trapped").exists()
    finally:
        ground.end()
