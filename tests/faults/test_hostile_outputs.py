"""Outputs that programs still exchange while they are taken, and runs whose phases leave traps."""

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adw.store.artifacts import OutputFault, take
from tests.faults.conftest import MakeGround, swept
from tests.support.ground import phase

CANARY = b"canary: from outside the tree"
TIMES = 2000
PATIENCE_S = 40

EXCHANGES = {
    "directory for a link": """
        os.rename("specs", "real")
        os.symlink(outside, "specs")
        os.unlink("specs")
        os.rename("real", "specs")
    """,
    "file for a link": """
        os.symlink(outside + "/out", "link")
        os.rename("link", "specs/out")
        write()
    """,
    "file for a hard link": """
        os.link(outside + "/out", "link")
        os.rename("link", "specs/out")
        os.unlink("specs/out")
        write()
    """,
    "file for a FIFO": """
        os.mkfifo("fifo")
        os.rename("fifo", "specs/out")
        let_go("specs/out")
        write()
    """,
    "file for another": """
        write()
    """,
}

PROGRAM = """
import os, random, sys, time
outside = sys.argv[1]
def write():
    with open("new", "wb") as file:
        file.write(b"good " * 2000)
    os.rename("new", "specs/out")
def let_go(fifo):
    # A git that looked before and opens now would wait for a writer, up to its limit.
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass
os.mkdir("specs")
write()
print("ready", flush=True)
while True:
    time.sleep(random.random() / 4000)  # good for a while, so that some are taken
"""


@contextmanager
def exchanging(root: Path, outside: Path, how: str) -> Iterator[None]:
    """A process that exchanges `specs/out` below `root` again and again."""
    body = "\n".join("    " + line.strip() for line in EXCHANGES[how].strip().splitlines())
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM + body, str(outside)],
        cwd=root,
        stdout=subprocess.PIPE,
    )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            yield
            assert program.poll() is None
        finally:
            program.kill()


@pytest.mark.sweep
@pytest.mark.parametrize("how", EXCHANGES)
@pytest.mark.parametrize("pattern", swept(["specs/out", "spec?/o*"], "specs/out"))
@pytest.mark.hostile("H18", "H19", "H20", "H21")
def test_case_H19_nothing_from_outside_is_ever_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, pattern: str
) -> None:
    """H18, H20, H21: whatever is told as taken is whole, and has the hash that is told."""
    root, outside, target = tmp_path / "tree", tmp_path / "outside", tmp_path / "a" / "b" / "c"
    root.mkdir()
    outside.mkdir()
    (outside / "out").write_bytes(CANARY)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the power stays on
    ends: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    with exchanging(root, outside, how):
        while ends.total() < TIMES or not (ends["taken"] and ends["refused"]):
            assert time.monotonic() < deadline, ends
            try:
                taken = take(str(root), pattern, str(target))
            except OutputFault:
                ends["refused"] += 1
            else:
                ends["taken"] += 1
                assert taken.copy
                assert Path(taken.copy).read_bytes() == b"good " * 2000
                assert taken.size_bytes == 10_000
                os.unlink(taken.copy)  # replacing it would wait for the disk
            if target.exists():
                assert os.listdir(target) in ([], ["out"])
    assert (outside / "out").read_bytes() == CANARY
    print(f"{how}, {pattern}: {dict(ends)}")


TRAPS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "link": (
        'ln -sf "$GROUND/secret" link',
        {"path": "link"},
        "contract",
        "`link` is a symbolic link, not a regular file",
    ),
    "way": (
        'ln -sfn "$GROUND" way',
        {"path": "way/secret"},
        "contract",
        "`way` is a symbolic link",
    ),
    "state_root": (
        'ln -sfn "$ADW_STATE_ROOT" root',
        {"path": "root/*.json"},
        "contract",
        "`root` is a symbolic link",
    ),
    "own_folder": (
        'rm -rf "$ADW_ARTIFACTS"; ln -s "$GROUND" "$ADW_ARTIFACTS"',
        {"path": "secret", "root": "artifacts"},
        "contract",
        "`children/own_folder-1/artifacts` is a symbolic link",
    ),
    "fifo": (
        "rm -f fifo; mkfifo fifo",
        {"path": "fifo"},
        "contract",
        "`fifo` is a FIFO, not a regular file",
    ),
    "hard": (
        'ln -f "$GROUND/secret" hard',
        {"path": "hard"},
        "contract",
        "`hard` is one of 2 hard links, a file of its own is expected",
    ),
    "sparse": (
        "truncate -s 1T sparse",
        {"path": "sparse"},
        "contract",
        "`sparse` has 1099511627776 bytes, at most 1073741824 are allowed",
    ),
    "two": (
        "echo 1 > one.two; echo 2 > two.two",
        {"path": "*.two"},
        "contract",
        "2 files match `*.two`: `one.two`, `two.two`; one is expected",
    ),
    "folder": (
        "mkdir -p folder",
        {"path": "folder"},
        "contract",
        "`folder` is a directory, not a regular file",
    ),
    "report": (
        "echo no > report.json",
        {"path": "report.json", "format": "json"},
        "contract",
        "`report.json` is not valid: Expecting value: line 1 column 1 (char 0)",
    ),
    "empty": (": > empty", {"path": "empty"}, "missing_output", "`empty` is empty"),
    "none": (":", {"path": "none/*.md"}, "missing_output", "nothing matches `none/*.md`"),
}


@pytest.mark.sweep
@pytest.mark.hostile("H18", "H19", "H20", "H22")
def test_case_H18_a_run_full_of_traps_copies_nothing_and_tells_each(
    make_ground: MakeGround,
) -> None:
    """H19, H20, H22: each phase fails with its own reason, and the run goes through them all."""
    phases = {
        name: phase(text, outputs={name: output}, allow_failure=True)
        for name, (text, output, _, _) in TRAPS.items()
    }
    ground = make_ground(phases)
    (ground.base / "secret").write_bytes(CANARY)

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 0, done.told()
    reasons = {name: reason for name, attempt, _, reason in ground.entries() if attempt == 1}
    assert reasons == {name: trap[2] for name, trap in TRAPS.items()}
    for name, (_, _, kind, detail) in TRAPS.items():
        line = ground.line(f"{name}-1", "verdict")
        assert line is not None
        assert [(each["kind"], each["detail"]) for each in line["faults"]] == [(kind, detail)]
    assert (ground.run_dir / "artifacts" / "manifest.json").read_text().strip() == "{}"
    assert os.listdir(ground.run_dir / "artifacts") == ["manifest.json"]
    assert ground.events("artifact_promoted") == []
    assert (ground.base / "secret").read_bytes() == CANARY
    assert holding(ground.run_dir, CANARY) == []


def holding(directory: Path, content: bytes) -> list[str]:
    """Files below a directory that hold these bytes; links are not followed."""
    return [
        path
        for above, _, names in os.walk(directory)
        for path in (os.path.join(above, name) for name in names)
        if stat.S_ISREG(os.lstat(path).st_mode) and content in Path(path).read_bytes()
    ]


@pytest.mark.hostile("H21", "H22")
def test_case_H21_a_manifest_that_a_phase_wrote_is_not_believed(make_ground: MakeGround) -> None:
    """H22: what is told of an artifact is what adw found, hashed by itself."""
    forge = """
        rm "$ADW_STATE_ROOT/artifacts/manifest.json"
        echo '{"plan": {"sha256": "0", "path": "../../secret"}, "plan": 1, "more": 2}' \
            > "$ADW_STATE_ROOT/artifacts/manifest.json"
        echo two > b.md
    """
    ground = make_ground(
        {
            "plan": phase("echo one > a.md", outputs={"plan": {"path": "a.md"}}),
            "build": phase(forge, needs=["plan"], outputs={"built": {"path": "b.md"}}),
        }
    )

    ground.ok("run", "w", "47")

    found = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert set(found) == {"plan", "built"}
    for name, content in (("plan", b"one\n"), ("built", b"two\n")):
        assert found[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert (ground.run_dir / found[name]["path"]).read_bytes() == content


@pytest.mark.sweep
@pytest.mark.parametrize("name", [b"caf\xe9.md", b"two\nlines $(id) `id`.md", b"x" * 252 + b".md"])
@pytest.mark.hostile("H34")
def test_case_H34_an_output_of_any_name_is_handed_over_as_it_is(
    make_ground: MakeGround, name: bytes
) -> None:
    """Copied under its own bytes, named in every document, opened by the phase that needs it."""
    octal = "".join(f"\\{byte:03o}" for byte in name)
    ground = make_ground(
        {
            "plan": phase(
                f"""mkdir specs; echo one > "$(printf 'specs/{octal}')" """,
                outputs={"plan": {"path": "specs/*.md"}},
            ),
            "build": {
                "needs": ["plan"],
                "inputs": ["plan"],
                "run": ["grep", "-q", "one", "{inputs.plan}"],
            },
        }
    )

    ground.ok("run", "w", "47")

    copies = os.fsencode(ground.run_dir / "artifacts" / "plan" / "plan-1")
    assert os.listdir(copies) == [name]
    found = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert os.fsencode(found["plan"]["source"]) == b"specs/" + name
    ground.ok("resume", ground.adw_id)
    ground.ok("status", ground.adw_id)
    for args in (("artifacts",), ("show",), ("history",)):
        ground.ok(*args, ground.adw_id)
