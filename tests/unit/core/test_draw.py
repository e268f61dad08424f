"""Graphs as text and Mermaid."""

from adw.core.draw import critical_path, to_mermaid, to_text
from adw.core.graph import Output, Phase
from tests.unit.core.histories import ga, graph, lt, sd, wh

SD = """\
plan
build   needs plan
test    needs build; 2 attempts
        on failure: fix, 2 rounds, back to test
review  needs test
        on failure: patch, 1 round, back to test
commit  needs review"""

GA = """\
flowchart TD
  p_build["build"]
  p_test["test"]
  p_gate{{"gate"}}
  p_rework(["rework"])
  p_ship["ship"]
  p_build --> p_test
  p_test --> p_gate
  p_gate --> p_ship
  p_gate -. "fails, at most 2" .-> p_rework
  p_rework -.-> p_build"""


def test_text_has_one_line_a_phase_and_repairs_under_their_owners() -> None:
    assert to_text(sd()) == SD


def test_text_says_when_gate_and_may_fail() -> None:
    assert "b  needs a; when issue_class == 'bug'" in to_text(wh())
    assert "gate    needs test; approved by a person" in to_text(ga())
    assert "docs   needs build; 2 attempts; may fail" in to_text(lt())


def test_mermaid() -> None:
    assert to_mermaid(ga()) == GA


def test_what_is_handed_over_stands_at_its_arrow_and_in_the_text() -> None:
    shape = graph(
        Phase("plan", outputs=(Output("plan", "x"), Output("notes", "y"), Output("other", "z"))),
        Phase("build", needs=("plan",), inputs=("notes", "plan")),
        Phase("test", needs=("build",), inputs=("plan",)),
    )
    assert to_mermaid(shape).splitlines()[4:] == [
        '  p_plan -- "plan, notes" --> p_build',
        "  p_build --> p_test",
    ]
    assert to_text(shape).splitlines() == [
        "plan   makes plan, notes, other",
        "build  needs plan; reads notes, plan",
        "test   needs build; reads plan",
    ]


def test_critical_path_is_the_longest_chain() -> None:
    assert critical_path(lt()) == ("build", "lint", "ship")
    assert critical_path(sd()) == ("plan", "build", "test", "review", "commit")
