"""How often a phase was started without an outcome."""

from adw.core.endless import without_outcome
from adw.model.state import HistoryEntry


def entry(phase: str, reason: str | None) -> HistoryEntry:
    attempt = int(reason != "invalidated")
    return HistoryEntry.model_validate(
        {"phase": phase, "success": reason is None, "reason": reason, "attempt": attempt}
    )


def count(*reasons: str | None) -> int:
    return without_outcome([entry("a", each) for each in reasons], "a")


def test_only_what_had_no_outcome_counts_back_to_any_other_entry() -> None:
    assert count() == 0
    assert count("lost", "interrupted", "lost") == 3
    assert count("lost", None, "interrupted") == 1
    assert count("lost", "exit", "interrupted", "interrupted") == 2
    assert count("lost", "rate_limited") == 0


def test_a_mark_begins_it_anew() -> None:
    assert count("interrupted", "interrupted", "invalidated") == 0


def test_other_phases_do_not_count() -> None:
    history = [entry("a", "interrupted"), entry("b", None), entry("a", "lost"), entry("b", "lost")]
    assert without_outcome(history, "a") == 2
