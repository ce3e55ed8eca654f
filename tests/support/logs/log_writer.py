"""Logs of several files for the tests of ``verify``: golden ones, and small ones made by hand."""

from __future__ import annotations

from functools import cache

from engine.format.codecs import decode_body, encode_body
from engine.format.entry.checkpoint import CkptEnd, encode_ckpt_end
from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart, encode_rollback_end, encode_rollback_start
from engine.format.entry_types import CKPT_END, DB_TREE, FILE_HEADER, ROLLBACK_END, ROLLBACK_START
from engine.log.files import list_log_files
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import verify_environment
from engine.verify.log import LEVELS
from engine.verify.report import Finding, Report
from tests.support.logs.golden_logs import LogMaker, entries, golden_files, offsets_and_sizes, read

Files = dict[str, bytes]
SIX_FILES = "je-17/torn-cut-mid"
VERSION = 17
INVISIBLE = 0x10
# The transaction that is rolled back.
TXN = -12
INS_LN_TX = 33


def golden(environment: str = SIX_FILES) -> Files:
    """The files of a golden environment, by name."""
    return {file.name: file.data for file in golden_files(environment)}


def whole(environment: str = SIX_FILES) -> Files:
    """The same without the torn tail that the last file of this one has."""
    files = golden(environment)
    files["00000005.jdb"] = files["00000005.jdb"][:0xC27]
    return files


def report(files: Files | Storage, levels: tuple[str, ...] = LEVELS) -> Report:
    """What ``verify`` says."""
    storage = MemoryStorage(files) if isinstance(files, dict) else files
    return verify_environment(storage, list_log_files(storage), levels)


def findings(files: Files | Storage) -> tuple[Finding, ...]:
    return report(files).findings


def places(files: Files | Storage) -> list[tuple[str, str, int, str]]:
    """Code, severity, LSN and file of each finding."""
    return [(f.code, f.severity, f.lsn, f.file) for f in findings(files)]


def codes(files: Files | Storage) -> list[str]:
    return [finding.code for finding in findings(files)]


class LogWriter:
    """A log of several files, entry by entry; every file's header names the last entry of the file before.

    Arguments:
        version: log version of all files.
        rooted: begin with a DbTree, without which no environment is opened.
    """

    def __init__(self, version: int = VERSION, *, rooted: bool = True) -> None:
        self.version = version
        self.makers: list[LogMaker] = []
        self.next_file()
        if rooted:
            self.add(DB_TREE, root_body(version))

    def next_file(self, number: int | None = None, version: int | None = None) -> None:
        """Flip to a file; the next number unless one is given."""
        last = self.makers[-1].offsets[-1] if self.makers else 0
        if number is None:
            number = self.makers[-1].number + 1 if self.makers else 0
        maker = LogMaker(version or self.version, number)
        maker.data, maker.offsets = b"", []
        header = FileHeader(1_700_000_000_000 + number, number, last, maker.version)
        maker.add(FILE_HEADER, encode_file_header(header, maker.version))
        self.makers.append(maker)

    @property
    def now(self) -> LogMaker:
        """The file being written."""
        return self.makers[-1]

    def add(self, type_number: int, body: bytes, *, flags: int = 0, vlsn: int = -1) -> int:
        """Append an entry; returns its LSN."""
        return self.now.number << 32 | self.now.add(type_number, body, flags=flags, vlsn=vlsn)

    def trace(self, text: str = "hello") -> int:
        """Append a Trace."""
        return self.now.number << 32 | self.now.trace(text)

    def commit(self, vlsn: int = -1) -> int:
        """Append a Commit."""
        return self.now.number << 32 | self.now.commit(vlsn)

    def stream(self, vlsn: int, *, invisible: bool = False) -> int:
        """Append a replicated entry; its body does not matter here."""
        return self.add(8, b"\x01key\x00", flags=0x28 | (0x10 if invisible else 0), vlsn=vlsn)

    def rollback_start(self, matchpoint: int, vlsn: int, txns: tuple[int, ...] = (-10,)) -> int:
        """Append a RollbackStart."""
        record = RollbackStart(vlsn, matchpoint, 1_700_000_000_000, txns)
        return self.add(ROLLBACK_START, encode_rollback_start(record, self.version))

    def rollback_end(self, matchpoint: int, start: int) -> int:
        """Append a RollbackEnd."""
        record = RollbackEnd(matchpoint, start, 1_700_000_000_001)
        return self.add(ROLLBACK_END, encode_rollback_end(record, self.version))

    def checkpoint_end(self, first_active: int) -> int:
        """Append a CkptEnd."""
        record = CkptEnd(
            "close", 1_700_000_000_002, first_active, 0, -1, first_active, 1, -9, 2, -256, 3, -10, 0, 0, 1, (), ()
        )  # fmt: skip
        return self.add(CKPT_END, encode_ckpt_end(record, self.version))

    @property
    def files(self) -> Files:
        """All files by name."""
        return {f"{maker.number:08x}.jdb": maker.data for maker in self.makers}


def replicated_ln(writer: LogWriter, vlsn: int, *, invisible: bool = False) -> int:
    """An INS_LN_TX of the transaction that is rolled back, as JE writes it."""
    return writer.add(INS_LN_TX, ln_body(), flags=0x28 | (INVISIBLE if invisible else 0), vlsn=vlsn)


@cache
def ln_body() -> bytes:
    """The body of a real replicated INS_LN_TX with another transaction id."""
    real = next(
        entry
        for entry in entries(read(golden("je-17/ha-rollback")["00000000.jdb"]))
        if entry.replicated and entry.type_number == INS_LN_TX
    )
    record = real.record()
    assert isinstance(record, LN)
    changed_record = record._replace(txn_id=TXN)
    body = encode_body(INS_LN_TX, 17, changed_record)
    assert decode_body(INS_LN_TX, 17, body) == changed_record
    return body


@cache
def root_body(version: int) -> bytes:
    """A real DbTree; the roots that it names are not in a log made by hand."""
    real = next(entry for entry in entries(read(golden("je-17/empty")["00000000.jdb"])) if entry.type_number == DB_TREE)
    return encode_body(DB_TREE, version, real.record())


def changed(files: Files, name: str, offset: int, new: bytes) -> Files:
    """The files with some bytes of one of them replaced."""
    data = bytearray(files[name])
    data[offset : offset + len(new)] = new
    return {**files, name: bytes(data)}


NAMES = [f"{number:08x}.jdb" for number in range(6)]


def boundaries(data: bytes) -> list[int]:
    """Where the entries of a file of the golden log begin."""
    return [at for at, _ in offsets_and_sizes(data, 17)]
