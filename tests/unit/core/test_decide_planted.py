"""The comparison with the oracle goes red: each planted bug is caught, most in a few random runs."""

import inspect
import textwrap
from collections.abc import Callable

import pytest

from adw.core import decide as decide_module
from adw.core import fold as fold_module
from adw.core import standing as standing_module
from adw.core.fold import Fold
from adw.core.graph import Graph
from tests.unit.core.test_decide_exhaustive import every_run, sdlc
from tests.unit.core.test_decide_random import check_run, tape_of

Plant = Callable[[pytest.MonkeyPatch], None]


def source_change(module: object, name: str, old: str, new: str) -> Plant:
    """Replace text in a function or method and put the result in its place."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        owner, _, method = name.rpartition(".")
        holder = getattr(module, owner) if owner else module
        source = inspect.getsource(getattr(holder, method))
        assert old in source, f"{name} no longer has {old!r}"
        space: dict[str, object] = dict(vars(module))
        exec(textwrap.dedent(source.replace(old, new)), space)
        patch.setattr(holder, method, space[method])
        if method == "judge":  # fold imports it by name
            patch.setattr(fold_module, method, space[method])

    return plant


def wrong_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Graph, "target", lambda _graph, owner: owner)


def no_marks_above(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fold, "_spread_marks", lambda self: self._dirty.update(self._newly_marked))


BUGS: dict[str, Plant] = {
    "done-without-looking-at-the-base": source_change(
        standing_module, "judge", "recent = record.after(base)", "recent = record.entries"
    ),
    "no-limit-on-rounds": source_change(fold_module, "Fold._repaired", ">= repair.rounds", ">= 99"),
    "one-attempt-too-many": source_change(
        standing_module, "_after_failure", "tries >= retry.attempts", "tries > retry.attempts"
    ),
    "free-entries-burn-attempts": source_change(
        standing_module, "judge", "if reason in FREE:", "if False:"
    ),
    "excused-at-the-first-failure": source_change(
        fold_module, "Fold._stand", 'found.kind == "failed" and', "record.entries and"
    ),
    "what-runs-is-ignored": source_change(
        decide_module, "_under_running", "return found", "return set()"
    ),
    "a-running-repair-is-ignored": source_change(
        decide_module, "_under_running", "live.repairs or live.phase", "live.phase"
    ),
    "wrong-target": wrong_target,
    "marks-upstream-do-not-restart-counts": no_marks_above,
    "needs-ignored-in-the-base": source_change(
        fold_module, "Fold.base", "at > found", "at > found and False"
    ),
    "enclosing-rounds-do-not-restart-counts": source_change(
        fold_module, "Fold.count_start", "*(r[-1] for r in outer if r)", ""
    ),
    "a-repairs-mark-is-forgotten": source_change(
        fold_module, "Fold._repaired", "base = max(mark, failed_at)", "base = failed_at"
    ),
    "dependents-are-not-judged-again": source_change(
        fold_module, "Fold._refresh", "return dependents", "return dependents[:1]"
    ),
    "the-future-is-waited-for": source_change(
        standing_module, "Standing.waits", "self.wait[0] <= now <", "now <"
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        look_everywhere()


def look_everywhere() -> None:
    every_run(sdlc(2, 2))
    for seed in range(300):
        check_run(tape_of(seed))
