"""Runs made by hand that have a worktree and a branch, for the commands that remove these."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adw.app.places import find_places
from adw.model.state import HistoryEntry
from adw.store.state import load_state
from adw.workspace.worktree import Worktree
from tests.cli.handmade import ID, Said, call, done, made_run
from tests.support.repo import Repo


@dataclass(frozen=True)
class Tree:
    """A run, its worktree and its branch."""

    repo: Repo
    run_dir: Path
    branch: str
    adw_id: str = ID

    @property
    def path(self) -> Path:
        """The worktree."""
        return self.repo.path / "trees" / self.adw_id

    @property
    def there(self) -> tuple[bool, bool, bool, bool]:
        """Whether directory, registration, branch and run are there."""
        found = self.repo.git("branch", "--list", self.branch) != ""
        return (self.path.exists(), self.registered, found, self.run_dir.exists())

    @property
    def registered(self) -> bool:
        """Whether git lists the worktree."""
        listed = self.repo.git("worktree", "list", "--porcelain")
        return f"worktree {self.path.resolve()}\n" in f"{listed}\n"

    def write(self, name: str, text: str = "x\n") -> None:
        """Write a file in the worktree."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, name: str = "made.txt", text: str = "x\n") -> str:
        """Commit a file on the run's branch."""
        self.write(name, text)
        return Repo(self.path).commit(f"make {name}")

    def keep(self, name: str) -> None:
        """Keep the tree as it is under a ref of the run, as before or after a phase."""
        tree = Repo(self.path)
        tree.git("add", "--all")
        made = tree.git("commit-tree", tree.git("write-tree"), "-p", "HEAD", "-m", name)
        tree.git("reset", "--quiet")
        tree.git("update-ref", f"refs/adw/{self.adw_id}/{name}", made)

    def call(self, *args: str) -> Said:
        """Run a command in the repository."""
        return call(self.repo, *args)

    def parts(self, *args: str) -> dict[str, tuple[str, str]]:
        """What `adw rm --json` says of each part: action and reason."""
        said = self.call("rm", self.adw_id, "--json", *args)
        return {each["part"]: (each["action"], each["reason"]) for each in said.json()["parts"]}


GONE = (False, False, False, True)
WHOLE = (True, True, True, True)


def made_tree(
    repo: Repo, entries: Sequence[HistoryEntry] | None = None, adw_id: str = ID, minute: int = 0
) -> Tree:
    """A run with a worktree; it succeeded, if nothing else is said."""
    run_dir = made_run(repo, done() if entries is None else entries, adw_id, minute)
    state, _ = load_state(str(run_dir))
    places = find_places(str(repo.path))
    path = str(repo.path.resolve() / "trees" / adw_id)
    Worktree(places.repo, path, str(state.branch_name)).ensure(repo.head())
    return Tree(repo, run_dir, str(state.branch_name), adw_id)


def merged(repo: Repo, tree: Tree) -> None:
    """Merge the run's branch into what is checked out in the main checkout."""
    repo.git("merge", "--quiet", "--no-ff", "--no-edit", tree.branch)
