"""Refusals of outputs, inputs, secrets and skills: the exact words and the exact place (marked by »)."""

import json
import posixpath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.errors import WorkflowError
from adw.loader import load_bytes
from adw.store.artifacts import OutputFault, take
from tests.support.marked import marked

ONE_FAULT: dict[str, tuple[str, list[str]]] = {
    # what a phase puts out and reads
    "FS input in a command that is not the phase's": (
        "  a: {run: [cat, »'{inputs.plan}']}",
        [
            "`{inputs.plan}` is found, but `plan` is not among the phase's `inputs`",
            "hint: add `inputs: [plan]`",
        ],
    ),
    "input misspelt in a command": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n"
        "  b: {run: [cat, »'{inputs.pln}'], needs: [a], inputs: [plan]}"),
        [
            "`{inputs.pln}` is found, but `pln` is not among the phase's `inputs`",
            "hint: did you mean `{inputs.plan}`?",
        ],
    ),
    "input in a condition": (
        "  a: {run: x, ensure: [[cat, »'{inputs.plan}']]}",
        [
            "`{inputs.plan}` is found, but `plan` is not among the phase's `inputs`",
            "hint: add `inputs: [plan]`",
        ],
    ),
    "input in a shell script": (
        "  a: {run: »'cat {inputs.plan}'}",
        [
            "`{inputs.plan}` is found in a shell script, where nothing is replaced",
            "hint: write `run` as a list of words, or read the JSON in $ADW_INPUTS",
        ],
    ),
    "unknown input": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n"
        "  b: {run: x, needs: [a], inputs: [»plam]}"),
        [
            "unknown input `plam`",
            "why: it is an output of no phase",
            "hint: did you mean `plan`?",
        ],
    ),
    "input where nothing is put out": (
        "  a: {run: x, inputs: [»plan]}",
        [
            "unknown input `plan`",
            "why: it is an output of no phase",
            "hint: give the phase that makes it `outputs`",
        ],
    ),
    "input of a phase that is not needed": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n  c: {run: x}\n"
        "  b: {run: x, needs: [c], inputs: [»plan]}"),
        [
            "`b` does not need `a`, which makes `plan`",
            "hint: add `a` to the `needs` of `b`",
        ],
    ),
    "input of a repair phase that not all its owners have": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n"
        "  b: {run: x, needs: [a], repair: {phase: f, rounds: 1}}\n"
        "  c: {run: x, repair: {phase: f, rounds: 1}}\n"
        "  f: {run: x, inputs: [»plan]}"),
        [
            "`c` does not need `a`, which makes `plan`",
            "why: the repair phase `f` starts when that fails",
            "hint: add `a` to the `needs` of `c`",
        ],
    ),
    "input of a repair phase from its owner": (
        ("  b: {run: x, repair: {phase: f, rounds: 1}, outputs: {report: {path: p}}}\n"
        "  f: {run: x, inputs: [»report]}"),
        ["`report` is an output of `b`, which has failed when `f` starts"],
    ),
    "input from a repair phase": (
        ("  a: {run: x, repair: {phase: f, rounds: 1}}\n"
        "  b: {run: x, needs: [a], inputs: [»report]}\n"
        "  f: {run: x, outputs: {report: {path: p}}}"),
        ["`report` is an output of the repair phase `f`, which may never run"],
    ),
    "own output as input": (
        "  a: {run: x, inputs: [»plan], outputs: {plan: {path: p}}}",
        ["`plan` is an output of this phase itself"],
    ),
    "input twice": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n"
        "  b: {run: x, needs: [a], inputs: [plan, »plan]}"),
        ["`plan` is named twice"],
    ),
    "input with capitals": (
        "  a: {run: x, inputs: [»Plan]}",
        [
            "`Plan` is not a logical name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "output of two phases": (
        ("  a: {run: x, outputs: {plan: {path: p}}}\n"
        "  b: {run: x, outputs: {plan: »{path: q}}}"),
        ["`plan` is an output of `a` already", "hint: take another name"],
    ),
    "H29 output with a slash in its name": (
        "  a: {run: x, outputs: {»a/b: {path: p}}}",
        [
            "`a/b` is not a logical name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "output that is only a path": (
        "  a: {run: x, outputs: {plan: »p}}",
        ["`p` is a string, a mapping is expected"],
    ),
    "output without path": (
        "  a: {run: x, outputs: {»plan: {description: d}}}",
        ["`path` is missing", "why: it says where the file will be"],
    ),
    "unknown key of an output": (
        "  a: {run: x, outputs: {plan: {path: p, »optinal: true}}}",
        ["unknown key `optinal`", "hint: did you mean `optional`?"],
    ),
    "unknown key of an output that is called like a key": (
        "  a: {run: x, outputs: {retry: {path: p, »optinal: true}}}",
        ["unknown key `optinal`", "hint: did you mean `optional`?"],
    ),
    "unknown root": (
        "  a: {run: x, outputs: {plan: {path: p, root: »worktre}}}",
        [
            "`worktre` is found, `worktree` or `artifacts` is expected",
            "hint: did you mean `worktree`?",
        ],
    ),
    "unknown format": (
        "  a: {run: x, outputs: {plan: {path: p, format: »yaml}}}",
        ["`yaml` is found, `json` is expected"],
    ),
    "state field that no output sets": (
        "  a: {run: x, outputs: {plan: {path: p, state: »issue_class}}}",
        ["`issue_class` is found, `plan_file` is expected"],
    ),
    "output without bound": (
        "  a: {run: x, outputs: {plan: {path: p, max_bytes: »2147483648}}}",
        ["`2147483648` is found, at most 1073741824 is expected"],
    ),
    "H18 output path that is absolute": (
        "  a: {run: x, outputs: {plan: {path: »/etc/passwd}}}",
        ["`/etc/passwd` is absolute, a relative path is expected"],
    ),
    "H18 output path from the worktree's absolute one": (
        "  a: {run: x, outputs: {plan: {path: »'{worktree}/p'}}}",
        ["`{worktree}` is absolute, a relative path is expected"],
    ),
    "H18 output path that climbs": (
        "  a: {run: x, outputs: {plan: {path: »specs/../../p}}}",
        ["`specs/../../p` leads out with `..`"],
    ),
    "output path that is empty": (
        '  a: {run: x, outputs: {plan: {path: »""}}}',
        ["empty text is found"],
    ),
    "output path with an empty part": (
        "  a: {run: x, outputs: {plan: {path: »specs//p}}}",
        ["`specs//p` has an empty part or `.`"],
    ),
    "output path that is a folder": (
        "  a: {run: x, outputs: {plan: {path: »specs/}}}",
        ["`specs/` has an empty part or `.`", "hint: name the file: specs/*"],
    ),
    "output path with a newline": (
        '  a: {run: x, outputs: {plan: {path: »"a\\nb"}}}',
        ["a control character is found in a path"],
    ),
    "output path across folders": (
        "  a: {run: x, outputs: {plan: {path: »'specs/**/p.md'}}}",
        [
            "`**` is found in `specs/**/p.md`, a wildcard stays inside one folder's name",
            "hint: write one `*` for each folder",
        ],
    ),
    "output path in .git": (
        "  a: {run: x, outputs: {plan: {path: »sub/.Git/config}}}",
        ["`sub/.Git/config` lies in `.git`, which is git's own"],
    ),
    "output path with an open bracket": (
        "  a: {run: x, outputs: {plan: {path: »'a[b/c]'}}}",
        [
            "`[` without `]` is found in `a[b/c]`",
            "hint: write [[] for the character itself",
        ],
    ),
    "output path from an input": (
        "  a: {run: x, outputs: {plan: {path: »'{inputs.x}'}}}",
        ["`{inputs.x}` cannot stand in the path of an output"],
    ),
    "file in the worktree of a phase that does not write": (
        "  a: {run: x, writes: false, outputs: {plan: »{path: p}}}",
        [
            "a phase with `writes: false` puts no file into the worktree",
            "hint: write `root: artifacts`",
        ],
    ),
    "plan file outside of the worktree": (
        "  a: {run: x, outputs: {plan: {path: p, root: artifacts, state: »plan_file}}}",
        [
            "`plan_file` names a file of the worktree, not of the attempt's own folder",
            "hint: leave `root` out",
        ],
    ),
    "two plan files": (
        ("  a: {run: x, outputs: {plan: {path: p, state: plan_file}}}\n"
        "  b: {run: x, outputs: {other: {path: q, state: »plan_file}}}"),
        ["the output `plan` sets `plan_file` already", "hint: let one output set it"],
    ),
    # secrets and skills
    "secret of adw": (
        "  a: {run: x, secrets: [»ADW_TOKEN]}",
        [
            "`ADW_TOKEN` is a variable that adw itself sets or keeps away from phases",
            "hint: take another name",
        ],
    ),
    "secret of git": (
        "  a: {run: x, secrets: [»GIT_ASKPASS]}",
        [
            "`GIT_ASKPASS` is a variable that adw itself sets or keeps away from phases",
            "hint: take another name",
        ],
    ),
    "secret of all": (
        "  a: {run: x, secrets: [»PATH]}",
        ["`PATH` is no secret: all phases have it", "hint: leave it out"],
    ),
    "secret twice": ("  a: {run: x, secrets: [T, »T]}", ["`T` is named twice"]),
    "secret that the file tells": (
        "  a: {run: x, env: {T: hush}, secrets: [»T]}",
        [
            "`T` is also set in `env`, where everybody can read it",
            "hint: take it out of `env`",
        ],
    ),
    "secret that is no name": (
        "  a: {run: x, secrets: [»T=hush]}",
        ["`T=hush` is not a variable name", "hint: use letters, digits and `_`, no digit first"],
    ),
    "skill that climbs": (
        "  a: {run: x, skill: »../s.md}",
        [
            "`../s.md` leads out with `..`",
            "hint: name a file in the workflow file's folder, such as skills/reviewer.md",
        ],
    ),
    "skill that is absolute": (
        "  a: {run: x, skill: »/s.md}",
        [
            "`/s.md` is absolute, a relative path is expected",
            "hint: name a file in the workflow file's folder, such as skills/reviewer.md",
        ],
    ),
    "skill that is not there": (
        "  a: {run: x, skill: »skills/nobody.md}",
        ["cannot read `skills/nobody.md`: no such file"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_FAULT)
def test_a_fault_is_told_with_its_place_and_a_way_out(name: str) -> None:
    text, expected = ONE_FAULT[name]
    plain, places = marked(f"name: w\nphases:\n{text}\n")

    with pytest.raises(WorkflowError) as caught:
        load_bytes(plain.encode(), "workflows/w.yaml")

    head, place, *more = caught.value.render().splitlines()
    assert [head.removeprefix("error: "), *(line.strip() for line in more)] == expected
    assert place == f"  at: workflows/w.yaml:{places[0][0]}:{places[0][1]}"


@pytest.mark.parametrize(
    "path",
    [
        "plan.md",
        "specs/*{adw_id}*.md",
        "specs/issue-{issue_number}-adw-{adw_id}*.md",
        "a/b-*/[ab]?.[!x]",
        "[]]x",
        "[[]x",
        "~/x",
        ".hidden/.*",
        ".gitignore",
        "{plan_file}",
        "{other}",
        "ü/名",
        "...",
    ],
)
def test_a_plain_relative_pattern_is_taken_as_it_is(path: str) -> None:
    data = {"name": "w", "phases": {"a": {"run": ["x"], "outputs": {"o": {"path": path}}}}}

    graph = load_bytes(json.dumps(data).encode(), "w.json").graph

    assert [output.path for output in graph.phases["a"].outputs] == [path]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*"/.*?[]!a~-", "..", ".git", "**", "ü", "{adw_id}"]), max_size=9))
def test_what_the_file_may_ask_for_is_what_can_be_looked_for(parts: list[str]) -> None:
    """A path that is accepted is plain, and is never called malformed when it is looked for."""
    path = "".join(parts)
    data = {"name": "w", "phases": {"a": {"run": ["x"], "outputs": {"o": {"path": path}}}}}
    try:
        load_bytes(json.dumps(data).encode(), "w.json")
    except WorkflowError:
        return

    assert posixpath.normpath(path) == path
    assert not path.startswith("/")
    assert not {"..", ".git"} & set(path.split("/"))
    with TemporaryDirectory() as root, pytest.raises(OutputFault) as caught:
        take(root, path, f"{root}/artifacts/o/a-1")
    assert caught.value.kind == "missing_output"
