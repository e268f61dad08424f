"""adw.yaml: how a repository wants its runs.

`ADW_AGENTS_DIR` overrides `agents_dir`; whoever looks for the runs reads both (adw.app.places).
"""

import os
import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from adw.errors import WorkflowError
from adw.source.parse import parse
from adw.source.places import shown
from adw.source.read import read_text_file

if TYPE_CHECKING:
    from adw.model.config import Config
    from adw.source.places import Source

FILE: Final = "adw.yaml"


def load_config(repo_root: str) -> "Config":
    """Read the settings of a repository; defaults where it has no adw.yaml.

    Args:
        repo_root: The main checkout.

    Raises:
        WorkflowError: The file's first fault.
        UsageError: The file cannot be read.
    """
    path = os.path.join(repo_root, FILE)
    try:
        data = read_text_file(path)
    except FileNotFoundError:
        data = b""
    return parse_config(data, path)


def parse_config(data: bytes, file: str) -> "Config":
    """Read the bytes of an adw.yaml.

    Args:
        data: The whole file.
        file: Its name, for messages.

    Raises:
        WorkflowError: The first fault.
    """
    from pydantic import ValidationError

    from adw.model.config import Config

    source = parse(data, file, may_be_empty=True)
    try:
        config = Config.model_validate(_without_unset(source.value, Config.not_yet))
    except ValidationError as error:
        from adw.source.faults import faults

        raise faults(error, source, Config)[0] from None
    for fault in _faults(config, source):
        raise fault
    return config


def _without_unset(value: object, not_yet: frozenset[str]) -> object:
    """Leave out keys of later versions that ask for nothing."""
    if not isinstance(value, dict):
        return value
    return {k: v for k, v in value.items() if k not in not_yet or v not in (None, [], {})}


def _faults(config: "Config", source: "Source") -> Iterator[WorkflowError]:
    if config.issues != "local":
        from adw.source.faults import not_yet

        yield not_yet(source, ("issues",), f"issues: {config.issues}")
    told = config.notify
    if told is not None and not (told.webhook or told.command or told.desktop):
        fix = "add `webhook`, `command` or `desktop: true`, or take `notify` out"
        yield source.fault(("notify",), "`notify` names nobody to tell", key=True, fix=fix)
    for i, path in enumerate(config.copied):
        if outside := _outside(path):
            fix = "name a path below the top of the main checkout"
            yield source.fault(("copy", i), f"`{shown(path)}` {outside}", fix=fix)
    for name in config.env:
        if name.startswith("ADW_"):
            yield source.fault(
                ("env", name),
                f"`{name}` is a variable that adw itself sets",
                key=True,
                fix="take another name",
            )
    for i, glob in enumerate(config.env_pass):
        if glob.startswith(("ADW_", "GIT_")):
            detail = f"`{glob}` is found, but `ADW_*` and `GIT_*` are never inherited"
            yield source.fault(("env_pass", i), detail, fix="set what phases need under `env`")


def _outside(path: str) -> str | None:
    """Why nothing can be copied from a path, or None."""
    parts = posixpath.normpath(path).split("/")
    if path.startswith("/") or parts[0] == "..":
        return "leads out of the repository"
    if any(part.lower() == ".git" for part in parts):
        return "leads into `.git`"
    return "is the whole repository" if parts == ["."] else None
