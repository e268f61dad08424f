"""What a phase claims in `result.json` may be anything: it is recorded, and never ends adw."""

from typing import Any

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import phase
from tests.support.wait import until

HOSTILE: dict[str, Any] = {
    "a plan file with a newline": '{"state": {"plan_file": "a\\nb.md"}}',
    "a plan file that is not there": '{"state": {"plan_file": "specs/none.md"}}',
    "a number beyond floats": '{"retry_after_s": 1' + "0" * 400 + "}",
    "a doubled key that is no text": '{"\\ud800": 1, "\\ud800": 2}',
    "a doubled key that steers terminals": '{"\\u001b[2J": 1, "\\u001b[2J": 2}',
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.hostile("H32", "H34")
def test_a_hostile_result_is_a_failed_attempt(make_ground: MakeGround, name: str) -> None:
    """H32, H34: one line in the history, exit 1, and a resume that ends."""
    text = """printf '%s' "$HOSTILE" > "$ADW_RESULT" """
    ground = make_ground({"build": phase(text)}, config={"env_pass": ["HOSTILE"]})

    done = ground.adw("run", "w", "47", HOSTILE=HOSTILE[name])

    assert done.exit_code == 1, done.told()
    assert ground.entries()[0] == ("build", 1, False, "result_invalid")
    assert "\x1b" not in done.stdout


def test_an_instant_a_month_away_is_waited_for(make_ground: MakeGround) -> None:
    """The longest `retry_after_s` is more milliseconds than poll(2) takes."""
    text = """echo '{"retry_after_s": 2592000}' > "$ADW_RESULT"; exit 75"""
    ground = make_ground({"build": phase(text)})
    process = ground.start("run", "w", "47", "--json")
    ground.await_line("build-1", "exit")
    until(lambda: ground.entries() and ground.status(ground.adw_id)["status"] == "held")
    process.terminate()

    assert process.wait(10) == 143, process.communicate()
