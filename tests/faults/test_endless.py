"""A phase that is interrupted at each start is not started for ever."""

import signal

import pytest

from adw.core.endless import MOST
from tests.faults.conftest import MakeGround
from tests.support.ground import Ground, phase
from tests.support.wait import until


@pytest.fixture
def ground(make_ground: MakeGround) -> Ground:
    return make_ground({"one": phase("true"), "two": phase("sleep 100", needs=["one"])})


@pytest.mark.sweep
def test_it_ends_as_stuck_and_a_persons_resume_begins_anew(ground: Ground) -> None:
    for number in range(1, MOST + 1):
        words = ("resume", ground.adw_id) if ground.ids() else ("run", "w", "47")
        run = ground.start(*words)
        until(lambda n=number: len(ground.ran("two")) == n, what="the body")  # type: ignore[misc]
        run.send_signal(signal.SIGTERM)
        assert run.wait(20) == 143
    done = ground.adw("resume", ground.adw_id)

    assert done.exit_code == 1, done.told()
    assert "it was started 10 times in a row and never came to an end" in done.stdout
    assert len(ground.ran("two")) == MOST
    assert ground.entries()[-1] == ("two", MOST + 1, False, "stuck")
    assert len(ground.ran("one")) == 1

    run = ground.start("resume", ground.adw_id)
    until(lambda: len(ground.ran("two")) == MOST + 1, what="one more")
    run.send_signal(signal.SIGTERM)
    assert run.wait(20) == 143
