"""Which names a pattern finds, against a plain reading of the rules."""

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from adw.store import beneath
from adw.store.artifacts import OutputFault

LETTERS = "abAé.-]\n"


@dataclass(frozen=True)
class Set:
    """`[...]`"""

    letters: str
    negated: bool

    def __str__(self) -> str:
        return f"[{'!' if self.negated else ''}{self.letters}]"


Token = str | Set
literals = st.sampled_from(LETTERS)
sets = st.builds(Set, st.sampled_from(["a", "ab", "]a", "a-b", ".", "é"]), st.booleans())
words: st.SearchStrategy[list[Token]] = st.lists(
    st.one_of(literals, st.sampled_from(["*", "?"]), sets), min_size=1, max_size=4
)
names = st.text(LETTERS, min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


def fits(tokens: list[Token], name: str) -> bool:
    """One component, read from the left, trying every length of a star."""
    if not tokens:
        return not name
    first, rest = tokens[0], tokens[1:]
    if first == "*":
        return any(fits(rest, name[n:]) for n in range(len(name) + 1))
    if not name:
        return False
    if isinstance(first, Set):
        within = name[0] in first.letters.replace("a-b", "ab")
        return within != first.negated and fits(rest, name[1:])
    return first in {"?", name[0]} and fits(rest, name[1:])


def expected(tree: set[str], pattern: list[list[Token]]) -> set[str]:
    return {
        path
        for path in tree
        if path.count("/") == len(pattern) - 1
        and all(
            fits(tokens, name) and (tokens[0] == "." or not name.startswith("."))
            for tokens, name in zip(pattern, path.split("/"), strict=True)
        )
    }


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("patterns"))


@pytest.mark.sweep
@settings(max_examples=300)
@given(
    planted=st.lists(paths, max_size=8),
    pattern=st.lists(words, min_size=1, max_size=3),
)
@example(planted=["a/b", "a/a"], pattern=[["*"], ["?"]])
@example(planted=[".a", "a"], pattern=[["*"]])
@example(planted=[".a", "a"], pattern=[[Set(".", negated=False), "a"]])
@example(planted=["a", "b", "]"], pattern=[[Set("]a", negated=True)]])
def test_a_pattern_finds_what_it_means(
    here: str, planted: list[str], pattern: list[list[Token]]
) -> None:
    parts = ["".join(map(str, tokens)) for tokens in pattern]
    assume(not {".", ".."} & set(parts))  # never looked for: dropped and refused before
    with tempfile.TemporaryDirectory(dir=here) as root:
        tree: set[str] = set()
        for path in planted:
            with suppress(FileExistsError, NotADirectoryError):
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
                os.mknod(f"{root}/{path}")
        for above, directories, plain in os.walk(root):
            for name in (*directories, *plain):
                tree.add(os.path.relpath(f"{above}/{name}", root))
        in_the_way: list[OutputFault] = []
        with beneath.directory(root, "", "") as top:
            found = list(beneath._matches(top, parts, "", in_the_way))

    assert len(found) == len(set(found))
    assert set(found) == expected(tree, pattern)
    assert in_the_way == []
