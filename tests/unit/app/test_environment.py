"""What a phase's environment holds, and what never gets there."""

import json

import pytest

from adw.app.environment import Identity, body_environment, inherited, with_settings
from adw.core.graph import Phase
from adw.model.state import ADWStateData

OUTER = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "LC_ALL": "C",
    "XDG_CACHE_HOME": "/c",
    "HTTPS_PROXY": "http://proxy",
    "NODE_OPTIONS": "--x",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "ADW_ID": "outer000",
    "ADW_AGENTS_DIR": "/elsewhere",
    "GIT_DIR": "/elsewhere/.git",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
}
STATE = ADWStateData(
    adw_id="cc73faf1",
    issue_number=47,
    issue_class="bug",
    branch_name="bug-47-cc73faf1-x",
    backend_port=9107,
    frontend_port=9207,
)


@pytest.mark.hostile("H44")
def test_only_listed_names_are_inherited_and_dangerous_ones_never() -> None:
    plain = inherited(OUTER, [])
    more = inherited(OUTER, ["NODE_*", "ADW_*", "GIT_*", "CLAUDE*"])

    assert sorted(plain) == ["HOME", "HTTPS_PROXY", "LC_ALL", "PATH", "XDG_CACHE_HOME"]
    assert sorted(set(more) - set(plain)) == ["NODE_OPTIONS"]


def test_ST_16_case_D5_identity_and_ports_come_by_name_and_win_over_the_phases_own() -> None:
    phase = Phase("test", argv=("true",), env=(("CI", "1"), ("PATH", "/own"), ("ADW_ID", "forged")))
    who = Identity("/r/agents/cc73faf1", "/r/trees/cc73faf1", STATE, "test-2", 2, 3)
    env = body_environment(inherited(OUTER, []), phase, who, "{}")

    assert (env["CI"], env["PATH"], env["ADW_ID"]) == ("1", "/own", "cc73faf1")
    assert (env["ADW_PHASE"], env["ADW_ATTEMPT"], env["ADW_CHILD"]) == ("test", "2", "test-2")
    assert env["ADW_ROUND"] == "3"
    assert (env["ADW_BACKEND_PORT"], env["ADW_FRONTEND_PORT"]) == ("9107", "9207")
    assert env["ADW_RESULT"] == "/r/agents/cc73faf1/children/test-2/result.json"
    assert env["ADW_PLAN_FILE"] == ""
    assert "AWS_SECRET_ACCESS_KEY" not in env


WHO = Identity("/r/agents/cc73faf1", "/r/trees/cc73faf1", STATE, "p-1", 1, 1)


def test_a_built_in_program_gets_its_options_and_no_other_phase_does() -> None:
    phase = Phase("p", use="push", options=(("user", "é"),), env=(("ADW_OPTIONS", "forged"),))

    told = body_environment({}, with_settings(phase, {"remote": "up"}), WHO, "{}")["ADW_OPTIONS"]

    assert json.loads(told) == {"remote": "up", "user": "é"}
    own = Phase("p", use="push", options=(("remote", "mine"),))
    assert with_settings(own, {"remote": "up"}).options == (("remote", "mine"),)
    assert with_settings(Phase("p", use="push"), {}).options == (("remote", "origin"),)
    assert "ADW_OPTIONS" not in body_environment({}, Phase("p", argv=("x",)), WHO, "{}")


def test_the_ssh_agent_is_for_programs_that_speak_to_a_remote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")

    for use, wanted in (("push", "/agent"), ("tag", "/agent"), ("commit", None), ("notify", None)):
        phase = with_settings(Phase("p", use=use), {})
        assert body_environment({}, phase, WHO, "{}").get("SSH_AUTH_SOCK") == wanted
