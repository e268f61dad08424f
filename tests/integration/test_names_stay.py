"""What the state names stays, whatever becomes of the issue it was made from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, phase

ISSUE = "---\ntitle: {title}\nlabels: [{label}]\n---\nIt is broken.\n"
SEEN = (
    'echo "$ADW_ISSUE_CLASS $ADW_BRANCH $ADW_ISSUE_NUMBER" >>"$GROUND/seen"; test -e "$GROUND/go"'
)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    found = Ground(tmp_path, {"look": phase(SEEN, writes=False)}, config={"ports": "none"})
    yield found
    found.end()


@pytest.mark.sweep
def test_case_B18_an_issue_of_another_class_and_title_changes_no_name_of_its_run(
    ground: Ground,
) -> None:
    ground.repo.write({"issues/47.md": ISSUE.format(title="Sign in", label="feature")})
    assert ground.adw("run", "w", "47").exit_code == 1
    before = ground.status(ground.adw_id)["state"]
    ground.repo.write({"issues/47.md": ISSUE.format(title="Tidy up", label="chore")})

    assert ground.adw("resume", ground.adw_id).exit_code == 1
    (ground.base / "go").touch()
    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    after = ground.status(ground.adw_id)["state"]
    names = ("issue_class", "branch_name", "worktree_path", "issue_number")
    assert [after[name] for name in names] == [before[name] for name in names]
    assert after["issue_class"] == "feature"
    assert after["branch_name"].startswith(f"feat-47-{ground.adw_id}-sign-in")
    seen = (ground.base / "seen").read_text().splitlines()
    assert seen == [f"feature {after['branch_name']} 47"] * 3
    assert ground.repo.git("branch", "--format=%(refname:short)").split() == [
        after["branch_name"],
        "main",
    ]
