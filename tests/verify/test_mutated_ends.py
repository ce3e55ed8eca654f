"""What crashes, disks and operators do to the end of a log, and what ``verify`` says of it."""

from __future__ import annotations

import pytest

from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry.markers import RestoreRequired, encode_restore_required
from engine.format.entry_types import DB_TREE, FILE_HEADER, RESTORE_REQUIRED
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN, make_lsn
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.verify.report import ERROR
from engine.verify.trees import verify_trees
from tests.support.logs.golden_logs import offsets_and_sizes
from tests.support.logs.log_writer import (
    NAMES,
    Files,
    LogWriter,
    boundaries,
    changed,
    codes,
    findings,
    golden,
    places,
    root_body,
    whole,
)


def test_a_last_file_of_no_bytes_or_only_a_header() -> None:
    """JE skips it and uses its number again (R-LOG-30)."""
    assert places({**whole(), "00000006.jdb": b""}) == [("JE-TAIL-005", "note", NULL_LSN, "00000006.jdb")]
    log = LogWriter()
    log.now.number = 5
    log.now.offsets[-1] = boundaries(whole()[NAMES[5]])[-1]
    log.next_file()
    assert places({**whole(), "00000006.jdb": log.now.data}) == [("JE-TAIL-005", "note", NULL_LSN, "00000006.jdb")]


@pytest.mark.parametrize("length", [1, 14, 37])
def test_a_last_file_shorter_than_a_header(length: int) -> None:
    """JE renames it to .bad and goes on with the file before."""
    files = {**whole(), "00000006.jdb": whole()[NAMES[1]][:length]}
    assert places(files) == [("JE-TAIL-006", "note", make_lsn(6, 0), "00000006.jdb")]


def test_a_torn_tail_before_an_empty_last_file() -> None:
    """The log ends in the file before, whose tail stays a tail."""
    files = {**whole(), "00000006.jdb": b""}
    at = boundaries(files[NAMES[5]])[-1]
    files[NAMES[5]] = files[NAMES[5]][:-3]
    assert sorted(places(files)) == [
        ("JE-TAIL-001", "note", make_lsn(5, at), NAMES[5]),
        ("JE-TAIL-005", "note", NULL_LSN, "00000006.jdb"),
    ]


def test_a_header_of_which_a_byte_is_wrong_and_nothing_behind() -> None:
    """JE was about to begin this file; it sets it aside (R-LOG-30)."""
    data = bytearray(whole()[NAMES[1]][:FILE_HEADER_BYTES])
    data[20] ^= 1
    found = places({**whole(), "00000006.jdb": bytes(data)})
    assert found == [("JE-TAIL-007", "note", make_lsn(6, 0), "00000006.jdb")]


def test_an_only_file_that_is_nothing_but_a_damaged_header() -> None:
    data = bytearray(whole()[NAMES[0]][:FILE_HEADER_BYTES])
    data[20] ^= 1
    assert places({NAMES[0]: bytes(data)}) == [("JE-LOG-006", "error", 0, NAMES[0])]


@pytest.mark.parametrize(("mask", "code"), [(0x01, "JE-TAIL-004"), (0xFF, "JE-TAIL-004")])
def test_the_last_entry_is_a_commit_with_a_wrong_checksum(mask: int, code: str) -> None:
    """Whole in length: perhaps acknowledged as durable, and the disk lied."""
    log = LogWriter()
    log.trace()
    at = log.commit()
    files = changed(log.files, "00000000.jdb", (at & 0xFFFF) + 15, bytes((log.now.data[(at & 0xFFFF) + 15] ^ mask,)))
    assert places(files) == [(code, "warning", at, "00000000.jdb")]


def test_damage_in_the_last_file_by_what_stands_behind_it() -> None:
    def damaged(*behind: str) -> Files:
        log = LogWriter()
        bad = log.trace("damaged") & 0xFFFF
        for kind in behind:
            if kind == "commit":
                log.commit()
            elif kind == "checkpoint":
                log.checkpoint_end(0)
            elif kind == "record":
                log.add(8, b"\x01key\x00")
            else:
                log.trace()
        return changed(log.files, "00000000.jdb", bad + 20, b"?")

    assert codes(damaged()) == ["JE-TAIL-001"]
    assert codes(damaged("trace")) == ["JE-TAIL-003"]
    for kind, told in (("commit", "1 intact Commit"), ("checkpoint", "1 CkptEnd"), ("record", "1 record outside")):
        (found,) = findings(damaged("trace", kind))
        assert found.code == "JE-TAIL-002"
        assert told in found.message
    (found,) = findings(damaged("record", "commit", "commit", "record", "checkpoint"))
    assert found.message.endswith("after it 2 intact Commits, 1 CkptEnd, 2 records outside transactions")


def test_a_damaged_commit_that_intact_entries_follow() -> None:
    """Nothing durable stands after it, but it is itself what JE would cut off."""
    log = LogWriter()
    log.trace()
    at = [log.commit(), log.checkpoint_end(0), log.add(8, b"\x01key\x00")]
    log.trace()
    for lsn_, behind in zip(at, ("JE-TAIL-002", "JE-TAIL-002", "JE-TAIL-008"), strict=True):
        files = changed(log.files, "00000000.jdb", lsn_ + 16, b"?")
        assert places(files) == [(behind, "error", lsn_, "00000000.jdb")]
    for make in (LogWriter.commit, lambda log: log.checkpoint_end(0)):
        log = LogWriter()
        lsn_ = make(log)
        log.trace()
        assert places(changed(log.files, "00000000.jdb", lsn_ + 16, b"?")) == [
            ("JE-TAIL-008", "error", lsn_, "00000000.jdb")
        ]


def test_an_invisible_entry_whose_period_was_cleaned_away() -> None:
    """The RollbackStart was in file 1: nobody can say. After the gap the log is whole, and the bit is wrong."""
    log = LogWriter()
    before = log.stream(7, invisible=True)
    log.next_file(2)
    behind = log.stream(8, invisible=True)
    log.checkpoint_end(behind)
    assert places(log.files) == [
        ("JE-LOG-025", "warning", before, "00000000.jdb"),
        ("JE-LOG-015", "error", behind, "00000002.jdb"),
        ("JE-LOG-011", "warning", NULL_LSN, "00000001.jdb"),
    ]


def begun_early(*, entries_after: int, checkpoint: bool) -> Files:
    """File 1 was begun as a header alone; then file 0 went on, and file 1 after it."""
    log = LogWriter()
    log.trace()
    log.next_file()
    early = log.files[NAMES[1]]
    file_0, file_1 = log.makers
    file_0.trace()
    file_0.trace()
    for _ in range(entries_after):
        file_1.trace()
    log.next_file()
    first = log.trace()
    log.checkpoint_end(first if checkpoint else 0)
    assert log.files[NAMES[1]].startswith(early)
    return log.files


def test_a_header_that_a_kill_left_and_that_was_written_on() -> None:
    """JE goes on in the file before, then in the one that has only a header; backward it misses what it added."""
    files = begun_early(entries_after=2, checkpoint=True)
    assert [(f.code, f.severity) for f in findings(files)] == [("JE-LOG-026", "note")]
    files = begun_early(entries_after=2, checkpoint=False)
    assert [(f.code, f.severity) for f in findings(files)] == [("JE-LOG-027", "error")]
    # A file that lost entries at its end: its next one names a later entry than there is.
    log = LogWriter()
    log.trace()
    log.trace()
    log.next_file()
    log.trace()
    cut = log.files
    cut[NAMES[0]] = cut[NAMES[0]][: log.makers[0].offsets[-1]]
    assert codes(cut) == ["JE-LOG-009"]
    # A place where no entry begins.
    files = begun_early(entries_after=2, checkpoint=True)
    header = FileHeader(1_700_000_000_001, 1, 40, 17)
    body = encode_entry(EntryHeader(0, FILE_HEADER, 0, 0, 0, -1), encode_file_header(header, 17), 17)
    assert codes(changed(files, NAMES[1], 0, body)) == ["JE-LOG-009"]


def test_a_last_file_of_a_header_alone_while_the_one_before_went_on() -> None:
    log = LogWriter()
    log.trace()
    log.next_file()
    log.makers[0].trace()
    assert sorted((f.code, f.severity) for f in findings(log.files)) == [
        ("JE-LOG-026", "note"),
        ("JE-TAIL-005", "note"),
    ]


def test_a_log_without_a_root() -> None:
    """JE and recovery refuse it (NoRootException), however good its entries are; cut after its first entries."""
    log = LogWriter(rooted=False)
    log.trace()
    assert codes(log.files) == ["JE-LOG-030"]
    log.add(DB_TREE, root_body(17))
    assert codes(log.files) == []
    bad = changed(log.files, NAMES[0], log.makers[0].offsets[-1], b"????")
    assert codes(bad) == ["JE-TAIL-001", "JE-LOG-030"]


@pytest.mark.parametrize("name", ["je-17/empty", "je-26/empty", "je-17/ha-rollback", "je-26/ha-rollback"])
def test_a_log_cut_between_entries_that_recovery_refuses(name: str) -> None:
    """Each cut of a log of one file: the default levels are red where recovery refuses, and only there.

    But for cuts that lose a RollbackStart and leave what it made invisible.
    """
    data = golden(name)[NAMES[0]]
    refused = 0
    for offset, _ in offsets_and_sizes(data, 17):
        storage = MemoryStorage({NAMES[0]: data[:offset]})
        if offset:
            is_recovered = verify_trees(storage, list_log_files(storage), ("tree",)).recovered
            errors = {f.code for f in findings(storage) if f.severity == ERROR} - {"JE-LOG-015"}
            assert errors == (set() if is_recovered else {"JE-LOG-030"}), hex(offset)
            refused += not is_recovered
    assert refused


def test_a_log_that_asks_for_a_restore() -> None:
    log = LogWriter()
    log.commit()
    request = log.add(RESTORE_REQUIRED, encode_restore_required(RestoreRequired("LOG_CHECKSUM", 0, ""), 17))
    assert places(log.files) == [("JE-TAIL-010", "error", request, NAMES[0])]
    # After the first bad entry it is not part of the log.
    bad = changed(log.files, NAMES[0], log.makers[0].offsets[-2], b"????")
    assert "JE-TAIL-010" not in codes(bad)
