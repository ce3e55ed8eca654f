"""``txns``, ``history``, ``rollbacks``: held against what JE recovered and against JE's own rollback tracker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.environments.copies import state_of
from tests.support.environments.oracle import Environment, environments, named
from tests.support.harness import assert_valid, run

TXN_CRASH = "je-18.3.20/txn-crash"


@pytest.mark.parametrize("environment", environments())
def test_every_end_in_the_log_is_a_fate(environment: Environment) -> None:
    env = environment.path / "env"
    before = state_of(env)
    result = run("txns", env, "--format", "ndjson")
    assert result.code in (0, 1)
    *lines, summary = result.lines()
    entries = [line for line in run("dump-log", env, "--format", "ndjson", "--type", "txn").lines() if
               line["rec"] == "entry" and not line["invisible"]]  # fmt: skip
    for fate, name in (("committed", "Commit"), ("aborted", "Abort")):
        expected = {entry["txn"]: entry["lsn"] for entry in entries if entry["type"] == name}
        assert {line["txn"]: line["end_lsn"] for line in lines if line["fate"] == fate} == expected
        assert summary[fate] == len(expected)
    assert sum(summary[name] for name in ("committed", "aborted", "open", "prepared", "rolled_back")) == len(lines)
    assert state_of(env) == before


def test_open_transactions_are_those_that_recovery_undoes() -> None:
    lines = run("txns", named(TXN_CRASH).path / "env", "--fate", "open", "--format", "ndjson").lines()[:-1]
    assert [line["txn"] for line in lines] == [221, 222, 223]
    assert all(line["end_lsn"] is None and line["time"] is None and line["records"] for line in lines)


def test_prepared_transactions_have_an_xid() -> None:
    lines = run("txns", named("je-18.3.20/xa-prepared").path / "env", "--fate", "prepared", "--json").json()["records"]
    assert [line["xid"].split(":")[0] for line in lines] == ["4242", "4242"]


def test_commits_behind_the_end_are_counted() -> None:
    result = run("txns", named("je-18.3.20/corrupt-middle").path / "env", "--format", "ndjson", "--limit", "1")
    assert result.code == 1
    assert result.lines()[-1]["after_end"] == 4
    assert result.lines()[-1]["printed"] == 1


def test_filters_of_txns() -> None:
    env = named(TXN_CRASH).path / "env"
    every = run("txns", env, "--json").json()["records"]
    middle = every[100]["time"]
    since = run("txns", env, "--json", "--since", middle).json()["records"]
    until = run("txns", env, "--json", "--until", middle).json()["records"]
    assert {line["txn"] for line in since} == {line["txn"] for line in every if line["time"] and line["time"] >= middle}
    assert {line["txn"] for line in until} == {line["txn"] for line in every if line["time"] and line["time"] <= middle}
    assert [line["txn"] for line in run("txns", env, "--json", "--txn", "221").json()["records"]] == [221]


def test_order_and_number_of_txns() -> None:
    env = named(TXN_CRASH).path / "env"

    def ids(*words: str) -> list[int]:
        return [line["txn"] for line in run("txns", env, "--format", "ndjson", *words).lines()[:-1]]

    every, committed = ids(), ids("--fate", "committed")
    assert len(every) > 100
    assert ids("--reverse") == every[::-1]
    assert ids("--tail", "7") == every[-7:]
    assert ids("--tail", "7", "--reverse") == every[:-8:-1]
    assert ids("--reverse", "--limit", "7") == every[:-8:-1]
    assert ids("--tail", "3", "--fate", "committed") == committed[-3:]
    assert ids("--reverse", "--fate", "committed") == committed[::-1]
    assert ids("--tail", "100000") == every
    # A row that is rendered from columns holds what it holds in the other order.
    one = run("txns", env, "--json", "--tail", "1").json()["records"]
    assert one == run("txns", env, "--json", "--txn", str(every[-1])).json()["records"]
    assert run("txns", env, "--tail", "3", "--limit", "2").code == 2


def test_history_ends_with_what_get_prints() -> None:
    env = named(TXN_CRASH).path / "env"
    for record in run("scan", env, "--db", "accounts", "--json").json()["records"][:40]:
        lines = run("history", env, "0x" + record["key"], "--db", "accounts", "--format", "ndjson").lines()[:-1]
        committed = [line for line in lines if line["fate"] in ("committed", "none")]
        assert committed[-1]["data"] == record["data"]
        assert [line["lsn"] for line in lines] == [
            entry["lsn"]
            for entry in run("dump-log", env, "--key", "0x" + record["key"], "--db", "accounts",
                             "--format", "ndjson").lines()
            if entry["rec"] == "entry"
        ]  # fmt: skip


def test_history_of_duplicates_takes_the_first_part_of_the_key() -> None:
    for name in ("je-18.3.20/dups", "je-3.3.98/dups"):
        result = run("history", named(name).path / "env", "user00000003", "--db", "postings", "--format", "ndjson")
        assert result.code == 0
        assert result.lines()[-1]["versions"] > 100


def test_history_of_what_was_rolled_back() -> None:
    env = named("je-18.3.20/rollback-four-periods").path / "env"
    lines = run("history", env, "user00000012", "--db", "-258", "--format", "ndjson").lines()[:-1]
    assert [line["fate"] for line in lines if line["lsn"] == "0x0/0x162a"] == ["rolled-back"]


def test_history_says_when_there_is_none() -> None:
    env = named(TXN_CRASH).path / "env"
    assert run("history", env, "nothing", "--db", "accounts").code == 4
    assert run("history", env, "nothing", "--db", "nowhere").code == 4


def rollback_environments() -> list[Any]:
    found = environments(cases=())
    return [p for p in found if (p.values[0].path / "expected" / "rollback.json").exists()]


@pytest.mark.parametrize("environment", rollback_environments())
def test_rollbacks_are_those_of_jes_tracker(environment: Environment) -> None:
    env = environment.path / "env"
    before = state_of(env)
    expected = json.loads(environment.expected("rollback.json"))
    if "periods" not in expected:
        return  # The release has no tracker that could be asked.
    result = run("rollbacks", env, "--json", "--keys")
    assert_valid("rollbacks", result.out)
    found = result.json()
    if expected.get("refused"):
        assert result.code == 1
        assert found["refused"]
        assert found["periods"] == []
    else:
        # JE's tracker sees what recovery reads; here is the whole log.
        active = expected["firstActive"]
        seen = [p for p in found["periods"] if place(p["rollback_end_lsn"] or p["rollback_start_lsn"]) >= place(active)]
        # Where the RollbackStart lies in front of that, JE does not know the transactions.
        for period, reported in zip(seen, expected["periods"], strict=True):
            known = {} if reported["activeTxnIds"] is not None else {"activeTxnIds": period["txns"]}
            assert as_je(period) == reported | known
        assert result.code == 0
    assert run("rollbacks", env).code == result.code
    assert state_of(env) == before


def place(lsn: str | None) -> tuple[int, int]:
    if lsn is None:
        return 0, 0
    file, _, offset = lsn.partition("/")
    return int(file, 16), int(offset, 16)


def as_je(period: dict[str, Any]) -> dict[str, Any]:
    return {
        "matchpoint": period["matchpoint_lsn"],
        "rollbackStart": period["rollback_start_lsn"],
        "rollbackEnd": period["rollback_end_lsn"],
        "beforeCheckpointStart": period["before_checkpoint"],
        "activeTxnIds": period["txns"],
        "children": [as_je(child) for child in period["children"]],
    }


def test_timeline() -> None:
    env = named("je-18.3.20/rollback-four-periods").path / "env"
    lines = run("rollbacks", env, "--txns").text.splitlines()
    assert lines[0].split() == ["LSN", "TIME", "EVENT"]
    # A scale follows, after a blank line.
    events = [line[38:].strip() for line in lines[1 : lines.index("")]]
    assert events[:3] == ["+- matchpoint, VLSN 63", "| +- matchpoint, VLSN 66", "| | +- matchpoint, VLSN 66"]
    assert events[3] == "| | +- RollbackStart: 3 records of 2 transactions (-1003, -1002)"
    assert sum("the next recovery finishes it" in event for event in events) == 1
    assert sum("the period around it took it along" in event for event in events) == 1
    assert events[-1].startswith("+- RollbackStart: 2 records of 1 transaction (-1007); open")


def test_records_of_a_period() -> None:
    env = named("je-18.3.20/rollback-four-periods").path / "env"
    latest, first = run("rollbacks", env, "--json", "--keys").json()["periods"]
    assert [latest["ln_count"], first["ln_count"], first["children"][0]["ln_count"]] == [2, 5, 3]
    assert [record["invisible"] for record in latest["records"]] == [False, False]
    assert first["children"][0]["parent"] == first["rollback_start_lsn"]
    only = run("rollbacks", env, "--json", "--open-only").json()["periods"]
    assert [period["rollback_start_lsn"] for period in only] == [latest["rollback_start_lsn"]]


def test_no_rollbacks() -> None:
    env = named(TXN_CRASH).path / "env"
    assert run("rollbacks", env).text == "no rollback periods in the log\n"
    assert run("rollbacks", env, "--json").json() == {"periods": [], "refused": None}


def test_rollbacks_that_contradict_each_other_are_shown_as_they_stand() -> None:
    """No periods can be made of them; it is not that there are none."""
    done = run("rollbacks", named("je-18.3.20/rollback-overlap").path / "env")
    assert done.code == 1
    assert b"no rollback periods in the log" not in done.out
    lines = done.out.decode().splitlines()
    assert [line.split()[2] for line in lines[1:-1]] == [
        "RollbackStart,",
        "RollbackEnd",
        "RollbackStart,",
        "RollbackEnd",
    ]
    assert lines[-1].startswith("no periods: RollbackEnd intersects the rollback period")
