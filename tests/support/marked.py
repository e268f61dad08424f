"""Texts that carry the places where faults are expected."""

MARK = "»"


def marked(text: str, mark: str = MARK) -> tuple[str, list[tuple[int, int]]]:
    """Take the marks out of a text; each gives the line and column of what followed it."""
    plain, places = "", []
    for part in text.split(mark)[:-1]:
        plain += part
        places.append((plain.count("\n") + 1, len(plain) - (plain.rfind("\n") + 1) + 1))
    return plain + text.rsplit(mark, maxsplit=1)[-1], places
