"""`adw watch`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.handmade import ID, call, entry, made_run
from tests.support.adw import Adw
from tests.support.ground import Ground, phase
from tests.support.repo import Repo


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    text = 'while [ ! -e "$GROUND/go" ]; do sleep 0.02; done'
    last = phase("echo no; exit 4", needs=["a"])
    made = Ground(tmp_path / "g", {"a": phase(text), "b": last})
    yield made
    made.end()


@pytest.mark.sweep
def test_it_follows_a_run_of_another_process_to_its_end(tmp_path: Path, ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("a-1", "body")
    watcher = ground.start("watch", ground.adw_id)
    assert watcher.stdout is not None
    first = watcher.stdout.readline().decode()

    ground.go()
    out, err = watcher.communicate(timeout=20)

    adw_id = ground.adw_id
    rest = Adw(tmp_path)._normal(out.decode())
    assert first == f"{adw_id}  a             started (attempt 1)\n"
    assert rest == (
        "<id>  a             done (attempt 1, <n> s)\n"
        "<id>  b             started (attempt 1)\n"
        "<id>  b             failed: exit code 4 (attempt 1, <n> s)\n"
        "  | no\n"
        "  logs: <tmp>/g/repo/agents/<id>/attempts/b-1\n"
        "run <id> failed: phase `b` failed: exit code 4 (attempt 1)\n"
        "  next: adw resume <id>\n"
    )
    assert (watcher.returncode, err) == (0, b"")
    assert run.wait(20) == 1


def test_a_run_that_nobody_drives_is_told_at_once(repo: Repo) -> None:
    made_run(repo, [entry("plan")])

    said = call(repo, "watch", ID)

    assert (said.code, said.err) == (0, "")
    assert said.out == f"run {ID} interrupted\n  next: adw resume {ID}\n"
