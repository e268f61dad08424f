"""Text to values: the core schema, places, and hostile input refused fast."""

import json
import math
import time
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adw.errors import WorkflowError
from adw.source import json_reader, yaml_reader
from adw.source.parse import parse
from adw.source.places import MAX_BYTES, MAX_DEPTH, MAX_ENTRIES
from tests.support.marked import marked


def value_of(text: str) -> Any:
    return parse(text.encode(), "w.yaml").value


def refused(data: str | bytes, file: str = "w.yaml") -> str:
    """Message and place; soon, where a careless reader would never end."""
    began = time.process_time()
    with pytest.raises(WorkflowError) as caught:
        parse(data if isinstance(data, bytes) else data.encode(), file)
    assert time.process_time() - began < 5  # about 0.5 s at most; wide, as machines differ
    fields = caught.value.fields
    return f"{fields['line']}:{fields['column']} {caught.value.message}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null", None), ("~", None), ("", None), ("Null", None), ("nULL", "nULL"),
        ("true", True), ("True", True), ("FALSE", False), ("tRue", "tRue"),
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("y", "y"), ("N", "N"),
        ("12:30:45", "12:30:45"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01"),
        ("0", 0), ("010", 10), ("-7", -7), ("+7", 7), ("0o17", 15), ("0x1F", 31), ("0b1", "0b1"),
        ("-0o7", "-0o7"), ("08", 8),
        ("1.10", 1.1), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-1.5E-3", -0.0015),
        ("1.2.3", "1.2.3"), ("1e", "1e"), (".", "."), ("-", None), ("--", "--"), ("=", "="),
        ('"1"', "1"), ("'true'", "true"), ('""', ""), ("<<", "<<"),
    ],
)  # fmt: skip
@pytest.mark.hostile("H27")
def test_scalars_follow_the_core_schema(text: str, expected: object) -> None:
    found = value_of(f"k: {text}\n" if text != "-" else "k: ~")["k"]

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.hostile("H27")
def test_h27_keys_are_always_strings() -> None:
    assert value_of("on: 1\nno: 2\n1: 3\nnull: 4\n1.0: 5\n") == {
        "on": 1, "no": 2, "1": 3, "null": 4, "1.0": 5,
    }  # fmt: skip


@pytest.mark.hostile("H27")
def test_h27_keys_that_are_the_same_text_are_duplicates_however_they_are_quoted() -> None:
    assert refused('a: 1\n"a": 2\n') == "2:1 the key `a` occurs twice"
    assert refused("{a: {b: 1, c: 2, b: 3}}") == "1:18 the key `b` occurs twice"


@pytest.mark.hostile("H25")
def test_h25_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )

    assert refused(bomb) == "1:4 the anchor `&a` is not allowed"


@pytest.mark.hostile("H26")
def test_h26_a_cycle_is_refused() -> None:
    assert refused("a: &a [*a]") == "1:4 the anchor `&a` is not allowed"


@pytest.mark.parametrize(
    "text", ["[" * 20_000, "{a: " * 20_000, "- " * 20_000, "[" * 65 + "]" * 65]
)
@pytest.mark.hostile("H26")
def test_h26_depth_is_bounded(text: str) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in refused(text)


@pytest.mark.hostile("H26")
def test_h26_depth_by_indentation_is_bounded() -> None:
    text = "".join(" " * i + "a:\n" for i in range(1000))

    assert refused(text).startswith("65:")


def test_the_allowed_depth_is_read() -> None:
    assert value_of("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None


@pytest.mark.parametrize(
    "text", ["!!str x", "! x", "!x {a: b}", "!!python/object/apply:os.system [x]"]
)
@pytest.mark.hostile("H26")
def test_h26_tags_are_refused(text: str) -> None:
    assert refused(f"a: {text}").startswith("1:4 the tag `!")


@pytest.mark.sweep
@pytest.mark.hostile("H28")
def test_h28_100_000_entries_are_refused() -> None:
    text = "phases:\n" + "".join(f"  p{i}: {{run: [x]}}\n" for i in range(100_000))

    expected = f"{MAX_ENTRIES + 2}:3 more than {MAX_ENTRIES} entries in one mapping or list"
    assert refused(text) == expected
    data = {"phases": {f"p{i}": {"run": ["x"]} for i in range(100_000)}}
    assert refused(json.dumps(data), "w.json").endswith(expected.partition(" ")[2])


def test_many_values_in_many_lists_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 500)
    monkeypatch.setattr(json_reader, "MAX_NODES", 500)
    lists = [[1] * 100] * 9

    assert refused(json.dumps(lists), "w.json").endswith("more than 500 values in one file")
    assert refused(json.dumps(lists)).endswith("more than 500 values in one file")


@pytest.mark.hostile("H33")
def test_a_large_file_is_refused_unread() -> None:
    assert refused(b"a" * (MAX_BYTES + 1)) == (
        f"1:1 {MAX_BYTES + 1} bytes are found, at most {MAX_BYTES} are expected"
    )


def test_bytes_that_are_not_utf8_have_a_place() -> None:
    assert refused("a: ü\nb: ".encode() + b"\xff") == "2:4 byte 0xff is not valid UTF-8"
    assert refused("a: ü".encode("utf-16")).endswith("is not valid UTF-8")


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b"\xef\xbb\xbfa: 1", "w.yaml").value == {"a": 1}
    assert parse(b'\xef\xbb\xbf{"a": 1}', "w.json").value == {"a": 1}


# --- JSON --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1, »"a": 2}', "the key `a` occurs twice"),
        ('{"a": {"b": [1, {"c": 1,\n »"c": 2}]}}', "the key `c` occurs twice"),
        ('{"a": »NaN}', "`NaN` is not a finite number"),
        ('{"a": [»-Infinity]}', "`-Infinity` is not a finite number"),
        ('{"a": »1e400}', "`1e400` is not a finite number"),
        ('{"a": »' + "9" * 5000 + "}", "a number of 5000 digits is too long"),
        ('{"a": »' + "9" * 50 + "}", "a number of 50 digits is too long"),
        ('{"a": »"\\ud800"}', "half of a surrogate pair is found"),
        ('{»"\\udc00": 1}', "half of a surrogate pair is found"),
        ('{"a": 1} »x', "not valid JSON: extra data"),
        ('{"a": 1»', "not valid JSON: expecting ',' delimiter"),
        ("»", "not valid JSON: expecting value"),
        ("{\"a\": »'x'}", "not valid JSON: expecting value"),
    ],
)
@pytest.mark.hostile("H30", "H31", "H32", "H33")
def test_h30_to_h33_json_without_traps(text: str, fault: str) -> None:
    plain, [(line, column)] = marked(text)

    assert refused(plain, "w.json") == f"{line}:{column} {fault}"


@pytest.mark.hostile("H33")
def test_h33_deep_json_is_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert refused(deep, "w.json") == f"1:{MAX_DEPTH + 1} nested deeper than {MAX_DEPTH} levels"
    assert refused('{"a":' * 65 + "1" + "}" * 65, "w.json").endswith("64 levels")


def test_json_in_a_yaml_file_and_flow_yaml_are_told_apart() -> None:
    assert value_of('{"a": "\\ud83d\\ude00", "b":\t1}') == {"a": "😀", "b": 1}
    assert value_of("{a: [b, 010]}") == {"a": ["b", 10]}


def test_values_that_are_alike_in_both_languages_are_read_alike() -> None:
    data: dict[str, Any] = {"a": [1, 1.5, None, True, "x", {}], "b": {"c": []}}

    assert parse(json.dumps(data).encode(), "w.json").value == data
    assert value_of(yaml.safe_dump(data)) == data


# --- places --------------------------------------------------------------------------------

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False).filter(math.isfinite),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8),
)
TREES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.from_regex(r"\A[a-z]{1,4}\Z"), inner, max_size=4),
    ),
    max_leaves=12,
)


def paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [at]
    items: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        found += paths(inner, (*at, key))
    return found


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


@settings(max_examples=60)
@given(TREES, st.sampled_from([None, 1]))
def test_every_json_value_can_be_read_again_at_its_place(tree: Any, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    source = parse(text.encode(), "w.json")
    assert source.value == tree
    lines = text.split("\n")

    for path in paths(tree):
        place = source.place(path)
        rest = "\n".join([lines[place.line - 1][place.column - 1 :], *lines[place.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == at(tree, path)
        if path and isinstance(path[-1], str):
            assert lines[place.key_line - 1][place.key_column - 1 :].startswith(f'"{path[-1]}"')


@settings(max_examples=40)
@given(TREES.filter(lambda tree: isinstance(tree, dict) and len(tree) > 0))
def test_the_places_of_json_hold_for_the_same_text_as_yaml(tree: Any) -> None:
    text = json.dumps(tree, indent=1)
    assume("\\ud" not in text)  # YAML has no surrogate pairs
    as_json = parse(text.encode(), "w.json")
    as_yaml = parse(b"# \xc3\xbc\n" + text.encode(), "w.yaml")

    assert as_yaml.value == tree
    for path in paths(tree):
        line, column, key_line, key_column, _ = as_json.place(path)
        assert as_yaml.place(path)[:4] == (line + 1, column, key_line + 1, key_column)


def test_a_path_that_is_not_there_has_the_place_of_what_is_around_it() -> None:
    source = parse(b"a:\n  b: 1\n", "w.yaml")

    assert source.place(("a", "b", "c"))[:2] == (2, 6)
    assert source.place(("a", "x"))[:4] == (2, 3, 1, 1)
    assert source.place(("x",))[:2] == (1, 1)


def test_the_slow_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, x, {b: 010}]\nc: 'd'\n"
    fast = parse(text.encode(), "w.yaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    slow = parse(text.encode(), "w.yaml")

    assert slow.value == fast.value
    assert [slow.place(p) for p in paths(slow.value)] == [fast.place(p) for p in paths(fast.value)]
    assert refused("a: 1\na: 2\n") == "2:1 the key `a` occurs twice"
    assert f"nested deeper than {MAX_DEPTH} levels" in refused("[" * 20_000)
