"""What two logs have in common, byte for byte."""

from __future__ import annotations

import pytest

from engine.db.environment import Environment
from engine.errors import FormatError
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.inspect.common_log import (
    FIRST_IS_PREFIX,
    IDENTICAL,
    PARTED,
    SECOND_IS_PREFIX,
    UNRELATED,
    CommonLog,
    common_log,
)
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import SMALL, Workload


def written(seed: int, steps: int = 60) -> MemoryStorage:
    storage = MemoryStorage()
    with Environment(storage, SMALL) as env:
        workload = Workload(seed)
        workload.start(env)
        workload.run(env, steps)
    return storage


def common(one: MemoryStorage, other: MemoryStorage) -> CommonLog:
    return common_log(one, list_log_files(one), other, list_log_files(other))


def copied(storage: MemoryStorage, **changes: bytes | None) -> MemoryStorage:
    """A copy with some files replaced or left out; ``f3`` is 00000003.jdb."""
    files = {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}
    for name, data in changes.items():
        path = f"{int(name[1:]):08x}.jdb"
        files.pop(path)
        if data is not None:
            files[path] = data
    return MemoryStorage(files)


def entries(storage: MemoryStorage) -> list[LogEntry]:
    return [e for e in scan_log(storage, list_log_files(storage), marker=True).entries() if isinstance(e, LogEntry)]


def test_copies_and_strangers() -> None:
    one = written(1)
    total = sum(len(data) for path, data in copied(one).contents().items())
    assert common(one, copied(one)) == CommonLog(IDENTICAL, NULL_LSN, total)
    assert common(one, written(2)) == CommonLog(UNRELATED, NULL_LSN, 0)
    assert common(one, MemoryStorage({"00000077.jdb": b"x"})).relation == UNRELATED


def test_a_log_cut_at_every_entry() -> None:
    one = written(3, 25)
    last = list_log_files(one).files[-1].number
    content = one.open(list_log_files(one).files[-1].path).read(0, 1 << 20)
    found = [entry for entry in entries(one) if file_of(entry.lsn) == last]
    assert len(found) > 5
    for entry in found[1:]:
        shorter = copied(one, **{f"f{last}": content[: offset_of(entry.lsn)]})
        assert common(shorter, one)[:2] == (FIRST_IS_PREFIX, entry.lsn)
        assert common(one, shorter)[:2] == (SECOND_IS_PREFIX, entry.lsn)
    without = copied(one, **{f"f{last}": None})
    assert common(without, one)[:2] == (FIRST_IS_PREFIX, found[0].lsn)
    assert common(one, without)[:2] == (SECOND_IS_PREFIX, found[0].lsn)


@pytest.mark.parametrize("where", ["first byte", "last byte"])
def test_the_entry_that_differs_is_named(where: str) -> None:
    one = written(4, 25)
    files = list_log_files(one).files
    middle = files[len(files) // 2]
    content = one.open(middle.path).read(0, 1 << 20)
    for entry in [e for e in entries(one) if file_of(e.lsn) == middle.number][1:]:
        at = offset_of(entry.lsn) + (0 if where == "first byte" else entry.total_bytes - 1)
        other = copied(one, **{f"f{middle.number}": content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]})
        found = common(one, other)
        assert found[:2] == (PARTED, entry.lsn)
        assert found.equal_bytes == sum(f.size_bytes for f in files if f.number < middle.number) + at


def test_a_file_that_one_has_deleted_is_passed_over() -> None:
    one = written(5)
    cleaned = copied(one, f0=None, f2=None)
    assert common(one, cleaned)[:2] == common(cleaned, one)[:2] == (IDENTICAL, NULL_LSN)


def test_damage_does_not_stop_it() -> None:
    """The stretch that is no entry is named where it begins."""
    one = written(6, 25)
    path = list_log_files(one).files[0].path
    content = bytearray(one.open(path).read(0, 1 << 20))
    content[400:600] = bytes(200)
    damaged = copied(one, f0=bytes(content))
    try:
        found = common(damaged, one)
    except FormatError:
        pytest.fail("damage is no error here")
    assert found.relation == PARTED
    assert offset_of(found.first_difference) <= 400
