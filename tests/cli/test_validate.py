"""`adw validate`."""

import pytest

from tests.cli.handmade import call
from tests.support.repo import Repo

FAULTY = """\
schema_version: 1
name: faulty
phases:
  a:
    run: [echo]
    need: [b]
  b:
    run: [echo]
    needs: [c]
    retry: {attempts: 0}
"""
ODD = """\
schema_version: 1
name: other
phases:
  a: {run: [echo]}
"""


def test_valid_files_are_listed(repo: Repo) -> None:
    said = call(repo, "validate")

    assert (said.code, said.err) == (0, "")
    assert said.out == "workflows/w.yaml: valid (3 phases)\nadw.yaml: valid\n"


def test_every_fault_is_printed_with_its_place(repo: Repo) -> None:
    repo.write({"workflows/faulty.yaml": FAULTY})

    said = call(repo, "validate", "workflows/w.yaml", "workflows/faulty.yaml")

    assert said.code == 2
    assert said.out == "workflows/w.yaml: valid (3 phases)\n"
    places = [line for line in said.err.split("\n") if line.startswith("  at: ")]
    assert places == ["  at: workflows/faulty.yaml:6:5", "  at: workflows/faulty.yaml:10:23"]
    assert said.err.startswith("error: ")


def test_a_warning_does_not_fail(repo: Repo) -> None:
    repo.write({"workflows/odd.yaml": ODD})

    said = call(repo, "validate", "workflows/odd.yaml")

    assert (said.code, said.out) == (0, "workflows/odd.yaml: valid (1 phases)\n")
    assert said.err == (
        "warning: the file is called `odd`, its workflow `other`\n"
        "  at: workflows/odd.yaml:2:7\n"
        "  hint: adw run odd\n"
    )


def test_a_file_that_cannot_be_read_hides_no_other(repo: Repo) -> None:
    said = call(repo, "validate", "nowhere.yaml", "workflows/w.yaml")

    assert said.code == 2
    assert said.out == "workflows/w.yaml: valid (3 phases)\n"
    assert said.err == "error: cannot read `nowhere.yaml`: no such file\n"


def test_adw_yaml_is_checked_too(repo: Repo) -> None:
    repo.write({"adw.yaml": "port: none\n"})

    said = call(repo, "validate")

    assert said.code == 2
    assert "  at: adw.yaml:1:1\n" in said.err
    assert said.out == "workflows/w.yaml: valid (3 phases)\n"


def test_as_json_it_has_the_documented_shape(repo: Repo) -> None:
    repo.write({"workflows/odd.yaml": ODD, "bad.yaml": "phases: 1\n"})

    said = call(repo, "validate", "--json", "workflows/odd.yaml", "bad.yaml")

    assert (said.code, said.err) == (2, "")
    view = said.json()
    assert (view["schema_version"], len(view["files"])) == (1, 2)
    good, bad = view["files"]
    assert good == {
        "file": "workflows/odd.yaml",
        "valid": True,
        "phases": 1,
        "faults": [],
        "warnings": [
            {
                "line": 2,
                "column": 7,
                "message": "the file is called `odd`, its workflow `other`",
                "hint": "adw run odd",
            }
        ],
    }
    assert (bad["valid"], bad["phases"]) == (False, None)
    assert set(bad["faults"][0]) == {"line", "column", "code", "message", "why", "hint"}
    assert bad["faults"][0]["line"] == 1


@pytest.mark.hostile("H46")
def test_case_H46_a_file_cannot_steer_the_terminal(repo: Repo) -> None:
    repo.write({"evil.yaml": 'name: w\nphases: {"\\e[2J": {run: x}}\n'})

    said = call(repo, "validate", "evil.yaml")

    assert said.code == 2
    assert "\x1b" not in said.err


def test_where_there_is_nothing_it_says_so(repo: Repo) -> None:
    (repo.path / "workflows" / "w.yaml").unlink()
    (repo.path / "adw.yaml").unlink()

    said = call(repo, "validate")

    assert (said.code, said.out) == (0, "")
    assert said.err == "there is nothing to check: no file in `workflows/`, no adw.yaml\n"
