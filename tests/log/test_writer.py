"""The log writer: flips, buffers, failures, group commit (T-62, T-63, T-66, T-70; R-LOG-9 to R-LOG-28)."""

from __future__ import annotations

import threading

import pytest

from engine.errors import JetoolError, RefusedError, StorageError
from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader
from engine.format.entry.trace import Trace, encode_trace
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN, make_lsn
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.log.writer import LogWriter
from engine.storage.base import Storage
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule
from tests.support.logs.decoded import record_of
from tests.support.waiting import PATIENCE_S

TRACE = 24


def make(storage: Storage, *, file_max: int = 400, buffer_bytes: int = 100) -> LogWriter:
    access = LogAccess(storage, ())
    return LogWriter(access, make_lsn(0, 0), NULL_LSN, file_max=file_max, buffer_bytes=buffer_bytes, clock=lambda: 1)


def body(size: int) -> bytes:
    return encode_trace(Trace(0, "x" * size), 17)


def read(storage: Storage) -> list[LogEntry]:
    found = []
    for file in list_log_files(storage).files:
        with FileReader(storage, file, is_last=False) as reader:
            for entry in reader.entries():
                assert isinstance(entry, LogEntry), entry
                found.append(entry)
    return found


def test_files_flip_and_link_back() -> None:
    """R-LOG-9, R-LOG-12, R-LOG-13, R-LOG-15, T-70."""
    storage = MemoryStorage()
    writer = make(storage)
    lsns = [writer.log(TRACE, body(30)) for _ in range(20)]
    writer.close()
    entries = read(storage)
    headers = [entry for entry in entries if entry.type_name == "FileHeader"]
    assert [entry.lsn for entry in entries if entry.type_name == "Trace"] == lsns == sorted(lsns)
    assert len(headers) > 2
    for header in headers[1:]:
        before = [entry.lsn & 0xFFFFFFFF for entry in entries if entry.lsn >> 32 == (header.lsn >> 32) - 1]
        assert record_of(header, FileHeader).last_entry_in_prev_file == before[-1]
    assert next(lsn & 0xFFFFFFFF for lsn in lsns if lsn >> 32 == 1) == 38


def test_an_entry_larger_than_a_file_stands_alone() -> None:
    """R-LOG-12, T-63."""
    storage = MemoryStorage()
    writer = make(storage)
    writer.log(TRACE, body(10))
    large = writer.log(TRACE, body(5000))
    after = writer.log(TRACE, body(10))
    writer.close()
    assert (large >> 32, large & 0xFFFFFFFF) == (1, 38)
    assert (after >> 32, after & 0xFFFFFFFF) == (2, 38)
    assert len(read(storage)) == 6


def test_reads_find_what_is_still_in_the_buffer() -> None:
    """R-LOG-21."""
    storage = MemoryStorage()
    access = LogAccess(storage, ())
    writer = LogWriter(access, make_lsn(0, 0), NULL_LSN, clock=lambda: 1)
    lsns = [writer.log(TRACE, body(size)) for size in (5, 50, 500)]
    assert [access.read(lsn).body for lsn in lsns] == [body(5), body(50), body(500)]
    writer.flush(sync=False)
    assert [access.read(lsn).body for lsn in lsns] == [body(5), body(50), body(500)]


@pytest.mark.parametrize("operation", ["write", "sync", "create"])
def test_a_failure_ends_the_writer(operation: str) -> None:
    """T-62, R-LOG-7: what follows is refused; the log on disk is a prefix of what was logged."""
    inner = MemoryStorage()
    storage = FaultyStorage(inner, [Rule(operation, Effect.SHORTEN if operation == "write" else Effect.FAIL, nth=3)])
    writer = make(storage)
    logged: list[int] = []
    with pytest.raises(StorageError):
        log_until_it_fails(writer, logged)
    with pytest.raises(RefusedError, match="invalid"):
        writer.log(TRACE, body(1))
    assert writer.failed
    found = []
    for file in list_log_files(inner).files:
        with FileReader(inner, file, is_last=True) as reader:
            found += [e.lsn for e in reader.entries() if isinstance(e, LogEntry) and e.type_number == TRACE]
    assert found == (logged + [writer.last_lsn])[: len(found)]


@pytest.mark.parametrize(("nth", "flips", "files"), [(1, 0, []), (2, 0, [0]), (3, 1, [0]), (4, 1, [0, 1])])
def test_a_failed_fsync_at_a_flip_ends_the_writer(nth: int, flips: int, files: list[int]) -> None:
    """R-LOG-7: a second fsync may succeed although the system has dropped what the first could not write."""
    storage = FaultyStorage(MemoryStorage(), [Rule("sync", Effect.FAIL, nth)])
    writer = make(storage)
    logged: list[int] = []
    with pytest.raises(StorageError):
        logged += [writer.log(TRACE, body(30)) for _ in range(40)]
    assert writer.flips == flips
    for refused in (lambda: writer.log(TRACE, body(1)), lambda: writer.flush(sync=True)):
        with pytest.raises(RefusedError, match="invalid"):
            refused()
    assert [name for name in storage.names() if name.endswith(".jdb")] == [f"{number:08x}.jdb" for number in files]


def log_until_it_fails(writer: LogWriter, logged: list[int]) -> None:
    for _ in range(40):
        logged.append(writer.log(TRACE, body(30)))
        writer.flush(sync=True)


def test_nothing_is_written_to_a_file_before_the_one_before_is_durable() -> None:
    """R-LOG-13: sync of the old file comes before the creation of the new one."""
    order: list[tuple[str, str]] = []
    storage = CrashStorage(listener=lambda kind, path: order.append((kind, path)))
    writer = make(storage)
    for _ in range(20):
        writer.log(TRACE, body(30))
    created = [index for index, (kind, path) in enumerate(order) if kind == "create" and path != "00000000.tmp"]
    assert created
    for index in created:
        number = int(order[index][1][:8], 16)
        assert order[index - 1] == ("sync", f"{number - 1:08x}.jdb")


def test_a_file_appears_with_its_header_and_an_entry_durable() -> None:
    """R-LOG-16: under its own name it holds both from the first moment, whatever the file sizes and flushes."""
    storage = CrashStorage(listener=lambda kind, path: seen.append((kind, path, *on_disk())))
    seen: list[tuple[str, str, dict[str, bytes], dict[str, bytes]]] = []

    def on_disk() -> tuple[dict[str, bytes], dict[str, bytes]]:
        return logs(storage.contents()), logs(storage.image(CrashMode.NO_FSYNC).contents())

    def logs(found: dict[str, bytes]) -> dict[str, bytes]:
        return {path: data for path, data in found.items() if path.endswith(".jdb")}

    writer = make(storage, file_max=200)
    for number in range(40):
        writer.log(TRACE, body(number * 7 % 230))
        if number % 3 == 0:
            writer.flush(sync=number % 2 == 0)
        if number % 7 == 0:
            writer.force_new_file()
    writer.close()
    for kind, path, now, durable in seen:
        assert all(len(data) > FILE_HEADER_BYTES + HEADER_BYTES for data in now.values()), (kind, path)
        # The first write is whole on disk before anything is put after it.
        if kind == "write" and path.endswith(".jdb"):
            assert len(durable[path]) > FILE_HEADER_BYTES + HEADER_BYTES
    creations = [path for kind, path, *_ in seen if kind == "create"]
    assert len(creations) == writer.flips + 1 > 10
    assert {path[-4:] for path in creations} == {".tmp"}
    start = next(index for index, (kind, path, *_) in enumerate(seen) if (kind, path) == ("create", "00000001.tmp"))
    assert [kind for kind, *_ in seen[start : start + 6]] == [
        "create", "truncate", "write", "sync", "rename", "sync_directory",
    ]  # fmt: skip


def test_a_file_that_gets_no_entry_is_never_made() -> None:
    """R-LOG-16: the writer has flipped, and the entry that it flipped for cannot be encoded."""
    storage = MemoryStorage()
    writer = make(storage)
    writer.log(TRACE, body(300))

    def fails() -> bytes:
        calls.append(1)
        if len(calls) == 2:
            raise StorageError("cannot be encoded")
        return body(300)

    calls: list[int] = []
    writer.observer = Silent()
    with pytest.raises(StorageError):
        writer.log(TRACE, fails)
    assert writer.next_lsn == make_lsn(1, FILE_HEADER_BYTES)
    writer.flush(sync=True)
    assert storage.names() == ["00000000.jdb"]
    writer.close()
    assert storage.names() == ["00000000.jdb"]


class Silent:
    """Hears of entries and does nothing."""

    def logged(self, lsn: int, type_number: int, size: int, born_obsolete: bool) -> None:
        pass

    def obsolete_node(self, lsn: int, *, is_delta: bool) -> None:
        pass

    def obsolete_ln(self, lsn: int, size: int) -> None:
        pass


def test_group_commit_needs_far_fewer_syncs() -> None:
    """T-66, R-LOG-25: nobody returns before its data is synced, and one fsync serves many."""
    storage = CrashStorage()
    writer = make(storage, file_max=1 << 20, buffer_bytes=1 << 16)
    failures: list[JetoolError] = []

    def commit() -> None:
        for _ in range(20):
            lsn = writer.log(TRACE, body(20))
            writer.flush(sync=True)
            durable = len(storage.image_of("00000000.jdb"))
            if durable <= lsn & 0xFFFFFFFF:
                failures.append(StorageError("not durable"))

    threads = [threading.Thread(target=commit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failures
    assert writer.syncs <= 160
