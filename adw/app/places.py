"""Where things are: the repository, its runs, and which run this process may be inside of."""

import json
import os
from dataclasses import dataclass
from typing import Any, Final

from adw.errors import InsidePhase, RepositoryError, UnknownName
from adw.workspace.repository import Repository, locate

GIVEN_OUTPUT: Final = "/sa-output"
"""Folder for output that some runtimes give; counts where it exists."""


@dataclass(frozen=True, slots=True)
class Places:
    """The repository that a command works for."""

    repo: Repository
    agents_dir: str
    """Absolute; holds the runs."""
    output_dir: str | None = None
    """Absolute; where deliverables are copied to, in `artifacts/`. None: nowhere."""

    def run_dir(self, text: str) -> str:
        """Directory of the run that an id, a prefix or `@<issue>` names."""
        from adw.store.runs import find_run

        try:
            return find_run(self.agents_dir, text)
        except UnknownName as error:
            words = gone_words(len(self.gone()))
            if words is None:
                raise
            raise UnknownName(
                kind="run", name=text, suggestion="adw doctor", reason=words
            ) from error

    def gone(self) -> list[str]:
        """Ids of runs that only a copy under the git directory tells of, sorted."""
        from adw.store.runs import list_ids

        here = set(list_ids(self.agents_dir))
        copies = os.path.join(self.repo.git_dir, "adw") if self.repo.git_dir else ""
        if not copies or here.issuperset(list_ids(copies)):
            return []
        from adw.app import bringing_back

        return bringing_back.gone(self)

    @property
    def trees_dir(self) -> str:
        """Absolute; holds the worktrees of runs, unless a state names another place."""
        return os.path.join(self.repo.root, "trees")

    def worktree(self, adw_id: str, recorded: str | None = None) -> str:
        """Absolute path of a run's worktree.

        Args:
            adw_id: The run.
            recorded: What its state names, relative to the main checkout.
        """
        return os.path.normpath(os.path.join(self.repo.root, recorded or f"trees/{adw_id}"))

    def worktree_of(self, run_dir: str) -> str | None:
        """Absolute path of the worktree that a run's state names; None where it is not there."""
        from adw.store import files

        try:
            state = json.loads(files.read(os.path.join(run_dir, "adw_state.json")))
            path = os.path.join(self.repo.root, state["worktree_path"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return path if self.repo.git_dir and os.path.isdir(path) else None


def find_places(start: str, *, reading: bool = False) -> Places:
    """Find the repository around `start` and the folder of its runs.

    The folder is `ADW_AGENTS_DIR`, else `agents_dir` of adw.yaml, else `runtime` in the given
    folder for output (`ADW_OUTPUT_DIR`, or `/sa-output` where it exists), else `agents/` in the
    main checkout. A path that is not absolute is relative to the main checkout.

    Args:
        start: A directory.
        reading: The caller only reads runs, so where `ADW_AGENTS_DIR` names them by an absolute
            path, no repository is needed; its `git_dir` is then empty, and `root` is `start`.

    Raises:
        RepositoryError: There is no repository that can be used.
    """
    configured = os.environ.get("ADW_AGENTS_DIR")
    try:
        repo = locate(start, agents_dir=configured)
    except RepositoryError:
        if not (reading and configured and os.path.isabs(configured)):
            raise
        return Places(Repository(start, ""), os.path.normpath(configured))
    output = os.environ.get("ADW_OUTPUT_DIR") or (
        GIVEN_OUTPUT if os.path.isdir(GIVEN_OUTPUT) else None
    )
    output = output and _below(repo, output)
    agents = configured or _from_config(repo.root)
    if not agents:
        agents = os.path.join(output, "runtime") if output else "agents"
    return Places(repo, _below(repo, agents), output)


def _below(repo: Repository, path: str) -> str:
    return os.path.abspath(os.path.join(repo.root, path))


def _from_config(root: str) -> str | None:
    """`agents_dir` of adw.yaml; the file is parsed only where the key can be in it."""
    from adw.store import files

    try:
        data = files.read(os.path.join(root, "adw.yaml"))
    except OSError:
        return None
    lines = (line.lstrip() for line in data.splitlines())
    if not any(b"agents_dir" in line and line[:1] != b"#" for line in lines):
        return None
    from adw.config import load_config

    found: str | None = load_config(root).agents_dir
    return found


def refuse_inside(run_dir: str, command: str) -> None:
    """Refuse a person's command that was called from inside a phase of the run.

    Raises:
        InsidePhase: The environment is that of a phase of this run.
    """
    adw_id = os.path.basename(run_dir)
    if os.environ.get("ADW_ID") == adw_id and os.environ.get("ADW_CHILD"):
        phase = os.environ.get("ADW_PHASE", "?")
        raise InsidePhase(command=command, phase=phase, adw_id=adw_id)


def gone_words(number: int) -> str | None:
    """What to say of runs whose directory is gone; None where there is none."""
    if not number:
        return None
    many = f"the directories of {number} runs are" if number > 1 else "the directory of 1 run is"
    return f"{many} gone; a copy of the state is there"


def issue_facts(issue: Any) -> dict[str, Any]:
    """An issue as `run.json` keeps it; the body goes to TASK.md only."""
    return {
        "number": issue.number,
        "title": issue.title,
        "labels": list(issue.labels),
        "issue_class": issue.issue_class,
    }


def names_in(folder: str) -> list[str]:
    """What lies in a folder, sorted; nothing where it is missing or cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
