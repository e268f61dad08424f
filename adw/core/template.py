"""`{name}` in the words of a command: a closed list of names, every other brace is literal.

`${name}` belongs to the shell and is never replaced. In a shell script a known name is refused
where the file is loaded: text put into a script would be read as code; the environment has it.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

NAMES: Final = (
    "adw_id",
    "issue_number",
    "issue_class",
    "branch_name",
    "plan_file",
    "worktree",
    "python",
)
VARIABLES: Final = {
    "adw_id": "ADW_ID",
    "issue_number": "ADW_ISSUE_NUMBER",
    "issue_class": "ADW_ISSUE_CLASS",
    "branch_name": "ADW_BRANCH",
    "plan_file": "ADW_PLAN_FILE",
    "worktree": "ADW_WORKTREE",
}
"""The variable of a phase's environment that has the same value."""

_KNOWN: Final = re.compile(r"(?<!\$)\{(" + "|".join(NAMES) + r"|inputs\.[a-z][a-z0-9_]*)\}")


class NoValue(ValueError):
    """A name that is known and has no value yet."""

    def __init__(self, name: str) -> None:
        super().__init__(f"`{{{name}}}` has no value: no phase has set `{name}` yet")
        self.name = name


def names_in(text: str) -> tuple[str, ...]:
    """The known names that `text` uses, in order, `inputs.<name>` included."""
    return tuple(_KNOWN.findall(text)) if "{" in text else ()


def check(text: str, inputs: Collection[str] = ()) -> str | None:
    """What is wrong with a templated text; None: nothing.

    Args:
        text: As it stands in the workflow file.
        inputs: The inputs of the phase, which `{inputs.<name>}` may name.
    """
    for name in names_in(text):
        wanted = name.removeprefix("inputs.")
        if wanted != name and wanted not in inputs:
            return f"`{{{name}}}` is found, but `{wanted}` is not among the phase's `inputs`"
    return None


def check_shell(script: str) -> str | None:
    """What is wrong with a shell script; None: nothing."""
    for name in names_in(script):
        return f"`{{{name}}}` is found in a shell script, where nothing is replaced"
    return None


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace each known name by its value.

    Args:
        text: As it stands in the workflow file.
        values: By name; a missing one counts as null.

    Raises:
        NoValue: A name whose value is null.
    """
    if "{" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        known = values.get(found[1])
        if known is None:
            raise NoValue(found[1])
        return str(known)

    return _KNOWN.sub(value, text)
