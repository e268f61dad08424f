"""Sizes, names and who may write: the rules of the house that no linter knows."""

import ast
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import adw

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "adw").rglob("*.py"))

MAX_FILE = 400
MAX_FUNCTION = 50
MAX_ENGINE = 150
MAX_DRIVE = 40
DRAWERS = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

TOP_LEVEL = {
    "LICENSE", "README.md", "adw", "docs", "pyproject.toml", "specs", "tests", "workflows",
}  # fmt: skip

CHANGES_DISK = {
    "chmod", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir", "mkfifo", "mknod",
    "remove", "removedirs", "rename", "renames", "replace", "rmdir", "symlink", "truncate",
    "unlink",
}  # fmt: skip
CHANGES_DISK_BY_PATH = {"touch", "write_bytes", "write_text"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())

    assert lines <= (MAX_ENGINE if name_of(path) == "adw/engine.py" else MAX_FILE)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    sizes = dict(functions(path))

    assert {name: n for name, n in sizes.items() if n > MAX_FUNCTION} == {}
    if name_of(path) == "adw/engine.py":
        assert sizes["drive"] <= MAX_DRIVE


def test_no_file_is_a_drawer() -> None:
    words = {word for path in SOURCES for word in path.stem.split("_")}

    assert words & DRAWERS == set()


def test_the_top_level_stays_at_its_names() -> None:
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf-8").split()}
    found = {name for name in os.listdir(ROOT) if not name.startswith(".")} - ignored

    assert found == TOP_LEVEL


def test_package_files_import_nothing_at_run_time() -> None:
    for path in SOURCES:
        if path.name == "__init__.py":
            found = [
                node
                for node in parsed(path).body
                if isinstance(node, ast.Import | ast.ImportFrom)
                and getattr(node, "module", "") != "typing"
            ]
            assert found == [], name_of(path)


def test_the_public_names_are_these() -> None:
    assert sorted(adw.__all__) == [
        "ADWStateData",
        "AdwError",
        "HistoryEntry",
        "WorkflowSpec",
        "__version__",
    ]


@pytest.mark.parametrize("name", sorted(adw.__all__))
def test_a_public_name_can_be_had(name: str) -> None:
    assert getattr(adw, name)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'adw' has no attribute 'nonsense'"):
        getattr(importlib.import_module("adw"), "nonsense")  # noqa: B009


def test_only_store_files_changes_the_disk() -> None:
    found = [
        f"{name_of(path)}:{line}: {call}"
        for path in SOURCES
        if name_of(path) not in MAY_CHANGE_DISK
        for line, call in changes(path)
    ]

    assert found == []


MAY_CHANGE_DISK = {
    "adw/store/files.py",
    "adw/supervise/cgroups.py",  # control groups are directories of the kernel, not of a disk
    "adw/supervise/fence.py",  # so are those with limits
    "adw/failpoints.py",  # a floor below; counts for whoever kills adw
    "adw/app/chaos/copying.py",  # a throw-away copy: nothing of it is to last
}


def changes(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        call = ast.unparse(node.func)
        owner, _, verb = call.rpartition(".")
        by_os = owner == "os" and verb in CHANGES_DISK
        by_path = owner != "" and verb in CHANGES_DISK_BY_PATH
        if by_os or by_path or owner in {"shutil", "tempfile"}:
            yield node.lineno, call
        elif verb in {"open", "fdopen"} and opens_for_writing(node, owner):
            yield node.lineno, ast.unparse(node)


def opens_for_writing(node: ast.Call, owner: str) -> bool:
    if owner == "os":
        if re.match(r"os\.devnull|f?'/(dev|proc|sys)/", ast.unparse(node.args[0])):
            return False  # the kernel's
        flags = " ".join(ast.unparse(argument) for argument in node.args[1:])
        if "O_NONBLOCK" in flags and "O_CREAT" not in flags:
            return False  # a FIFO: nothing of it is on disk
        return any(flag in flags for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))
    modes = [*node.args[:2], *(k.value for k in node.keywords if k.arg == "mode")]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and set(mode.value) <= set("rwxabt+")
        and set(mode.value) & set("wxa+")
        for mode in modes
    )


def test_the_search_for_writers_finds_them(tmp_path: Path) -> None:
    source = tmp_path / "planted.py"
    source.write_text(
        "os.rename(a, b)\nshutil.copy(a, b)\nopen(p, 'w')\nos.open(p, os.O_WRONLY)\n"
        "path.write_text(x)\nopen(p)\nos.open(p, os.O_RDONLY)\nre.replace(a, b)\n"
        "os.open(p, os.O_WRONLY | os.O_NONBLOCK)\nos.open(os.devnull, os.O_RDWR)\n"
        "os.open('/proc/self/oom_score_adj', os.O_RDWR)\n",
        encoding="utf-8",
    )

    assert [line for line, _ in changes(source)] == [1, 2, 3, 4, 5]
