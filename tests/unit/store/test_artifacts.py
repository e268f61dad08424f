"""Outputs that are as they should be, and those that are missing or not valid."""

import errno
import hashlib
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from adw.model.base import parse_json
from adw.store import artifacts, files
from adw.store.artifacts import OutputFault, Taken, digest, take
from tests.unit.store.outputs import CANARY, Ground, contract, missing


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


# --- what is good ------------------------------------------------------------------------


def test_the_one_match_is_hashed_and_copied(ground: Ground) -> None:
    content = os.urandom(2_500_000)
    ground.write("specs/issue-47-adw-cc73faf1-oauth2.md", content)

    taken = ground.take("specs/issue-47-adw-cc73faf1*.md")

    copy = ground.target / "issue-47-adw-cc73faf1-oauth2.md"
    assert taken == Taken(
        source="specs/issue-47-adw-cc73faf1-oauth2.md",
        copy=str(copy),
        size_bytes=2_500_000,
        sha256=hashlib.sha256(content).hexdigest(),
    )
    assert copy.read_bytes() == content
    assert copy.stat().st_mode & 0o777 == 0o600
    assert os.listdir(ground.target) == [copy.name]


def test_a_tree_that_lies_under_a_link_is_followed_to(ground: Ground, tmp_path: Path) -> None:
    ground.write("report.json")
    (tmp_path / "link").symlink_to(ground.root)

    taken = take(str(tmp_path / "link"), "report.json", str(ground.target))

    assert taken.source == "report.json"


def test_a_pattern_may_start_below_the_root(ground: Ground) -> None:
    ground.write("children/plan-1/artifacts/report.json")

    assert ground.take("*.json", below="children/plan-1/artifacts").source == "report.json"


def test_taking_again_leaves_one_copy_with_the_new_content(ground: Ground) -> None:
    ground.write("specs/a.md", b"old")
    ground.take("specs/*.md")
    (ground.root / "specs/a.md").rename(ground.root / "specs/b.md")
    ground.write("specs/b.md", b"new")

    ground.take("specs/*.md")

    assert os.listdir(ground.target) == ["b.md"]
    assert (ground.target / "b.md").read_bytes() == b"new"


def test_an_earlier_copy_stays_when_the_output_is_refused(ground: Ground) -> None:
    path = ground.write("specs/a.md", b"whole")
    ground.take("specs/*.md")
    path.write_bytes(b"")
    (ground.target / ".a.md.7.1.tmp").write_bytes(b"ha")

    with pytest.raises(OutputFault, match="is empty"):
        ground.take("specs/*.md")

    assert os.listdir(ground.target) == ["a.md"]
    assert (ground.target / "a.md").read_bytes() == b"whole"


def test_what_lies_in_the_way_of_the_copy_is_removed(ground: Ground) -> None:
    ground.write("a.md")
    (ground.target / "a.md" / "deep").mkdir(parents=True)
    (ground.target / "link").symlink_to(ground.outside)

    ground.take("a.md")

    assert os.listdir(ground.target) == ["a.md"]
    assert (ground.target / "a.md").read_bytes() == b"the plan\n"
    assert (ground.outside / "secret").read_bytes() == CANARY


def test_a_large_output_is_hashed_and_not_copied(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "COPY_LIMIT", 9)
    ground.write("nine", b"123456789")
    ground.write("ten", b"1234567890")

    assert ground.take("nine").copy == str(ground.target / "nine")
    (ground.target / "nine").unlink()
    taken = ground.take("ten")

    assert taken == Taken("ten", None, 10, hashlib.sha256(b"1234567890").hexdigest())
    assert os.listdir(ground.target) == []


@pytest.mark.parametrize("size", [40 << 20, artifacts.COPY_LIMIT + 1])
def test_memory_stays_flat(ground: Ground, size: int) -> None:
    os.truncate(ground.write("big"), size)

    tracemalloc.start()
    try:
        taken = ground.take("big")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert taken.size_bytes == size
    assert (taken.copy is None) == (size > artifacts.COPY_LIMIT)
    assert peak < 6 << 20


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"caf\xe9.md", "caf\\xe9.md"),
        (b"\xff\xfe.md", "\\xff\\xfe.md"),
        (b"two\nlines\x1b[2J.md", "two\\nlines\\x1b[2J.md"),
        ("gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n \u202e.md".encode(), "grün \\u202e.md"),
        (b"tick`.md", "tick\\x60.md"),
        (b"-rf $(id) 'x'.md", "-rf $(id) 'x'.md"),
        (b"x" * 252 + b".md", "x" * 252 + ".md"),
    ],
)
@pytest.mark.hostile("H34")
def test_case_H34_names_keep_their_bytes_and_are_shown_escaped(
    ground: Ground, name: bytes, shown: str
) -> None:
    path = os.path.join(os.fsencode(ground.root), b"specs", name)
    with open(path, "wb") as file:
        file.write(b"plan")

    taken = ground.take("specs/*.md")

    assert os.fsencode(taken.source) == b"specs/" + name
    assert os.listdir(os.fsencode(ground.target)) == [name]
    (ground.target / os.fsdecode(name)).unlink()
    os.truncate(path, 0)
    assert ground.refusal("specs/*.md") == missing(f"`specs/{shown}` is empty")


def test_a_long_path_is_cut_in_a_message(ground: Ground) -> None:
    kind, detail = ground.refusal("x" * 5000)

    assert kind == "missing_output"
    assert detail == f"there is no `{'x' * 299}…`"


# --- what is missing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "detail"),
    [
        ("specs/plan.md", "there is no `specs/plan.md`"),
        ("nowhere/plan.md", "there is no `nowhere/plan.md`"),
        ("file/plan.md", "there is no `file/plan.md`"),
        ("specs/*.md", "nothing matches `specs/*.md`"),
        ("no*/plan.md", "nothing matches `no*/plan.md`"),
        ("f*/plan.md", "nothing matches `f*/plan.md`"),
        ("specs/*/" + "x" * 256, f"nothing matches `specs/*/{'x' * 256}`"),
    ],
)
def test_an_output_that_is_not_there_is_missing(ground: Ground, pattern: str, detail: str) -> None:
    ground.write("file")
    ground.write("specs/inner/x")

    assert ground.refusal(pattern) == missing(detail)


def test_an_output_whose_root_is_gone_is_missing(ground: Ground) -> None:
    assert ground.refusal("x.md", below="children/plan-1") == missing("there is no `x.md`")
    (ground.root / "specs").rmdir()
    ground.root.rmdir()
    assert ground.refusal("x*.md") == missing("nothing matches `x*.md`")


def test_an_empty_output_is_missing(ground: Ground) -> None:
    ground.write("specs/plan.md", b"")

    assert ground.refusal("specs/*.md") == missing("`specs/plan.md` is empty")


# --- a check of the content --------------------------------------------------------------


def test_the_check_sees_the_bytes_that_are_hashed_before_they_are_copied(ground: Ground) -> None:
    ground.write("report.json", b'{"a": 1}')
    seen: list[bytes] = []

    def check(content: bytes) -> None:
        assert list(ground.target.glob("[!.]*")) == []
        seen.append(content)

    ground.take("report.json", check=check)

    assert seen == [b'{"a": 1}']
    assert (ground.target / "report.json").read_bytes() == b'{"a": 1}'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1, "a": 2}', "the key `a` occurs twice"),
        (b'{"\\ud800\\n": 1, "\\ud800\\n": 2}', "the key `\\ud800\\n` occurs twice"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b"[NaN]", "`NaN` is not a JSON number"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_what_the_check_refuses_is_a_fault(ground: Ground, content: bytes, why: str) -> None:
    ground.write("report.json", content)

    found = ground.refusal("report.json", check=parse_json)

    assert found == contract(f"`report.json` is not valid: {why}")


def test_more_than_memory_should_hold_is_not_checked(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "CHECK_LIMIT", 4)
    ground.write("report.json", b"[   ]")

    assert ground.refusal("report.json", check=parse_json) == contract(
        "`report.json` has 5 bytes, at most 4 are allowed where the content is checked"
    )
    assert ground.take("report.json").size_bytes == 5


# --- the hash of now ---------------------------------------------------------------------


def test_the_digest_is_of_the_content_now(ground: Ground) -> None:
    root = str(ground.root)
    for content in (b"one", b"two", b""):
        ground.write("specs/[a]*.md", content)
        assert digest(root, "specs/[a]*.md") == hashlib.sha256(content).hexdigest()
    assert digest(root, "specs/a.md") is None
    assert digest(root, "specs") is None
    ground.write("big", b"12345")
    assert digest(root, "big", max_bytes=4) is None


# --- what is the disk's fault ------------------------------------------------------------


@pytest.mark.parametrize("call", ["read", "open", "stat"])
def test_a_disk_that_cannot_be_read_is_no_fault_of_the_output(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    ground.write("out")

    def fail(*_: Any, **how: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="Input/output error"):
            ground.take("out")
        with pytest.raises(OSError, match="Input/output error"):
            digest(str(ground.root), "out")

    assert not ground.target.exists() or os.listdir(ground.target) == []


def test_a_place_of_the_copy_that_may_not_be_written_is_no_fault_of_the_output(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.write("out")

    def denied(*_: Any, **how: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files, "replace", denied)

    with pytest.raises(PermissionError):
        ground.take("out")
