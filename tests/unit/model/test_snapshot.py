"""Snapshots: what the id depends on, and what a reader refuses (SN-1 … SN-5)."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.model.snapshot import make_snapshot, parse_snapshot, snapshot_id

RULES = {"prompt": ["prompts/*"], "workflow": ["*.yaml"]}


def _plain(**changes: Any) -> dict[str, Any]:
    found = make_snapshot("demo", RULES, {"w.yaml": b"a: 1\n"}).model_dump()
    found.update(changes)
    return found


def _reject(found: dict[str, Any], *, resign: bool = True) -> str:
    if resign:
        found["id"] = snapshot_id(found)
    with pytest.raises(ValueError, match=".") as caught:
        parse_snapshot(json.dumps(found).encode())
    return str(caught.value)


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,8}\.yaml\Z"), st.binary(max_size=64), max_size=4))
def test_any_bytes_survive_and_key_order_does_not_matter_SN_2_SN_3(
    contents: dict[str, bytes],
) -> None:
    one = make_snapshot("demo", RULES, contents)
    two = make_snapshot("demo", RULES, dict(reversed(contents.items())))
    read = parse_snapshot(one.encode())

    assert one.id == two.id
    assert {path: file.data() for path, file in read.files.items()} == contents


def test_the_id_changes_with_every_part_SN_2() -> None:
    first = make_snapshot("demo", RULES, {"w.yaml": b"a"})
    others = [
        make_snapshot("demo", RULES, {"w.yaml": b"b"}),
        make_snapshot("other", RULES, {"w.yaml": b"a"}),
        make_snapshot("demo", {**RULES, "x": ["x/*"]}, {"w.yaml": b"a"}),
        make_snapshot("demo", RULES, {"v.yaml": b"a"}),
        make_snapshot("demo", RULES, {"w.yaml": b"a"}, first),
    ]

    assert len({first.id, *(each.id for each in others)}) == 1 + len(others)


def test_a_child_names_its_parent_and_keeps_the_root_SN_9() -> None:
    root = make_snapshot("demo", RULES, {"w.yaml": b"a"})
    child = make_snapshot("demo", RULES, {"w.yaml": b"b"}, root)
    grandchild = make_snapshot("demo", RULES, {"w.yaml": b"c"}, child)

    assert (root.root_id, root.parent_id) == (None, None)
    assert (child.root_id, child.parent_id) == (root.id, root.id)
    assert (grandchild.root_id, grandchild.parent_id) == (root.id, child.id)


@pytest.mark.parametrize(
    "path", ["/w.yaml", "../w.yaml", "a/../w.yaml", "a//w.yaml", "./w.yaml", "w.yaml/", "a\0.yaml"]
)
@pytest.mark.hostile("H23")
def test_paths_that_leave_the_tree_are_refused_SN_4(path: str) -> None:
    found = _plain()
    found["component_rules"] = {"workflow": ["*"]}
    found["files"] = {path: found["files"]["w.yaml"]}

    assert "path" in _reject(found) or "tree" in _reject(found)


def test_unknown_versions_keys_and_labels_are_refused_SN_4() -> None:
    label = _plain()
    label["files"]["w.yaml"]["component"] = "prompt"

    assert "format_version" in _reject(_plain(format_version=3))
    assert "extra" in _reject(_plain(scope="all"))
    assert "component" in _reject(label)


def test_base64_that_is_not_canonical_is_refused_SN_4() -> None:
    found = _plain()
    content = base64.b64encode(b"ab").decode()
    found["files"]["w.yaml"]["content"] = content.replace("Y", "Y\n")
    loose = _plain()
    loose["files"]["w.yaml"]["content"] = "YWJ="  # the same byte pair with stray bits

    assert "base64" in _reject(found)
    assert "canonical" in _reject(loose)


def test_one_changed_byte_anywhere_is_refused_SN_4() -> None:
    good = make_snapshot("demo", RULES, {"w.yaml": b"a"}).encode()
    for position in range(len(good)):
        bad = good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]
        with pytest.raises(ValueError, match="."):
            parse_snapshot(bad)
