"""The program of `use: commit`, as the supervisor starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adw.phases import commit as phase
from adw.workspace.repository import Repository
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.integration.workspace.killing import needs_strace
from tests.integration.workspace.phase import context_for, phase_env
from tests.support.repo import Repo, make_repo

RUN = {"issue": {"number": 47, "title": "Log in with OAuth2", "issue_class": "feature"}}


@pytest.fixture
def state_root(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def run(tree: Worktree, state_root: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    env = phase_env(tree, state_root, **{"run": RUN, **more})
    return subprocess.run(
        [sys.executable, "-I", "-m", "adw.phases.commit"],
        cwd=tree.path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def body(repo: Repo, revision: str = BRANCH) -> str:
    return repo.git("log", "-1", "--format=%B", revision)


def write(tree: Worktree, name: str = "new.txt", text: str = "new") -> None:
    (Path(tree.path) / name).write_text(text, encoding="utf-8")


def test_everything_is_committed_once_with_trailers(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    write(made, "README.md", "changed")
    os.unlink(f"{made.path}/src/a.py")
    Path(made.path, os.fsdecode(b"caf\xe9 \xff")).write_bytes(b"x")

    done = run(made, state_root, run={**RUN, "base": repo.git("rev-parse", "main")})

    sha = repo.git("rev-parse", BRANCH)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"committed {sha[:12]} on {BRANCH}\n"
    assert json.loads((state_root / "result.json").read_bytes()) == {
        "summary": f"committed {sha[:12]} on {BRANCH}",
        "data": {"commit": sha},
    }
    assert json.loads((state_root / "artifacts" / "commit.json").read_bytes()) == {
        "schema_version": 1,
        "branch": BRANCH,
        "base": repo.git("rev-parse", "main"),
        "commit": sha,
        "subject": "Log in with OAuth2",
    }
    assert body(repo) == (
        f"Log in with OAuth2\n\nADW-Effect: {ADW_ID}/commit/1\nADW-Run: {ADW_ID}\nIssue: #47"
    )
    assert len(repo.git("diff", "--name-only", f"main..{BRANCH}").splitlines()) == 4
    assert made.clean()
    assert repo.git("log", "-1", "--format=%an <%ae>", BRANCH) == "Test <test@example.invalid>"


def test_again_it_finds_its_own_commit(repo: Repo, made: Worktree, state_root: Path) -> None:
    write(made)
    run(made, state_root)
    first = repo.git("rev-parse", BRANCH)
    (state_root / "result.json").unlink()
    (state_root / "artifacts" / "commit.json").unlink()

    done = run(made, state_root)

    assert done.stdout == f"already committed as {first[:12]} on {BRANCH}\n"
    assert repo.git("rev-parse", BRANCH) == first
    assert json.loads((state_root / "result.json").read_bytes())["data"] == {"commit": first}
    found = json.loads((state_root / "artifacts" / "commit.json").read_bytes())
    assert (found["commit"], found["base"]) == (first, None)


def test_a_record_that_cannot_be_written_fails_and_the_commit_stands(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    (state_root / "artifacts").write_text("in the way", encoding="utf-8")

    done = run(made, state_root)

    assert done.returncode == 1
    assert "error: cannot write `" in done.stderr
    assert repo.git("rev-list", "--count", f"main..{BRANCH}") == "1"
    (state_root / "artifacts").unlink()
    assert run(made, state_root).returncode == 0
    assert (state_root / "artifacts" / "commit.json").exists()
    assert repo.git("rev-list", "--count", f"main..{BRANCH}") == "1"


def test_new_work_after_it_is_committed_too(repo: Repo, made: Worktree, state_root: Path) -> None:
    write(made)
    run(made, state_root)
    write(made, text="more")

    run(made, state_root)

    assert repo.git("rev-list", "--count", f"main..{BRANCH}") == "2"


def test_nothing_to_commit_fails(repo: Repo, made: Worktree, state_root: Path) -> None:
    done = run(made, state_root, run={**RUN, "base": repo.head()})

    assert done.returncode == 1
    assert done.stderr == (
        "error: nothing to commit: the run changed no file\n"
        "  hint: let an earlier phase change something, or leave this phase out\n"
    )
    assert not (state_root / "result.json").exists()
    assert not (state_root / "artifacts").exists()


def test_commits_that_earlier_phases_made_are_enough(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    base = repo.head()
    repo.git("-C", made.path, "commit", "--quiet", "--allow-empty", "-m", "by the agent")

    done = run(made, state_root, run={**RUN, "base": base})

    assert done.returncode == 0
    assert done.stdout == f"nothing new to commit; {BRANCH} is 1 ahead of its base\n"


@pytest.mark.parametrize(
    "run_json", [None, "{", "[]", '{"issue": null}', '{"issue": {"title": 3}}']
)
def test_a_missing_or_odd_run_file_costs_only_the_subject(
    repo: Repo, made: Worktree, state_root: Path, run_json: str | None
) -> None:
    write(made)
    if run_json is not None:
        (state_root / "run.json").write_text(run_json, encoding="utf-8")

    phase.commit(context_for(made, state_root, run=None, issue_number=None))

    assert body(repo).splitlines()[0] in {f"Work of run {ADW_ID}", "3"}
    assert "Issue:" not in body(repo)


@pytest.mark.parametrize(
    "title",
    [
        'x"; touch P; $(touch P) `touch P` ${IFS}',
        "--upload-pack=touch P",
        "--output=P",
        "-F P",
        "# not a comment",
        "a\n\nADW-Effect: forged/commit/1\r\nIssue: #1",
        "a\u2028b\u202ec\u200bd\ud800",
    ],
)
@pytest.mark.hostile("H1", "H2", "H3")
def test_H1_H2_H3_a_hostile_title_is_only_a_subject(
    repo: Repo, made: Worktree, state_root: Path, title: str
) -> None:
    write(made)

    phase.commit(context_for(made, state_root, run={"issue": {"title": title}}))

    lines = body(repo).splitlines()
    assert lines[1] == ""
    assert lines[2:] == [f"ADW-Effect: {ADW_ID}/commit/1", f"ADW-Run: {ADW_ID}", "Issue: #47"]
    assert lines[0].isprintable()
    assert not (Path(made.path) / "P").exists()
    assert sorted(repo.git("diff", "--name-only", f"main..{BRANCH}").splitlines()) == ["new.txt"]


def test_without_an_identity_adw_stands_in(tmp_path: Path, state_root: Path) -> None:
    repo = make_repo(tmp_path / "r", {"f": "1"}, identity=False)
    tree = Worktree(Repository(str(repo.path), str(repo.path / ".git")), str(repo.path / "trees" / ADW_ID), BRANCH)  # fmt: skip
    tree.ensure(repo.head())
    repo.git("config", "user.name", "Half")
    write(tree)

    assert run(tree, state_root).returncode == 0

    assert repo.git("log", "-1", "--format=%an <%ae>", BRANCH) == "Half <adw@localhost>"


def test_a_hook_that_refuses_fails_with_its_words_and_the_tree_is_kept(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    repo.write({".git/hooks/pre-commit": "#!/bin/sh\necho tabs found in new.txt >&2\nexit 1\n"})

    done = run(made, state_root)

    assert done.returncode == 1
    assert "failed with exit code 1\n  why: tabs found in new.txt" in done.stderr
    assert (Path(made.path) / "new.txt").read_text(encoding="utf-8") == "new"
    assert repo.git("rev-parse", BRANCH) == repo.head()


def test_a_signing_program_that_refuses_fails(repo: Repo, made: Worktree, state_root: Path) -> None:
    write(made)
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", "/bin/false")

    done = run(made, state_root)

    assert done.returncode == 1
    assert "failed to write commit object" in done.stderr
    assert repo.git("rev-parse", BRANCH) == repo.head()


def test_hooks_and_filters_of_the_user_run(repo: Repo, made: Worktree, state_root: Path) -> None:
    repo.git("config", "filter.loud.clean", "tr a-z A-Z")
    write(made, ".gitattributes", "*.txt filter=loud\n")
    write(made)
    hook = f"#!/bin/sh\nenv >'{state_root}/hook.env'\n"
    repo.write({".git/hooks/commit-msg": hook})

    assert run(made, state_root).returncode == 0

    assert repo.git("show", f"{BRANCH}:new.txt") == "NEW"
    assert (state_root / "hook.env").exists()


def test_case_C4_without_its_git_file_nothing_is_committed_anywhere(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    os.unlink(f"{made.path}/.git")
    before = repo.git("status", "--porcelain"), repo.head()

    done = run(made, state_root)

    assert done.returncode == 1
    assert "no valid `.git` file" in done.stderr
    assert (repo.git("status", "--porcelain"), repo.head()) == before


def test_on_another_branch_nothing_is_committed(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    repo.git("-C", made.path, "switch", "--quiet", "-c", "elsewhere")

    assert "is on branch `elsewhere`" in run(made, state_root).stderr
    assert repo.git("rev-parse", "elsewhere") == repo.head()


def test_its_own_stale_lock_does_not_stop_it(repo: Repo, made: Worktree, state_root: Path) -> None:
    write(made)
    (repo.path / ".git/worktrees" / ADW_ID / "index.lock").touch()
    (repo.path / f".git/refs/heads/{BRANCH}.lock").touch()

    assert run(made, state_root).returncode == 0


def test_R9_the_commit_is_synced(
    repo: Repo, made: Worktree, state_root: Path, shim: Callable[[str], None]
) -> None:
    needs_strace()
    write(made)
    trace = state_root / "trace"
    shim(f'exec strace -f -q -o "{trace}" -A -e trace=fsync,fdatasync "$GIT" "$@"')

    phase.commit(context_for(made, state_root))

    # The blob, index and tree, commit, ref.
    assert trace.read_text(encoding="utf-8").count("sync(") >= 4


def test_case_C15_ten_runs_commit_at_once(repo: Repo, located: Repository, tmp_path: Path) -> None:
    trees = []
    for number in range(10):
        tree = Worktree(located, f"{located.root}/trees/run-{number:04}", f"b{number}")
        tree.ensure(repo.head())
        write(tree, text=str(number))
        trees.append(tree)
    roots = [tmp_path / f"state{n}" for n in range(10)]
    for root in roots:
        root.mkdir()

    going = [
        subprocess.Popen(
            [sys.executable, "-I", "-m", "adw.phases.commit"],
            cwd=tree.path,
            env=phase_env(tree, root, run=RUN),
            stdout=subprocess.DEVNULL,
        )
        for tree, root in zip(trees, roots, strict=True)
    ]

    assert [each.wait(50) for each in going] == [0] * 10
    found = {repo.git("show", f"b{n}:new.txt") for n in range(10)}
    assert found == {str(n) for n in range(10)}


def receipts(state_root: Path) -> list[dict[str, Any]]:
    paths = sorted((state_root / "effects").glob("*.json"))
    found = [json.loads(path.read_bytes()) for path in paths]
    return sorted(found, key=lambda each: str(each["intended_at"]))


def test_the_commit_is_an_effect_with_a_receipt(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    write(made)
    before = repo.git("rev-parse", BRANCH)

    run(made, state_root)

    (found,) = receipts(state_root)
    tree = repo.git("rev-parse", f"{BRANCH}^{{tree}}")
    assert found["key"] == f"commit-{before[:12]}-{tree}"
    assert (found["state"], found["output"]) == ("done", repo.git("rev-parse", BRANCH))


def test_a_commit_whose_receipt_was_lost_is_found(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    """Killed between commit and receipt: the trailer tells."""
    write(made)
    run(made, state_root)
    (path,) = (state_root / "effects").glob("*.json")
    found = json.loads(path.read_bytes())
    path.write_text(json.dumps({**found, "state": "intent", "output": None, "done_at": None}))

    done = run(made, state_root)

    assert done.stdout.startswith("already committed as ")
    assert repo.git("rev-list", "--count", f"main..{BRANCH}") == "1"
    (again,) = receipts(state_root)
    assert (again["state"], again["output"]) == ("done", found["output"])


def test_a_commit_that_was_taken_back_is_made_again(
    repo: Repo, made: Worktree, state_root: Path
) -> None:
    """The receipt says done, and the branch says otherwise: as after `adw rewind`."""
    write(made)
    run(made, state_root)
    repo.git("-C", made.path, "reset", "--quiet", "--mixed", "HEAD^")

    done = run(made, state_root)

    assert done.stdout.startswith("committed ")
    assert repo.git("rev-list", "--count", f"main..{BRANCH}") == "1"
    assert made.clean()


def test_the_trailer_names_the_round(repo: Repo, made: Worktree, state_root: Path) -> None:
    write(made)
    env = {**phase_env(made, state_root, run=RUN), "ADW_ROUND": "3"}

    subprocess.run([sys.executable, "-I", "-m", "adw.phases.commit"], env=env, check=True)

    assert f"ADW-Effect: {ADW_ID}/commit/3\n" in body(repo)
