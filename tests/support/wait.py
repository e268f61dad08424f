"""Waiting in tests: a condition with a deadline, never a sleep that hopes."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")
_PAUSE_S: Final = 0.005


class StillNot(AssertionError):
    """The condition did not come true in time."""


def until(condition: Callable[[], _T], timeout_s: float = 10, what: str = "") -> _T:
    """Ask until the answer is true, and return it.

    Args:
        condition: Asked again and again.
        timeout_s: Longest wait in seconds.
        what: Named when time is up.

    Raises:
        StillNot: Time is up; the last answer is in the text.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            message = f"{what or repr(condition)} after {timeout_s} s: {answer!r}"
            raise StillNot(message)
        time.sleep(_PAUSE_S)
