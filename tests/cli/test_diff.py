"""``jetool diff`` and ``jetool rollbacks --against``: two nodes by their logs (R-SYNC-2 to 27)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.format.header import HEADER_WITH_VLSN_BYTES
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run
from tests.support.logs.golden_logs import GOLDEN, right_checksum

GROUP = "je-18.3.20/ha-rollback-begun"


def node(number: int, group: str = GROUP) -> Path:
    return named(f"{group}/node{number}").path / "env"


def diff(one: Path, other: Path) -> dict[str, Any]:
    result = run("diff", one, other, "--json")
    assert_valid("diff", result.out)
    found: dict[str, Any] = result.json()
    assert result.code == (exits.DONE if found["same"] else exits.FINDINGS)
    return found


def predicted(replica: Path, feeder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    result = run("rollbacks", replica, "--against", feeder, "--json", *words)
    assert_valid("rollbacks", result.out)
    return result.code, result.json()["prediction"]


@pytest.mark.parametrize("group", ["ha-group", "ha-rollback", "ha-rollback-ckpt", "ha-rollback-thrice"])
def test_nodes_of_a_whole_group_are_the_same(group: str) -> None:
    for number in (2, 3):
        found = diff(node(1, f"je-18.3.20/{group}"), node(number, f"je-18.3.20/{group}"))
        assert found["same"]
        assert found["relation"] == ("in-step" if group == "ha-group" else "identical")
        assert found["equal_entries"] == found["stream"]["last"] == found["compared_to"]


def test_a_node_that_is_behind() -> None:
    """Node 1 stopped inside its rollback; what it was rolling back is not its stream any more."""
    before = state_of(node(1)), state_of(node(2))
    found = diff(node(1), node(2))
    assert found["relation"] == "behind"
    assert found["stream"] == {"first": 1, "last": 129, "last_sync": 129, "last_txn_end": 129}
    assert (found["equal_entries"], found["first_difference"]) == (129, None)
    assert (found["matchpoint"]["vlsn"], found["matchpoint"]["type"]) == (129, "Abort")
    surplus = found["other_surplus"]
    assert (surplus["first"], surplus["last"], surplus["commits"], surplus["aborts"]) == (130, 180, 9, 6)
    assert (state_of(node(1)), state_of(node(2))) == before
    assert diff(node(2), node(1))["relation"] == "ahead"


def altered(env: Path, vlsn: int, at: int = -1, to: int | None = None) -> None:
    """Change one byte in the body of a replicated entry, or its VLSN, and its checksum."""
    storage = DiskStorage(env)
    for item in scan_log(storage, list_log_files(storage), marker=True).entries():
        if isinstance(item, LogEntry) and item.replicated and not item.invisible and item.vlsn == vlsn:
            path = env / f"{item.lsn >> 32:08x}.jdb"
            data, offset = bytearray(path.read_bytes()), item.lsn & 0xFFFFFFFF
            body = offset + HEADER_WITH_VLSN_BYTES
            end = body + item.item_size
            if to is not None:
                assert data[body - 8 : body] == vlsn.to_bytes(8, "little")
                data[body - 8 : body] = to.to_bytes(8, "little")
            else:
                data[(body if at >= 0 else end) + at] ^= 1
            data[offset : offset + 4] = right_checksum(bytes(data[offset:end]), item.version).to_bytes(4, "little")
            path.write_bytes(data)
            return
    raise AssertionError(f"no VLSN {vlsn}")


def test_a_vlsn_that_stands_twice(tmp_path: Path) -> None:
    other = copy_of(named(f"{GROUP}/node3"), tmp_path / "node3")
    altered(other, 100, to=99)
    for nodes, side in (((node(2), other), "second"), ((other, node(2)), "first")):
        found = diff(*nodes)
        assert (found["same"], found["equal_entries"], found["not_compared"]) == (False, 99, 0)
        assert (found["first_difference"]["vlsn"], found["first_difference"]["what"]) == (99, f"twice in the {side}")


def test_the_first_difference(tmp_path: Path) -> None:
    """A key that differs before the matchpoint: what no syncup would notice."""
    other = copy_of(named(f"{GROUP}/node3"), tmp_path / "node3")
    altered(other, 100)
    altered(other, 110)
    found = diff(node(2), other)
    difference = found["first_difference"]
    assert (found["relation"], found["same"], found["equal_entries"]) == ("differing", False, 99)
    assert (difference["vlsn"], difference["what"], difference["type"]) == (100, "key", difference["other_type"])
    assert difference["lsn"] is not None
    assert difference["other_lsn"] is not None


def test_an_entry_that_one_node_lacks(tmp_path: Path) -> None:
    other = copy_of(named("je-18.3.20/vlsn-range"), tmp_path / "other")
    (other / "00000031.jdb").unlink()
    found = diff(named("je-18.3.20/vlsn-range").path / "env", other)
    assert found["first_difference"]["vlsn"] == 2802
    assert found["first_difference"]["what"] == "missing in the second"
    assert found["first_difference"]["other_lsn"] is None


def test_what_neither_node_has_is_not_called_compared(tmp_path: Path) -> None:
    """As between copies of one master, which lack the same reserved files."""
    others = [copy_of(named("je-18.3.20/vlsn-range"), tmp_path / name) for name in ("one", "other")]
    whole = diff(*others)
    assert whole["not_compared"] == 0
    for other in others:
        (other / "00000031.jdb").unlink()
    result = run("diff", *others)
    found = diff(*others)
    assert found["not_compared"] == whole["equal_entries"] - found["equal_entries"] > 0
    assert f"{found['not_compared']} VLSNs that neither node has were not compared" in result.err
    assert "jetool diff --records" in result.err


def test_damage_is_no_agreement(tmp_path: Path) -> None:
    other = copy_of(named(f"{GROUP}/node3"), tmp_path / "node3")
    path = other / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[0x1F00] ^= 0xFF
    path.write_bytes(data)
    result = run("diff", node(2), other, "--json")
    assert result.code == exits.FINDINGS
    assert "damage met" in result.err


def test_wrong_words(tmp_path: Path) -> None:
    alone = GOLDEN / "je-17/empty"
    for words in (("--to", "0x0/0x10"), (node(2), "--from", "ckpt"), (node(2), "--to", "end")):
        result = run("diff", node(1), *words)
        assert result.code == exits.USAGE
        assert "two environments, or one and a place in its log" in result.err
    assert run("diff", node(1), tmp_path).code == exits.NOT_FOUND
    assert run("diff", node(1)).code == exits.USAGE
    assert run("rollbacks", node(1), "--against", alone).code == exits.USAGE
    assert run("rollbacks", node(1), "--limit", "3").code == exits.USAGE


def test_a_prediction_names_what_would_be_given_up() -> None:
    """Matchpoint, commits passed, durable ones, allowed or prohibited, before anything is changed."""
    before = state_of(node(2)), state_of(node(1))
    code, found = predicted(node(2), node(1), "--limit", "7", "--txns", "--keys")
    assert code == exits.FINDINGS
    assert (found["outcome"], found["allowed"], found["limit"]) == ("prohibited", False, 7)
    assert (found["matchpoint_vlsn"], found["matchpoint_lsn"]) == (129, "0x0/0x26a8")
    assert (found["commits_passed"], found["durable_commits"], found["aborts_passed"]) == (9, 8, 6)
    assert [commit["vlsn"] for commit in found["commits"]] == sorted(commit["vlsn"] for commit in found["commits"])
    assert len(found["commits"]) == 9
    assert len(found["records"]) == found["ln_count"] == 36
    assert {record["txn"] for record in found["records"]} == set(found["txns"])
    assert found["earliest_txn"] == -49
    code, found = predicted(node(2), node(1), "--limit", "8")
    assert (code, found["outcome"], found["allowed"]) == (exits.DONE, "hard-recovery", True)
    assert (state_of(node(2)), state_of(node(1))) == before


def test_a_prediction_for_a_node_that_has_nothing_to_give_up() -> None:
    for pair in ((1, 2), (2, 3)):
        code, found = predicted(node(pair[0]), node(pair[1]))
        assert (code, found["outcome"], found["entries"]) == (exits.DONE, "nothing", 0)


def test_a_prediction_of_a_soft_rollback() -> None:
    """Real fail-overs: what the old master had after the matchpoint before its rollback was work in flight."""
    code, found = predicted(node(1, "je-18.3.20/ha-group"), node(2, "je-18.3.20/ha-group"))
    assert (code, found["outcome"], found["entries"], found["commits_passed"]) == (0, "soft-rollback", 6, 0)


def test_a_prediction_as_text() -> None:
    result = run("rollbacks", node(2), "--against", node(1), "--limit", "3")
    assert result.code == exits.FINDINGS
    assert "rejoining\n" in result.text
    assert "8 durable commits are more than the limit 3" in result.text


def records(*words: str | Path, code: int = exits.FINDINGS) -> dict[str, Any]:
    """The document of a comparison of records."""
    result = run("diff", *words, "--json")
    assert_valid("diff", result.out)
    assert result.code == code
    found: dict[str, Any] = result.json()
    assert found["same"] == (code == exits.DONE)
    return found


def test_a_copy_that_went_on(tmp_path: Path) -> None:
    """Stand-alone environments: records by key and database, and the entry at which the logs part."""
    here = GOLDEN / "je-17/txn-crash"
    there = tmp_path / "env"
    shutil.copytree(here, there)
    found = records(here, there, code=exits.DONE)
    assert found["log"] == {"relation": "identical", "first_difference": None, "equal_bytes": 122690}
    assert [db["records"] for db in found["databases"]] == [294, 75, 90, 98, 47]
    assert run("put", there, "--db", "accounts", "kk", "vv", "--backup-dir", "none").code == 0
    before = state_of(here), state_of(there)
    found = records(here, there, "--key-format", "utf8", "--data-format", "utf8")
    assert (found["log"]["relation"], found["log"]["first_difference"]) == ("first-is-prefix", "0x0/0x1df42")
    assert found["differences"] == [
        {"db": "accounts", "what": "only-second", "key": "kk", "data": None, "other_data": "vv"}
    ]
    assert [db["db"] for db in found["databases"] if db["relation"] != "same"] == ["accounts"]
    assert (state_of(here), state_of(there)) == before
    text = run("diff", there, here).text
    assert "second-is-prefix" in text
    assert "only-first" in text


def test_environments_that_have_nothing_to_do_with_each_other() -> None:
    found = records(GOLDEN / "je-17/txn-crash", GOLDEN / "je-17/empty", "--limit", "2")
    assert found["log"] == {"relation": "unrelated", "first_difference": None, "equal_bytes": 0}
    assert {db["relation"] for db in found["databases"]} == {"only-first", "only-second"}
    assert len(found["differences"]) == 2


def test_records_of_nodes() -> None:
    """Nodes of a group with --records, and a node beside an environment that is none."""
    found = records(node(1), node(2), "--records")
    assert (found["from"], found["log"]["relation"]) == (None, "unrelated")
    assert {db["db"]: db["only_second"] for db in found["databases"]} == {"images": 8, "journal": 9}
    records(node(2), node(3), "--records", code=exits.DONE)
    assert records(node(1), GOLDEN / "je-17/empty")["log"]["relation"] == "unrelated"


def test_two_points_of_one_environment() -> None:
    """Before the last checkpoint, and before a commit: then exactly the records of its transaction differ."""
    env = GOLDEN / "je-17/txn-crash"
    before = state_of(env)
    found = records(env, "--from", "ckpt")
    assert (found["from"], found["to"]) == ("0x0/0xe23e", None)
    assert found["log"]["first_difference"] == found["from"]
    accounts = found["databases"][0]
    assert (accounts["records"], accounts["other_records"], accounts["changed"]) == (147, 294, 8)
    entries = run("dump-log", env, "--type", "Commit", "--tail", "1", "--json").json()["records"]
    commit = next(entry for entry in entries if entry["rec"] == "entry")
    found = records(env, "--from", commit["lsn"])
    entries = run("dump-log", env, "--type", "ln", "--txn", commit["txn"], "--json").json()["records"]
    written = {entry["key_hex"] for entry in entries if entry["rec"] == "entry"}
    assert {difference["key"] for difference in found["differences"]} == written
    assert records(env, "--from", commit["lsn"], "--to", commit["lsn"], code=exits.DONE)["to"] == commit["lsn"]
    assert records(env, "--from", "ckpt", "--to", "end")["to"] is None
    assert state_of(env) == before


def test_a_point_without_an_environment() -> None:
    result = run("diff", GOLDEN / "je-17/txn-crash", "--from", "0x0/0x30")
    assert result.code == exits.NOT_FOUND
    assert "no environment in the log before this place" in result.err
    assert run("diff", GOLDEN / "je-17/txn-crash", "--from", "0x0/0x0").code == exits.USAGE
