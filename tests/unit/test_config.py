"""adw.yaml: defaults, each key, each refusal with its words and its place (marked by »)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from adw.config import load_config, parse_config
from adw.errors import AdwError, NotYetKey, UsageError, WorkflowError
from adw.model.config import Config, PortsSpec
from tests.support.marked import marked

DEFAULTS: dict[str, Any] = {
    "issues": "local",
    "base_branch": None,
    "agents_dir": None,
    "copy": [],
    "setup": None,
    "env": {},
    "env_pass": [],
    "ports": {"slots": 100},
    "max_concurrent": None,
    "disk_reserve": None,
    "remote": "origin",
    "notify": None,
    "model_sets": {},
}
FULL = """\
issues: local
base_branch: release/2.x
agents_dir: ../runs
env: {LEVEL: "3", EMPTY: ""}
env_pass: [CI, AWS_*, "X[0-9]?"]
copy: [.env, config/local/, "a b/é"]
setup: [make, deps]
ports: {slots: 15}
disk_reserve: 2G
remote: up/stream
notify: {webhook: $HOOK, command: [tools/tell.sh, "x"], desktop: true, on: [failed, cancelled]}
model_sets:
  base: {planner: small, builder: middle}
  heavy: {planner: large}
"""


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "copy: []\nsetup:\n"])
def test_all_keys_may_be_left_out(text: str) -> None:
    assert parse_config(text.encode(), "adw.yaml").to_json() == DEFAULTS


def test_a_repository_without_the_file_has_the_defaults(tmp_path: Path) -> None:
    assert load_config(str(tmp_path)).to_json() == DEFAULTS


def test_every_key_is_kept_and_comes_back_from_a_pin(tmp_path: Path) -> None:
    (tmp_path / "adw.yaml").write_text(FULL, encoding="utf-8")

    config = load_config(str(tmp_path))

    assert config.base_branch == "release/2.x"
    assert config.agents_dir == "../runs"
    assert config.env == {"LEVEL": "3", "EMPTY": ""}
    assert config.env_pass == ["CI", "AWS_*", "X[0-9]?"]
    assert config.copied == [".env", "config/local/", "a b/é"]
    assert config.setup == ["make", "deps"]
    assert config.ports == PortsSpec(slots=15)
    assert config.model_sets == {
        "base": {"planner": "small", "builder": "middle"},
        "heavy": {"planner": "large"},
    }
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_ports_may_be_none() -> None:
    config = parse_config(b"ports: none\n", "adw.yaml")

    assert config.to_json()["ports"] == "none"
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("»base_brnch: x", ["unknown key `base_brnch`", "hint: did you mean `base_branch`?"]),
        ("a: 1\n»a: 2", ["the key `a` occurs twice"]),
        ("issues: »jira", ["`jira` is found, `local`, `github` or `gitlab` is expected"]),
        ("base_branch: »-x", ["`-x` is not a branch name"]),
        ("base_branch: »a b", ["`a b` is not a branch name"]),
        ("agents_dir: »''", ["empty text is found"]),
        (
            "env: {PORT: »8080}",
            ["`8080` is a number, a string is expected", 'hint: write "8080" in quotes'],
        ),
        (
            "env: {»A-B: x}",
            ["`A-B` is not a variable name", "hint: use letters, digits and `_`, no digit first"],
        ),
        (
            "env: {»ADW_ID: x}",
            ["`ADW_ID` is a variable that adw itself sets", "hint: take another name"],
        ),
        ("env_pass: »CI", ["`CI` is a string, a list is expected", "hint: write [CI]"]),
        ("env_pass: [»A=B]", ["`A=B` is not a glob of variable names"]),
        (
            "env_pass: [CI, »GIT_*]",
            [
                "`GIT_*` is found, but `ADW_*` and `GIT_*` are never inherited",
                "hint: set what phases need under `env`",
            ],
        ),
        (
            "copy: [.env, »../.env]",
            [
                "`../.env` leads out of the repository",
                "hint: name a path below the top of the main checkout",
            ],
        ),
        (
            "copy: [»a/../../b]",
            [
                "`a/../../b` leads out of the repository",
                "hint: name a path below the top of the main checkout",
            ],
        ),
        (
            "copy: [»/etc/passwd]",
            [
                "`/etc/passwd` leads out of the repository",
                "hint: name a path below the top of the main checkout",
            ],
        ),
        (
            "copy: [»a/.GIT/config]",
            [
                "`a/.GIT/config` leads into `.git`",
                "hint: name a path below the top of the main checkout",
            ],
        ),
        (
            "copy: [»./]",
            [
                "`./` is the whole repository",
                "hint: name a path below the top of the main checkout",
            ],
        ),
        ("copy: ».env", ["`.env` is a string, a list is expected", "hint: write [.env]"]),
        ("setup: »5", ["`5` is a number, a string or a list is expected"]),
        ("»copi: [.env]", ["unknown key `copi`", "hint: did you mean `copy`?"]),
        (
            "»notify: {on: [failed]}",
            [
                "`notify` names nobody to tell",
                "hint: add `webhook`, `command` or `desktop: true`, or take `notify` out",
            ],
        ),
        (
            "notify: {webhook: »ftp://x}",
            ["`ftp://x` is not an http or https URL without a password, or `$NAME`"],
        ),
        (
            "notify: {desktop: true, on: [»done]}",
            ["`done` is found, `failed`, `held`, `succeeded` or `cancelled` is expected"],
        ),
        ("remote: »-f", ["`-f` is not the name of a remote", "hint: see `git remote`"]),
        ("ports: »nope", ["`nope` is found, `none` is expected", "hint: did you mean `none`?"]),
        ("ports: »5", ["`5` is a number, a mapping is expected"]),
        ("ports: {slots: »0}", ["`0` is found, at least 1 is expected"]),
        ("ports: {slots: »101}", ["`101` is found, at most 100 is expected"]),
        ("ports: {»slot: 1}", ["unknown key `slot`", "hint: did you mean `slots`?"]),
        ("model_sets: {»big: {}}", ["`big` is found, `base` or `heavy` is expected"]),
        ("»[]", ["a list is found, a mapping is expected"]),
    ],
)
def test_a_fault_is_told_with_its_place_and_a_way_out(text: str, expected: list[str]) -> None:
    plain, [(line, column)] = marked(text)

    with pytest.raises(WorkflowError) as caught:
        parse_config(plain.encode(), "adw.yaml")

    head, at, *rest = caught.value.render().splitlines()
    assert [head.removeprefix("error: "), *(r.strip() for r in rest)] == expected
    assert at == f"  at: adw.yaml:{line}:{column}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("agents: {a: b}", "agents"),
        ("budgets: {run: 5}", "budgets"),
        ("ledger: x.json", "ledger"),
        ("issues: github", "issues: github"),
        ("issues: gitlab", "issues: gitlab"),
    ],
)
def test_a_key_of_a_later_version_is_refused_where_it_is_set(text: str, name: str) -> None:
    with pytest.raises(NotYetKey) as caught:
        parse_config(f"env: {{}}\n{text}\n".encode(), "adw.yaml")

    assert caught.value.render() == (
        f"error: `{name}` is not supported yet by this version of adw\n  at: adw.yaml:2:1"
    )


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "adw.yaml")

    with pytest.raises(UsageError) as caught:
        load_config(str(tmp_path))

    assert caught.value.render() == (
        f"error: cannot read `{tmp_path}/adw.yaml`: not a regular file"
    )


def test_every_refusal_asks_the_user_to_change_something() -> None:
    with pytest.raises(AdwError) as caught:
        parse_config(b"x", "adw.yaml")

    assert caught.value.exit_code == 2
