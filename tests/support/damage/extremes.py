"""Logs with one number of one entry at an extreme and all checksums right, under limits of memory and CPU time.

A worker process (``python -m tests.support.damage.extremes ENV ...``) sets its own limits, then makes one log after the
other and runs commands on each. It prints the case before it runs it, so that the last line names the case that ended
it.

Each number of a record is forged in turn: fields of the record and of the records in it, the VLSN and the previous
offset of the header, and, in records of JE's own databases, the numbers of the value and the key. The forged entry
either replaces the entry and the log ends there, or is appended to the log, so that recovery takes it last.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import JetoolError
from engine.format.codecs import encode_body
from engine.format.entry import group_db, internal_db
from engine.format.entry.ln import LN
from engine.format.entry_types import FILE_HEADER
from engine.format.header import entry_checksum
from engine.format.tuples import long_key
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.harness import run
from tests.support.logs.golden_logs import EXPECTED, GOLDEN

ROOM_BYTES: Final = 2 << 30
CASE_CPU_S: Final = 30
EXTREMES: Final = (
    (1 << 63) - 1, -(1 << 63), (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, 1 << 40, 1 << 62, -2, -1, 0, 255, 100_000_000,
)  # fmt: skip
# On every case; the others are taken in turn.
ALWAYS: Final = (("verify", "--full"), ("recover", "-n"))
IN_TURN: Final = (
    ("info",), ("info", "--stats"), ("dbs", "--count"), ("dump-log", "--json"), ("dump-log", "--explain"), ("txns",),
    ("rollbacks", "--json"), ("vlsn range",), ("vlsn check",), ("vlsn map",), ("vlsn gaps",), ("vlsn buckets",),
    ("vlsn rebuild", "-n"), ("group show",), ("space",), ("missing",), ("recover", "-n", "--je-default"),
)  # fmt: skip
# Values that JE keeps in databases of its own.
_CODECS: Final[tuple[tuple[Callable[[bytes], Any], Callable[[Any], bytes]], ...]] = (
    (internal_db.decode_vlsn_bucket, internal_db.encode_vlsn_bucket),
    (internal_db.decode_vlsn_range, internal_db.encode_vlsn_range),
    (internal_db.decode_reserved_file, internal_db.encode_reserved_file),
    (group_db.decode_group, group_db.encode_group),
)
_NOT_ENCODABLE: Final = (
    JetoolError, struct.error, OverflowError, ValueError, TypeError, IndexError, KeyError, AssertionError,
)  # fmt: skip
_VLSN_AT: Final = 14
_RANGE_KEY: Final = long_key(-1)


class Case(NamedTuple):
    """One log: the file and offset of the entry, the field and its value, whether the entry is appended."""

    path: str
    offset: int
    type_name: str
    version: int
    field: str
    value: int
    appended: bool
    raw: bytes


class Failure(NamedTuple):
    """A command that ended as a bug would."""

    command: str
    code: int
    error: str


def environments() -> list[str]:
    """The golden environments that recovery may read."""
    return [name for name in EXPECTED if not (GOLDEN / name / "7fffffff.jdb").exists()]


def cases(env: Path) -> list[Case]:
    """All cases of an environment: of each kind of entry the first and the last, every number, every extreme."""
    storage = DiskStorage(env)
    chosen: dict[tuple[int, str, bool], tuple[str, LogEntry]] = {}
    for file in list_log_files(storage).files:
        with FileReader(storage, file, is_last=False) as reader:
            for item in reader.entries():
                if isinstance(item, LogEntry):
                    pair = item.type_number, _kind(item)
                    chosen.setdefault((*pair, False), (file.path, item))
                    chosen[*pair, True] = (file.path, item)
    found = []
    # An entry that is the first and the last of its kind counts once.
    for path, item in {(path, item.lsn): (path, item) for path, item in chosen.values()}.values():
        for field, value, raw in forged_entries(item):
            for appended in (False, True) if item.type_number != FILE_HEADER else (False,):
                found.append(
                    Case(
                        path=path, offset=item.lsn & 0xFFFFFFFF, type_name=item.type_name, version=item.version,
                        field=field, value=value, appended=appended, raw=raw,
                    )
                )  # fmt: skip
    return found


def write_case(env: Path, case: Case) -> None:
    """Forge the log of a copy of the environment."""
    paths = sorted(path for path in env.glob("*.jdb"))
    file = env / case.path
    whole = file.read_bytes()
    if case.type_name == "FileHeader":
        file.write_bytes(case.raw + whole[len(case.raw) :])
    elif not case.appended:
        file.write_bytes(whole[: case.offset] + case.raw)
        for later in paths[paths.index(file) + 1 :]:
            later.unlink()
    else:
        _append(paths[-1], case)


def failures(env: Path, case: Case, turn: int) -> Iterator[Failure]:
    """Run the commands of a case."""
    for words in (*ALWAYS, *(IN_TURN[(2 * turn + at) % len(IN_TURN)] for at in range(2))):
        done = run(*words[0].split(), env, *words[1:])
        if done.code == exits.INTERNAL or "Traceback" in done.err:
            yield Failure(" ".join(words), done.code, done.err[-600:])


def _kind(item: LogEntry) -> str:
    """What an LN holds, when it is one of JE's own values; empty for all other entries."""
    try:
        record = item.record()
        value = _value(record) if isinstance(record, LN) else None
    except JetoolError:
        return ""
    return type(value[0]).__name__ if value is not None else ""


def _value(record: LN) -> tuple[Any, Callable[[Any], bytes]] | None:
    """The record's data as one of JE's own values, with its encoder; None for another one."""
    data = record.data
    if not data:
        return None
    for decode, encode in _CODECS:
        # The bytes of the range read as those of a ghost as well.
        if (decode is internal_db.decode_vlsn_range) != (record.key == _RANGE_KEY):
            continue
        try:
            value = decode(data)
            if encode(value) == data:
                return value, encode
        except _NOT_ENCODABLE:
            continue
    return None


def forged_entries(item: LogEntry) -> Iterator[tuple[str, int, bytes]]:
    """The entry with one number changed: field, value, bytes with the right checksum."""
    header = bytearray(item.total_bytes - len(item.body))
    struct.pack_into("<IBBII", header, 0, 0, item.type_number, item.flags, item.prev_offset, len(item.body))
    if len(header) > _VLSN_AT:
        struct.pack_into("<q", header, _VLSN_AT, item.vlsn)
        for value in EXTREMES:
            raw = bytearray(header)
            struct.pack_into("<q", raw, _VLSN_AT, value)
            yield "vlsn", value, _sealed(bytes(raw) + item.body, item.version)
    for value in (0, (1 << 31) - 1, (1 << 32) - 1):
        raw = bytearray(header)
        struct.pack_into("<I", raw, 6, value)
        yield "prev_offset", value, _sealed(bytes(raw) + item.body, item.version)
    try:
        record = item.record()
    except JetoolError:
        return
    for field, value, changed in _changed(record, ""):
        try:
            body = encode_body(item.type_number, item.version, changed)
        except _NOT_ENCODABLE:
            continue
        if body != item.body:
            raw = bytearray(header)
            struct.pack_into("<I", raw, 10, len(body))
            yield field, value, _sealed(bytes(raw) + body, item.version)


def _changed(record: Any, name: str) -> Iterator[tuple[str, int, Any]]:
    """The record with one of its numbers, or of the numbers of a record in it, at an extreme."""
    names = record._fields if hasattr(record, "_fields") else [str(at) for at in range(len(record))]
    ends = range(len(record)) if hasattr(record, "_fields") else sorted({0, len(record) - 1} if record else ())
    for at in ends:
        value, field = record[at], f"{name}.{names[at]}" if name else names[at]
        if isinstance(value, int) and not isinstance(value, bool):
            for extreme in EXTREMES:
                if extreme != value:
                    yield field, extreme, _with(record, at, extreme)
        elif isinstance(value, tuple):
            for inner, extreme, changed in _changed(value, field):
                yield inner, extreme, _with(record, at, changed)
    if isinstance(record, LN) and record.data:
        yield from _changed_data(record)


def _changed_data(record: LN) -> Iterator[tuple[str, int, Any]]:
    found = _value(record)
    if found is None:
        return
    value, encode = found
    for field, extreme, changed in _changed(value, f"data.{type(value).__name__}"):
        try:
            yield field, extreme, record._replace(data=encode(changed))
        except _NOT_ENCODABLE:
            continue
    for byte in (0, 0x7F, 0xFF):
        yield "key", byte, record._replace(key=bytes((byte,)) * len(record.key))


def _with(record: Any, at: int, value: Any) -> Any:
    values = [*record[:at], value, *record[at + 1 :]]
    return type(record)._make(values) if hasattr(record, "_make") else tuple(values)


def _sealed(raw: bytes, version: int) -> bytes:
    return struct.pack("<I", entry_checksum(raw, version)) + raw[4:]


def _append(path: Path, case: Case) -> None:
    """Put the forged entry after the last good one of a file, linked to it."""
    storage = DiskStorage(path.parent)
    file = next(file for file in list_log_files(storage).files if file.path == path.name)
    end = last = 0
    with FileReader(storage, file, is_last=True) as reader:
        for item in reader.entries():
            if not isinstance(item, LogEntry):
                break
            last, end = item.lsn & 0xFFFFFFFF, (item.lsn & 0xFFFFFFFF) + item.total_bytes
    raw = bytearray(case.raw)
    if case.field != "prev_offset":
        struct.pack_into("<I", raw, 6, last)
    path.write_bytes(path.read_bytes()[:end] + _sealed(bytes(raw), case.version))


def main(name: str, seed: int, share: int, shares: int, most: int, seconds: float) -> int:
    """Run one share of the cases of a golden environment, at most so many, for at most so long.

    Returns:
        0; 1 when a command ended as a bug would.
    """
    resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, resource.RLIM_INFINITY))
    found = cases(GOLDEN / name)
    random.Random(seed).shuffle(found)
    mine = found[share::shares][: most or None]
    began, ran, bad = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="jetool-extremes-") as place:
        env = Path(place) / "env"
        for turn, case in enumerate(mine):
            if seconds and time.monotonic() - began > seconds:
                break
            used = resource.getrusage(resource.RUSAGE_SELF)
            spent = int(used.ru_utime + used.ru_stime)
            resource.setrlimit(resource.RLIMIT_CPU, (spent + CASE_CPU_S, resource.RLIM_INFINITY))
            shutil.rmtree(env, ignore_errors=True)
            shutil.copytree(GOLDEN / name, env)
            write_case(env, case)
            print(json.dumps({"case": case._replace(raw=b"")[:-1]}), flush=True)
            for failed in failures(env, case, turn):
                bad += 1
                print(json.dumps({"failed": failed, "case": case[:-1], "raw": case.raw[:64].hex()}), flush=True)
            ran += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"end": name, "ran": ran, "of": len(found), "failed": bad, "peak_kib": peak}), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:6]]
    sys.exit(main(sys.argv[1], numbers[0], numbers[1], numbers[2], numbers[3], float(sys.argv[6])))
