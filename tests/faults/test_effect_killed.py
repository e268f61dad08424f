"""Killed at every system call of intent, look-up, act and receipt, against a remote that misbehaves.

In this process, so that there may be thousands of points; with real processes under strace in
test_effect_syscalls.py. Whatever died wherever: in the end there is exactly one effect a round.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from adw.errors import EffectUnknown, LookUpFailed
from adw.model.effect import EffectRecord
from adw.store import effects
from adw.store.effects import Effect, NotDone
from tests.faults.mortal import Mortal, living
from tests.support.counting import tally
from tests.support.fake_remote import Remote

FAULTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "all well": ((), ()),
    "took hold, answer lost": (("lost",), ()),
    "502 after it took hold": (("bad_gateway",), ()),
    "cut before it took hold": (("cut",), ()),
    "cut, then the answer is lost": (("cut", "lost"), ()),
    "429 twice": (("busy", "busy"), ()),
    "the look-up is cut": (("lost",), ("ok", "cut", "cut")),
    "the remote is away for long": (("lost",), ("ok", *["down"] * 4)),
    "away from the start": ((), ("down",) * 4),
}
"""Name to what becomes of the first POSTs and of the first looks."""

MOST: Final = 12  # tries until a run is over


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "PAUSE_S", 0.0)


@dataclass
class Outside:
    """A remote in this process, the run's directory, and whoever tries."""

    run_dir: Path
    remote: Remote
    probes: bool = True
    honest: bool = False
    """The act knows a clear refusal."""
    unknown: int = field(default=0, init=False)
    """How often nobody could tell."""
    tries: int = field(default=0, init=False)
    calls: list[list[str]] = field(default_factory=list, init=False)
    """System calls of each try."""

    def effect(self, number: int) -> Effect:
        self.tries += 1
        child = f"review-{self.tries}"
        return Effect(str(self.run_dir), "review", number, child, "comment")

    def once(self, number: int, mortal: Mortal) -> bool:
        """One try of a round's effect; whether the phase heard that it is done."""
        which = self.effect(number)
        mark = effects.full_key(which)

        def act() -> str:
            mode = mortal.point("post", self.remote.post, mark)
            if mode == "busy" and self.honest:
                raise NotDone(mode)
            if mode != "ok":
                raise ConnectionError(mode)
            return mark

        def probe() -> str | None:
            mode, comments = mortal.point("look", self.remote.look)
            if mode != "ok":
                raise ConnectionError(mode)
            return mark if mark in comments else None

        heard = False
        with living(mortal):
            try:
                found = effects.perform(which, act, probe if self.probes else None)
                heard = found.record["output"] == (None if found.record["settled_by"] else mark)
            except EffectUnknown:
                self.unknown += 1
            except (ConnectionError, NotDone, LookUpFailed):
                pass
        self.calls.append(mortal.names)
        return heard

    def settle(self, number: int) -> None:
        """A person looks, and says the truth."""
        which = self.effect(number)
        record = effects.read_record(which.path)
        if record is not None and record["state"] == "unknown":
            took = effects.full_key(which) in self.remote.comments
            effects.write_settled(which.path, record, "done" if took else "not_done")

    def finish(self, number: int, lives: Sequence[Mortal] = ()) -> None:
        """Try until it is done; the first tries die as `lives` say."""
        for mortal in [*lives, *(Mortal() for _ in range(MOST))]:
            if self.once(number, mortal):
                return
            self.check(number)
            if not self.probes:
                self.settle(number)
        message = f"not done after {self.tries} tries"
        raise AssertionError(message)

    def check(self, number: int) -> None:
        """What holds at every moment: never two; a record is whole; what is `done` took place."""
        mark = effects.full_key(self.effect(number))
        assert self.remote.comments.count(mark) <= 1
        path = Path(self.effect(number).path)
        if path.exists():
            EffectRecord.model_validate_json(path.read_bytes())
            if json.loads(path.read_bytes())["state"] == "done":
                assert self.remote.comments.count(mark) == 1


@dataclass
class Sweep:
    """Kills at every point of every fault."""

    base: Path
    points: int = 0
    fired: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self, name: str, *, twice: bool = False, **how: bool) -> None:
        """Every point of the first try, and with `twice` every point of the next one as well."""
        whole = self._outside(name, how)
        whole.finish(1)
        for at, call in enumerate(whole.calls[0]):
            self._kill(name, how, [Mortal(at)])
            if call == "write":
                self._kill(name, how, [Mortal(at, torn=True)])
            if twice:
                later = self._outside(name, how)
                later.finish(1, [Mortal(at)])
                for second in range(len(later.calls[1])):
                    self._kill(name, how, [Mortal(at), Mortal(second)])

    def _outside(self, name: str, how: Mapping[str, bool]) -> Outside:
        folder = self.base / "cc73faf1"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return Outside(folder, Remote(*FAULTS[name]), **how)

    def _kill(self, name: str, how: Mapping[str, bool], lives: Sequence[Mortal]) -> None:
        outside = self._outside(name, how)
        self.points += 1
        try:
            outside.finish(1, lives)
            self.fired += lives[-1].dead
            outside.finish(2)
            marks = [f"cc73faf1/review/{n}/comment" for n in (1, 2)]
            assert sorted(outside.remote.comments) == marks
            assert list((outside.run_dir / "effects").glob(".*.tmp")) == []
        except AssertionError as error:
            self.wrong.append(f"{name}, {how}, at {[each.at for each in lives]}: {error}")
        self.unknown += outside.unknown

    def tell(self, what: str) -> None:
        """Print the counts; raise for what was wrong."""
        what = f"effects killed, {what}, {self.unknown} times nobody could tell"
        tally(self.points, self.fired, what=what, wrong=self.wrong[:5])
        assert self.fired == self.points > 0


@pytest.mark.fault("F49", "F50", by="in process: killed at each call")
@pytest.mark.parametrize("probes", [True, False], ids=["looked up", "settled"])
def test_case_G3_one_effect_a_round_wherever_it_is_killed(tmp_path: Path, *, probes: bool) -> None:
    """F48-F51; without a look-up nobody can tell, and a person's word leads to the same."""
    sweep = Sweep(tmp_path)
    for name in FAULTS:
        sweep.run(name, probes=probes, honest=name == "429 twice")
    sweep.tell("looked up" if probes else "settled")
    assert probes or sweep.unknown > sweep.points / 3


@pytest.mark.fault("F49", "F50", by="in process: killed at two calls")
@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("probes", [True, False], ids=["looked up", "settled"])
def test_killed_twice(tmp_path: Path, *, probes: bool) -> None:
    """In the first try and in the one after it, at every pair of points."""
    sweep = Sweep(tmp_path)
    for name in ("all well", "took hold, answer lost", "the look-up is cut"):
        sweep.run(name, probes=probes, twice=True)
    sweep.tell("twice, " + ("looked up" if probes else "settled"))
