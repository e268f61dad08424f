"""`adw graph`."""

import pytest

from tests.cli.handmade import ID, call, made_run
from tests.support.repo import Repo

LOOP = """\
schema_version: 1
name: loop
phases:
  build: {run: [echo], outputs: {notes: {path: notes.md}}}
  test:
    needs: [build]
    inputs: [notes]
    run: [echo]
    when: issue_class == 'bug'
    repair: {phase: fix, rounds: 2, back_to: build}
  fix: {run: [echo]}
"""
TEXT = """\
plan
test    needs plan; 2 attempts
commit  needs test
"""


def test_a_workflow_as_text(repo: Repo) -> None:
    said = call(repo, "graph", "w")

    assert (said.code, said.out, said.err) == (0, TEXT, "")


def test_a_workflow_as_mermaid(repo: Repo) -> None:
    repo.write({"workflows/loop.yaml": LOOP})

    said = call(repo, "graph", "loop", "--format", "mermaid")

    assert (said.code, said.err) == (0, "")
    lines = said.out.rstrip("\n").split("\n")
    assert lines[0] == "flowchart TD"
    assert '  p_fix(["fix"])' in lines
    assert '  p_build -- "notes" --> p_test' in lines


def test_as_json_it_has_the_documented_shape(repo: Repo) -> None:
    repo.write({"workflows/loop.yaml": LOOP})

    assert call(repo, "graph", "loop", "--json").json() == {
        "schema_version": 1,
        "workflow": "loop",
        "phases": [
            {
                "phase": "build",
                "needs": [],
                "inputs": [],
                "outputs": ["notes"],
                "repairs": [],
                "repair": None,
            },
            {
                "phase": "test",
                "needs": ["build"],
                "inputs": ["notes"],
                "outputs": [],
                "repairs": [],
                "repair": {"phase": "fix", "rounds": 2, "back_to": "build"},
            },
            {
                "phase": "fix",
                "needs": [],
                "inputs": [],
                "outputs": [],
                "repairs": ["test"],
                "repair": None,
            },
        ],
    }


@pytest.mark.parametrize("name", [ID, "cc73", "@47"])
def test_a_run_is_drawn_as_it_was_pinned(repo: Repo, name: str) -> None:
    made_run(repo)
    repo.write({"workflows/w.yaml": LOOP.replace("loop", "w")})

    assert call(repo, "graph", name).out == TEXT


def test_a_name_that_is_neither_is_refused(repo: Repo) -> None:
    said = call(repo, "graph", "ww")

    assert (said.code, said.out) == (2, "")
    assert said.err == "error: unknown workflow `ww`\n  hint: did you mean `w`?\n"
    assert call(repo, "graph", "@9").err == "error: unknown run `@9`\n  hint: adw status\n"


def test_a_faulty_workflow_is_refused_at_its_place(repo: Repo) -> None:
    repo.write({"workflows/loop.yaml": LOOP.replace("needs: [build]", "needs: [built]")})

    said = call(repo, "graph", "loop")

    assert (said.code, said.out) == (2, "")
    assert "workflows/loop.yaml:6:13\n" in said.err
