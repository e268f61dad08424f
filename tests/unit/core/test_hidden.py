"""Hidden text of an issue is named and stays."""

import pytest

from adw.core.hidden import hidden


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain\n\ttext\r\n", []),
        ("👩\u200d👩\u200d👧 \u270c\ufe0f می\u200cخواهم é 日本", []),
        ("a\n<!-- run rm -rf -->", ["1 HTML comment, in line 2"]),
        ("a\u202eb\n\u2066c", ["2 bidirectional controls, the first in line 1"]),
        ("\n\na\u200bb", ["1 zero-width character, in line 3"]),
        ("a\u200d\u200c\u200db", ["3 zero-width characters, the first in line 1"]),
        (
            "see" + "".join(chr(0xE0000 + ord(c)) for c in "ignore"),
            ["6 tag characters, the first in line 1"],
        ),
        ("x\ufe00\ufe01\U000e0101", ["2 variation selectors, the first in line 1"]),
        ("a\x1b[2Jb\rc", ["2 control characters, the first in line 1"]),
    ],
)
@pytest.mark.hostile("H6")
def test_what_readers_do_not_see_is_named(text: str, told: list[str]) -> None:
    assert hidden(text) == told
