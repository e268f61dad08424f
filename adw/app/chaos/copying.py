"""The throw-away copy: repository, remotes, home; made once, then copied for each round.

    template/ or round/
      repo/            the main checkout: same commits, branches, files as the real one has them
      remotes/<name>/  a bare repository for each remote; each push leaves a line in its reflog
      home/ host/ tmp/ HOME, ADW_HOST_DIR and TMPDIR of the round

Objects are borrowed from the real repository, which is only read. A round lies at the same path
as every other one, so that paths in outputs do not differ.
"""

import json
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adw.app.chaos.isolating import without_secrets
from adw.store import files
from adw.workspace.git import ask_git, run_git

if TYPE_CHECKING:
    from adw.app.places import Places

ROUND: Final = "round"
_TEMPLATE: Final = "template"
_LEFT_OUT: Final = re.compile(
    r"(remote|branch|credential|url|http|https|include|includeif|extensions|safe|sendemail|gpg)\."
    r"|(commit|tag|push)\.gpgsign\Z|user\.signingkey\Z"
    r"|core\.(worktree|bare|repositoryformatversion|sshcommand|askpass|alternaterefscommand)\Z"
)
_TAKEN: Final = re.compile(
    r"user\.(name|email)\Z|init\.defaultbranch\Z|core\.(autocrlf|eol|safecrlf)\Z|(filter|merge|diff)\."
)
"""What is taken of the settings in the real home: identity, and what files look like."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_READ: Final = 1 << 30  # bytes of the largest file that is copied


@dataclass(frozen=True, slots=True)
class Copy:
    """Where the rounds take place."""

    folder: str
    """Temporary folder of this command; absolute, without symbolic links."""

    @property
    def round(self) -> str:
        """Where the present round is."""
        return os.path.join(self.folder, ROUND)

    @property
    def repo(self) -> str:
        """Its main checkout."""
        return os.path.join(self.round, "repo")

    @property
    def agents(self) -> str:
        """Its runs."""
        return os.path.join(self.repo, "agents")

    def begin(self) -> None:
        """Make a new round of the template; the one before is gone."""
        remove(self.round)
        _copy_tree(os.path.join(self.folder, _TEMPLATE), self.round)

    def keep(self, name: str) -> str:
        """Move the round aside, for people; its path afterwards."""
        target = os.path.join(self.folder, name)
        files.rename(self.round, target)
        repo = os.path.join(target, "repo")
        trees = os.path.join(repo, "trees")
        for each in os.listdir(trees) if os.path.isdir(trees) else []:
            ask_git(["worktree", "repair", os.path.join(trees, each)], repo, kind="read")
        for remote in os.listdir(os.path.join(target, "remotes")):
            _set_url(repo, remote, os.path.join(target, "remotes", remote))
        return target

    def end(self) -> None:
        """Remove what is only for making rounds."""
        remove(os.path.join(self.folder, _TEMPLATE))
        remove(self.round)


def remove(path: str) -> None:
    """Remove a folder, also where a phase took the right to do so away; nothing if it is gone."""
    if not os.path.lexists(path):
        return
    try:
        files.remove_tree(path)
    except PermissionError:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        files.remove_tree(path)


def prepare(places: "Places", config: dict[str, Any], folder: str) -> Copy:
    """Make the template.

    Args:
        places: The real repository, which is only read.
        config: Its adw.yaml, as JSON-ready data.
        folder: A new, empty folder.
    """
    copy = Copy(os.path.realpath(folder))
    template = os.path.join(copy.folder, _TEMPLATE)
    repo = os.path.join(template, "repo")
    for name in ("", "repo", "remotes", "home", "host", "tmp"):
        files.make_dir(os.path.join(template, name))
    root = places.repo.root
    _clone(root, places.repo.git_dir, repo)
    _files(root, repo, config.get("copy") or [])
    for name in _lines(root, "remote"):
        if _NAME.match(name):
            _remote(copy, template, places.repo.git_dir, name)
    _settings(copy, root, repo, config)
    _identity(root, os.path.join(template, "home"))
    return copy


def _clone(root: str, git_dir: str, repo: str) -> None:
    """The same branches, tags and remote-tracking branches, and the same one checked out."""
    run_git(["init", "--quiet", "--template=", *_format(root)], repo, kind="read")
    _borrow(git_dir, os.path.join(repo, ".git"))
    _refs(git_dir, repo, "refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*")
    _refs(git_dir, repo, "refs/remotes/*:refs/remotes/*")
    head = ask_git(["symbolic-ref", "--quiet", "HEAD"], root, kind="read")
    if head.exit_code == 0:
        run_git(["symbolic-ref", "HEAD", head.stdout.decode().strip()], repo, kind="read")
    else:
        commit = run_git(["rev-parse", "HEAD"], root, kind="read").decode().strip()
        run_git(["update-ref", "--no-deref", "HEAD", commit], repo, kind="read")
    for name in _lines(root, "remote"):
        ref = f"refs/remotes/{name}/HEAD"
        told = ask_git(["symbolic-ref", "--quiet", ref], root, kind="read")
        if told.exit_code == 0:
            run_git(["symbolic-ref", ref, told.stdout.decode().strip()], repo, kind="read")
    for line in _config(root, "--local"):
        name, _, value = line.partition("\n")
        if not _LEFT_OUT.match(name.lower()):
            run_git(["config", "--add", name, value or "true"], repo, kind="read")
    hooks = os.path.join(git_dir, "hooks")
    for name in os.listdir(hooks) if os.path.isdir(hooks) else []:
        if not name.endswith(".sample") and os.path.isfile(os.path.join(hooks, name)):
            files.make_dir(os.path.join(repo, ".git", "hooks"), mode=0o755, exist_ok=True)
            _copy_file(os.path.join(hooks, name), os.path.join(repo, ".git", "hooks", name))
    run_git(["reset", "--quiet", "--hard"], repo, kind="read", timeout_s=600)


def _format(root: str) -> list[str]:
    told = ask_git(["rev-parse", "--show-object-format"], root, kind="read")
    name = told.stdout.decode().strip()
    return [f"--object-format={name}"] if told.exit_code == 0 and name != "sha1" else []


def _borrow(git_dir: str, other: str) -> None:
    info = os.path.join(other, "objects", "info")
    files.make_dirs(info, mode=0o755)
    line = os.fsencode(os.path.join(git_dir, "objects")) + b"\n"
    files.create(os.path.join(info, "alternates"), line, sync=False, mode=0o644)


def _refs(git_dir: str, target: str, *wanted: str) -> None:
    args = ["fetch", "--quiet", "--no-tags", "--update-head-ok", "--no-write-fetch-head"]
    run_git([*args, git_dir, *wanted], target, kind="read", timeout_s=600)


def _files(root: str, repo: str, copied: list[str]) -> None:
    """Bring what is in no commit along, as it is, since workflow and issues are read there."""
    args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"]
    found = run_git(args, root, kind="read", timeout_s=600).split(b"\0")
    names = [os.fsdecode(entry[3:]) for entry in found if entry]
    copied = [os.path.normpath(each) for each in copied]
    for name in [*names, *copied]:
        source, target = os.path.join(root, name), os.path.join(repo, name)
        if not os.path.lexists(source):
            files.unlink(target)
        elif os.path.isdir(source) and not os.path.islink(source):
            if name in copied:
                remove(target)
                files.make_dirs(os.path.dirname(target), mode=0o755)
                _copy_tree(source, target)
        else:
            files.make_dirs(os.path.dirname(target), mode=0o755)
            files.unlink(target)
            _copy_file(source, target)


def _remote(copy: Copy, template: str, git_dir: str, name: str) -> None:
    """A bare repository with what is known of the remote, and where the copy takes it for it."""
    bare = os.path.join(template, "remotes", name)
    files.make_dir(bare)
    run_git(["init", "--quiet", "--bare", "--template=", *_format(git_dir)], bare, kind="read")
    _borrow(git_dir, bare)
    _refs(git_dir, bare, f"refs/remotes/{name}/*:refs/heads/*")
    ask_git(["update-ref", "--no-deref", "-d", "refs/heads/HEAD"], bare, kind="read")
    # From here on every update of a ref leaves a line, so that pushes can be counted.
    run_git(["config", "core.logAllRefUpdates", "always"], bare, kind="read")
    _set_url(os.path.join(template, "repo"), name, os.path.join(copy.round, "remotes", name))
    run_git(
        ["config", f"remote.{name}.fetch", f"+refs/heads/*:refs/remotes/{name}/*"],
        os.path.join(template, "repo"),
        kind="read",
    )


def _set_url(repo: str, name: str, path: str) -> None:
    run_git(["config", f"remote.{name}.url", path], repo, kind="read")


def _settings(copy: Copy, root: str, repo: str, config: dict[str, Any]) -> None:
    """adw.yaml as it is, but that nobody is told, and that paths lead into the copy."""
    env = {
        name: copy.repo + value[len(root) :] if (value + "/").startswith(root + "/") else value
        for name, value in (config.get("env") or {}).items()
    }
    told = {"command": ["true"]} if config.get("notify") else None
    mine = {**config, "agents_dir": "agents", "env": env, "notify": told}
    path = os.path.join(repo, "adw.yaml")
    files.unlink(path)
    data = json.dumps({k: v for k, v in mine.items() if v is not None}, indent=1)
    files.create(path, data.encode(), sync=False, mode=0o644)


def _identity(root: str, home: str) -> None:
    """Who commits, and how files look; nothing else of the real home is there."""
    path = os.path.join(home, ".gitconfig")
    for line in _config(root, "--includes"):
        name, _, value = line.partition("\n")
        if _TAKEN.match(name.lower()):
            run_git(["config", "--file", path, name, value or "true"], home, kind="read")


def _lines(cwd: str, *args: str) -> list[str]:
    return run_git(args, cwd, kind="read").decode("utf-8", "surrogateescape").splitlines()


def _config(root: str, *which: str) -> list[str]:
    told = ask_git(["config", *which, "--list", "-z"], root, kind="read")
    return [each for each in told.stdout.decode("utf-8", "surrogateescape").split("\0") if each]


def _copy_tree(source: str, target: str) -> None:
    """Copy a folder; what is no file, folder or link is left out."""
    files.make_dir(target, mode=stat.S_IMODE(os.stat(source).st_mode) | 0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            path = os.path.join(target, entry.name)
            if entry.is_dir(follow_symlinks=False):
                _copy_tree(entry.path, path)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                _copy_file(entry.path, path)


def _copy_file(source: str, target: str) -> None:
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    mode = stat.S_IMODE(os.stat(source).st_mode)
    data = without_secrets(source, files.read(source, limit=_READ))
    files.create(target, data, sync=False, mode=mode)
