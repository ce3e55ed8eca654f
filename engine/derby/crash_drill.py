"""Simulated crashes of Derby databases and page stores: crash points, the state that each crash leaves, and its check.

Two kinds of places:

* *In the log*, after the last checkpoint: the record at the crash point did not reach the disk. Pages before the
  checkpoint are on disk and cannot be unwritten, so an earlier place would not simulate a crash, but a log that does
  not fit its pages. (An evicted page may also be newer than the crash point; ``verify`` reports it.)
* *In recovery*, including its closing checkpoint: recovery dies before its n-th counted write, sync or change of names,
  or at a named step. Unsynced writes survive in part, see ``engine.storage.crash``.

Modes in the log: ``lost-tail`` ends the log before the record (its group gets a checksum that fits),
``torn-write`` inside it, so that its group fails; ``no-fsync`` ends it before the group. ``bit-flip``,
``zero-page`` and ``missing-file`` damage the record, the 4096 bytes around its begin, or its file.

``check_operations`` runs recovery once to count its operations, then lets it die before each, recovers the remaining
files and compares them with the uninterrupted run; a second recovery must change nothing.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby.database import LOG_DIRECTORY, DerbyDatabase
from engine.derby.format import allocation, container, instant, page
from engine.derby.format.log_file import OVERHEAD
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import Checksum
from engine.derby.format.record import CHECKSUM_RECORD_SIZE, Record, encode_checksum
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.log_writer import preallocate
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.recovery.start import find_start
from engine.errors import FormatError, JetoolError
from engine.storage.base import Storage, WriteFile
from engine.storage.crash import CrashMode, CrashStorage, SimulatedCrashError
from engine.storage.memory import MemoryStorage

LOG_MODES: Final = ("lost-tail", "torn-write", "no-fsync", "bit-flip", "zero-page", "missing-file")
WORK_MODES: Final = tuple(mode.value for mode in CrashMode)
_FORCED: Final = RecoveryOptions(force_checkpoint=True)
_BLOCK: Final = 4096


class LogPlace(NamedTuple):
    """A record after the last checkpoint, and the checksum record of its group; None if there is no such record."""

    record: Record
    guard: Record | None

    @property
    def name(self) -> str:
        """The name of the record's operation."""
        return registry.type_of(self.record.operation).name


class CrashDamage(NamedTuple):
    """The effect of a crash: bytes cut off or overwritten, files removed."""

    cut_bytes: int
    changed_bytes: int
    removed: tuple[str, ...]


class RecoveryOperation(NamedTuple):
    """One counted operation of recovery: its number, from 1, and its description."""

    number: int
    what: str
    step: str


class DerbyCrashCase(NamedTuple):
    """One case of the matrix; ``problem`` is None when it passed."""

    operation: RecoveryOperation
    problem: str | None


def log_places(database: DerbyDatabase) -> list[LogPlace]:
    """Every record after the last checkpoint except checksum records. DamageError if recovery cannot start."""
    log = DerbyLogFiles(database)
    start = find_start(log, database.controls())
    found, guard, covered = list[LogPlace](), None, instant.NONE
    for one in ForwardScan(log, start.redo_lwm):
        if isinstance(one.operation, Checksum):
            guard, covered = one, one.end + one.operation.length
        elif one.instant > start.checkpoint_at:
            found.append(LogPlace(one, guard if one.instant < covered else None))
    return found


def crash_in_log(storage: Storage, place: LogPlace, mode: str, seed: int) -> CrashDamage:
    """Put a database into the state that a crash at a place in its log would leave.

    Arguments:
        storage: a copy of the database, which is changed.
        place: one of ``log_places``.
        mode: a name of ``LOG_MODES``.
        seed: chooses the torn length and the bit.
    """
    draw, one = random.Random(seed), place.record
    path = DerbyLogFiles(DerbyDatabase(storage)).path(instant.file_of(one.instant))
    at = instant.position_of(one.instant)
    if mode == "missing-file":
        storage.remove(path)
        return CrashDamage(0, 0, (path,))
    file = storage.open_rw(path)
    try:
        if mode == "bit-flip":
            where = at + draw.randrange(one.length + OVERHEAD)
            file.write(where, bytes((file.read(where, 1)[0] ^ 1 << draw.randrange(8),)))
            return CrashDamage(0, 1, ())
        if mode == "zero-page":
            start = at // _BLOCK * _BLOCK
            length = min(_BLOCK, file.size() - start)
            file.write(start, bytes(length))
            return CrashDamage(0, length, ())
        if mode == "torn-write":
            # At least one byte of the record arrives, and at least one does not.
            at += draw.randrange(1, one.length + OVERHEAD)
        elif place.guard is not None:
            at = _end_group(place.guard, at, file, whole=mode == "no-fsync")
        cut = file.size() - at
        # The file keeps its length: Derby's files are preallocated with zeros.
        preallocate(file, at, file.size())
        file.sync()
        return CrashDamage(cut, 0, _remove_later(storage, instant.file_of(one.instant)))
    finally:
        file.close()


def operations_of(files: dict[str, bytes]) -> list[RecoveryOperation]:
    """The counted operations of a recovery with a closing checkpoint, in order."""
    seen = list[RecoveryOperation]()
    steps = _StepNotes()
    # The listener is called before each operation, so it counts the operation to stop at.
    counted = CrashStorage(
        files, listener=lambda kind, path: seen.append(RecoveryOperation(len(seen) + 1, f"{kind} {path}", steps.now))
    )
    recover(counted, _FORCED, listener=steps)
    return seen


def crash_in_work(files: dict[str, bytes], number: int, mode: CrashMode, seed: int) -> MemoryStorage:
    """The files that are left when recovery dies before a counted operation."""
    storage = CrashStorage(files, stop_at=number)
    try:
        recover(storage, _FORCED)
    except SimulatedCrashError:
        return storage.image(mode, seed)
    raise AssertionError("recovery has fewer operations than it had")


def check_operations(
    files: dict[str, bytes], operations: list[RecoveryOperation], mode: CrashMode, seed: int
) -> Iterator[DerbyCrashCase]:
    """Let recovery die before each operation, recover, and compare with an uninterrupted recovery."""
    reference = MemoryStorage(files)
    recover(reference, _FORCED)
    expected = _state(reference)
    for one in operations:
        yield DerbyCrashCase(one, _problem(crash_in_work(files, one.number, mode, seed + one.number), expected))


def files_of(storage: Storage) -> dict[str, bytes]:
    """Every file of a database by path, lock files left out."""
    found = {}
    for path in _paths(storage, ""):
        if not path.endswith(".lck"):
            file = storage.open(path)
            try:
                found[path] = file.read(0, file.size())
            finally:
                file.close()
    return found


class _StepNotes:
    """Notes the current step."""

    now = ""

    def step(self, name: str, done: int, total: int) -> None:  # noqa: ARG002 - the protocol
        self.now = name


def _problem(image: MemoryStorage, expected: dict[str, str]) -> str | None:
    try:
        recover(image)
        if _state(image) != expected:
            return "pages differ from those of a recovery that was not interrupted"
        before = image.contents()
        # A second recovery must find a clean database and leave every byte unchanged.
        recover(image)
    except JetoolError as error:
        return str(error)
    return None if image.contents() == before else "a second recovery changed something"


def _state(storage: MemoryStorage) -> dict[str, str]:
    """The part of every container that the log determines: header, and pages without stale bytes and hints."""
    found = {}
    for path, data in storage.contents().items():
        parts = container.number_of(path.rpartition("/")[2])
        # Compare only container files: the log differs by the CLRs of the interrupted run.
        if parts is None or parts[0]:
            continue
        header = container.header_in(data)
        digest = hashlib.sha256(repr((header.status, header.version)).encode())
        for start in range(0, len(data), header.page_size):
            digest.update(_page_state(data[start : start + header.page_size]))
        found[path] = digest.hexdigest()
    return found


def _page_state(data: bytes) -> bytes:
    if not any(data):
        return b""
    try:
        if page.read_page_header(data).page_format == page.ALLOCATION:
            # The unfilled map is a hint that is not logged, so it may differ.
            decoded = allocation.decode(data)
            return repr((decoded.header.version, decoded.extent[:5], decoded.free)).encode()
        stored = page.decode(data)
    except FormatError as error:
        return str(error).encode()
    # Bytes in the reserve of a row are stale, so only their number counts.
    rows = [(row.record, len(row.slack)) for row in stored.rows]
    return repr((stored.header.status, stored.header.version, stored.header.next_record_id, rows)).encode()


def _end_group(guard: Record, at: int, file: WriteFile, *, whole: bool) -> int:
    """End a group before a position, or drop the whole group; return where the log then ends."""
    start = instant.position_of(guard.end)
    # A group without records has no checksum record either.
    if whole or at == start:
        return instant.position_of(guard.instant)
    file.write(start - CHECKSUM_RECORD_SIZE, encode_checksum(guard.instant, file.read(start, at - start)))
    return at


def _remove_later(storage: Storage, number: int) -> tuple[str, ...]:
    log = DerbyLogFiles(DerbyDatabase(storage))
    removed = tuple(log.path(later) for later in log.numbers() if later > number)
    for path in removed:
        storage.remove(path)
    storage.sync_directory(LOG_DIRECTORY)
    return removed


def _paths(storage: Storage, directory: str) -> Iterator[str]:
    """Every file in a directory and below it: Derby also has ``tmp``, and ``jar`` with its schemas."""
    for name in storage.names(directory):
        path = f"{directory}/{name}" if directory else name
        stat = storage.stat(path)
        if stat is not None and stat.is_directory:
            yield from _paths(storage, path)
        elif stat is not None:
            yield path
