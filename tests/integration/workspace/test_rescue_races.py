"""A tree is kept although somebody goes on changing it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import GitError
from adw.workspace import rescue
from adw.workspace.worktree import Worktree
from tests.faults.test_hostile_outputs import exchanging
from tests.support.repo import Repo

REFUSES = """
case "$*" in *" add -A "*)
    echo x >> "{log}"
    [ "$(wc -l < "{log}")" -gt {times} ] || {{ echo "fatal: unable to stat 'x'" >&2; exit 128; }};;
esac
exec $GIT "$@"
"""


def test_a_file_that_went_away_while_it_was_added_is_one_more_look(
    repo: Repo, made: Worktree, shim: Callable[[str], None], tmp_path: Path
) -> None:
    (Path(made.path) / "new").write_text("x\n")
    shim(REFUSES.format(log=tmp_path / "adds", times=rescue.ADD_TRIES - 1))

    kept = made.keep("build-1-before", ())

    assert kept is not None
    assert repo.git("show", f"{kept.commit}:new") == "x"


def test_what_git_refuses_each_time_is_told(
    repo: Repo, made: Worktree, shim: Callable[[str], None], tmp_path: Path
) -> None:
    (Path(made.path) / "new").write_text("x\n")
    shim(REFUSES.format(log=tmp_path / "adds", times=100))

    with pytest.raises(GitError, match="exit code 128"):
        made.keep("build-1-before", ())

    assert (tmp_path / "adds").read_text().count("x") == rescue.ADD_TRIES
    assert repo.git("for-each-ref", "refs/adw") == ""


@pytest.mark.sweep
def test_a_process_that_exchanges_files_all_the_time_stops_no_keeping(
    made: Worktree, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("outside\n")
    with exchanging(Path(made.path), tmp_path, "file for a link"):
        for _ in range(30):
            assert made.keep("build-1-before", ()) is not None
