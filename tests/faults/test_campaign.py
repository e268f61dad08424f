"""P5 P6 P7 P9: whatever is killed together, one body lives, each attempt has one outcome.

See `tests/faults/campaign.py`; `SWEEPS=whole` makes ten times as many kills.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.faults.campaign import Campaign
from tests.faults.kill_points import SEED, WHOLE
from tests.support.counting import Counted

KILLS: Final = 3000 if WHOLE else 300


@pytest.mark.sweep
@pytest.mark.timeout(7200 if WHOLE else 900)
@pytest.mark.fault("F2", "F4", "F58", by="random double kills, a daemon holds a witness lock")
def test_double_kills_leave_one_body_one_outcome_and_no_survivor_untold(
    tmp_path: Path, mode: str, counted: Counted
) -> None:
    campaign = Campaign(mode, SEED)
    campaign.run(tmp_path, KILLS)
    print(campaign.told())
    # What is met or left is told in mode `tag` only, where nursery and supervisor were killed.
    told = campaign.counts["met, told"] + campaign.counts["left, told"]
    assert told == 0 or mode == "tag"
    assert min(campaign.counts[f"killed {who}"] for who in ("supervisor", "nursery", "body")) > 0
    done = campaign.doubles
    wrong = campaign.wrong
    counted(done, done, done - len(wrong), what=f"double kills, {mode}", wrong=wrong)
