"""Which pair a run gets, and what the table survives."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import ExitCode, PortsExhausted
from adw.workspace import leases, tables

Take = Callable[..., tuple[int, int]]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ports that other programs have."""
    ports: set[int] = set()
    monkeypatch.setattr(leases, "port_free", lambda port: port not in ports)
    return ports


@pytest.fixture
def dead(tmp_path: Path) -> set[str]:
    """Names of runs whose locks are free."""
    return set()


@pytest.fixture
def take(tmp_path: Path, busy: set[int], dead: set[str]) -> Take:
    def take(
        name: str,
        wanted: tuple[int, int] | None = None,
        *,
        slots: int = 100,
        where: str = "agents",
        serving: bool = False,
    ) -> tuple[int, int]:
        run_dir = tmp_path / where / name
        run_dir.mkdir(parents=True, exist_ok=True)
        return leases.lease(
            str(tmp_path / "host"),
            name,
            str(run_dir),
            wanted,
            slots,
            lambda path: os.path.basename(path) not in dead,
            serving=serving,
        )

    return take


def table(tmp_path: Path) -> list[dict[str, object]]:
    found = json.loads((tmp_path / "host/ports.json").read_bytes())
    assert found["schema_version"] == 1
    return list(found["leases"])


def test_the_first_choice_is_the_same_for_the_same_id(take: Take, tmp_path: Path) -> None:
    pair = take("cc73faf1")
    (tmp_path / "host/ports.json").unlink()

    assert take("cc73faf1") == pair == (9161, 9261)


def test_a_second_call_of_a_run_keeps_its_pair_and_writes_nothing(
    take: Take, tmp_path: Path
) -> None:
    pair = take("cc73faf1")
    before = (tmp_path / "host/ports.json").stat()

    assert take("cc73faf1", pair) == pair

    assert (tmp_path / "host/ports.json").stat().st_ino == before.st_ino


def test_two_runs_of_one_id_in_two_repositories_have_two_pairs(take: Take, tmp_path: Path) -> None:
    assert take("my-run-1", where="a") != take("my-run-1", where="b")
    assert len(table(tmp_path)) == 2


def test_the_choice_goes_round(take: Take) -> None:
    assert take("run-0001", (9102, 9202), slots=3) == (9102, 9202)
    assert take("run-0002", (9102, 9202), slots=3) == (9100, 9200)


@pytest.mark.parametrize("wanted", [(9100, 9201), (9099, 9199), (9200, 9300), (80, 443)])
def test_a_recorded_pair_that_is_none_of_ours_is_not_wanted(
    take: Take, wanted: tuple[int, int]
) -> None:
    assert take("cc73faf1", wanted) == take("cc73faf1")


def test_exhaustion_names_the_holders(take: Take, busy: set[int]) -> None:
    take("run-0001", (9100, 9200), slots=3)
    take("run-0002", (9101, 9201), slots=3)
    busy.add(9202)

    with pytest.raises(PortsExhausted) as caught:
        take("run-0003", slots=3)

    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.render() == (
        "error: all 3 port pairs are leased\n"
        "  why: held by: run-0001 (9100), run-0002 (9101), other programs (1 pairs)\n"
        "  hint: end a run, or set `ports: none` in adw.yaml"
    )


def test_a_holder_in_another_repository_is_told_with_its_place(take: Take, tmp_path: Path) -> None:
    take("run-0001", (9100, 9200), slots=1, where="other/agents")

    with pytest.raises(PortsExhausted) as caught:
        take("run-0002", slots=1)

    assert caught.value.fields["holders"] == f"run-0001 in {tmp_path}/other/agents (9100)"


def test_many_holders_are_counted(take: Take) -> None:
    for number in range(12):
        take(f"run-{number:04}", slots=12)

    with pytest.raises(PortsExhausted, match=r"run-\d{4} \(\d+\), 2 more runs\n"):
        take("cc73faf1", slots=12)


def test_a_dead_runs_lease_goes_and_one_whose_directory_is_gone(
    take: Take, tmp_path: Path, dead: set[str]
) -> None:
    take("run-0001", (9100, 9200), slots=2)
    take("run-0002", (9101, 9201), slots=2)
    dead.add("run-0001")
    (tmp_path / "agents/run-0002").rmdir()

    take("run-0003", slots=2)
    take("run-0004", slots=2)

    assert [each["adw_id"] for each in table(tmp_path)] in (
        ["run-0003", "run-0004"],
        ["run-0004", "run-0003"],
    )


def test_its_own_pair_is_looked_at_unless_an_attempt_of_it_lives(
    take: Take, busy: set[int]
) -> None:
    pair = take("cc73faf1")
    busy.add(pair[0])

    assert take("cc73faf1", pair, serving=True) == pair
    assert take("cc73faf1", pair) != pair


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"schema_version": 2, "leases": []}',
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "leases": [{"slot": "x", "adw_id": "a", "run_dir": "/"}]}',
        b'{"schema_version": 1, "leases": [{"slot": 100, "adw_id": "a", "run_dir": "/"}]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_table_is_set_aside(take: Take, tmp_path: Path, data: bytes) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "ports.json").write_bytes(data)

    pair = take("cc73faf1")

    assert pair == (9161, 9261)
    assert len(table(tmp_path)) == 1
    kept = [name for name in os.listdir(host) if ".damaged-" in name]
    assert [(host / name).read_bytes() for name in kept] == [data]


def test_a_table_that_is_no_file_is_set_aside(take: Take, tmp_path: Path) -> None:
    os.makedirs(tmp_path / "host")
    os.mkfifo(tmp_path / "host/ports.json")

    assert take("cc73faf1") == (9161, 9261)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"ADW_HOST_DIR": "/h", "XDG_STATE_HOME": "/x", "HOME": "/home/u"}, "/h"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/home/u"}, "/x/adw"),
        ({"HOME": "/home/u"}, "/home/u/.local/state/adw"),
        ({"XDG_STATE_HOME": "not/absolute", "HOME": "/home/u"}, "/home/u/.local/state/adw"),
    ],
)
def test_the_host_directory(environ: dict[str, str], expected: str) -> None:
    assert tables.host_dir(environ) == expected
