"""``jetool vlsn range``, ``find``, ``buckets``, ``check``, ``rebuild``: JE's index, and indexes that were spoiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.vlsn_index.view import read_index
from engine.format.lsn import format_lsn, make_lsn, parse_lsn
from engine.format.tuples import long_key
from engine.inspect.vlsn_find import find_vlsn
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from jetool.frame.environments import open_to_read
from jetool.frame.node_stream import StreamNode
from jetool.frame.options import Run
from tests.support.damage import spoiled_index as spoiled
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.harness import Result, assert_valid, run
from tests.support.logs.golden_logs import GOLDEN

LITERAL = "four-periods-literal"


def indexed() -> list[Any]:
    """Environments with JE's index."""
    found: list[Any] = environments()
    return [p for p in found if (p.values[0].path / "expected" / "vlsn-index.json").exists()]


def show(verb: str, env: Path, *words: str) -> Any:
    result = run("vlsn", verb, env, *words, "--json")
    assert_valid(f"vlsn {verb}", result.out)
    found = result.json()
    return found["records"] if verb == "buckets" else found


@pytest.mark.parametrize("environment", indexed())
def test_range_and_buckets_are_je_s(environment: Fixture) -> None:
    """JE's index after recovery; that of JE's own literal example keeps a rolled-back end (T-1)."""
    env = environment.path / "env"
    expected = json.loads(environment.expected("vlsn-index.json"))
    found = show("range", env)
    for part in (found, found["index"]):
        assert part["first"] == expected["range"]["first"]
        assert part["last"] == expected["range"]["last"]
        assert part["last_sync"] == expected["range"]["lastSync"]
        assert part["last_txn_end"] == expected["range"]["lastTxnEnd"]
    assert (found["log"]["first"], found["log"]["last"]) == (found["first"], found["last"])
    assert bool(found["differences"]) == environment.name.endswith(LITERAL)
    buckets = show("buckets", env, "--offsets")
    assert len(buckets) == len(expected["buckets"])
    for ours, theirs in zip(buckets, expected["buckets"], strict=True):
        assert (ours["last_vlsn"], ours["last_lsn"]) == (theirs["lastVlsn"], theirs["lastLsn"])
        offsets = [[m["vlsn"], f"0x{parse_lsn(m['lsn']) & 0xFFFFFFFF:x}"] for m in ours["offsets"]]
        assert offsets[: len(theirs["offsets"])] == theirs["offsets"]
        assert ours["mappings"] == len(ours["offsets"])


@pytest.mark.parametrize("environment", indexed())
def test_every_vlsn_is_found_where_je_has_it(environment: Fixture) -> None:
    storage = DiskStorage(environment.path / "env")
    log = scan_log(storage, list_log_files(storage))
    with Environment(storage, EnvironmentConfig(read_only=True)) as opened:
        index = read_index(opened.engine.parts).merged
    assert index is not None
    for line in environment.expected("vlsn-lsn.csv").decode().split()[1:]:
        vlsn, lsn = line.split(",")
        found = find_vlsn(log, int(vlsn), index.lte_lsn(int(vlsn)), index.gte_lsn(int(vlsn))).entry
        assert found is not None
        assert format_lsn(found.lsn) == lsn


@pytest.mark.parametrize("environment", indexed())
def test_real_indexes_agree_with_their_logs(environment: Fixture) -> None:
    result = check(environment.path / "env")
    codes = {line["code"] for line in result.lines()[:-1]}
    if environment.name.endswith(LITERAL):
        assert codes == {"JE-REP-009", "JE-REP-010", "JE-REP-012"}
        return
    assert result.code == exits.DONE
    assert codes <= {"JE-REP-012"}
    assert bool(codes) == ("ha-rollback-begun/node1" in environment.name or environment.name.endswith("four-periods")
                           or environment.name.endswith(("hidden/node1", "open-ended")))  # fmt: skip


def check(env: Path) -> Result:
    result = run("vlsn", "check", env, "--format", "ndjson")
    assert_valid("vlsn check", result.out, "ndjson")
    return result


def codes(env: Path) -> set[str]:
    result = check(env)
    found = {line["code"] for line in result.lines()[:-1] if line["severity"] == "error"}
    assert result.code == (exits.FINDINGS if found else exits.DONE)
    return found


def test_find_says_how() -> None:
    env = named("je-18.3.20/vlsn-range").path / "env"
    direct = show("find", env, "2624")
    assert (direct["lsn"], direct["how"], direct["scanned_entries"]) == ("0x2e/0xe63", "bucket", 0)
    scanned = show("find", env, "2625")
    assert (scanned["how"], scanned["from_lsn"], scanned["bucket_first"]) == ("scan", "0x2e/0xe63", 2614)
    assert scanned["scanned_entries"] >= 1
    assert run("vlsn", "find", env, "2613").code == exits.NOT_FOUND
    assert run("vlsn", "find", env, "0").code == exits.USAGE
    assert run("vlsn", "find", env).code == exits.USAGE


def test_sources_of_a_range() -> None:
    env = named("je-18.3.20/ha-group/node1").path / "env"
    by_log, by_index = show("range", env, "--source", "log"), show("range", env, "--source", "index")
    assert by_log == {**by_index, "source": "log"}
    assert by_log["last_sync"] == 272


@pytest.mark.parametrize("verb", ["range", "buckets", "check", "rebuild"])
def test_a_stand_alone_environment(verb: str, tmp_path: Path) -> None:
    before = state_of(GOLDEN / "je-17/empty")
    result = run("vlsn", verb, GOLDEN / "je-17/empty")
    assert result.code == (exits.USAGE if verb == "rebuild" else exits.DONE)
    assert "not replicated" in result.err
    assert state_of(GOLDEN / "je-17/empty") == before
    assert run("vlsn", verb, tmp_path).code == exits.NOT_FOUND
    assert run("vlsn", "find", GOLDEN / "je-17/empty", "1").code == exits.NOT_FOUND


def test_a_log_without_a_stream_is_not_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    env = named("je-18.3.20/txn-crash").path / "env"
    seen: list[str] = []

    def opened(asked: Run, env: str) -> Environment:
        seen.append(env)
        return open_to_read(asked, env)

    monkeypatch.setattr("jetool.commands.vlsn.from_index.open_to_read", opened)
    quick = run("vlsn", "range", env, "--json")
    assert seen == []
    monkeypatch.setattr(StreamNode, "has_neither", False)
    recovered = run("vlsn", "range", env, "--json")
    assert seen == [str(env)]
    assert (quick.out, quick.err, quick.code) == (recovered.out, recovered.err, recovered.code)
    assert quick.json()["first"] is None


# Indexes that were spoiled.


def hole(env: Path) -> None:
    """Two VLSNs between what is stored and what the log has after the checkpoint."""
    spoiled.make_master(env, 43)
    spoiled.spoil(env, spoiled.cut_at(41), then=lambda opened: spoiled.write_to(opened, 60))


def wrong_entry(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, spoiled.point(21, make_lsn(0, 0x500)))


def wrong_vlsn(env: Path) -> None:
    spoiled.make_master(env, 60)
    other = parse_lsn(show("find", env, "24")["lsn"])
    spoiled.spoil(env, spoiled.point(21, other))


def beyond_the_log(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, lambda records: spoiled.set_range(records, last=75, last_sync=75, last_txn_end=75))


def short_of_the_log(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, spoiled.cut_at(45))


def emptied(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, lambda records: records.clear())


def malformed(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, lambda records: records.update({long_key(1): b"\x01\x00\xff"}))


def bad_landmark(env: Path) -> None:
    spoiled.make_master(env, 60)
    spoiled.spoil(env, lambda records: spoiled.set_range(records, last_sync=31, last_txn_end=31))


def begins_before_the_log(env: Path) -> None:
    """Somebody took files, and nothing says that they were reserved."""
    copy_of(named("je-18.3.20/vlsn-range"), env)
    spoiled.forget_file(env, 0x2E)


def maps_what_was_rolled_back(env: Path) -> None:
    """VLSN 151 of ha-rollback: the entry of the old master instead of that which replaced it."""
    copy_of(named("je-18.3.20/ha-rollback/node1"), env)
    storage = DiskStorage(env)
    hidden = [
        item.lsn for item in scan_log(storage, list_log_files(storage), marker=True).entries()
        if getattr(item, "invisible", False) and getattr(item, "vlsn", 0) == 151
    ]  # fmt: skip
    spoiled.spoil(env, spoiled.point(151, hidden[0]))


SPOILED = {
    hole: {"JE-REP-001"},
    wrong_entry: {"JE-REP-003"},
    wrong_vlsn: {"JE-REP-003"},
    maps_what_was_rolled_back: {"JE-REP-004"},
    beyond_the_log: {"JE-REP-005", "JE-REP-009"},
    short_of_the_log: {"JE-REP-006"},
    begins_before_the_log: {"JE-REP-003", "JE-REP-007"},
    malformed: {"JE-REP-002", "JE-REP-003"},
    bad_landmark: {"JE-REP-010"},
    emptied: {"JE-REP-013"},
}


@pytest.mark.parametrize("make", SPOILED, ids=lambda make: make.__name__)
def test_rebuild_mends_what_check_finds(make: Any, tmp_path: Path) -> None:
    env = tmp_path / "env"
    make(env)
    assert codes(env) - {"JE-REP-002"} == SPOILED[make] - {"JE-REP-002"} or make is malformed
    if make is malformed:
        assert "JE-REP-002" in codes(env)
    before = state_of(env)
    planned = run("vlsn", "rebuild", env, "-n", "--json")
    assert planned.code == exits.DONE, planned.err
    assert state_of(env) == before
    result = run("vlsn", "rebuild", env, "--json")
    assert_valid("vlsn rebuild", result.out)
    assert result.code == exits.DONE, result.err
    done, plan = result.json(), planned.json()
    assert (done["changed"], plan["changed"], plan["dry_run"]) == (True, True, True)
    assert (done["after"], done["buckets"]) == (plan["after"], plan["buckets"])
    assert done["reasons"] == plan["reasons"] != []
    assert codes(env) == set()
    by_log = show("range", env, "--source", "log")
    assert show("range", env, "--source", "index") == {**by_log, "source": "index"}
    again = run("vlsn", "rebuild", env, "--json")
    assert (again.code, again.json()["changed"]) == (exits.DONE, False)
    # The old bytes come back, but for the lock file.
    assert run("undo", env, "--backup-dir", done["backup"]).code == exits.DONE
    assert {n: v[1:] for n, v in before.items() if n.endswith(".jdb")} == {
        name: value[1:] for name, value in state_of(env).items() if name.endswith(".jdb")
    }


def test_records_survive_a_rebuild(tmp_path: Path) -> None:
    env = tmp_path / "env"
    hole(env)
    # JE and jetool refuse to open it for writing; reading is possible.
    assert run("recover", env, "--backup-dir", "none").code == exits.INCOMPLETE
    before = run("dump", env, "--db", "records").out
    assert run("vlsn", "rebuild", env, "--backup-dir", "none").code == exits.DONE
    assert run("dump", env, "--db", "records").out == before
    assert run("put", env, "0x01", "0x02", "--db", "records").code == exits.DONE
    assert codes(env) == set()


def test_a_gap_in_the_log_ends_the_old_stream(tmp_path: Path) -> None:
    """The range must be whole, so the index begins after the gap."""
    env = copy_of(named("je-18.3.20/vlsn-range"), tmp_path / "env")
    spoiled.forget_file(env, 0x31)
    assert codes(env) == {"JE-REP-003", "JE-REP-011"}
    result = run("vlsn", "rebuild", env, "--json")
    assert result.json()["missing"] == ["2802..2861"]
    assert result.json()["after"]["first"] == 2862
    # What is missing is before the range now: nobody asks this node for it.
    assert codes(env) == set()


def test_reserved_files_may_be_missing(tmp_path: Path) -> None:
    """As in a backup: whoever opens the environment lets the index begin after them (R-VLSN-76)."""
    env = copy_of(named("je-18.3.20/vlsn-range"), tmp_path / "env")
    (env / "00000031.jdb").unlink()
    assert codes(env) == set()
    with Environment(DiskStorage(env), EnvironmentConfig(read_only=True)) as opened:
        index = read_index(opened.engine.parts).merged
        assert index is not None
        assert index.range.first == 2862


def test_force_and_usage(tmp_path: Path) -> None:
    env = tmp_path / "env"
    spoiled.make_master(env, 30)
    result = run("vlsn", "rebuild", env, "--force", "--json")
    assert (result.code, result.json()["changed"], result.json()["reasons"]) == (exits.DONE, True, [])
    assert codes(env) == set()
    text = run("vlsn", "rebuild", env)
    assert "index and log agree" in text.err


def test_verify_rep(tmp_path: Path) -> None:
    """The same findings as ``vlsn check``, as one level of verify, and part of --full."""
    env = tmp_path / "env"
    short_of_the_log(env)
    for words in (("--rep",), ("--rep", "--tail"), ("--full",)):
        result = run("verify", env, *words, "--json")
        assert_valid("verify", result.out)
        found = result.json()
        assert (result.code, [line["code"] for line in found["findings"]]) == (exits.FINDINGS, ["JE-REP-006"])
        assert "rep" in found["summary"]["checked"]
        assert "replication index" not in found["summary"]["not_checked"]
    assert run("verify", env, "--json").json()["summary"]["not_checked"].count("replication index") == 1
    assert run("verify", env, "--rep", "--format", "sarif").code == exits.FINDINGS
    alone = run("verify", GOLDEN / "je-17/empty", "--rep")
    assert (alone.code, "not replicated" in alone.err) == (exits.DONE, True)


def test_verify_full_of_what_cannot_be_recovered() -> None:
    result = run("verify", named("je-18.3.20/rollback-overlap").path / "env", "--full", "--json")
    assert result.code == exits.FINDINGS
    assert "rep" not in result.json()["summary"]["checked"]
