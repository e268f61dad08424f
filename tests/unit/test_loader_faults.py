"""Every refusal of a workflow file: its exact words and its exact place (marked by »)."""

from pathlib import Path

import pytest

from adw.errors import ExitCode, NotYet, NotYetKey, WorkflowError
from adw.loader import load_bytes, validate_file
from tests.support.marked import marked

HEAD = "name: w\nphases:\n"
KINDS = (
    "`exit`, `timeout`, `idle`, `signal`, `oom`, `disk`, `missing_output`, `contract`, "
    "`result_invalid`, `no_change` or `agent_error`"
)


def refused(text: str, *, file: str = "workflows/w.yaml") -> WorkflowError:
    with pytest.raises(WorkflowError) as caught:
        load_bytes(text.encode("utf-8", "surrogatepass"), file)
    assert caught.value.exit_code is ExitCode.USAGE
    return caught.value


def rendered(error: WorkflowError) -> list[str]:
    """The lines after the place."""
    lines = error.render().splitlines()
    assert lines[1].startswith("  at: ")
    return [lines[0].removeprefix("error: "), *(line.strip() for line in lines[2:])]


ONE_FAULT: dict[str, tuple[str, list[str | None]]] = {
    # keys
    "unknown key": (
        "  a: {run: [x], »ned: [b]}",
        ["unknown key `ned`", "hint: did you mean `needs`?"],
    ),
    "unknown key of a phase that is called like a key": (
        "  repair: {run: [x], »ned: [b]}",
        ["unknown key `ned`", "hint: did you mean `needs`?"],
    ),
    "unknown key of retry": (
        "  a: {run: [x], retry: {attempts: 2, »delya: 5s}}",
        ["unknown key `delya`", "hint: did you mean `delay`?"],
    ),
    "key twice": ("  a: {run: [x]}\n  »a: {run: [y]}", ["the key `a` occurs twice"]),
    # names
    "phase name with capitals": (
        "  »Build: {run: [x]}",
        [
            "`Build` is not a phase name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "H29 phase name with a slash": (
        "  »a/b: {run: [x]}",
        [
            "`a/b` is not a phase name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "H29 phase name that climbs": (
        '  »"..": {run: [x]}',
        [
            "`..` is not a phase name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "H29 phase name with a newline": (
        '  »"a\\n": {run: [x]}',
        [
            "`a\\n` is not a phase name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "H29 phase name __proto__": (
        "  »__proto__: {run: [x]}",
        [
            "`__proto__` is not a phase name",
            "hint: use a-z, 0-9 and `_`, a letter first, at most 64 characters",
        ],
    ),
    "variable name": (
        "  a: {run: [x], env: {»A-B: c}}",
        ["`A-B` is not a variable name", "hint: use letters, digits and `_`, no digit first"],
    ),
    "variable of adw": (
        "  a: {run: [x], env: {ADW_ID: »c}}",
        ["`ADW_ID` is a variable that adw itself sets", "hint: take another name"],
    ),
    # kinds of phases
    "no kind": ("  »a: {}", ["neither `run` nor `use` is found, exactly one is expected"]),
    "two kinds": (
        "  »a: {run: x, use: commit}",
        ["both `run` and `use` are found, exactly one is expected"],
    ),
    "unknown program": (
        "  a: {use: »comit}",
        ["unknown built-in phase program `comit`", "hint: did you mean `commit`?"],
    ),
    "commit that does not write": (
        "  a: {use: commit, writes: »false}",
        ["`use: commit` with `writes: false` is found, but it writes"],
    ),
    # options of built-in programs
    "options of a command": (
        "  a: {run: x, with: »{name: b}}",
        ["`with` is found beside `run`, it goes with `use` only"],
    ),
    "options where there are none": (
        "  a: {use: commit, with: {name: »b}}",
        ["unknown option `name` of `use: commit`", "hint: `use: commit` has none"],
    ),
    "unknown option": (
        "  a: {use: push, with: {remot: »b}}",
        ["unknown option `remot` of `use: push`", "hint: did you mean `remote`?"],
    ),
    "tag without name": (
        "  a: »{use: tag}",
        ["`use: tag` without its option `name`", "hint: add `with: {name: …}`"],
    ),
    "token that is no secret": (
        "  a: {use: push, with: {token: »T, host: h.example}}",
        [
            "`token: T` is found, but `T` is not among the phase's `secrets`",
            "hint: add `secrets: [T]`",
        ],
    ),
    "token without host": (
        "  a: {use: push, secrets: [T], with: {token: »T}}",
        ["`token` without `host` is found", "hint: add `host: github.com`, or whose token it is"],
    ),
    "H27 number as an option": (
        "  a: {use: tag, with: {name: »1.10}}",
        ["`1.10` is a number, a string is expected", 'hint: write "1.10" in quotes'],
    ),
    "unknown input in an option": (
        "  a: {use: tag, with: {name: »'{inputs.plan}'}}",
        [
            "`{inputs.plan}` is found, but `plan` is not among the phase's `inputs`",
            "hint: add `inputs: [plan]`",
        ],
    ),
    # types; H27: strings where strings are meant
    "H27 number in a command": (
        "  a: {run: [sleep, »1.10]}",
        ["`1.10` is a number, a string is expected", 'hint: write "1.10" in quotes'],
    ),
    "H27 number with leading zero": (
        "  a: {run: [chmod, »010]}",
        ["`010` is a number, a string is expected", 'hint: write "010" in quotes'],
    ),
    "H27 no is a string": (
        "  a: {run: x, writes: »no}",
        ["`no` is a string, true or false is expected"],
    ),
    "H27 sexagesimal is a string": (
        "  a: {run: x, timeout: »12:30:45}",
        [
            "`12:30:45` is not a duration",
            "hint: write 250ms, 5s, 30m, 2h, 1d, or a number of seconds",
        ],
    ),
    "a size with another unit": (
        "  a: {run: x, memory: »2GB}",
        ["`2GB` is not a size", "hint: write 512K, 512M, 2G, or a number of bytes"],
    ),
    "a limit that nothing fits in": (
        "  a: {run: x, memory: »1M}",
        ["`1M` is found, 4M to 1024T are expected; leave the key out, or write null, for no limit"],
    ),
    "a log that has room for nothing": (
        "  a: {run: x, log: »1K}",
        ["`1K` is found, 64K to 1024T are expected; leave the key out, or write null, for 5M"],
    ),
    "H32 a truth as a size": (
        "  a: {run: x, memory: »true}",
        ["`true` is not a size", "hint: write 512K, 512M, 2G, or a number of bytes"],
    ),
    "null in a command": (
        "  a: {run: [»null]}",
        ["nothing is found, a string is expected"],
    ),
    "H32 true for a number": (
        "  a: {run: x, repair: {phase: f, rounds: »true}}\n  f: {run: x}",
        ["`true` is a boolean, a whole number is expected"],
    ),
    "H32 float for a whole number": (
        "  a: {run: x, repair: {phase: f, rounds: »1.0}}\n  f: {run: x}",
        ["`1.0` is a number, a whole number is expected"],
    ),
    "run is a number": ("  a: {run: »5}", ["`5` is a number, a string or a list is expected"]),
    "run is empty": (
        "  a: {run: »[]}",
        ["a list without entries is found, at least one is expected"],
    ),
    "first word empty": ('  a: {run: [»""]}', ["the command's first word is empty"]),
    "script empty": ('  a: {run: »""}', ["empty text is found"]),
    "NUL in a command": ('  a: {run: [x, »"a\\0b"]}', ["a NUL character is found"]),
    "needs is a string": (
        "  a: {run: x}\n  b: {run: x, needs: »a}",
        ["`a` is a string, a list is expected", "hint: write [a]"],
    ),
    "phase is nothing": ("  a:»", ["nothing is found, a mapping is expected"]),
    "retry is a number": (
        "  a: {run: x, retry: »3}",
        ["`3` is a number, a mapping is expected"],
    ),
    "no time at all": (
        "  a: {run: x, timeout: »0}",
        [
            ("`0` is found, more than 0 is expected; leave the key out, or write null, "
            "for no limit")
        ],
    ),
    "endless time": ("  a: {run: x, timeout: ».inf}", ["`.inf` is not a finite number"]),
    "delay of years": (
        "  a: {run: x, retry: {attempts: 2, delay: »400d}}",
        ["`400d` is found, 0 to 366 days are expected"],
    ),
    "on_retry": (
        "  a: {run: x, on_retry: »rest}",
        ["`rest` is found, `keep` or `reset` is expected", "hint: did you mean `reset`?"],
    ),
    "retry on": (
        "  a: {run: x, retry: {attempts: 2, on: [»timeot]}}",
        [f"`timeot` is found, {KINDS} is expected", "hint: did you mean `timeout`?"],
    ),
    "retry on what burns no attempt": (
        "  a: {run: x, retry: {attempts: 2, on: [»lost]}}",
        [f"`lost` is found, {KINDS} is expected"],
    ),
    "factor below one": (
        "  a: {run: x, retry: {attempts: 2, factor: »0.5}}",
        ["`0.5` is found, at least 1 is expected"],
    ),
    # loops without a bound
    "F8 repair without rounds": (
        "  a: {run: x, »repair: {phase: f}}\n  f: {run: x}",
        ["`rounds` is missing", "why: a repair without a bound could go on for ever"],
    ),
    "F8 repair with no rounds": (
        "  a: {run: x, repair: {phase: f, rounds: »0}}\n  f: {run: x}",
        ["`0` is found, at least 1 is expected"],
    ),
    "F8 repair with endless rounds": (
        "  a: {run: x, repair: {phase: f, rounds: »1000000}}\n  f: {run: x}",
        ["`1000000` is found, at most 100 is expected"],
    ),
    "F8 retry without attempts": (
        "  a: {run: x, »retry: {delay: 5s}}",
        ["`attempts` is missing"],
    ),
    # the graph
    "unknown phase": (
        "  a: {run: x, needs: [»biuld]}\n  build: {run: x}",
        ["unknown phase `biuld`", "hint: did you mean `build`?"],
    ),
    "unknown repair phase": (
        "  a: {run: x, repair: {phase: »fx, rounds: 1}}\n  fix: {run: x}",
        ["unknown phase `fx`", "hint: did you mean `fix`?"],
    ),
    "unknown target": (
        "  a: {run: x, repair: {phase: fix, rounds: 1, back_to: »nowhere}}\n  fix: {run: x}",
        ["unknown phase `nowhere`", "hint: known: fix"],
    ),
    "needed twice": (
        "  a: {run: x}\n  b: {run: x, needs: [a, »a]}",
        ["`a` is named twice"],
    ),
    "H28 self edge": ("  a: {run: x, needs: [»a]}", ["`a` needs itself"]),
    "H28 cycle of two": (
        "  a: {run: x, needs: [»b]}\n  b: {run: x, needs: [a]}",
        [
            "2 phases need each other in a circle",
            "why: `a` → `b` → `a`",
            "hint: take one `needs` out",
        ],
    ),
    "repair phase with needs": (
        "  a: {run: x, repair: {phase: f, rounds: 1}}\n  f: {run: x, needs: »[a]}",
        ["the repair phase `f` cannot have `needs`", "why: it runs only when `a` calls it"],
    ),
    "repair phase with when": (
        "  a: {run: x, repair: {phase: f, rounds: 1}}\n  f: {run: x, when: »plan_file}",
        ["the repair phase `f` cannot have `when`", "why: it runs only when `a` calls it"],
    ),
    "repair phase with repair": (
        ("  a: {run: x, repair: {phase: f, rounds: 1}}\n"
        "  b: {run: x, repair: {phase: f, rounds: 1}}\n"
        "  f: {run: x, repair: »{phase: g, rounds: 1}}\n  g: {run: x}"),
        ["the repair phase `f` cannot have `repair`", "why: it runs only when `a` or `b` calls it"],
    ),
    "repair phase with allow_failure": (
        "  a: {run: x, repair: {phase: f, rounds: 1}}\n  f: {run: x, allow_failure: »true}",
        ["the repair phase `f` cannot have `allow_failure`", "why: it runs only when `a` calls it"],
    ),
    "repair phase that is needed": (
        ("  a: {run: x, repair: {phase: f, rounds: 1}}\n  f: {run: x}\n"
        "  b: {run: x, needs: [a, »f]}"),
        ["`b` needs the repair phase `f`", "why: it runs only when `a` calls it"],
    ),
    "target that is not upstream": (
        "  a: {run: x}\n  b: {run: x, repair: {phase: f, rounds: 1, back_to: »a}}\n  f: {run: x}",
        [
            "`b` does not need `a`, to which its repair would lead back",
            "hint: name a phase that `b` needs, directly or by others",
        ],
    ),
    "target that is the owner": (
        "  b: {run: x, repair: {phase: f, rounds: 1, back_to: »b}}\n  f: {run: x}",
        [
            "`b` does not need `b`, to which its repair would lead back",
            "hint: leave `back_to` out: the repair leads back to its owner",
        ],
    ),
    "reset": (
        "  a: {run: x, on_retry: »reset}\n  b: {run: x}",
        [
            "`a` may run beside `b`, whose work a reset would undo",
            "hint: use `on_retry: keep`, or let one need the other",
        ],
    ),
    # other languages
    "when": (
        "  a: {run: x}\n  b: {run: x, needs: [a], when: »tset}",
        [
            ("unknown name `tset`; known here: `issue_class`, `issue_number`, `branch_name`, "
            "`plan_file`, `model_set`, `a`")
        ],
    ),
    "name in a shell script": (
        "  a: {run: »'cat {plan_file}'}",
        [
            "`{plan_file}` is found in a shell script, where nothing is replaced",
            'hint: write "$ADW_PLAN_FILE"',
        ],
    ),
    "name without variable in a shell script": (
        "  a: {run: »'{python} x.py'}",
        [
            "`{python}` is found in a shell script, where nothing is replaced",
            "hint: write `run` as a list of words",
        ],
    ),
    "name in a shell script given as words": (
        "  a: {run: [sh, -euc, »'cat {adw_id}']}",
        [
            "`{adw_id}` is found in a shell script, where nothing is replaced",
            'hint: write "$ADW_ID"',
        ],
    ),
    "cwd is absolute": (
        "  a: {run: x, cwd: »/tmp}",
        ["`/tmp` is absolute, a path inside the worktree is expected"],
    ),
    "cwd leads out": ("  a: {run: x, cwd: »a/../../b}", ["`a/../../b` leads out of the worktree"]),
    "post-condition misspelt": (
        "  a: {run: x, ensure: [»commited]}",
        [
            "unknown post-condition `commited`",
            "hint: did you mean `committed`? A command of that name: [commited]",
        ],
    ),
    "command named like a post-condition": (
        "  a: {run: x, ensure: [»[clean]]}",
        [
            "a command `clean` is found, which is also a post-condition",
            "hint: write clean without brackets",
        ],
    ),
    "post-condition that cannot be met": (
        "  a: {run: x, writes: false, ensure: [»changed]}",
        ["`changed` can never be met with `writes: false`"],
    ),
    # YAML
    "H25 anchor": ("  a: »&x {run: y}\n  b: *x", ["the anchor `&x` is not allowed"]),
    "H25 alias": ("  b: »*x", ["the alias `*x` is not allowed"]),
    "H26 tag": (
        "  a: »!!python/object/apply:os.system [x]",
        ["the tag `!!python/object/apply:os.system` is not allowed"],
    ),
    "merge key": ("  a: {run: x, »<<: {b: c}}", ["unknown key `<<`", None]),
    "key that is a list": ("  »[a]: {run: x}", ["a key that is not plain text is not allowed"]),
    "tab": (
        "  a:\n»\trun: x",
        [
            "not valid YAML: found character that cannot start any token",
            "why: while scanning for the next token",
            "hint: indent with spaces, YAML does not take tabs",
        ],
    ),
    "control character": ("  a: {run: »\x1b}", ["a control character is found"]),
    "second document": ("  a: {run: x}\n»---\n", ["a second document is found, one is expected"]),
    "H32 long number": (
        f"  a: {{run: x, timeout: »{'9' * 5000}}}",
        ["a number of 5000 digits is too long"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_FAULT)
@pytest.mark.hostile("H25", "H26", "H27", "H28", "H29", "H32")
def test_a_fault_is_told_with_its_place_and_a_way_out(name: str) -> None:
    text, expected = ONE_FAULT[name]
    plain, places = marked(HEAD + text + "\n")

    error = refused(plain)

    found: list[str | None] = [*rendered(error)]
    if None in expected:  # a hint that lists what is known
        expected, found = expected[:-1], found[: len(expected) - 1]
    assert found == expected
    assert [(error.fields["line"], error.fields["column"])] == places
    assert error.fields["file"] == "workflows/w.yaml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("»", ["the file is empty"]),
        ("»# only a comment\n", ["the file is empty"]),
        ("»[a]", ["a list is found, a mapping is expected"]),
        ("name: w\nphases: »{}", ["a mapping without entries is found, at least one is expected"]),
        ("»name: w", ["`phases` is missing"]),
        ("»phases: {a: {run: x}}", ["`name` is missing"]),
        (
            "name: w\nschema_version: »2\nphases: {a: {run: x}}",
            ["`2` is found, 1 is expected"],
        ),
        (
            "name: w\n»defualts: {}\nphases: {a: {run: x}}",
            ["unknown key `defualts`", "hint: did you mean `defaults`?"],
        ),
        (
            "name: w\nmax_parallel: »0\nphases: {a: {run: x}}",
            ["`0` is found, at least 1 is expected"],
        ),
        (
            "name: »../x\nphases: {a: {run: x}}",
            [
                "`../x` is not a plain name",
                "hint: use a-z, 0-9, `_` and `-`, a letter first, at most 64 characters",
            ],
        ),
    ],
)
def test_a_fault_of_the_whole_file_has_its_place_too(text: str, expected: list[str]) -> None:
    plain, places = marked(text)

    error = refused(plain)

    assert rendered(error) == expected
    assert (error.fields["line"], error.fields["column"]) == (places or [(1, 1)])[0] or (
        expected == ["the file is empty"]
    )


@pytest.mark.parametrize("key", ["agent", "approve", "workflow", "include", "foreach"])
def test_a_key_of_a_later_version_is_refused_by_name(key: str) -> None:
    plain, places = marked(f"{HEAD}  plan:\n    »{key}: {{a: b}}\n")

    error = refused(plain)

    assert type(error) is NotYet
    assert error.render() == (
        f"error: `{key}` in phase `plan` is not supported yet by this version of adw\n"
        f"  at: workflows/w.yaml:{places[0][0]}:{places[0][1]}"
    )


def test_a_program_of_a_later_version_is_refused_by_name() -> None:
    error = refused(HEAD + "  c: {use: classify}\n")

    assert error.message == (
        "`use: classify` in phase `c` is not supported yet by this version of adw"
    )


def test_a_later_versions_key_of_the_file_is_told_before_what_it_would_have_brought() -> None:
    error = refused("include: base.yaml\n")

    assert type(error) is NotYetKey
    assert error.message == "`include` is not supported yet by this version of adw"


def test_all_faults_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    text, places = marked(
        HEAD + "  a: {run: [x, »5], »ned: []}\n  »B: {run: x}\n  c: {run: x, timeout: »never}\n"
    )
    path = tmp_path / "w.yaml"
    path.write_text(text, encoding="utf-8")

    found = validate_file(str(path))

    assert [(e.fields["line"], e.fields["column"]) for e in found] == places


def test_all_faults_inside_phases_are_told_at_once(tmp_path: Path) -> None:
    text, places = marked(
        HEAD
        + "  a: {use: »comit}\n  b: {run: x, when: »'1 < 2', cwd: »/x}\n  c: {run: »'{adw_id}'}\n"
    )
    path = tmp_path / "w.yaml"
    path.write_text(text, encoding="utf-8")

    found = validate_file(str(path))

    assert [(e.fields["line"], e.fields["column"]) for e in found] == places


def test_a_valid_file_has_no_faults_and_a_fault_of_the_graph_is_one(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(HEAD + "  a: {run: x}\n", encoding="utf-8")
    assert validate_file(str(path)) == []

    path.write_text(HEAD + "  a: {run: x, needs: [a]}\n", encoding="utf-8")
    assert [e.message for e in validate_file(str(path))] == ["`a` needs itself"]
