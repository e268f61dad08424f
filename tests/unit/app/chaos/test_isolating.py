"""What a disturbed run is not given."""

import pytest

from adw.app.chaos.isolating import environment, looks_secret, without_secrets


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "DB_PASSWORD", "API_KEY", "KEY", "OPENAI_API_KEY", "AWS_SECRET", "apikey"],
)
def test_a_name_that_looks_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["PATH", "MONKEY", "KEYBOARD", "EDITOR", "NODE_ENV"])
def test_a_name_that_does_not(name: str) -> None:
    assert not looks_secret(name)


def test_secrets_are_placeholders_and_the_home_is_the_copys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", "real")
    monkeypatch.setenv("NODE_KEY", "real")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    monkeypatch.setenv("https_proxy", "http://user:real@proxy")

    found = environment("/base", ["NODE_*", "SSH_*"], ["MY_TOKEN"], network=False)

    assert "real" not in " ".join(found.values())
    assert found["MY_TOKEN"] == found["NODE_KEY"] == "adw-chaos-placeholder"
    assert found["HOME"] == "/base/home"
    assert {"SSH_AUTH_SOCK", "https_proxy"}.isdisjoint(found)


def test_a_proxy_comes_along_where_the_network_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy")

    assert environment("/base", [], [], network=True)["https_proxy"] == "http://proxy"


def test_secret_lines_of_an_env_file_are_replaced_and_others_stay() -> None:
    data = b"# settings\nPORT=80\nexport API_TOKEN=real\n"

    assert without_secrets("x/.env.local", data) == (
        b"# settings\nPORT=80\nexport API_TOKEN=adw-chaos-placeholder\n"
    )
    assert without_secrets("x/other", data) == data
