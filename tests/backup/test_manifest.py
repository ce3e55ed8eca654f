"""The manifest of a backup: what is written comes back, and what nobody wrote is refused in one way."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from engine.backup.manifest import BackupFile, BackupGroup, Manifest, decode_manifest, encode_manifest, number_of
from engine.backup.repository import Repository
from engine.errors import DamageError, JetoolError, NotFoundError, UnsupportedError, UsageError
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.storage.memory import MemoryStorage

FILES = (
    BackupFile(
        path="00000000.jdb", size_bytes=100, sha256="a" * 64, version=17, first_lsn=0, last_lsn=90,
        first_vlsn=1, last_vlsn=7, modified_ms=5,
    ),
    BackupFile(
        path="data001/0000001f.jdb", size_bytes=38, sha256="b" * 64, version=17, first_lsn=make_lsn(31, 0),
        last_lsn=NULL_LSN, first_vlsn=NULL_VLSN, last_vlsn=NULL_VLSN, modified_ms=0,
    ),
)  # fmt: skip
MANIFEST = Manifest(
    id="20261122T203000.123Z", began_ms=1, ended_ms=2, source="/data/env", node="node1",
    group=BackupGroup("G", "0f"), end_lsn=make_lsn(31, 38), last_commit_ms=None, databases=("a", "b"), files=FILES,
)  # fmt: skip


def plain() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_manifest(MANIFEST))
    return found


def decode(found: object) -> Manifest:
    return decode_manifest(json.dumps(found).encode(), "m.json")


def code_of(data: bytes) -> int:
    try:
        decode_manifest(data, "m.json")
    except JetoolError as error:
        return error.exit_code
    return 0


def test_what_is_written_comes_back() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), "m.json") == MANIFEST
    bare = MANIFEST._replace(node=None, group=None, databases=None, last_commit_ms=9, files=())
    assert decode_manifest(encode_manifest(bare), "m.json") == bare
    assert MANIFEST.vlsns == (1, 7)
    assert bare.vlsns == (NULL_VLSN, NULL_VLSN)


@pytest.mark.parametrize(
    "path",
    [
        "../00000000.jdb", "/etc/passwd", "00000000.jdb\n", "x/00000000.jdb", "data001/../00000000.jdb", "00000000.JDB",
        "7fffffff.jdb", "80000000.jdb", "data1/00000000.jdb", "", "００００００００.jdb", None, 7, ["00000000.jdb"],
    ],
)  # fmt: skip
def test_no_path_leads_away(path: object) -> None:
    found = plain()
    found["files"][0]["path"] = path
    with pytest.raises(DamageError):
        decode(found)
    if isinstance(path, str):
        with pytest.raises(UsageError):
            number_of(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sha256", "../../etc/passwd"), ("sha256", "A" * 64), ("size_bytes", -1), ("size_bytes", True),
        ("size_bytes", 1 << 40), ("first_lsn", "7"), ("first_lsn", "0x5/0x0"), ("last_lsn", "0xffffffff/0x0"),
        ("version", "17"), ("first_vlsn", 1.5), ("modified_ms", None),
    ],
)  # fmt: skip
def test_values_of_no_kind_are_refused(key: str, value: object) -> None:
    found = plain()
    found["files"][0][key] = value
    with pytest.raises(DamageError):
        decode(found)


def test_two_contents_for_one_file_are_refused() -> None:
    found = plain()
    found["files"] = [found["files"][0], {**found["files"][0], "path": "data001/00000000.jdb"}]
    with pytest.raises(DamageError, match="ascending"):
        decode(found)


def test_a_later_format_is_named() -> None:
    with pytest.raises(UnsupportedError):
        decode({**plain(), "format": 2})


def test_arbitrary_json_never_breaks_it() -> None:
    source = random.Random(14)
    codes: set[int] = set()
    values: list[Any] = [None, True, -1, 1 << 70, 1.5, "x" * 5000, "\x00", [], {}, [[]], "NaN", {"path": "x"}]
    for _ in range(400):
        found = copy.deepcopy(plain())
        target = source.choice([found, found["files"][0], found["files"][1], found["group"]])
        target[source.choice(sorted(target))] = source.choice(values)
        codes.add(code_of(json.dumps(found).encode()))
    raw = encode_manifest(MANIFEST)
    for _ in range(400):
        damaged = bytearray(raw[: source.randrange(len(raw))] if source.random() < 0.3 else raw)
        for _ in range(source.randrange(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256) if damaged else 0
        codes.add(code_of(bytes(damaged)))
    assert codes == {0, 5, 7}


def test_a_nest_of_brackets() -> None:
    with pytest.raises(DamageError):
        decode_manifest(b"[" * 1_000_000, "m.json")


def stored(repository: Repository, number: int, data: bytes) -> BackupFile:
    put = repository.put_file(number, [data])
    return FILES[0]._replace(
        path=f"{number:08x}.jdb", sha256=put.sha256, size_bytes=put.size_bytes, first_lsn=NULL_LSN, last_lsn=NULL_LSN
    )


def test_a_repository_keeps_a_file_once() -> None:
    repository = Repository(MemoryStorage())
    with repository.locked():
        first = stored(repository, 0, b"one")
        assert repository.put_file(0, [b"o", b"ne"]).was_there
        made = MANIFEST._replace(id=repository.new_id(), files=(first,))
        repository.add(made)
        second = MANIFEST._replace(id=repository.new_id(), files=(first, stored(repository, 1, b"two")))
        repository.add(second)
    assert made.id < second.id
    assert [one.manifest for one in repository.backups()] == [made, second]
    assert repository.latest() == second
    assert repository.unused() == []
    repository.remove(second.id)
    assert repository.unused() == [second.files[1].stored]


def test_a_backup_is_there_whole_or_not_at_all() -> None:
    repository = Repository(MemoryStorage())
    with repository.locked(), pytest.raises(NotFoundError):
        repository.add(MANIFEST)
    assert repository.backups() == []


def test_a_manifest_under_another_name_is_none() -> None:
    storage = MemoryStorage()
    repository = Repository(storage)
    with repository.locked():
        repository.add(MANIFEST._replace(files=()))
    storage.rename(f"backups/{MANIFEST.id}.json", "backups/20270101T000000.000Z.json")
    assert repository.backups()[0].manifest is None
    with pytest.raises(DamageError):
        repository.read("20270101T000000.000Z")
    with pytest.raises(DamageError):
        repository.unused()
