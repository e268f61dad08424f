"""Diagnostic lines."""

import pytest

from adw import log


def test_nothing_is_logged_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    log.event("mended", path="agents/cc73faf1")

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("level", ["info", "debug"])
def test_lines_go_to_stderr(
    level: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADW_LOG", level)

    log.event("mended", path="agents/cc73faf1")

    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("event='mended' path='agents/cc73faf1'\n")
    assert err.startswith("timestamp='")
