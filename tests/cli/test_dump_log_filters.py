"""The filters of ``dump-log`` that JE 25.3 added to DbPrintLog. JE's counts and LSNs are recorded here: it printed them
for the same logs (with a stub for the class that it loads from Oracle NoSQL).
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.db.environment import Environment
from engine.log.entry import Damage
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.cli.derby_databases import FIVE, extract
from tests.support.environments import applications
from tests.support.harness import Result, run

GOLDEN = Path(__file__).parent.parent / "golden" / "je-17"
TXN_CRASH = GOLDEN / "txn-crash"
CORRUPT = GOLDEN / "corrupt-middle"


def dump(env: Path, *options: str, code: int = 0) -> list[dict[str, Any]]:
    result = run("dump-log", env, "--format", "ndjson", *options)
    assert result.code == code, result.err
    return [line for line in result.lines() if line["rec"] != "summary"]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of two tables and two regions, keys of no table, and keys that the store uses itself."""
    env = applications.create_nosql(tmp_path_factory.mktemp("nosql") / "env")
    with Environment(env) as opened, opened.open_database("p1") as db:
        db.put(b"r\0bob", b"\x03\x02\x05\xaa")
        db.put(b"s\xc2\xaf\0eve", b"\x03\x01\x05\xaa")
        db.put(b"\0internal", b"\x03\x02\x05")
        db.put(b"nokey", b"\x03\x02\x05")
        db.put(b"r\0flag", b"\x01\x05")
        db.delete(b"r\0bob")
        db.put(b"", b"\x03\x02\x05")
    return env


def test_types_that_are_left_out() -> None:
    every = dump(TXN_CRASH)
    kept = dump(TXN_CRASH, "--not-type", "ln,in")
    assert Counter(one["type"] for one in kept) == Counter(
        one["type"] for one in every if "LN" not in one["type"] and "IN" not in one["type"]
    )
    commits = dump(TXN_CRASH, "--type", "txn", "--not-type", "Abort")
    assert {one["type"] for one in commits} == {"Commit"}
    assert run("dump-log", TXN_CRASH, "--not-type", "list").out == run("dump-log", TXN_CRASH, "--type", "list").out


# As DbPrintLog of JE 25.3 with -tb and -rg: the number of entries, by database, and the keys.
@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--table", "2"), 7),
        (("--table", "511"), 1),
        (("--table", "2", "--table", "511"), 8),
        (("--region", "2"), 2),
        (("--region", "1"), 1),
        (("--table", "2", "--region", "2"), 1),
        (("--table", "7"), 0),
        (("--table", "2", "--not-type", "ln"), 0),
    ],
)
def test_rows_of_tables_and_regions(shard: Path, options: tuple[str, ...], count: int) -> None:
    found = dump(shard, *options)
    assert len(found) == count
    assert dump(shard, *options, "--reverse") == found[::-1]
    assert all(one["type"].endswith("LN_TX") and one["db"] == 6 for one in found)


def test_keys_without_a_region_or_table_are_no_rows(shard: Path) -> None:
    assert [bytes.fromhex(one["key_hex"]) for one in dump(shard, "--region", "2")] == [b"r\0bob", b"nokey"]
    assert b"nokey" not in [bytes.fromhex(one["key_hex"]) for one in dump(shard, "--table", "2")]


def test_tables_are_those_of_a_shard() -> None:
    result = run("dump-log", TXN_CRASH, "--table", "2")
    assert (result.code, "no partition of Oracle NoSQL" in result.err) == (4, True)


def test_entries_despite_their_checksums() -> None:
    """DbPrintLog -dc of JE 25.3 prints 753 entries of this log, and without -dc it stops at the damage."""
    plain, all_of_it = dump(CORRUPT, code=1), dump(CORRUPT, "--ignore-checksums", "--data", code=1)
    assert len([one for one in all_of_it if one["rec"] == "entry"]) == 753
    (wrong,) = [one for one in all_of_it if one.get("checksum_ok") is False]
    at = next(n for n, one in enumerate(all_of_it) if one["rec"] == "bad")
    assert (all_of_it[at + 1], wrong["lsn"], wrong["key_hex"], wrong["data_size"]) == (
        wrong,
        "0x5/0x80e",
        "00000074",
        26,
    )
    assert len(plain) == len(all_of_it) - 1
    text = run("dump-log", CORRUPT, "--ignore-checksums")
    assert (text.code, text.out.count(b"checksum-mismatch")) == (1, 1)
    # A filter holds for these entries too, and damage stays damage.
    assert [one["rec"] for one in dump(CORRUPT, "--ignore-checksums", "--type", "Commit", code=1)].count("bad") == 1
    assert not [
        one
        for one in dump(CORRUPT, "--ignore-checksums", "--type", "Commit", code=1)
        if one.get("checksum_ok") is False
    ]


def test_a_sound_log_has_no_such_entries() -> None:
    assert dump(TXN_CRASH, "--ignore-checksums") == dump(TXN_CRASH)


def spoiled(tmp_path: Path, *changes: tuple[int, int]) -> Path:
    """A copy whose file 0 has other bytes at these offsets."""
    env = tmp_path / "env"
    shutil.copytree(TXN_CRASH, env, copy_function=shutil.copyfile)
    file = env / "00000000.jdb"
    data = bytearray(file.read_bytes())
    for at, mask in changes:
        data[at] ^= mask
    file.write_bytes(data)
    return env


def offsets(env: Path) -> list[tuple[int, int]]:
    storage = DiskStorage(env)
    entries = scan_log(storage, list_log_files(storage)).good_entries()
    return [(one.lsn, one.total_bytes) for one in entries if one.lsn < 1 << 32]


def test_neighbours_with_wrong_checksums(tmp_path: Path) -> None:
    """The last byte of three entries in a row: each is printed, and nothing else is lost."""
    places = offsets(TXN_CRASH)[20:23]
    env = spoiled(tmp_path, *((at + size - 1, 0x40) for at, size in places))
    found = dump(env, "--ignore-checksums", code=1)
    assert [one["offset"] for one in found if one.get("checksum_ok") is False] == [at for at, _ in places]
    assert len([one for one in found if one["rec"] == "entry"]) == len(dump(TXN_CRASH))


def test_a_wrong_size_ends_the_chain(tmp_path: Path) -> None:
    """The size of an entry leads into another one: what follows is no entry, and nothing is invented."""
    at, _ = offsets(TXN_CRASH)[20]
    env = spoiled(tmp_path, (at + 10, 0x20))
    storage = DiskStorage(env)
    scan = scan_log(storage, list_log_files(storage))
    (damage,) = [item for item in scan.entries() if isinstance(item, Damage)][:1]
    assert list(scan.despite_checksums(damage)) == []
    assert not [one for one in dump(env, "--ignore-checksums", code=1) if one.get("checksum_ok") is False]


def refused(*words: str | Path) -> Result:
    result = run("dump-log", *words)
    assert result.code == 2
    return result


def test_what_does_not_go_together(tmp_path: Path) -> None:
    assert "--ignore-checksums exclude each other" in refused(TXN_CRASH, "--stats", "--ignore-checksums").err
    derby = extract(FIVE, tmp_path)
    for options in (("--table", "2"), ("--region", "1"), ("--not-type", "ln"), ("--ignore-checksums",)):
        assert options[0] in refused(derby, *options).err
