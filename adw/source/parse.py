"""One entry for all text: decode, tell YAML from JSON, read."""

import json
import re
from typing import Final

from adw.errors import WorkflowError
from adw.source.places import MAX_BYTES, Source
from adw.source.yaml_reader import parse_yaml_text

_PRINTABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]"
)


def parse(data: bytes, file: str, *, first_line: int = 1, may_be_empty: bool = False) -> Source:
    """Parse a whole file; JSON where its name ends in `.json` or it begins with `{`, else YAML.

    Args:
        data: UTF-8; a byte order mark is skipped.
        file: Its name, for messages.
        first_line: Line of the file where `data` begins.
        may_be_empty: A text without a value counts as an empty mapping.

    Raises:
        WorkflowError: Not valid, or refused; with the place.
    """
    text = _decode(data, file, first_line)
    if file.endswith(".json") or text.lstrip().startswith("{"):
        from adw.source.json_reader import parse_json_text  # brings pydantic with it

        try:
            return parse_json_text(text, data, file, strict=file.endswith(".json"))
        except json.JSONDecodeError:
            pass  # YAML's own flow style begins like that too
    if found := _PRINTABLE.search(text):
        raise _at_offset(text, found.start(), file, first_line, "a control character is found")
    source = parse_yaml_text(text, data, file, first_line, may_be_empty=may_be_empty)
    if source.value is None and may_be_empty:
        source.value = {}
    return source


def _decode(data: bytes, file: str, first_line: int) -> str:
    if len(data) > MAX_BYTES:
        detail = f"{len(data)} bytes are found, at most {MAX_BYTES} are expected"
        raise WorkflowError(file=file, line=1, column=1, detail=detail)
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        detail = f"byte 0x{data[error.start]:02x} is not valid UTF-8"
        raise _at_offset(before, len(before), file, first_line, detail) from None


def _at_offset(text: str, offset: int, file: str, first_line: int, detail: str) -> WorkflowError:
    line = text.count("\n", 0, offset)
    column = offset - (text.rfind("\n", 0, offset) + 1)
    return WorkflowError(file=file, line=first_line + line, column=column + 1, detail=detail)
