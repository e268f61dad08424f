"""`adw path`."""

from tests.cli.handmade import ID, call, made_run
from tests.support.repo import Repo


def test_it_prints_the_worktree_and_nothing_else(repo: Repo) -> None:
    made_run(repo)
    tree = repo.path.resolve() / "trees" / ID
    tree.mkdir(parents=True)

    said = call(repo, "path", "cc73")

    assert (said.code, said.out, said.err) == (0, f"{tree}\n", "")


def test_a_worktree_that_is_not_there_yet_is_told_on_stderr(repo: Repo) -> None:
    run_dir = made_run(repo)
    tree = repo.path.resolve() / "trees" / ID

    said = call(repo, "path", ID)
    view = call(repo, "path", ID, "--json").json()

    assert (said.code, said.out) == (0, f"{tree}\n")
    assert said.err == f"`{tree}` does not exist; `adw resume {ID}` makes it\n"
    assert view == {
        "schema_version": 1,
        "adw_id": ID,
        "worktree": str(tree),
        "exists": False,
        "run_dir": str(run_dir),
    }
