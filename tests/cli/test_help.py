"""`adw` without a word is a question, not a mistake."""

from pathlib import Path

from tests.support.adw import Adw


def test_adw_alone_prints_its_help(tmp_path: Path) -> None:
    adw = Adw(tmp_path)

    alone = adw.run().stderr("").ok()
    asked = adw.run("--help").ok()

    assert alone.stdout == asked.stdout
    assert "demo        Show the whole story" in alone.stdout


def test_a_group_alone_lacks_its_command(tmp_path: Path) -> None:
    told = "error: a command is missing\n  hint: adw state --help\n"

    Adw(tmp_path).run("state").stdout("").stderr(told).fails(2)
