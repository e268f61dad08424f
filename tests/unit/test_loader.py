"""A valid workflow file: what becomes of it, where it is found, what `adw validate` doubts."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from adw.core.graph import Output, Phase, Repair, Retry, from_json, to_json
from adw.errors import UnknownName, UsageError, WorkflowError
from adw.loader import (
    Advice,
    advice,
    find_workflow,
    load_bytes,
    load_workflow,
    shipped_dir,
    validate_file,
)

FULL = """\
schema_version: 1
name: full
description: Everything at once.
max_parallel: 2
defaults: {timeout: 30m, idle_timeout: 10m}
phases:
  plan:
    run: ["{python}", plan.py, "{plan_file}"]
    ensure: [changed, committed, clean, "test -s plan.md", [python, -m, check]]
    env: {LEVEL: "3"}
    cwd: sub/dir
    outputs:
      plan: {path: "specs/*{adw_id}*.md", description: The plan, state: plan_file}
      notes: {path: notes.json, root: artifacts, format: json, optional: true, max_bytes: 1000}
  build:
    needs: [plan]
    inputs: [plan, notes]
    secrets: [API_TOKEN, OTHER]
    when: issue_class == "bug" or plan == "skipped"
    run: |
      make all
      echo "$ADW_ID"
    timeout: null
    idle_timeout: 90
    on_retry: keep
  test:
    needs: [build]
    writes: false
    run: [python, -m, pytest, -q]
    timeout: 1.5h
    retry: {attempts: 2, delay: 250ms, factor: 2, max_delay: 60s, on: [timeout, signal]}
    repair: {phase: fix, rounds: 4, back_to: build}
    allow_failure: true
  fix:
    run: [fix]
  commit:
    needs: [test]
    use: commit
"""


def loaded(text: str, file: str = "workflows/w.yaml") -> Any:
    return load_bytes(text.encode(), file)


def phase(keys: str) -> Phase:
    found: Phase = loaded(f"name: w\nphases:\n  a: {{run: x, {keys}}}\n").graph.phases["a"]
    return found


def without_digest(graph_phase: Phase) -> dict[str, Any]:
    names = (name for name in Phase.__slots__ if name != "digest")
    return {name: getattr(graph_phase, name) for name in names}


def test_every_key_reaches_the_graph() -> None:
    graph = loaded(FULL).graph

    assert (graph.name, graph.max_parallel) == ("full", 2)
    assert graph.order == ("plan", "build", "test", "commit")
    assert graph.owners == {"fix": ("test",)}
    expected = [
        Phase(
            "plan",
            argv=("{python}", "plan.py", "{plan_file}"),
            ensure=(
                ("changed",),
                ("committed",),
                ("clean",),
                ("sh", "-euc", "test -s plan.md"),
                ("python", "-m", "check"),
            ),
            env=(("LEVEL", "3"),),
            cwd="sub/dir",
            outputs=(
                Output("plan", "specs/*{adw_id}*.md", "The plan", state="plan_file"),
                Output(
                    "notes",
                    "notes.json",
                    root="artifacts",
                    format="json",
                    optional=True,
                    max_bytes=1000,
                ),
            ),
            timeout_s=1800,
            idle_timeout_s=600,
        ),
        Phase(
            "build",
            needs=("plan",),
            when='issue_class == "bug" or plan == "skipped"',
            argv=("sh", "-euc", 'make all\necho "$ADW_ID"\n'),
            inputs=("plan", "notes"),
            secrets=("API_TOKEN", "OTHER"),
            timeout_s=None,
            idle_timeout_s=90,
            on_retry="keep",
        ),
        Phase(
            "test",
            needs=("build",),
            writes=False,
            argv=("python", "-m", "pytest", "-q"),
            timeout_s=5400,
            idle_timeout_s=600,
            retry=Retry(2, 0.25, 2, 60, frozenset({"timeout", "signal"})),
            repair=Repair("fix", 4, "build"),
            allow_failure=True,
        ),
        Phase("fix", argv=("fix",), timeout_s=1800, idle_timeout_s=600),
        Phase("commit", needs=("test",), use="commit", timeout_s=1800, idle_timeout_s=600),
    ]
    assert [without_digest(p) for p in graph.phases.values()] == [
        without_digest(p) for p in expected
    ]
    assert from_json(json.loads(json.dumps(to_json(graph)))) == graph


def test_the_source_is_kept_to_the_byte() -> None:
    data = b"# \xc3\xbc\r\n" + FULL.encode()

    assert load_bytes(data, "w.yaml").data == data


def test_the_same_workflow_as_json_gives_the_same_graph() -> None:
    as_yaml = loaded(FULL)
    text = json.dumps(as_yaml.source.value)

    assert loaded(text, "w.json").graph == as_yaml.graph
    assert loaded(text, "w.yaml").graph == as_yaml.graph


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("5s", 5),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("7", 7),
        ("0.5", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert phase(f"timeout: {text}").timeout_s == seconds


def test_limits_in_bytes_and_numbers_are_the_phases_own_or_the_defaults() -> None:
    text = """name: w
defaults: {memory: 2G, processes: 100, disk: 20G, log: 1M}
phases:
  a: {run: x}
  b: {run: x, memory: 512M, processes: null, disk: null, log: null}
  c: {run: x, memory: 5000000, processes: 1, disk: 1M, log: 64K}
"""
    phases = loaded(text).graph.phases
    assert [(p.memory_bytes, p.processes, p.disk_bytes, p.log_bytes) for p in phases.values()] == [
        (2 << 30, 100, 20 << 30, 1 << 20),
        (512 << 20, None, None, None),
        (5_000_000, 1, 1 << 20, 64 << 10),
    ]


def test_without_limits_there_are_none_and_four_may_run_at_once() -> None:
    graph = loaded("name: w\nphases: {a: {run: x}}").graph

    assert graph.max_parallel == 4
    assert graph.phases["a"] == Phase(
        "a", argv=("sh", "-euc", "x"), digest=hashlib.sha256(b'{"run":"x"}').hexdigest()
    )


def test_a_digest_changes_with_the_phases_own_keys_and_with_nothing_else() -> None:
    first = loaded("name: w\nphases: {a: {run: [x], timeout: 5s}, b: {run: y}}").graph
    other = loaded("name: v\ndefaults: {timeout: 9}\nphases: {a: {timeout: 5s, run: [x]}}").graph
    changed = loaded("name: w\nphases: {a: {run: [x], timeout: 6s}}").graph

    assert first.phases["a"].digest == other.phases["a"].digest
    assert len({g.phases["a"].digest for g in (first, changed)}) == 2


def test_the_collector_is_on_again_after_a_fault() -> None:
    import gc

    with pytest.raises(WorkflowError):
        loaded("name: 5")

    assert gc.isenabled()


# --- large graphs ------------------------------------------------------------------------


def chain(count: int, first_needs: str | None = None) -> str:
    def needs(i: int) -> list[str | None]:
        return [f"p{i - 1}"] if i else [first_needs] if first_needs else []

    phases = {f"p{i}": {"run": ["x"], "needs": needs(i)} for i in range(count)}
    return json.dumps({"name": "w", "phases": phases}, indent=0)


@pytest.mark.hostile("H28")
def test_h28_a_cycle_of_5000_is_named_with_place_and_phases() -> None:
    with pytest.raises(WorkflowError) as caught:
        loaded(chain(5000, "p4999"), "w.json")

    error = caught.value
    lines = error.render().splitlines()
    assert lines[0] == "error: 5000 phases need each other in a circle"
    assert lines[1] == f"  at: w.json:{chain(5000, 'p4999').split('p4999')[0].count(chr(10)) + 1}:1"
    assert lines[2].startswith("  why: `p0` → `p4999` → `p4998` → ")
    assert "… 4988 more …" in lines[2]
    assert lines[2].endswith("`p2` → `p1` → `p0`")
    assert error.fields["names"] == ["p0", *(f"p{i}" for i in range(4999, 0, -1))]


def test_a_chain_of_10000_is_loaded() -> None:
    graph = loaded(chain(10_000), "w.json").graph

    assert graph.order == tuple(f"p{i}" for i in range(10_000))


def test_10000_phases_that_each_read_what_another_makes_are_loaded() -> None:
    """The last of a chain reads from the first, the one before it from the second, and so on."""
    count = 10_000
    phases: dict[str, Any] = {}
    for i in range(count):
        needs = [f"p{i - 1}"] if i else []
        outputs = {f"o{i}": {"path": "x"}} if i < count // 2 else {}
        inputs = [f"o{count - 1 - i}"] if i >= count // 2 else []
        phases[f"p{i}"] = {"run": ["x"], "needs": needs, "outputs": outputs, "inputs": inputs}

    graph = loaded(json.dumps({"name": "w", "phases": phases}), "w.json").graph

    assert graph.phases["p9999"].inputs == ("o0",)


# --- finding -----------------------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "sdlc.yaml").write_text("name: sdlc\n", encoding="utf-8")
    monkeypatch.setattr("adw.loader.shipped_dir", lambda: str(folder))
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "workflows").mkdir(parents=True)
    return tmp_path / "repo"


def test_a_repositorys_own_workflow_comes_before_the_shipped_one(repo: Path, shipped: Path) -> None:
    assert find_workflow("sdlc", str(repo)) == str(shipped / "sdlc.yaml")

    for ending in ("json", "yml", "yaml"):
        (repo / "workflows" / f"sdlc.{ending}").touch()
        assert find_workflow("sdlc", str(repo)) == str(repo / "workflows" / f"sdlc.{ending}")


@pytest.mark.usefixtures("shipped")
def test_an_unknown_workflow_names_the_nearest(repo: Path) -> None:
    (repo / "workflows" / "review.yaml").touch()
    (repo / "workflows" / "notes.txt").touch()

    with pytest.raises(UnknownName) as caught:
        find_workflow("sdcl", str(repo))
    assert caught.value.render() == ("error: unknown workflow `sdcl`\n  hint: did you mean `sdlc`?")

    with pytest.raises(UnknownName) as caught:
        find_workflow("zzz", str(repo))
    assert caught.value.render() == "error: unknown workflow `zzz`\n  hint: known: review, sdlc"


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "", "a/b", "sdlc.yaml", "a\nb", "Sdlc", "."]
)
@pytest.mark.hostile("H29")
def test_a_name_is_never_a_path(repo: Path, name: str) -> None:
    (repo / "x.yaml").touch()
    (repo / "workflows" / "Sdlc.yaml").touch()
    with pytest.raises(UnknownName) as caught:
        find_workflow(name, str(repo))

    assert "\n  hint:" in caught.value.render()


def test_a_repository_without_any_workflow_is_told_how_to_get_one(
    tmp_path: Path, shipped: Path
) -> None:
    (shipped / "sdlc.yaml").unlink()

    with pytest.raises(UnknownName) as caught:
        find_workflow("x", str(tmp_path))

    assert caught.value.render() == (
        "error: unknown workflow `x`\n  why: there is none in `workflows/`\n  hint: adw init"
    )


def test_what_is_shipped_lies_beside_the_package_or_in_the_checkout() -> None:
    assert os.path.basename(shipped_dir()) in {"shipped", "workflows"}


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    fifo, folder = tmp_path / "fifo.yaml", tmp_path / "d.yaml"
    os.mkfifo(fifo)
    folder.mkdir()

    for path, reason in (
        (fifo, "not a regular file"),
        (folder, "not a regular file"),
        (tmp_path / "no.yaml", "no such file"),
    ):
        for read in (load_workflow, validate_file):
            with pytest.raises(UsageError) as caught:
                read(str(path))
            assert caught.value.render() == f"error: cannot read `{path}`: {reason}"


# --- doubts ------------------------------------------------------------------------------


def doubts(text: str, file: str = "workflows/w.yaml") -> list[Advice]:
    return advice(loaded(text, file))


def test_a_check_that_keeps_its_result_over_a_repair_is_doubted() -> None:
    """Lint never saw the code that the repair of test left."""
    text = """\
name: w
phases:
  build: {run: x}
  lint: {run: x, needs: [build], writes: false}
  test: {run: x, needs: [build], writes: false, repair: {phase: fix, rounds: 2%s}}
  fix: {run: x}
"""

    assert doubts(text % "") == [
        Advice(
            "workflows/w.yaml",
            5,
            57,
            "after a repair by `fix`, `lint` keeps its result, though the code has changed",
            "back_to: build",
        )
    ]
    assert doubts(text % ", back_to: build") == []
    assert doubts((text % "").replace("fix: {run: x}", "fix: {run: x, writes: false}")) == []


def test_braces_that_look_like_a_name_are_doubted() -> None:
    found = doubts("name: w\nphases:\n  a: {run: [x, '{issue_numbr}', '{other}', '{adw_id}']}\n")

    assert [(a.line, a.column, a.text, a.fix) for a in found] == [
        (
            3,
            16,
            "`{issue_numbr}` is no name that adw replaces, so it stays as it is",
            "did you mean `{issue_number}`?",
        )
    ]


def test_braces_in_an_outputs_path_and_for_inputs_are_doubted_too() -> None:
    found = doubts("""\
name: w
phases:
  a: {run: x, outputs: {o: {path: 'x-{adw_di}'}, unused: {path: fixed.txt}}}
  b: {run: [x, '{input.o}', '{inputs.o}'], needs: [a], inputs: [o]}
""")

    assert [(a.line, a.column, a.fix) for a in found] == [
        (3, 35, "did you mean `{adw_id}`?"),
        (4, 16, "did you mean `{inputs.o}`?"),
    ]


@pytest.mark.parametrize(
    ("keys", "output", "why"),
    [
        ("", "path: p, optional: true", "it is optional"),
        (", when: plan_file", "path: p", "`a` has `when`"),
        (", allow_failure: true", "path: p", "`a` has `allow_failure`"),
    ],
)
def test_an_input_that_may_be_missing_is_doubted(keys: str, output: str, why: str) -> None:
    text = f"name: w\nphases:\n  a: {{run: x, outputs: {{o: {{{output}}}}}{keys}}}\n"

    assert doubts(text) == []
    assert doubts(f"{text}  b: {{run: x, needs: [a], inputs: [o]}}\n") == [
        Advice(
            "workflows/w.yaml",
            4,
            36,
            f"`b` cannot start without `o`, which may be missing: {why}",
        )
    ]


def test_a_file_that_is_not_called_like_its_workflow_is_doubted() -> None:
    found = doubts("name: other\nphases: {a: {run: x}}\n")

    assert [(a.line, a.column, a.text, a.fix) for a in found] == [
        (1, 7, "the file is called `w`, its workflow `other`", "adw run w")
    ]
