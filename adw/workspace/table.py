"""What is done with a run's worktree, by what is found: the truth table, as data.

`row_for` gives the first row that fits. `adw.workspace.worktree` acts by it, its refusals have
their words from here, and docs/reference/worktrees.md prints it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, Literal

Act = Literal["create", "fetch", "attach", "recreate", "reuse", "clear", "refuse"]

ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is found; each is one of `VALUES`."""

    branch: str = ANY
    """`remote`: only a remote has it; `elsewhere`: checked out in another worktree."""
    registered: str = ANY
    """`elsewhere`: the name is that of a worktree at another path."""
    directory: str = ANY
    """An empty one counts as absent."""
    head: str = ANY
    """Of a directory that is ours."""
    tree: str = ANY
    """`clean` or `dirty`: nothing is decided by it, a dirty tree is used as it is."""
    held: str = ANY
    """`nobody`, or `locked` by `git worktree lock`."""
    ran: str = ANY
    """Whether phases have run in it: `yes` or `no`."""
    begun: str = ANY
    """Whether adw's own note stands, that git was making it: `yes` or `no`."""


VALUES: Final[dict[str, tuple[str, ...]]] = {
    "branch": ("absent", "remote", "free", "elsewhere"),
    "registered": ("no", "whole", "half", "elsewhere"),
    "directory": ("absent", "ours", "other"),
    "head": ("branch", "other", "detached"),
    "tree": ("clean", "dirty"),
    "held": ("nobody", "locked"),
    "ran": ("no", "yes"),
    "begun": ("no", "yes"),
}
"""All that a column can be."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is done about what is found; a column that is `any` or a choice `a|b` fits more."""

    name: str
    found: Facts
    act: Act
    says: str
    """What is done, or the message of the refusal with its fields in braces."""
    repair: str | None = None
    """The one command or act after which `adw resume` goes on."""


ROWS: Final = (
    Row(
        "foreign",
        Facts(registered="elsewhere"),
        "refuse",
        "the name `{name}` is registered for a worktree elsewhere",
        "if the repository was moved: git worktree repair; else remove that worktree",
    ),
    Row(
        "half_made",
        Facts(registered="no|whole|half", begun="yes"),
        "clear",
        "used if complete, else cleared away and made anew; other files in it are kept beside it",
    ),
    Row(
        "half",
        Facts(registered="half"),
        "refuse",
        "the worktree's registration is damaged, and adw was not making it",
        "{mend}",
    ),
    Row(
        "no_git_file",
        Facts(registered="whole", directory="other"),
        "refuse",
        "the run's worktree has no valid `.git` file: git would act on the repository around it",
        "git worktree repair",
    ),
    Row(
        "wrong_branch",
        Facts(registered="whole", directory="ours", head="other"),
        "refuse",
        "the run's worktree is on branch `{found}`, `{branch}` is expected",
        "git -C {path} switch {branch}",
    ),
    Row(
        "detached",
        Facts(registered="whole", directory="ours", head="detached"),
        "refuse",
        "the run's worktree has a detached HEAD, `{branch}` is expected",
        "git -C {path} switch {branch}",
    ),
    Row(
        "branch_gone",
        Facts(branch="absent|remote", registered="whole", directory="ours"),
        "refuse",
        "the run's branch `{branch}` is gone",
        "restore it: git branch {branch} {commit}",
    ),
    Row(
        "reused",
        Facts(registered="whole", directory="ours"),
        "reuse",
        "used as it is, clean or dirty",
    ),
    Row(
        "in_the_way",
        Facts(registered="no", directory="ours|other"),
        "refuse",
        "a directory that is not this run's worktree lies in its place",
        "move it away, then resume",
    ),
    Row(
        "locked",
        Facts(registered="whole", directory="absent", held="locked"),
        "refuse",
        "the worktree's directory is gone and its registration is locked: {found}",
        "bring it back, or: git worktree unlock {path}",
    ),
    Row(
        "elsewhere",
        Facts(branch="elsewhere"),
        "refuse",
        "the run's branch `{branch}` is checked out in `{found}`",
        "git -C {found} switch --detach",
    ),
    Row(
        "fetched",
        Facts(branch="remote"),
        "fetch",
        "the branch is made again where the remote had it when it was last fetched",
    ),
    Row(
        "both_gone",
        Facts(branch="absent", ran="yes"),
        "refuse",
        "the worktree and its branch `{branch}` are both gone",
        "restore the branch: git branch {branch} {commit}",
    ),
    Row(
        "recreated",
        Facts(branch="free", registered="whole"),
        "recreate",
        "made again on the branch; its old registration, with the index, is kept",
    ),
    Row(
        "attached",
        Facts(branch="free"),
        "attach",
        "made on the branch as it is, whatever a remote has",
    ),
    Row(
        "created",
        Facts(branch="absent"),
        "create",
        "branch and worktree are made at the base commit",
    ),
)
"""In order; the first that fits counts."""

BY_NAME: Final = {row.name: row for row in ROWS}


def row_for(found: Facts) -> Row:
    """The first row that fits; there is one for whatever is found."""
    return next(row for row in ROWS if fits(row.found, found))


def fits(wanted: Facts, found: Facts) -> bool:
    """Tell whether what is found is what a row is for."""
    for each in fields(Facts):
        choice = getattr(wanted, each.name)
        if choice != ANY and getattr(found, each.name) not in choice.split("|"):
            return False
    return True


def markdown() -> str:
    """The table as the reference page has it."""
    return "\n".join(
        [
            "| Branch | Registration | Directory | Also | Then | Repair, then `adw resume` |",
            "| --- | --- | --- | --- | --- | --- |",
            *(
                f"| {' | '.join(_words(row.found))} | {_then(row)} | {_after(row)} |"
                for row in ROWS
            ),
        ]
    )


def _words(found: Facts) -> Iterator[str]:
    """Branch, registration, directory, and all else."""
    for names in (("branch",), ("registered",), ("directory",), ("head", "held", "ran", "begun")):
        choices = ((name, getattr(found, name)) for name in names)
        said = (
            " or ".join(_WORDS[name, value] for value in choice.split("|"))
            for name, choice in choices
            if choice != ANY
        )
        yield ", ".join(said) or "any"


_WORDS: Final[dict[tuple[str, str], str]] = {
    ("branch", "absent"): "none",
    ("branch", "remote"): "on a remote only",
    ("branch", "free"): "there",
    ("branch", "elsewhere"): "checked out elsewhere",
    ("registered", "no"): "none",
    ("registered", "whole"): "whole",
    ("registered", "half"): "damaged",
    ("registered", "elsewhere"): "of another path",
    ("directory", "absent"): "none, or empty",
    ("directory", "ours"): "the run's",
    ("directory", "other"): "with no `.git`, or another's",
    ("head", "other"): "HEAD on another branch",
    ("head", "detached"): "HEAD detached",
    ("held", "locked"): "`git worktree lock`",
    ("ran", "yes"): "phases ran in it",
    ("begun", "yes"): "half-made by adw",
}


def _then(row: Row) -> str:
    return f"refused: {_shown(row.says)}" if row.act == "refuse" else row.says


def _after(row: Row) -> str:
    return _shown(row.repair) if row.repair else ""


def _shown(text: str) -> str:
    """Braces as the placeholders of a manual."""
    text = text.replace("{mend}", "git worktree repair PATH, or what is told for the damaged file")
    for name in ("name", "path", "branch", "found", "commit"):
        text = text.replace("{" + name + "}", name.upper())
    return text
