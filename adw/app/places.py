"""Where things are: the repository, its runs, and which run this process may be inside of."""

import os
from dataclasses import dataclass
from typing import Any

from adw.errors import InsidePhase
from adw.workspace.repository import Repository, locate


@dataclass(frozen=True, slots=True)
class Places:
    """The repository that a command works for."""

    repo: Repository
    agents_dir: str
    """Absolute; holds the runs."""

    def run_dir(self, text: str) -> str:
        """Directory of the run that an id, a prefix or `@<issue>` names."""
        from adw.store.runs import find_run

        return find_run(self.agents_dir, text)

    def worktree(self, adw_id: str) -> str:
        """Absolute path of a run's worktree."""
        return os.path.join(self.repo.root, "trees", adw_id)


def find_places(start: str) -> Places:
    """Find the repository around `start` and the folder of its runs.

    The folder is `ADW_AGENTS_DIR`, else `agents_dir` of adw.yaml, else the given runtime directory
    (`ADW_OUTPUT_DIR`, or `/sa-output` where it exists), else `agents/` in the main checkout.
    """
    configured = os.environ.get("ADW_AGENTS_DIR")
    repo = locate(start, agents_dir=configured)
    configured = configured or _from_config(repo.root)
    if configured:
        return Places(repo, os.path.abspath(os.path.join(repo.root, configured)))
    output = os.environ.get("ADW_OUTPUT_DIR") or (
        "/sa-output" if os.path.isdir("/sa-output") else ""
    )
    if output:
        return Places(repo, os.path.join(os.path.abspath(output), "runtime"))
    return Places(repo, os.path.join(repo.root, "agents"))


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


def issue_facts(issue: Any) -> dict[str, Any]:
    """An issue as `run.json` keeps it; the body goes to TASK.md only."""
    return {
        "number": issue.number,
        "title": issue.title,
        "labels": list(issue.labels),
        "issue_class": issue.issue_class,
    }
