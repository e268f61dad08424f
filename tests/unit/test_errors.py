"""Every message, to the letter."""

from collections.abc import Iterator

import pytest

from adw import errors
from adw.errors import AdwError, ExitCode

CASES: dict[type[AdwError], tuple[dict[str, object], int, str]] = {
    errors.UsageError: (
        {"detail": "`--set plan` has no value", "fix": "--set plan=x"},
        2,
        "error: `--set plan` has no value\n  hint: --set plan=x",
    ),
    errors.BrokenRun: (
        {
            "path": "agents/cc73faf1/run.json",
            "what": "run record",
            "reason": "line 1 column 2: expected a key",
            "adw_id": "cc73faf1",
        },
        2,
        (
            "error: `agents/cc73faf1/run.json` is not a valid run record\n"
            "  why: line 1 column 2: expected a key\n"
            "  hint: adw doctor cc73faf1"
        ),
    ),
    errors.EnvironmentFault: (
        {"detail": "cannot make `agents`", "reason": "no space left on device", "fix": "df -h ."},
        4,
        "error: cannot make `agents`\n  why: no space left on device\n  hint: df -h .",
    ),
    errors.BusyError: (
        {"adw_id": "cc73faf1", "holder": "process 4121"},
        5,
        (
            "error: run `cc73faf1` is in use by process 4121\n"
            "  hint: wait for it, or stop it with `adw cancel cc73faf1`"
        ),
    ),
    errors.HeldError: (
        {"detail": "phase `deploy` waits for a person", "fix": "adw approve cc73faf1 deploy"},
        6,
        "error: phase `deploy` waits for a person\n  hint: adw approve cc73faf1 deploy",
    ),
    errors.UnknownName: (
        {
            "kind": "workflow",
            "name": "sdcl",
            "reason": "no workflows/sdcl.yaml",
            "suggestion": "did you mean `sdlc`?",
        },
        2,
        "error: unknown workflow `sdcl`\n  why: no workflows/sdcl.yaml\n  hint: did you mean `sdlc`?",
    ),
    errors.AmbiguousId: (
        {"prefix": "cc", "matches": "cc73faf1, cc901b22"},
        2,
        "error: `cc` fits several runs: cc73faf1, cc901b22\n  hint: give more characters of the id",
    ),
    errors.MalformedId: (
        {"name": "../etc"},
        2,
        "error: `../etc` is not an ADW ID: 6 to 64 of a-z, 0-9 and `-` are expected",
    ),
    errors.ResumeChoice: (
        {"count": 2, "matches": "cc73faf1, d0a4b7e9"},
        2,
        (
            "error: 2 interrupted runs, one is expected\n"
            "  why: not over: cc73faf1, d0a4b7e9\n"
            "  hint: adw resume ID, or adw resume --all for the interrupted ones"
        ),
    ),
    errors.WorkflowError: (
        {
            "detail": "unknown key `run_` in phase `test`",
            "file": "workflows/sdlc.yaml",
            "line": 14,
            "column": 5,
            "reason": None,
            "fix": "did you mean `run`?",
        },
        2,
        (
            "error: unknown key `run_` in phase `test`\n"
            "  at: workflows/sdlc.yaml:14:5\n"
            "  hint: did you mean `run`?"
        ),
    ),
    errors.NotYet: (
        {
            "name": "agent",
            "phase": "plan",
            "file": "workflows/sdlc.yaml",
            "line": 8,
            "column": 3,
            "fix": "use `run`",
        },
        2,
        (
            "error: `agent` in phase `plan` is not supported yet by this version of adw\n"
            "  at: workflows/sdlc.yaml:8:3\n"
            "  hint: use `run`"
        ),
    ),
    errors.NotYetKey: (
        {"name": "include", "file": "workflows/sdlc.yaml", "line": 3, "column": 1, "fix": None},
        2,
        (
            "error: `include` is not supported yet by this version of adw\n"
            "  at: workflows/sdlc.yaml:3:1"
        ),
    ),
    errors.DefinitionChanged: (
        {
            "adw_id": "cc73faf1",
            "detail": "phase `fix` is gone",
            "fix": "adw resume cc73faf1",
        },
        2,
        (
            "error: run `cc73faf1` cannot go on with the changed files: phase `fix` is gone\n"
            "  hint: adw resume cc73faf1"
        ),
    ),
    errors.StateError: (
        {
            "path": "agents/cc73faf1/adw_state.json",
            "what": "state file",
            "reason": "the key `adw_id` occurs twice",
            "adw_id": "cc73faf1",
        },
        2,
        (
            "error: `agents/cc73faf1/adw_state.json` is not a valid state file\n"
            "  why: the key `adw_id` occurs twice\n"
            "  hint: adw doctor cc73faf1"
        ),
    ),
    errors.StateVersion: (
        {"path": "agents/cc73faf1/adw_state.json", "found": 2, "supported": 1},
        2,
        (
            "error: `agents/cc73faf1/adw_state.json` has schema version 2, this adw reads up to 1\n"
            "  hint: use a newer adw"
        ),
    ),
    errors.StoreError: (
        {
            "path": "agents/cc73faf1/adw_state.json",
            "reason": "no space left on device",
            "fix": "free some space, then adw resume cc73faf1",
        },
        4,
        (
            "error: cannot write `agents/cc73faf1/adw_state.json`: no space left on device\n"
            "  hint: free some space, then adw resume cc73faf1"
        ),
    ),
    errors.ReadError: (
        {"path": "attempts/build-1/attempt.jsonl", "reason": "Input/output error", "fix": None},
        4,
        "error: cannot read `attempts/build-1/attempt.jsonl`: Input/output error",
    ),
    errors.RepositoryError: (
        {
            "detail": "not inside a git repository",
            "path": "/home/me",
            "fix": "git init",
        },
        2,
        "error: not inside a git repository\n  at: /home/me\n  hint: git init",
    ),
    errors.GitError: (
        {
            "command": "worktree add",
            "exit_code": 128,
            "stderr": "fatal: invalid reference: main\nhint: use --orphan",
            "fix": None,
        },
        4,
        (
            "error: `git worktree add` failed with exit code 128\n"
            "  why: fatal: invalid reference: main\n"
            "    hint: use --orphan"
        ),
    ),
    errors.WorktreeError: (
        {
            "detail": "the worktree is on branch `main`, `feat-47-cc73faf1-oauth2` is expected",
            "path": "trees/cc73faf1",
            "reason": None,
            "fix": "git -C trees/cc73faf1 switch feat-47-cc73faf1-oauth2",
        },
        4,
        (
            "error: the worktree is on branch `main`, `feat-47-cc73faf1-oauth2` is expected\n"
            "  at: trees/cc73faf1\n"
            "  hint: git -C trees/cc73faf1 switch feat-47-cc73faf1-oauth2"
        ),
    ),
    errors.PortTaken: (
        {"port": 9161, "holder": "process 4121 (`httpd`)", "adw_id": "cc73faf1"},
        5,
        (
            "error: port 9161 is served by process 4121 (`httpd`), which is not of run `cc73faf1`\n"
            "  hint: end that program yourself; adw ends nothing by its port"
        ),
    ),
    errors.PortSilent: (
        {"port": 9161, "adw_id": "cc73faf1", "seconds": "60"},
        4,
        (
            "error: nothing of run `cc73faf1` listens on port 9161 after 60 s\n"
            "  hint: see what the server printed: adw logs cc73faf1"
        ),
    ),
    errors.PortsExhausted: (
        {"count": 100, "holders": "cc73faf1, d0a4b7e9"},
        4,
        (
            "error: all 100 port pairs are leased\n"
            "  why: held by: cc73faf1, d0a4b7e9\n"
            "  hint: end a run, or set `ports: none` in adw.yaml"
        ),
    ),
    errors.EffectUnknown: (
        {"adw_id": "cc73faf1", "key": "the PR", "word": "'the PR'", "reason": "begun before"},
        79,
        (
            "error: effect `the PR` may have happened: begun before\n"
            "  hint: look, then adw effect settle cc73faf1 'the PR' --done (or --not-done),"
            " and resume"
        ),
    ),
    errors.LookUpFailed: (
        {"key": "comment", "reason": "3 look-ups could not tell: timed out"},
        4,
        (
            "error: effect `comment` could not be looked up, so nothing was done\n"
            "  why: 3 look-ups could not tell: timed out"
        ),
    ),
    errors.IssueBusy: (
        {"issue": 47, "adw_id": "cc73faf1", "verb": "watch"},
        5,
        (
            "error: issue 47 already has the live run `cc73faf1`\n"
            "  hint: adw watch cc73faf1, adw cancel cc73faf1, or adw run … --parallel"
        ),
    ),
    errors.NotPrivate: (
        {"path": "agents", "reason": "everybody may write it", "fix": "chmod go-w agents"},
        4,
        (
            "error: `agents` is not this user's alone\n"
            "  why: everybody may write it\n"
            "  hint: chmod go-w agents"
        ),
    ),
    errors.HostLocked: (
        {"path": "agents/.lock", "seconds": 10, "holder": "process 7 (flock) has it open"},
        5,
        (
            "error: `agents/.lock` stayed locked for 10 s\n"
            "  why: process 7 (flock) has it open\n"
            "  hint: look for another adw: adw status"
        ),
    ),
    errors.InsidePhase: (
        {"command": "cancel", "phase": "build", "adw_id": "cc73faf1"},
        2,
        (
            "error: `adw cancel` is for people and was called from inside phase `build`"
            " of run `cc73faf1`"
        ),
    ),
    errors.Survivor: (
        {"child_id": "build-1", "pids": "4121, 4133", "adw_id": "cc73faf1"},
        6,
        (
            "error: processes of attempt `build-1` are still alive: 4121, 4133\n"
            "  hint: end them, then adw resume cc73faf1"
        ),
    ),
    errors.CancelFailed: (
        {"adw_id": "cc73faf1", "reason": "process 4121 does not end"},
        4,
        "error: run `cc73faf1` is not cancelled: process 4121 does not end",
    ),
    errors.SuperviseError: (
        {"reason": "fork: resource temporarily unavailable"},
        4,
        "error: no supervisor could be started: fork: resource temporarily unavailable",
    ),
}


def family(top: type[AdwError]) -> Iterator[type[AdwError]]:
    for child in top.__subclasses__():
        if child.__module__ == "adw.errors":
            yield child
            yield from family(child)


KINDS = list(family(AdwError))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_the_message_is_exactly_this(kind: type[AdwError]) -> None:
    fields, exit_code, text = CASES[kind]

    error = kind(**fields)

    assert error.render() == text
    assert str(error) == text
    assert error.exit_code == exit_code


def test_codes_are_dotted_and_each_belongs_to_one_class() -> None:
    codes = [kind.code for kind in family(AdwError) if "code" in vars(kind)]

    assert len(codes) == len(set(codes))
    assert all(code.replace(".", "").replace("_", "").isalpha() for code in codes)


def test_no_message_blames_shouts_or_says_nothing() -> None:
    for _, _, text in CASES.values():
        first = text.splitlines()[0].removeprefix("error: ")
        assert not first.endswith((".", "!"))
        assert not first[0].isupper()
        assert "invalid input" not in text
        assert "something went wrong" not in text


def test_a_line_whose_field_is_missing_is_left_out() -> None:
    assert errors.UsageError(detail="no").render() == "error: no"
    assert errors.UsageError(detail="no", fix=None).render() == "error: no"


def test_a_message_whose_field_is_missing_is_a_bug() -> None:
    with pytest.raises(KeyError, match="prefix"):
        errors.AmbiguousId().render()


def test_the_json_form_has_code_message_hint_and_plain_fields() -> None:
    error = errors.HostLocked(path="agents/.lock", seconds=10, holder=None, seen=ValueError("x"))

    assert error.as_json() == {
        "error": {
            "code": "lock.busy",
            "message": "`agents/.lock` stayed locked for 10 s",
            "hint": "look for another adw: adw status",
            "fields": {"path": "agents/.lock", "seconds": 10, "holder": None, "seen": "x"},
        }
    }


def test_fields_can_be_added_on_the_way_up() -> None:
    error = errors.WorkflowError(detail="a cycle", line=3, column=1)

    assert error.line("at") is None
    assert error.with_fields(file="w.yaml").line("at") == "w.yaml:3:1"
    assert type(error.with_fields(file="w.yaml")) is errors.WorkflowError


def test_a_close_name_is_suggested_and_else_the_known_ones_are_listed() -> None:
    assert errors.suggestion("buidl", ["plan", "build"]) == "did you mean `build`?"
    assert errors.suggestion("zzz", ["plan", "build"]) == "known: build, plan"
    assert errors.suggestion("zzz", []) is None


def test_exit_codes_are_a_public_promise() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "BUG": 3,
        "ENVIRONMENT": 4,
        "BUSY": 5,
        "HELD": 6,
        "EFFECT_UNKNOWN": 79,
        "INTERRUPTED": 130,
        "TERMINATED": 143,
    }
