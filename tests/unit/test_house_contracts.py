"""Every import contract is kept, and breaks when somebody breaks it."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# File to plant → (its imports, contract that must break, what the contract must say of each).
PLANTED = [
    ("adw/store/planted.py", "import adw.app", "Arrows point down", "adw.store.planted -> adw.app"),
    (
        "adw/forge/planted.py",
        "import adw.workspace",
        "Arrows point down",
        "adw.forge.planted -> adw.workspace",
    ),
    ("adw/planted.py", "", "Arrows point down", "- adw.planted"),
    (
        "adw/core/planted.py",
        "import time",
        "Core and model do no I/O",
        "adw.core.planted -> time",
    ),
    (
        "adw/model/planted.py",
        "import adw.clock",
        "Core and model do no I/O",
        "adw.model.planted -> adw.clock",
    ),
    (
        "adw/supervise/planted.py",
        "import pydantic, adw.ids",
        "Supervisors stand on the standard library",
        "adw.supervise.planted -> pydantic",
    ),
    (
        "adw/supervise/planted_too.py",
        "from adw.supervise import planted",
        "Supervisors stand on the standard library",
        "adw.supervise.planted -> adw.ids",
    ),
    (
        "adw/app/planted.py",
        "import networkx, structlog, subprocess, rich",
        "Only core.compile imports networkx",
        "adw.app.planted -> networkx",
    ),
    ("", "", "Only log imports structlog", "adw.app.planted -> structlog"),
    (
        "",
        "",
        "Only workspace.git and app.spawning import subprocess",
        "adw.app.planted -> subprocess",
    ),
    ("", "", "Only cli knows the terminal", "adw.app.planted -> rich"),
]


def lint(directory: Path) -> str:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool, "--no-logo", "--no-cache"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What lint-imports says of a house with every fault at once: contract → its chapter."""
    house = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "adw", house / "adw", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", house)
    for name, text, _, _ in PLANTED:
        if name:
            (house / name).write_text(text + "\n", encoding="utf-8")
    told = lint(house)
    assert "Broken contracts" in told, told
    parts = re.split(r"^(.+)\n-{5,}\n", told.partition("Broken contracts")[2], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names() -> set[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return {contract["name"] for contract in found}


def test_all_contracts_are_kept() -> None:
    told = lint(ROOT)

    assert f"Contracts: {len(names())} kept, 0 broken." in told


@pytest.mark.parametrize(("contract", "line"), [(c, line) for _, _, c, line in PLANTED])
def test_a_contract_breaks_when_it_is_violated(
    broken: dict[str, str], contract: str, line: str
) -> None:
    assert line in broken[contract]


def test_no_contract_is_left_out_above() -> None:
    assert {contract for _, _, contract, _ in PLANTED} == names()
