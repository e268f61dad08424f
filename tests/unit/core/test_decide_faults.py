"""Faults that an earlier wording of the rule had: a history each that shows it would be back."""

import pytest

from adw.core import standing
from adw.core.decide import (
    Fold,
    Live,
    cancel_targets,
    decide,
    from_marks,
    only_marks,
    resume_marks,
)  # fmt: skip
from adw.core.decide import only as alone
from adw.core.graph import Graph, Phase, Repair, Retry
from adw.model import state
from tests.unit.core.histories import (
    always,
    decided,
    entry,
    ga,
    graph,
    history,
    lp,
    lt,
    never,
    sd,
    starts,
    w2,
    wh,
)  # fmt: skip


def chain(*names: str, retry: Retry = Retry()) -> Graph:  # noqa: B008
    needs = [(), *((name,) for name in names)]
    return graph(*(Phase(n, needs=m, retry=retry) for n, m in zip(names, needs, strict=False)))


def marks(shape: Graph, past: str) -> list[str]:
    return resume_marks(shape, Fold.of(shape, history(past)), 0.0, always)


def test_fault_01_success_does_not_ask_for_repair_phases() -> None:
    done = decided(sd(), "plan ok, build ok, test ok, review ok, commit ok")
    assert (done.closing, starts(done)) == ("succeeded", [])


def test_fault_02_side_by_side_loops_do_not_restart_each_other() -> None:
    past = (
        "build ok, lint exit, fmt ok>lint, build ok, lint ok, test exit, fix ok>test, build ok,"
        " lint exit, fmt ok>lint, build ok, lint ok, test exit, fix ok>test, build ok, lint exit"
    )
    found = decided(lp(), past)
    assert found.phases["lint"].state == "failed"
    assert decided(lp(), past + ", test ok").closing == "failed"


def test_fault_03_attempts_do_not_strangle_rounds() -> None:
    shape = graph(Phase("test", repair=Repair("fix", 1)), Phase("fix"))
    assert starts(decided(shape, "test exit")) == ["fix>test"]
    assert starts(decided(shape, "test exit, fix ok>test")) == ["test"]


def test_fault_04_from_lets_nothing_unreviewed_ship() -> None:
    past = "plan ok, build ok, test ok, review ok, commit exit, build invalidated"
    shape = sd()
    found = decided(shape, past, running="build")
    assert starts(found) == []
    assert found.phases["commit"].state == "pending"
    assert starts(decided(shape, past + ", build ok")) == ["test"]


def test_fault_05_only_a_failure_for_good_is_excused() -> None:
    found = decided(lt(), "build ok, lint ok, test ok, docs exit")
    assert starts(found) == ["docs"]
    assert starts(decided(lt(), "build ok, lint ok, test ok, docs exit, docs exit")) == ["ship"]


def test_fault_06_an_excused_phase_makes_what_needs_it_stale() -> None:
    shape = graph(Phase("lint", allow_failure=True, retry=Retry(2)), Phase("ship", needs=("lint",)))
    past = "lint ok, ship ok, lint invalidated, lint exit, lint exit"
    assert starts(decided(shape, past)) == ["ship"]
    assert decided(shape, "lint exit, lint exit, ship ok").closing == "succeeded"


def test_fault_07_nothing_starts_under_a_running_dependent() -> None:
    shape = chain("a", "b", "c")
    assert starts(decided(shape, "a ok, b ok, a invalidated", running="c")) == []
    assert starts(decided(shape, "a ok, b ok, a invalidated")) == ["a"]


def test_fault_07_nothing_is_skipped_or_asked_under_a_running_dependent() -> None:
    shape = wh()
    assert not decided(shape, "a ok, b ok, b invalidated", running="c", holds=never).skips
    found = decided(ga(), "build ok, test ok, gate ok, gate invalidated", running="ship")
    assert found.phases["gate"].state == "pending"


def test_fault_07_an_owner_waits_for_the_repair_that_still_runs() -> None:
    past = "plan ok, build ok, test exit, test invalidated"
    found = decided(sd(), past, running="fix>test")
    assert starts(found) == []
    assert found.phases["test"].state == "pending"


def test_fault_08_from_ends_the_phase_first_so_that_its_mark_stays_last() -> None:
    shape = chain("a", "b")
    kept = decided(shape, "a interrupted, a invalidated")
    assert starts(kept) == ["a"]


def test_fault_09_a_cured_failure_is_none() -> None:
    shape = graph(
        Phase("test", repair=Repair("fix", 1)),
        Phase("fix"),
        Phase("gate", needs=("test",), gate=True),
    )
    assert decided(shape, "test exit, fix ok>test, test ok").closing == "held"


@pytest.mark.parametrize("reason", sorted(standing.FINAL))
def test_fault_10_a_final_failure_calls_no_repair(reason: str) -> None:
    found = decided(sd(), f"plan ok, build ok, test {reason}")
    assert (starts(found), found.closing) == ([], "failed")


@pytest.mark.parametrize("reason", sorted(standing.HELD - {"cancelled"}))
def test_fault_10_a_held_phase_is_neither_repaired_nor_excused(reason: str) -> None:
    shape = graph(Phase("a", repair=Repair("fix", 2), allow_failure=True), Phase("fix"))
    found = decided(shape, f"a {reason}")
    assert (starts(found), found.closing) == ([], "held")


def test_case_F8_the_fiftieth_free_entry_in_a_row_is_held() -> None:
    """Fault 11: a program that always says "try later" is not started for ever."""
    shape = chain("a")
    free = [entry("a rate_limited", n) for n in range(1, 50)]
    assert starts(decided(shape, free)) == ["a"]
    found = decided(shape, [*free, entry("a rate_limited", 50)])
    assert (starts(found), found.closing) == ([], "held")
    again = [*free, entry("a rate_limited", 50), entry("a invalidated")]
    assert starts(decided(shape, again)) == ["a"]


def test_fault_11_a_free_row_that_does_not_end_with_a_limit_goes_on() -> None:
    shape = chain("a")
    free = [entry("a rate_limited", n) for n in range(1, 51)]
    assert starts(decided(shape, [*free, entry("a interrupted", 51)])) == ["a"]
    more = [*free, entry("a interrupted", 51), entry("a rate_limited", 52)]
    assert decided(shape, more).closing == "held"


def test_fault_11_three_lost_in_a_row_fail() -> None:
    shape = chain("a")
    assert starts(decided(shape, "a lost, a lost, a interrupted, a lost, a lost")) == ["a"]
    assert decided(shape, "a lost, a lost, a interrupted, a lost, a lost, a lost").closing == (
        "failed"
    )


def test_fault_12_a_crash_never_gives_fresh_counts() -> None:
    past = "plan ok, build ok, test exit, fix ok>test, test interrupted"
    assert marks(sd(), past) == []


def test_case_F10_the_same_failure_the_third_time_stops_early() -> None:
    """Fault 13: told apart by signature, for with `exit` alone every progress would be none."""
    shape = graph(Phase("test", repair=Repair("fix", 9)), Phase("fix"))
    past = "test exit/a, fix ok>test, test exit/a, fix ok>test, "
    found = decided(shape, past + "test exit/a")
    assert (found.phases["test"].detail, found.closing) == ("no_progress", "failed")
    assert starts(decided(shape, past + "test exit/b")) == ["fix>test"]
    assert starts(decided(shape, past + "test timeout")) == ["fix>test"]
    assert starts(decided(shape, past + "test exit/a, test invalidated")) == ["test"]


def test_fault_14_a_shared_repair_counts_for_the_owner_that_called_it() -> None:
    found = decided(lt(), "build ok, lint exit, test exit, docs ok, fix ok>lint")
    assert found.phases["lint"].state == "ready"
    assert starts(found) == ["fix>test", "lint"]


def test_fault_14_a_shared_repair_has_one_attempt_at_a_time() -> None:
    past = "build ok, lint exit, test exit, docs ok"
    assert starts(decided(lt(), past)) == ["fix>lint"]
    assert starts(decided(lt(), past, running="fix>lint")) == []


def test_fault_14_an_owner_has_failed_though_the_shared_repair_works_for_another() -> None:
    past = "build ok, docs ok, lint exit, fix exit>lint, test exit"
    found = decided(lt(), past, running="fix>test")
    assert (found.phases["lint"].state, found.phases["test"].state) == ("failed", "repairing")


def test_fault_15_a_skip_keeps_its_verdict_until_its_base_moves() -> None:
    assert decided(wh(), "a ok, b skipped, c ok").closing == "succeeded"
    again = decided(wh(), "a ok, b skipped, c ok, b invalidated", holds=never)
    assert again.skips == ("b",)
    assert starts(decided(wh(), "a ok, b skipped, c ok, b invalidated, b skipped")) == ["c"]


def test_fault_16_a_cancel_while_nothing_runs_leaves_a_trace() -> None:
    shape = ga()
    fold = Fold.of(shape, history("build ok, test ok"))
    assert cancel_targets(shape, fold, (), 0.0, always) == ["gate"]
    found = decided(shape, "build ok, test ok, gate cancelled")
    assert found.closing == "cancelled"
    assert marks(shape, "build ok, test ok, gate cancelled") == ["gate"]


def test_a_cancel_hits_all_that_is_startable_waiting_held_or_called() -> None:
    shape = lt()
    past = history("build ok, lint exit, test rate_limited@900")
    fold = Fold.of(shape, past)
    assert cancel_targets(shape, fold, (), 1.0, always) == ["fix", "test", "docs"]
    alive = [Live("docs", 1), Live("fix", 1, "lint")]
    assert cancel_targets(shape, fold, alive, 1.0, always) == ["fix", "docs"]
    cancelled = [*past, entry("fix cancelled")]
    assert decided(shape, cancelled).closing == "cancelled"
    assert cancel_targets(shape, Fold.of(shape, cancelled), (), 1.0, always) == []
    resumed = [*cancelled, entry("fix invalidated")]
    assert starts(decided(shape, resumed)) == ["fix>lint", "docs"]


def test_fault_17_a_power_cut_burns_no_attempt() -> None:
    assert starts(decided(chain("a", "b"), "a ok, b lost")) == ["b"]
    assert marks(chain("a", "b"), "a ok, b lost") == []


def test_ST_11_fault_19_a_stale_phase_before_a_later_success_is_not_skipped() -> None:
    past = "plan ok, build ok, test ok, review ok, commit ok, plan invalidated, plan ok"
    assert starts(decided(sd(), past)) == ["build"]


def test_fault_20_attempt_numbers_count_the_whole_history() -> None:
    shape = chain("test")
    found = decided(shape, "test exit, test exit, test invalidated, test lost, test invalidated")
    assert [s.attempt for s in found.starts] == [4]
    both = Fold.of(shape, history("other ok, other ok, test ok"))
    assert (both.attempt("other"), both.attempt("test"), both.attempt("none")) == (2, 1, 0)


def test_fault_20_attempts_are_tries_in_all_and_delays_start_again_after_a_repair() -> None:
    retry = Retry(3, delay_s=10, factor=3, max_delay_s=25)
    shape = graph(Phase("test", retry=retry, repair=Repair("fix", 1)), Phase("fix"))
    past = "test exit@100"
    assert decided(shape, past, now=101).wake_at == 110
    past += ", test exit@200"
    assert decided(shape, past, now=201).wake_at == 225  # 30 s, cut to 25
    past += ", test exit@300"
    assert starts(decided(shape, past, now=301)) == ["fix>test"]
    past += ", fix ok>test@400, test exit@500"
    assert decided(shape, past, now=501).wake_at == 510


def test_an_entry_from_the_future_is_not_waited_for() -> None:
    retry = Retry(2, delay_s=10)
    shape = chain("a", retry=retry)
    assert starts(decided(shape, "a exit@100", now=99)) == ["a"]
    assert starts(decided(shape, "a exit@100", now=110)) == ["a"]
    assert starts(decided(shape, "a exit@100", now=100)) == []


def test_a_huge_factor_is_cut_to_the_longest_delay() -> None:
    shape = chain("a", retry=Retry(500, delay_s=1, factor=1e300, max_delay_s=60))
    past = [entry("a exit", n) for n in range(1, 11)]
    assert decided(shape, past, now=1).wake_at == 60


def test_the_first_missing_output_is_tried_again_at_once() -> None:
    shape = graph(Phase("a", retry=Retry(1, delay_s=9), repair=Repair("fix", 1)), Phase("fix"))
    assert starts(decided(shape, "a missing_output")) == ["a"]
    assert starts(decided(shape, "a missing_output, a missing_output")) == ["fix>a"]
    assert starts(decided(shape, "a missing_output, a exit")) == ["fix>a"]
    after = "a missing_output, a exit, fix ok>a, a missing_output"
    assert starts(decided(shape, after)) == ["a"]


def test_fault_21_a_failed_repair_ends_its_owner() -> None:
    found = decided(sd(), "plan ok, build ok, test exit, fix exit>test")
    assert (found.phases["test"].detail, found.closing) == ("fix", "failed")


def test_a_resume_marks_the_owner_whose_rounds_are_up_though_its_repair_is_called_rounds() -> None:
    shape = graph(Phase("a", repair=Repair("rounds", 1)), Phase("rounds"))
    assert marks(shape, "a exit, rounds ok>a, a exit") == ["a"]
    assert marks(shape, "a exit, rounds exit>a") == ["rounds"]


def test_fault_23_a_sibling_keeps_its_result_over_a_repair() -> None:
    past = "build ok, lint ok, docs ok, test exit, fix ok>test, test ok"
    assert starts(decided(lt(), past)) == ["ship"]


def test_fault_25_results_are_kept_by_name_over_workflows() -> None:
    shape = graph(Phase("test"))
    assert decided(shape, "build ok, test ok, build invalidated, build ok").closing == "succeeded"
    assert starts(decided(w2(), "prepare ok, test ok, report ok, test invalidated")) == ["test"]


def test_fault_27_failed_beside_a_gate_wins_and_other_branches_go_on() -> None:
    shape = graph(Phase("a"), Phase("gate", gate=True), Phase("b"), Phase("c", needs=("b",)))
    assert decided(shape, "a exit, b ok, c ok").closing == "failed"
    parked = decided(shape, "a rate_limited@9, b ok, c ok")
    assert (parked.closing, parked.wake_at) == (None, 9)
    assert starts(decided(shape, "a exit, b ok")) == ["c"]


def test_fault_30_from_elsewhere_keeps_a_failure() -> None:
    shape = graph(Phase("build"), Phase("docs"), Phase("ship", needs=("build",)))
    past = "build ok, docs exit, ship ok, build invalidated, build ok, ship ok"
    assert decided(shape, past).closing == "failed"


# --- field cases ---------------------------------------------------------------------------


def test_case_B1_a_second_resume_runs_nothing_again() -> None:
    shape = chain("a", "b", "c")
    past = "a ok, b ok, c exit"
    for _ in range(2):
        assert marks(shape, past) == ["c"]
        past += ", c invalidated"
        assert [(s.phase, s.attempt) for s in decided(shape, past).starts] == [
            ("c", past.count("c exit") + 1)
        ]
        past += ", c exit"
    assert decided(shape, past).closing == "failed"


def test_case_B8_from_runs_a_phase_and_all_its_dependents_again() -> None:
    shape = chain("plan", "build", "test", "ship")
    past = "plan ok, build ok, test ok, ship ok"
    fold = Fold.of(shape, history(past))
    assert from_marks(shape, fold, "build") == ["build"]
    past += ", build invalidated"
    for name in ("build", "test", "ship"):
        assert starts(decided(shape, past)) == [name]
        past += f", {name} ok"
    assert decided(shape, past).closing == "succeeded"


def test_case_B9_from_keeps_siblings_and_never_looks_at_times() -> None:
    past = "build ok@900, lint ok@800, test ok@1, docs ok@700, ship ok@2, test invalidated@0"
    found = decided(lt(), past)
    assert starts(found) == ["test"]
    kept = {name for name, view in found.phases.items() if view.state == "done"}
    assert kept == {"build", "lint", "docs"}


def test_case_B10_a_run_with_a_failed_phase_has_failed() -> None:
    shape = graph(*(Phase(f"p{n}") for n in range(7)), Phase("last", needs=("p3",)))
    past = ", ".join(f"p{n} {'exit' if n == 3 else 'ok'}" for n in range(7))
    found = decided(shape, past)
    assert (found.closing, found.phases["last"].state) == ("failed", "pending")
    assert marks(shape, past) == ["p3"]


def test_case_B11_a_failed_phase_is_not_done_at_resume() -> None:
    shape = chain("a", "b", "c", "d", "e")
    past = "a ok, b ok, c exit, c invalidated"
    for name in ("c", "d", "e"):
        assert starts(decided(shape, past)) == [name]
        past += f", {name} ok"


def test_case_B12_a_retry_starts_at_the_phase_that_failed() -> None:
    shape = chain("a", "b", "c", "d", retry=Retry(2))
    assert starts(decided(shape, "a ok, b ok, c ok, d exit")) == ["d"]


def test_case_B21_after_a_resume_finished_phases_are_done_not_skipped() -> None:
    shape = chain("a", "b")
    found = decided(shape, "a ok, b exit, b invalidated")
    assert (found.phases["a"].state, found.phases["a"].detail) == ("done", 0)


# --- persons ---------------------------------------------------------------------------------


def test_from_marks_cancelled_phases_too() -> None:
    shape = lt()
    fold = Fold.of(shape, history("build ok, lint ok, test ok, docs cancelled"))
    assert from_marks(shape, fold, "lint") == ["lint", "docs"]


def test_only_marks_a_settled_phase_and_one_that_needs_a_resume() -> None:
    shape = alone(sd(), "test")
    for past, want in (
        ("plan ok, test ok", ["test"]),
        ("test exit", ["test"]),
        ("test blocked", ["test"]),
        ("plan ok", []),
        ("test interrupted", []),
    ):
        fold = Fold.of(shape, history(past))
        assert only_marks(shape, fold, 0.0, always) == want, past


def test_a_repair_phase_run_alone_counts_for_no_owner() -> None:
    past = "plan ok, build ok, test exit, fix ok"
    assert starts(decided(alone(sd(), "fix"), past + ", fix invalidated")) == ["fix"]
    assert starts(decided(sd(), past)) == ["fix>test"]


def test_a_held_repair_holds_its_owner_and_is_what_a_resume_marks() -> None:
    past = "plan ok, build ok, test exit, fix blocked>test"
    assert decided(sd(), past).closing == "held"
    assert marks(sd(), past) == ["fix"]


def test_a_repair_that_waits_is_waited_for() -> None:
    past = "plan ok, build ok, test exit, fix rate_limited>test@900"
    found = decided(sd(), past, now=1)
    assert (starts(found), found.wake_at, found.closing) == ([], 900, None)
    assert starts(decided(sd(), past, now=900)) == ["fix>test"]


def test_nothing_starts_and_nothing_is_skipped_while_a_phase_is_cancelled() -> None:
    shape = graph(Phase("a"), Phase("b", when="x"), Phase("c"))
    found = decided(shape, "a cancelled, c rate_limited@9", holds=never)
    assert (starts(found), found.skips, found.wake_at) == ([], (), None)
    assert found.closing == "cancelled"


def test_max_parallel_counts_what_runs() -> None:
    shape = lt(max_parallel=2)
    assert starts(decided(shape, "build ok")) == ["lint", "test"]
    assert starts(decided(shape, "build ok", running="docs")) == ["lint"]
    assert starts(decided(shape, "build ok", running="docs, lint")) == []


def test_an_unreadable_instant_is_not_waited_for() -> None:
    shape = chain("a", retry=Retry(2, delay_s=9))
    bad = state.HistoryEntry(
        phase="a", attempt=1, success=False, reason="exit", ended_at="2026-13-99T99:99:99Z"
    )
    fold = Fold.of(shape, [bad])
    assert decide(shape, fold, (), 0.0, always).starts


def test_the_kinds_are_those_of_the_state_file() -> None:
    assert standing.FAILURE == state.FAILURE
    assert standing.FREE == state.FREE
    assert standing.FINAL == state.FINAL
    assert standing.HELD == state.HELD
