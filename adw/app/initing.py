"""Setting up a repository: files that are not there yet are written, those that are stay."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from adw.errors import StoreError
from adw.store import files

CONFIG: Final = """\
# How this repository wants its runs. Every key may be left out; `adw schema config` has them all.

# issues: local          # issues/<number>.md
# base_branch: main      # where runs start from; by default what origin/HEAD names, else what is checked out
# agents_dir: agents     # where runs are kept
# ports: none            # or {slots: 100}: a pair of ports for each run, 9100 + n and 9200 + n

# copy: [.env]           # ignored files and folders that each run's worktree gets a copy of
# setup: make deps       # first phase of every run

# env:                   # environment variables of every phase
#   CI: "1"
#   AGENT: my-agent      # what the workflow `sdlc`, which comes with adw, calls to plan and build,
#   TEST: make test      # and what it calls to test
# env_pass: [NODE_*]     # what phases inherit beyond PATH, HOME and the like
"""

WORKFLOW: Final = """\
# Plan, build, test and commit one issue. The commands here are stand-ins: put yours in their place.
# `adw validate` checks this file, `adw graph example` draws it.
schema_version: 1
name: example
description: Plan, build, test and commit one issue.
defaults: {timeout: 30m}
phases:
  plan:
    run: |
      mkdir -p specs
      cp "$ADW_STATE_ROOT/TASK.md" "specs/issue-$ADW_ISSUE_NUMBER-adw-$ADW_ID.md"
    outputs:                       # without this file the phase has failed, whatever it says
      plan: {path: "specs/*{adw_id}*.md", description: The plan, state: plan_file}
  build:
    needs: [plan]
    inputs: [plan]                 # its path is in $ADW_INPUTS, and in {inputs.plan} of a word
    run: echo "the change for issue $ADW_ISSUE_NUMBER is made here"
  test:
    needs: [build]
    writes: false                  # it only reads the worktree
    run: git diff --check
    retry: {attempts: 2}           # for tests that fail now and then
  commit:
    needs: [test]
    use: commit
"""

ISSUE: Final = """\
---
title: Say hello
labels: [example]
class: feature
---
Replace this text by what is wanted, and say how it can be seen that it is done.
"""

FILES: Final[Mapping[str, str]] = {
    "adw.yaml": CONFIG,
    "workflows/example.yaml": WORKFLOW,
    "issues/1.md": ISSUE,
}


@dataclass(frozen=True, slots=True)
class Written:
    """What `init` did, names relative to the repository."""

    new: list[str]
    kept: list[str]


def init(root: str) -> Written:
    """Write the files of a repository that is to use adw.

    Args:
        root: The main checkout.

    Returns:
        What was written, and what was there and stays as it was.

    Raises:
        StoreError: A file could not be written; those before it stand.
    """
    written = Written([], [])
    for name, text in FILES.items():
        path = os.path.join(root, name)
        try:
            new = _write(path, text)
        except OSError as error:
            raise StoreError.of(error, path) from error
        (written.new if new else written.kept).append(name)
    return written


def _write(path: str, text: str) -> bool:
    """Write a file unless its name is taken, by whatever it be."""
    files.make_dirs(os.path.dirname(path), mode=0o755)
    try:
        files.create(path, text.encode(), sync=False, mode=0o644)
    except FileExistsError:
        return False
    return True
