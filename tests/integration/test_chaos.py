"""`adw chaos` finds what is not safe, finds nothing where all is safe, and leaves nothing."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.support.adw import Adw, command
from tests.support.wait import until

UNSAFE: Final = re.findall(
    r"^```yaml\n(schema_version.*?)^```$",
    (DOCS / "how-to" / "find-unsafe-phases.md").read_text("utf-8"),
    re.MULTILINE | re.DOTALL,
)[0]

SAFE: Final = """\
schema_version: 1
name: safe
phases:
  make:
    secrets: [MY_TOKEN]
    run: |
      mkdir -p out
      echo made > out/made
      cp out/made "$ADW_ARTIFACTS/made"
      [ "$MY_TOKEN" = adw-chaos-placeholder ]
      [ "$(sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' ')" = lo ]
      date +%s%N > "$ADW_ARTIFACTS/when"
    outputs:
      made: {path: made, root: artifacts, description: What was made}
      when: {path: when, root: artifacts, description: Differs by itself}
  commit:
    needs: [make]
    use: commit
  push:
    needs: [commit]
    use: push
"""

OUTSIDE: Final = """\
schema_version: 1
name: outside
phases:
  push:
    run: |
      echo x > x
      git add x
      git commit --quiet --allow-empty --message "by hand"
      git push --quiet --force origin HEAD:refs/heads/out
  tell:
    needs: [push]
    run: echo "$ADW_ID" >> "$HOME/told"
  hand_over:
    needs: [tell]
    run: |
      if [ -e "$HOME/before" ]; then head -c 10 "$HOME/before" > "$ADW_ARTIFACTS/long"; exit; fi
      seq 100 > "$ADW_ARTIFACTS/long"
      cp "$ADW_ARTIFACTS/long" "$HOME/before"
    outputs:
      long: {path: long, root: artifacts, description: A long one}
"""


def chaos(adw: Adw, *args: str, exit_code: int, **env: str) -> Any:
    output = adw.env(TMPDIR=str(adw.base), **env).run("chaos", *args, "--json").fails(exit_code)
    assert not list(adw.base.glob("adw-chaos-*")) or "--keep" in args
    return output.json()


def found(report: Any) -> set[tuple[str, str]]:
    return {(each["kind"], each["phase"]) for each in report["findings"]}


def all_reached(report: Any) -> bool:
    """All places were reached; of instants, a slow machine may miss one or two."""
    failpoints = [each for each in report["rounds"] if each["point"]["how"] == "failpoint"]
    missed = report["points_tried"] - report["points_fired"]
    return all(each["fired"] for each in failpoints) and missed <= 2


def with_remote(adw: Adw) -> Adw:
    remote = adw.base / "remote.git"
    adw.repo.git("init", "--quiet", "--bare", str(remote))
    adw.repo.git("remote", "add", "origin", str(remote))
    adw.repo.git("push", "--quiet", "origin", "main")
    return adw


def refs(adw: Adw) -> str:
    return adw.repo.git("for-each-ref", "--format=%(refname) %(objectname)")


@pytest.mark.sweep
@pytest.mark.timeout(180)
def test_the_unsafe_phases_of_the_example_are_found_and_no_other(tmp_path: Path) -> None:
    adw = Adw(tmp_path).workflow("release", UNSAFE).issue(47, "A release")

    report = chaos(adw, "release", "47", "--seed", "1", "--rounds", "8", exit_code=1)

    assert found(report) == {("unsafe_phase", "note"), ("unsafe_phase", "tell")}
    assert report["points_tried"] == 8
    assert all_reached(report)
    fails = next(each for each in report["findings"] if each["phase"] == "tell")
    assert "fails when it is run again" in fails["message"]
    assert any("tidings" in line for line in fails["details"])
    assert "--only-round" in fails["reproduce"]


@pytest.mark.sweep
@pytest.mark.timeout(180)
def test_a_workflow_that_is_safe_shows_nothing_and_the_repository_is_left_alone(
    tmp_path: Path,
) -> None:
    adw = with_remote(Adw(tmp_path).workflow("safe", SAFE).issue(47, "All well"))
    before = refs(adw)

    report = chaos(adw, "safe", "47", "--seed", "3", "--rounds", "14", exit_code=0, MY_TOKEN="real")

    assert report["findings"] == []
    assert report["network"] == "none"
    assert report["left_out"] == ["output:when"]
    assert all_reached(report)
    assert refs(adw) == before
    assert not (adw.repo.path / "agents").exists()
    assert not (adw.repo.path / "trees").exists()


@pytest.mark.sweep
@pytest.mark.timeout(180)
def test_the_shipped_workflow_with_the_demos_agent_shows_nothing(tmp_path: Path) -> None:
    demo = ROOT / "workflows" / "demo"
    files = {
        str(path.relative_to(demo)): path.read_text("utf-8")
        for path in demo.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    env = {
        "PYTHON": sys.executable,
        "AGENT": '"$PYTHON" -B tools/agent.py',
        "TEST": "sh tools/test.sh",
        "DIARY": "/dev/null",
        "HOLD": "/nonexistent",
    }
    adw = Adw(tmp_path, {**files, "adw.yaml": json.dumps({"ports": "none", "env": env})})

    report = chaos(adw, "sdlc", "47", "--seed", "2", "--rounds", "10", exit_code=0)

    assert report["findings"] == []
    assert all_reached(report)


@pytest.mark.sweep
@pytest.mark.timeout(180)
def test_pushes_tidings_and_outputs_that_come_out_twice_or_torn_are_found(tmp_path: Path) -> None:
    adw = with_remote(Adw(tmp_path).workflow("outside", OUTSIDE).issue(47, "Outside"))

    report = chaos(adw, "outside", "47", "--seed", "1", "--rounds", "6", exit_code=1)

    assert {
        ("doubled_effect", "push"),
        ("doubled_effect", "tell"),
        ("torn_output", "hand_over"),
    } <= found(report)
    assert not any(kind == "adw" for kind, _ in found(report))
    assert "out" not in adw.repo.git("ls-remote", "origin").split("/")


@pytest.mark.sweep
def test_one_round_can_be_repeated_and_kept_to_be_looked_at(tmp_path: Path) -> None:
    adw = Adw(tmp_path).workflow("release", UNSAFE).issue(47, "A release")
    args = ("release", "47", "--seed", "1", "--rounds", "8", "--only-round", "1", "--keep")

    one = chaos(adw, *args, exit_code=one_of(adw, args))
    other = chaos(adw, *args, exit_code=1 if one["findings"] else 0)

    assert [each["point"] for each in one["rounds"]] == [each["point"] for each in other["rounds"]]
    assert [each["round"] for each in one["rounds"]] == [1]
    repo = Path(one["folder"]) / "round-1" / "repo"
    listed = subprocess.run(
        command("status", "@47", "--json"), cwd=repo, capture_output=True, text=True, check=True
    )
    assert json.loads(listed.stdout)["status"] in {"succeeded", "failed"}
    tree = repo / json.loads(listed.stdout)["state"]["worktree_path"]
    subprocess.run(["git", "status"], cwd=tree, check=True, capture_output=True)


def one_of(adw: Adw, args: tuple[str, ...]) -> int:
    return adw.env(TMPDIR=str(adw.base)).run("chaos", *args, "--json").result().exit_code


@pytest.mark.sweep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_and_removes_the_copy(tmp_path: Path, number: int) -> None:
    slow = "schema_version: 1\nname: slow\nphases:\n  wait: {run: sleep 600}\n"
    adw = Adw(tmp_path).workflow("slow", slow).issue(47, "Slow")
    process = subprocess.Popen(
        command("chaos", "slow", "47"),
        cwd=adw.repo.path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
    )
    until(
        lambda: list(
            tmp_path.glob("adw-chaos-*/round/repo/agents/*/attempts/wait-1/attempt.jsonl")
        ),
        what="the phase",
    )

    process.send_signal(number)
    _, told = process.communicate(timeout=30)

    assert process.returncode == 130, told
    assert not list(tmp_path.glob("adw-chaos-*"))


@pytest.mark.sweep
def test_an_interrupt_tells_what_was_found_so_far(tmp_path: Path) -> None:
    adw = Adw(tmp_path).workflow("release", UNSAFE).issue(47, "A release")
    process = subprocess.Popen(
        command("chaos", "release", "47", "--rounds", "500", "--json"),
        cwd=adw.repo.path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "/500  " not in (line := process.stderr.readline()):
        assert line, "it ended before the first round was over"

    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=30)

    report = json.loads(told)
    assert process.returncode == 130
    assert report["interrupted"] is True
    assert 1 <= len(report["rounds"]) < 500
    assert not list(tmp_path.glob("adw-chaos-*"))
