"""`use: push` and `use: tag` in whole runs, against a real remote on loopback."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from adw.phases import remote as speaking
from adw.phases.remote import Remote, Unreachable
from tests.faults.conftest import swept
from tests.support.git_http import TOKEN, GitRemote, git_remote
from tests.support.ground import Ground, phase
from tests.support.repo import make_repo

NAME: Final = "FORGE_TOKEN"


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[GitRemote]:
    with git_remote(tmp_path / "forge.git") as found:
        yield found


@pytest.fixture
def grounds() -> Iterator[list[Ground]]:
    found: list[Ground] = []
    yield found
    for ground in found:
        ground.end()


def pushing(remote: GitRemote, *, use: str = "push", **more: Any) -> dict[str, Any]:
    """A phase that pushes with the token."""
    options = {"token": NAME, "host": remote.address, **more.pop("with_", {})}
    return {"use": use, "needs": ["commit"], "secrets": [NAME], "with": options, **more}


def make(
    base: Path,
    remote: GitRemote,
    grounds: list[Ground],
    phases: Mapping[str, Any] | None = None,
    **config: Any,
) -> Ground:
    """A ground whose remote is the server's, with phases that build, commit and push."""
    usual = {
        "build": phase('echo "$ADW_CHILD" > made.txt'),
        "commit": {"use": "commit", "needs": ["build"]},
        "push": pushing(remote),
        "after": phase("true", needs=["push"]),
    }
    ground = Ground(base / "g", {**usual, **(phases or {})}, env={NAME: TOKEN}, config=config)
    grounds.append(ground)
    ground.repo.git("remote", "add", "origin", remote.url)
    return ground


def branch(ground: Ground) -> str:
    return str(ground.status(ground.adw_id)["state"]["branch_name"])


def result(ground: Ground, child: str) -> Any:
    return json.loads((ground.run_dir / "children" / child / "result.json").read_bytes())


def log(ground: Ground, child: str, name: str = "stderr") -> str:
    path = ground.run_dir / "attempts" / child / f"{name}.log"
    return path.read_text() if path.exists() else ""


def assert_pushed_once(ground: Ground, remote: GitRemote) -> None:
    """One ref, changed once, at the run's commit."""
    name = branch(ground)
    assert remote.refs() == {f"refs/heads/{name}": ground.repo.git("rev-parse", name)}
    assert remote.updates(f"refs/heads/{name}") == 1
    assert ground.commits() == 1


def test_case_C26_the_branch_of_the_state_is_pushed_and_no_other(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds)
    ground.repo.git("config", "push.default", "matching")
    ground.repo.git("config", "push.followTags", "true")
    ground.repo.git("config", "remote.origin.push", "+HEAD:refs/heads/main")
    ground.repo.git("tag", "-a", "-m", "old", "old")

    ground.ok("run", "w", "47")

    assert_pushed_once(ground, remote)
    name, adw_id = branch(ground), ground.adw_id
    sha = ground.repo.git("rev-parse", name)
    assert result(ground, "push-1") == {
        "summary": f"pushed {sha[:12]} to {name} of origin",
        "data": {"remote": "origin", "branch": name, "commit": sha},
    }
    assert ground.repo.git("rev-parse", f"origin/{name}") == sha
    assert remote.users == {"x-access-token"}
    recorded = [(e["child_id"], e["key"], e["state"]) for e in ground.events("effect_recorded")]
    assert recorded[-1] == ("push-1", f"push {sha} to {name}", "done")
    # Again, it finds its receipt.
    ground.ok("resume", adw_id, "--from", "push")
    assert result(ground, "push-2")["summary"] == f"origin has {sha[:12]} on {name} already"
    assert_pushed_once(ground, remote)


@pytest.mark.sweep
@pytest.mark.hostile("H13")
def test_the_token_is_nowhere(tmp_path: Path, remote: GitRemote, grounds: list[Ground]) -> None:
    """Neither in files nor in what a hook of the repository inherits."""
    ground = make(tmp_path, remote, grounds)
    hook = ground.repo.path / ".git" / "hooks" / "pre-push"
    hook.write_text(f'#!/bin/sh\nenv > "{tmp_path}/env"; ps -eo args > "{tmp_path}/args"\n')
    hook.chmod(0o755)

    ground.ok("run", "w", "47")
    ground.repo.git("remote", "set-url", "origin", remote.url.replace("//", "//someone:h1dd3n@"))
    ground.adw("resume", ground.adw_id, "--from", "build")

    assert f"Authentication failed for '{remote.url}/'" in log(ground, "push-2")
    texts = [(tmp_path / name).read_text() for name in ("env", "args")]
    assert [TOKEN in text for text in texts] == [False, False]
    files = [path for path in ground.base.rglob("*") if path.is_file() and path.name != "config"]
    with_secret = [path for path in files if TOKEN.encode() in path.read_bytes()]
    assert with_secret == []
    assert [p for p in files if b"h1dd3n" in p.read_bytes()] == []


@pytest.mark.parametrize("mode", swept(["lost", "cut", "bad_gateway"], "bad_gateway"))
def test_F48_what_took_hold_without_an_answer_is_found(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground], mode: str
) -> None:
    ground = make(tmp_path, remote, grounds)
    remote.again([mode])

    ground.ok("run", "w", "47")

    assert [entry[:3] for entry in ground.entries()][-2:] == [("push", 1, True), ("after", 1, True)]
    assert_pushed_once(ground, remote)


def test_case_H4_a_refused_push_fails_the_phase_and_can_be_tried_again_alone(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    """Case H7 too: the work stays on the branch and on disk."""
    ground = make(tmp_path, remote, grounds)
    remote.close()

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    assert ground.ran("after") == []
    name, adw_id = branch(ground), ground.adw_id
    told = log(ground, "push-1")
    assert "error: `origin` refused the push" in told
    assert f"remote: refs/heads/{name} is protected" in told
    assert remote.refs() == {}
    assert ground.repo.git("show", f"{name}:made.txt") == "build-1"
    remote.close(closed=False)

    ground.ok("resume", adw_id)

    assert ground.ran("build") == ["build-1"]
    assert_pushed_once(ground, remote)


@pytest.mark.fault("F52", by="connections that are refused or cut")
@pytest.mark.parametrize(
    ("modes", "looks"),
    [
        (["early"], []),
        pytest.param([], ["cut"] * 3, marks=pytest.mark.sweep),
        pytest.param([], ["down", "cut"], marks=pytest.mark.sweep),
    ],
)
def test_F52_a_network_that_fails_is_named_and_tried_again(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground], modes: list[str], looks: list[str]
) -> None:
    again = pushing(remote, retry={"attempts": 2})
    ground = make(tmp_path, remote, grounds, {"push": again})
    remote.again(modes, looks)

    ground.ok("run", "w", "47")

    assert_pushed_once(ground, remote)
    if len(looks) != 2:
        assert remote.url in log(ground, "push-1") or "hung up" in log(ground, "push-1")


@pytest.mark.sweep
def test_what_had_begun_and_cannot_be_looked_up_is_held_until_the_remote_answers(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    """Look, push, look again: then the remote is gone for as long as a resume looks."""
    ground = make(tmp_path, remote, grounds)
    remote.again(["lost"], ["ok", "ok", *["cut"] * 4])
    assert ground.adw("run", "w", "47").exit_code == 1

    done = ground.adw("resume", ground.adw_id)

    assert done.exit_code == 6, done.told()
    assert ground.entries()[-1] == ("push", 2, False, "effect_unknown")
    ground.ok("resume", ground.adw_id)
    assert_pushed_once(ground, remote)


@pytest.mark.fault("F51", by="a remote that answers 429 and 503")
def test_F51_a_remote_that_asks_for_patience_burns_no_attempt(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds)
    remote.again(["busy"])

    done = ground.adw("run", "w", "47", "--no-wait")

    assert done.exit_code == 6, done.told()
    assert ground.entries()[-1] == ("push", 1, False, "rate_limited")


@pytest.mark.sweep
@pytest.mark.fault("F53", by="a server that gives a byte now and then")
def test_F53_a_remote_that_gives_a_byte_now_and_then_is_given_up(
    tmp_path: Path, remote: GitRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "r")
    url = remote.url.replace("//", f"//x:{TOKEN}@")
    repo.git("remote", "add", "origin", url)
    monkeypatch.setattr(speaking, "LOOK_LIMIT_S", 0.5)
    remote.again(looks=["slow"])

    with pytest.raises(Unreachable, match=r"not done after 0\.5 s"):
        Remote("origin", str(repo.path)).look("refs/heads/x")

    remote.release.set()


@pytest.mark.sweep
def test_a_hook_of_the_user_that_refuses_is_heard(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds)
    hook = ground.repo.path / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\necho not on a Friday >&2\nexit 1\n")
    hook.chmod(0o755)

    assert ground.adw("run", "w", "47").exit_code == 1

    assert "error: not on a Friday" in log(ground, "push-1")
    assert remote.refs() == {}
    hook.unlink()
    ground.ok("resume", ground.adw_id)
    assert_pushed_once(ground, remote)


@pytest.mark.sweep
@pytest.mark.hostile("H13")
def test_a_token_goes_to_its_host_only(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(
        tmp_path, remote, grounds, {"push": pushing(remote, with_={"host": "github.com"})}
    )

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    assert remote.users == set()


@pytest.mark.sweep
def test_what_others_pushed_onto_it_is_kept(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    """The branch of the remote went on: what is in its history counts as pushed."""
    ground = make(tmp_path, remote, grounds)
    ground.ok("run", "w", "47")
    name = branch(ground)
    mine = remote.refs()[f"refs/heads/{name}"]
    tree = remote.git("rev-parse", f"{mine}^{{tree}}")
    who = ("-c", "user.name=B", "-c", "user.email=b@example.invalid")
    theirs = remote.git(*who, "commit-tree", "-m", "more", "-p", mine, tree)
    remote.git("update-ref", f"refs/heads/{name}", theirs)
    for each in (ground.run_dir / "effects").glob("*.json"):
        each.unlink()

    ground.ok("resume", ground.adw_id, "--from", "push")

    assert remote.refs() == {f"refs/heads/{name}": theirs}
    # A commit of the run that does not follow theirs is refused, never forced.
    done = ground.adw("resume", ground.adw_id, "--from", "build")
    assert done.exit_code == 1, done.told()
    assert remote.refs() == {f"refs/heads/{name}": theirs}
    assert "refused the push" in log(ground, "push-3")


@pytest.mark.sweep
def test_case_C8_a_branch_that_is_gone_here_is_made_again_from_the_remote(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds, {"after": phase("exit 1", needs=["push"])})
    assert ground.adw("run", "w", "47").exit_code == 1
    name = branch(ground)
    sha = ground.repo.git("rev-parse", name)
    tree = ground.repo.path / "trees" / ground.adw_id
    ground.repo.git("worktree", "remove", "--force", str(tree))
    ground.repo.git("branch", "-D", name)

    assert ground.adw("resume", ground.adw_id).exit_code == 1

    assert ground.repo.git("rev-parse", name) == sha
    assert ground.ran("build") == ["build-1"]
    assert_pushed_once(ground, remote)


@pytest.mark.sweep
def test_a_remote_that_is_not_there_is_named_before_anything_begins(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds)
    ground.repo.git("remote", "remove", "origin")

    assert ground.adw("run", "w", "47").exit_code == 1

    assert log(ground, "push-1").startswith(
        "error: there is no remote `origin`\n  hint: git remote add origin URL, or "
    )
    assert len(list((ground.run_dir / "effects").glob("*.json"))) == 1, "that of the commit"
    ground.repo.git("remote", "add", "origin", remote.url)
    ground.ok("resume", ground.adw_id)
    assert_pushed_once(ground, remote)


def test_a_run_without_a_commit_pushes_nothing(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    ground = make(tmp_path, remote, grounds, {"commit": phase("true", needs=["build"])})

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    assert f"nothing to push: `{branch(ground)}` has no commit of its own" in log(ground, "push-1")
    assert remote.refs() == {}


@pytest.mark.sweep
@pytest.mark.parametrize("message", swept([None, "Release of {adw_id}"], "Release of {adw_id}"))
def test_a_tag_is_made_here_and_there_once(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground], message: str | None
) -> None:
    options = {"name": "done/{adw_id}"} | ({"message": message} if message else {})
    tag = pushing(remote, use="tag", with_=options)
    ground = make(tmp_path, remote, grounds, {"push": tag})
    remote.again(["lost"])

    ground.ok("run", "w", "47")

    ref = f"refs/tags/done/{ground.adw_id}"
    assert remote.refs() == {ref: ground.repo.git("rev-parse", ref)}
    assert ground.repo.git("rev-parse", f"{ref}^{{commit}}") == ground.repo.git(
        "rev-parse", branch(ground)
    )
    assert remote.updates(ref) == 1
    if message:
        said = ground.repo.git("tag", "-l", "--format=%(contents)", ref.removeprefix("refs/tags/"))
        assert said.strip() == f"Release of {ground.adw_id}"


def test_a_tag_that_is_taken_is_never_moved(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    tag = pushing(remote, use="tag", with_={"name": "v1"})
    ground = make(tmp_path, remote, grounds, {"push": tag})
    ground.repo.git("tag", "v1")

    assert ground.adw("run", "w", "47").exit_code == 1

    assert "the tag `v1` is taken" in log(ground, "push-1")
    assert remote.refs() == {}


@pytest.mark.hostile("H45")
def test_a_commit_with_a_secret_is_not_pushed(
    tmp_path: Path, remote: GitRemote, grounds: list[Ground]
) -> None:
    leaking = phase('printf "%s" "$OTHER" | base64 > made.txt', secrets=["OTHER"])
    ground = make(tmp_path, remote, grounds, {"build": leaking})
    ground.env["OTHER"] = "hunter2-hunter2"

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 1, done.told()
    assert remote.refs() == {}
    assert ground.entries()[-1] == ("push", 1, False, "workspace")
    assert "`OTHER` in `made.txt` of " in done.stdout + done.stderr, done.told()
    assert "hunter2" not in done.told()

    # The way out: a branch without it.
    tree = ground.repo.path / str(ground.status(ground.adw_id)["state"]["worktree_path"])
    (tree / "made.txt").write_text("clean")
    ground.repo.git("-C", str(tree), "commit", "-qa", "--amend", "--no-edit")
    ground.ok("resume", ground.adw_id, "--from", "commit")
    assert_pushed_once(ground, remote)
