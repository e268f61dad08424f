"""FS-21: whatever kind a failure is of, what is done about it is decided, told and shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from adw.core.graph import Output
from adw.core.interfaces import Ended, LaunchSpec
from adw.core.standing import FAILURE, FINAL, FREE, HELD
from adw.store import attempts, requests
from adw.store.history import read_history
from tests.support.fakes import FakeSupervision, ends, exits
from tests.unit.app.test_session import World, phase

EVER: Final = [("a", n) for n in range(1, 100)]
"""All attempts of the phase."""


def _ends(world: World, kind: str) -> None:
    """The supervisor, or the program that it ran, says so."""
    world.supervision.script = {each: ends(kind) for each in EVER}


def _fails(world: World, _kind: str) -> None:
    world.supervision.script = {each: exits(3) for each in EVER}


class _Dies(FakeSupervision):
    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        with Path(spec.attempt_dir, attempts.FILE).open("ab") as file:
            file.write(attempts.encode({"line": "supervisor", "pid": 1}) + b"\n")
        super().hand_over(spec, lock_fd)


def _dies(world: World, _kind: str) -> None:
    world.supervision = _Dies(dict.fromkeys(EVER))


def _is_interrupted(world: World, kind: str) -> None:
    world.supervision.script = {("a", 1): ends(kind)}


def _writes(code: int, text: str) -> Callable[[World, str], None]:
    def arrange(world: World, _kind: str) -> None:
        class Writes(FakeSupervision):
            def go(self, child_id: str) -> None:
                Path(world.run_dir, "children", child_id, "result.json").write_text(text)
                super().go(child_id)

        world.supervision = Writes({each: exits(code) for each in EVER})

    return arrange


def _tampers(world: World, _kind: str) -> None:
    class Tampers(FakeSupervision):
        def go(self, child_id: str) -> None:
            path = Path(world.run_dir, "adw_state.json")
            path.write_text(path.read_text().replace('"issue_number": 47', '"issue_number": 48'))
            super().go(child_id)

    world.supervision = Tampers()


def _is_cancelled(world: World, _kind: str) -> None:
    class Asks(FakeSupervision):
        def wait(self, timeout_s: float | None) -> Sequence[Ended]:
            if self._stopped:
                return super().wait(timeout_s)
            requests.ask(world.run_dir, "cancel", 0, {})
            return ()

    world.supervision = Asks(held_back=["a-1"])


def _breaks(world: World, _kind: str) -> None:
    world.workspace.broken = True


def _soils(world: World, _kind: str) -> None:
    world.workspace.dirty = True


def _as_it_is(_world: World, _kind: str) -> None:
    """The phase leads there by what it owes."""


@dataclass(frozen=True)
class Way:
    """How a run comes to a failure of a kind, and what is done about it then."""

    arrange: Callable[[World, str], None] = _ends
    actions: tuple[str, ...] = ("give_up",)
    keys: dict[str, Any] = field(default_factory=dict)
    """Of the phase."""


WAYS: Final = {
    "exit": Way(_fails),
    "timeout": Way(),
    "idle": Way(),
    "signal": Way(),
    "oom": Way(),
    "disk": Way(),
    "missing_output": Way(
        _as_it_is, ("narrowed_retry", "give_up"), {"outputs": (Output("plan", "plan.md"),)}
    ),
    "contract": Way(_soils, keys={"ensure": (("clean",),)}),
    "result_invalid": Way(_writes(0, "Done!")),
    "no_change": Way(_as_it_is, keys={"ensure": (("changed",),)}),
    "agent_error": Way(),
    "rejected": Way(),
    "lost": Way(_dies, ("rerun", "rerun", "give_up")),
    "interrupted": Way(_is_interrupted, ("rerun",)),
    "rate_limited": Way(_writes(75, '{"retry_after_s": 60}'), ("wait",)),
    "auth": Way(_as_it_is, keys={"secrets": ("TOKEN",)}),
    "spawn_failed": Way(),
    "workspace": Way(_breaks),
    "stuck": Way(_fails),
    "tampered": Way(_tampers),
    "blocked": Way(_writes(77, '{"blocker": {"question": "Which one?"}}'), ("hold",)),
    "budget": Way(actions=("hold",)),
    "effect_unknown": Way(actions=("hold",)),
    "cancelled": Way(_is_cancelled, ("hold",)),
}


def test_every_kind_of_failure_has_a_way_FS_21() -> None:
    assert set(WAYS) == FAILURE | FREE | FINAL | HELD


@pytest.mark.parametrize("kind", WAYS)
def test_what_is_done_about_a_failure_is_told_and_shown_FS_10_FS_21(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    way = WAYS[kind]
    if kind == "stuck":
        monkeypatch.setattr("adw.app.session.MAX_ENTRIES", 1)
    world = World(tmp_path, phase("a", **way.keys))
    way.arrange(world, kind)

    world.drive(wait=False)

    told = [event for event in read_history(world.run_dir) if event["event"] == "recovery_decided"]
    assert [(event["reason"], event["action"]) for event in told] == [
        (kind, action) for action in way.actions
    ]
    assert [event["child_id"] for event in told] == [
        f"a-{n}" for n in range(1, len(way.actions) + 1)
    ]
    response = Path(world.run_dir, "RESPONSE.md").read_text()
    recovery = response.partition("\n## Recovery\n")[2].partition("\n## ")[0]
    assert f"`a-{len(told)}` failed, {kind}: " in recovery
