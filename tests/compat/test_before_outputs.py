"""A run that was made before phases put outputs out: no manifest, no packets in its history."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.support import documents
from tests.support.ground import Ground

RUNS = Path(__file__).parent / "runs" / "before_outputs"
ADW_ID = "93f60129"
READERS = ("status", "show", "why", "history", "artifacts", "logs")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A repository that has the run, its branch, and no worktree of it."""
    made = Ground(tmp_path / "ground", {"plan": {"run": "true"}})
    made.repo.write({"go": "go\n"})
    made.repo.git("add", "go")
    made.repo.git("commit", "-q", "-m", "Go")
    base = made.repo.git("rev-parse", "HEAD").strip()
    made.repo.git("branch", f"adw-47-{ADW_ID}-mend-it")
    run_dir = made.agents / ADW_ID
    shutil.copytree(RUNS / ADW_ID, run_dir)
    run_dir.chmod(0o700)
    words = {"@REPO@": str(made.repo.path), "@BASE@": base, "@BASE12@": base[:12]}
    for path in [path for path in run_dir.rglob("*") if path.is_file()]:
        text = path.read_text()
        for word, value in words.items():
            text = text.replace(word, value)
        path.write_text(text)
        path.chmod(0o600)
    latest = run_dir / "state" / "latest.json"
    digest = hashlib.sha256((run_dir / "adw_state.json").read_bytes()).hexdigest()
    view = json.loads(latest.read_bytes())
    latest.write_text(json.dumps({**view, "state_sha256": digest}, indent=1))
    return made


@pytest.mark.fault("F62", by="a run directory of an earlier version")
@pytest.mark.sweep
def test_it_is_read_and_changed_by_no_reader(ground: Ground) -> None:
    before = {path: path.read_bytes() for path in ground.run_dir.rglob("*") if path.is_file()}

    shown = [ground.ok(reader, ADW_ID).stdout for reader in READERS]

    assert f"run {ADW_ID} failed" in shown[1]
    assert documents.faults(ground.run_dir) == []
    after = {path: path.read_bytes() for path in ground.run_dir.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.fault("F62", by="a run directory of an earlier version")
@pytest.mark.sweep
def test_it_goes_on_and_has_all_documents_then(ground: Ground) -> None:
    ground.ok("doctor", "--rebuild", ADW_ID)

    done = ground.ok("resume", ADW_ID)

    assert "ship          done" in done.stdout
    assert (ground.run_dir / "artifacts" / "manifest.json").read_bytes() == b"{}\n"
    assert documents.faults(ground.run_dir) == []
    packets = [each["child_id"] for each in ground.events("packet_written")]
    assert packets[-1] == "ship-1"
    assert [each["seq"] for each in ground.events()] == list(range(1, len(ground.events()) + 1))
    assert ground.ok("doctor").stdout.endswith("nothing is wrong\n")
