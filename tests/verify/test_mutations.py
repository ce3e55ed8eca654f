"""What operators and disks do to a log, and what ``verify`` says of it: code, severity, LSN and file."""

from __future__ import annotations

import pytest

from engine.errors import StorageError, UnsupportedError
from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry.markers import RestoreRequired, encode_restore_required
from engine.format.entry_types import DB_TREE, FILE_HEADER, RESTORE_REQUIRED
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN
from engine.log.files import list_log_files
from engine.storage.base import ReadFile
from engine.storage.memory import MemoryStorage
from engine.verify.report import ERROR
from engine.verify.trees import verify_trees
from tests.golden_logs import offsets_and_sizes
from tests.verify.logs import (
    Files,
    LogWriter,
    changed,
    codes,
    findings,
    golden,
    places,
    replicated_ln,
    report,
    root_body,
    whole,
)

# The last checkpoint of the golden log lies in file 2: CkptEnd 0x2/0x1bec, firstActive 0x2/0x44c.
LAST_CHECKPOINT_FILE = 2
NAMES = [f"{number:08x}.jdb" for number in range(6)]


def lsn(file: int, offset: int) -> int:
    return file << 32 | offset


def without(*names: str) -> Files:
    return {name: data for name, data in whole().items() if name not in names}


def boundaries(data: bytes) -> list[int]:
    return [at for at, _ in offsets_and_sizes(data, 17)]


def test_the_golden_log_is_clean() -> None:
    assert findings(whole()) == ()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_file_removed_from_the_middle(number: int) -> None:
    """Damage even before firstActive: the FileSummaryLNs count live entries in it."""
    found = findings(without(NAMES[number]))
    assert [(f.code, f.severity, f.file) for f in found] == [("JE-LOG-010", "error", NAMES[number])]
    if number > LAST_CHECKPOINT_FILE:
        assert "recovery reads from 0x2/0x44c on" in found[0].message


def test_files_removed_from_the_front() -> None:
    found = findings(without(NAMES[0]))
    assert [(f.code, f.file) for f in found] == [("JE-LOG-010", NAMES[0])]
    found = findings(without(NAMES[0], NAMES[1]))
    assert [(f.code, f.file) for f in found] == [("JE-LOG-010", NAMES[0]), ("JE-LOG-010", NAMES[1])]


def test_a_file_removed_from_the_front_that_recovery_needs() -> None:
    """No FileSummaryLN tells of it here, but the last CkptEnd names an LSN in it as firstActive."""
    log = LogWriter()
    first_active = log.trace()
    log.next_file()
    log.trace()
    log.next_file()
    log.checkpoint_end(first_active)
    log.trace()
    files = log.files
    assert codes(files) == []
    del files["00000000.jdb"]
    assert places(files) == [("JE-LOG-010", "error", NULL_LSN, "00000000.jdb")]
    del files["00000001.jdb"]
    assert [f.file for f in findings(files)] == ["00000000.jdb", "00000001.jdb"]


def test_a_gap_that_nothing_explains() -> None:
    """After the checkpoint, no word of it: live records may have been in it."""
    log = LogWriter()
    log.trace()
    log.next_file()
    log.trace()
    log.next_file()
    first_active = log.trace()
    log.checkpoint_end(first_active)
    files = log.files
    del files["00000001.jdb"]
    assert places(files) == [("JE-LOG-011", "warning", NULL_LSN, "00000001.jdb")]


def test_without_a_checkpoint_every_file_is_needed() -> None:
    log = LogWriter()
    for _ in range(2):
        log.trace()
        log.next_file()
    log.trace()
    files = log.files
    del files["00000001.jdb"]
    (found,) = findings(files)
    assert (found.code, found.file) == ("JE-LOG-010", "00000001.jdb")
    assert "the start of the log" in found.message


def test_a_huge_gap_does_not_take_forever() -> None:
    log = LogWriter()
    log.trace()
    log.next_file(0x7FFFFFFE)
    log.trace()
    assert [f.code for f in findings(log.files)] == ["JE-LOG-010", "JE-LOG-010"]


def test_a_middle_file_cut_inside_an_entry() -> None:
    files = whole()
    at = boundaries(files[NAMES[3]])[-1]
    files[NAMES[3]] = files[NAMES[3]][: at + 20]
    assert places(files) == [("JE-LOG-004", "error", lsn(3, at), NAMES[3])]
    files[NAMES[3]] = files[NAMES[3]][: at + 5]
    assert places(files) == [("JE-LOG-004", "error", lsn(3, at), NAMES[3])]


@pytest.mark.parametrize("kept", [1, 2, -1])
def test_a_middle_file_cut_at_an_entry_boundary(kept: int) -> None:
    """Every entry that is left is right; only the next file's header knows better."""
    files = whole()
    offsets = boundaries(files[NAMES[3]])
    last = offsets[kept - 1] if kept > 0 else offsets[-2]
    files[NAMES[3]] = files[NAMES[3]][: offsets[kept]]
    assert places(files) == [("JE-LOG-009", "error", lsn(3, last), NAMES[3])]


@pytest.mark.parametrize("length", [0, 1, FILE_HEADER_BYTES - 1])
def test_a_middle_file_cut_to_less_than_a_header(length: int) -> None:
    files = whole()
    files[NAMES[2]] = files[NAMES[2]][:length]
    assert places(files) == [("JE-LOG-008", "error", lsn(2, 0), NAMES[2])]


def test_a_page_of_zeros_in_a_middle_file() -> None:
    files = whole()
    page = changed(files, NAMES[2], 4096, bytes(4096))
    hit = max(at for at in boundaries(files[NAMES[2]]) if at <= 4096)
    assert [f[2:] for f in places(page)] == [(lsn(2, hit), NAMES[2])]
    (found,) = findings(page)
    assert found.code in ("JE-LOG-001", "JE-LOG-002")
    behind = min(at for at in boundaries(files[NAMES[2]]) if at >= 8192)
    assert f"{behind - hit} bytes skipped, next entry 0x2/0x{behind:x}" in found.message


def test_a_page_of_zeros_at_the_start_of_a_middle_file() -> None:
    files = changed(whole(), NAMES[2], 0, bytes(4096))
    (found,) = findings(files)
    assert (found.code, found.lsn, found.file) == ("JE-LOG-006", lsn(2, 0), NAMES[2])


def test_a_page_of_zeros_at_the_start_of_the_last_file() -> None:
    """With data after it JE refuses to open: no torn tail."""
    files = whole()
    files = changed(files, NAMES[5], 0, bytes(2048))
    (found,) = findings(files)
    assert (found.code, found.severity, found.lsn) == ("JE-LOG-006", "error", lsn(5, 0))


def test_a_page_of_zeros_in_the_last_file() -> None:
    """Commits stand after it: JE would cut them off."""
    files = whole()
    hit = max(at for at in boundaries(files[NAMES[5]]) if at <= 512)
    (found,) = findings(changed(files, NAMES[5], 512, bytes(512)))
    assert (found.code, found.severity, found.lsn, found.file) == ("JE-TAIL-002", "error", lsn(5, hit), NAMES[5])
    assert "intact Commits" in found.message


def test_zeros_to_the_end_of_the_last_file() -> None:
    """A page that never reached the disk, with nothing after it: the usual torn tail."""
    files = whole()
    data = files[NAMES[5]]
    hit = max(at for at in boundaries(data) if at <= 1024)
    assert places(changed(files, NAMES[5], 1024, bytes(len(data) - 1024))) == [
        ("JE-TAIL-001", "note", lsn(5, hit), NAMES[5])
    ]


def test_two_files_with_their_names_swapped() -> None:
    files = whole()
    files[NAMES[1]], files[NAMES[3]] = files[NAMES[3]], files[NAMES[1]]
    found = places(files)
    assert ("JE-LOG-007", "error", lsn(1, 0), NAMES[1]) in found
    assert ("JE-LOG-007", "error", lsn(3, 0), NAMES[3]) in found
    assert {code for code, *_ in found} <= {"JE-LOG-007", "JE-LOG-009"}


def test_a_file_copied_under_another_number() -> None:
    files = whole()
    files["00000006.jdb"] = files[NAMES[4]]
    assert ("JE-LOG-007", "error", lsn(6, 0), "00000006.jdb") in places(files)
    files = whole()
    files[NAMES[2]] = files[NAMES[1]]
    assert ("JE-LOG-007", "error", lsn(2, 0), NAMES[2]) in places(files)


def test_a_file_of_another_log() -> None:
    """The number fits, the entries are right, the neighbours do not agree."""
    files = whole()
    other = LogWriter(rooted=False)
    other.next_file(3)
    other.trace()
    files[NAMES[3]] = other.files[NAMES[3]]
    assert [code for code, *_ in places(files)] == ["JE-LOG-009", "JE-LOG-009"]


def test_one_number_in_two_data_directories() -> None:
    files = {f"data00{number % 3 + 1}/{name}": data for number, (name, data) in enumerate(whole().items())}
    assert places(files) == []
    files["data003/00000000.jdb"] = files["data001/00000000.jdb"]
    assert places(files) == [("JE-LOG-017", "error", NULL_LSN, "data003/00000000.jdb")]


@pytest.mark.parametrize("offset", range(FILE_HEADER_BYTES))
def test_a_damaged_header(offset: int) -> None:
    """Any byte of it, in a middle file and in the last: found, and the entries after it are still read."""
    for number in (3, 5):
        files = whole()
        entries = report(files).entries
        files = changed(files, NAMES[number], offset, bytes((files[NAMES[number]][offset] ^ 0x40,)))
        assert places(files) == [("JE-LOG-006", "error", lsn(number, 0), NAMES[number])]
        assert report(files).entries == entries - 1


def test_a_version_that_steps_back() -> None:
    log = LogWriter(version=17)
    log.trace()
    log.next_file(version=15)
    log.trace()
    assert places(log.files) == [("JE-LOG-019", "error", lsn(1, 0), "00000001.jdb")]


def test_a_version_that_steps_up_is_normal() -> None:
    log = LogWriter(version=15)
    log.trace()
    log.next_file(version=17)
    log.trace()
    assert codes(log.files) == []


def test_a_version_above_those_known() -> None:
    files = whole()
    header = encode_file_header(FileHeader(0, 3, 0, 17), 17)
    newer = header[:-4] + (27).to_bytes(4, "little")
    entry = encode_entry(EntryHeader(0, FILE_HEADER, 0, 0, 0, -1), newer, 17)
    with pytest.raises(UnsupportedError) as error:
        findings(changed(files, NAMES[3], 0, entry))
    assert error.value.file == f"memory:/{NAMES[3]}"
    assert (error.value.expected, error.value.found) == ("6 to 26", "27")


def test_a_name_in_upper_case() -> None:
    files = whole()
    files["00000003.JDB"] = files.pop(NAMES[3])
    assert places(files) == [("JE-LOG-021", "warning", NULL_LSN, "00000003.JDB")]
    both = {**whole(), "00000003.JDB": b"x"}
    assert "JE-LOG-017" in codes(both)


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
    assert places(files) == [("JE-TAIL-006", "note", lsn(6, 0), "00000006.jdb")]


def test_a_torn_tail_before_an_empty_last_file() -> None:
    """The log ends in the file before, whose tail stays a tail."""
    files = {**whole(), "00000006.jdb": b""}
    at = boundaries(files[NAMES[5]])[-1]
    files[NAMES[5]] = files[NAMES[5]][:-3]
    assert sorted(places(files)) == [
        ("JE-TAIL-001", "note", lsn(5, at), NAMES[5]),
        ("JE-TAIL-005", "note", NULL_LSN, "00000006.jdb"),
    ]


def test_a_header_of_which_a_byte_is_wrong_and_nothing_behind() -> None:
    """JE was about to begin this file; it sets it aside (R-LOG-30)."""
    data = bytearray(whole()[NAMES[1]][:FILE_HEADER_BYTES])
    data[20] ^= 1
    found = places({**whole(), "00000006.jdb": bytes(data)})
    assert found == [("JE-TAIL-007", "note", lsn(6, 0), "00000006.jdb")]


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


def test_an_entry_taken_out_and_one_put_in_twice() -> None:
    """All checksums are right; the link to the entry before shows it. One finding, not one for each entry after."""
    files = whole()
    data = files[NAMES[3]]
    first, second = boundaries(data)[5:7]
    files[NAMES[3]] = data[:first] + data[second:]
    found = places(files)
    assert found[0] == ("JE-LOG-005", "error", lsn(3, first), NAMES[3])
    assert {code for code, *_ in found} <= {"JE-LOG-005", "JE-LOG-009"}
    files[NAMES[3]] = data[:second] + data[first:]
    found = places(files)
    assert found[0] == ("JE-LOG-005", "error", lsn(3, second), NAMES[3])
    assert {code for code, *_ in found} <= {"JE-LOG-005", "JE-LOG-009"}


def test_an_item_size_below_zero() -> None:
    files = whole()
    at = boundaries(files[NAMES[3]])[10]
    assert places(changed(files, NAMES[3], at + 10, b"\xff\xff\xff\xff")) == [
        ("JE-LOG-003", "error", lsn(3, at), NAMES[3])
    ]


def test_an_entry_erased_in_part() -> None:
    """The eraser was interrupted: the entry is obsolete all the same. Erased whole, there is nothing to say."""
    log = LogWriter()
    log.add(43, bytes(40))
    assert places(log.files) == []
    at = log.add(43, bytes(20) + b"rest of a record")
    log.trace()
    (found,) = findings(log.files)
    assert (found.code, found.severity, found.lsn) == ("JE-LOG-014", "note", at)
    assert "16 of 36 bytes are not zero" in found.message


class Unreadable(MemoryStorage):
    """A storage of which one file cannot be read."""

    def __init__(self, files: Files, bad: str) -> None:
        super().__init__(files)
        self.bad = bad

    def open(self, path: str) -> ReadFile:
        if path == self.bad:
            raise StorageError(f"cannot read {path}: input/output error", file=path)
        return super().open(path)


@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_file_that_cannot_be_read(number: int) -> None:
    """The other files are checked all the same; what lies in it is not known."""
    found = report(Unreadable(whole(), NAMES[number]))
    assert [(f.code, f.severity, f.lsn, f.file) for f in found.findings] == [
        ("JE-LOG-020", "error", NULL_LSN, NAMES[number])
    ]
    assert "input/output error" in found.findings[0].message
    assert found.files == 5


def test_a_restore_marker() -> None:
    files = {**whole(), "7fffffff.jdb": b"anything"}
    assert places(files) == [("JE-LOG-018", "error", NULL_LSN, "7fffffff.jdb")]


def test_vlsns_that_step_back() -> None:
    """Within a file and from one file to the next; a rollback is the one way to go back."""
    log = LogWriter()
    log.stream(5)
    log.stream(6)
    within = log.stream(6)
    log.stream(7)
    log.next_file()
    across = log.stream(7)
    assert places(log.files) == [
        ("JE-LOG-016", "error", within, "00000000.jdb"),
        ("JE-LOG-016", "error", lsn(1, 0), "00000001.jdb"),
    ]
    assert across > lsn(1, 0)


@pytest.mark.parametrize("files", [1, 2, 3])
def test_vlsns_that_step_back_behind_a_rollback(files: int) -> None:
    """Matchpoint, rolled-back entries, RollbackStart and new entries in one file or over several."""
    log = LogWriter()
    matchpoint = log.commit(5)
    log.stream(6, invisible=True)
    if files > 1:
        log.next_file()
    log.stream(7, invisible=True)
    start = log.rollback_start(matchpoint, 5)
    log.rollback_end(matchpoint, start)
    if files > 2:
        log.next_file()
    log.stream(6)
    log.commit(7)
    assert places(log.files) == []


@pytest.mark.parametrize("split", [False, True])
def test_several_periods_nested_and_apart(split: bool) -> None:
    log = LogWriter()
    outer = log.commit(1)
    log.stream(2, invisible=True)
    inner = log.add(30, b"\x00" * 8 + b"\x01", flags=0x28 | 0x10, vlsn=3)
    log.stream(4, invisible=True)
    start = log.rollback_start(inner, 3)
    log.rollback_end(inner, start)
    if split:
        log.next_file()
    log.stream(4, invisible=True)
    start = log.rollback_start(outer, 1)
    log.rollback_end(outer, start)
    second = log.commit(2)
    log.stream(3, invisible=True)
    if split:
        log.next_file()
    start = log.rollback_start(second, 2)
    log.rollback_end(second, start)
    log.commit(3)
    assert places(log.files) == []


def test_periods_that_intersect() -> None:
    """Also where one begins at the RollbackStart of the other (R-RB-16)."""
    log = LogWriter()
    first = log.trace()
    middle = log.trace()
    start = log.rollback_start(first, 1)
    log.rollback_end(first, start)
    later = log.rollback_start(middle, 1)
    log.rollback_end(middle, later)
    assert places(log.files) == [("JE-LOG-023", "error", later, "00000000.jdb")]
    log = LogWriter()
    first = log.trace()
    start = log.rollback_start(first, 1)
    log.rollback_end(first, start)
    later = log.rollback_start(start, 1)
    log.rollback_end(start, later)
    assert places(log.files) == [("JE-LOG-023", "error", later, "00000000.jdb")]


def period(log: LogWriter, vlsn: int) -> tuple[int, int]:
    """A matchpoint, an entry that is rolled back, RollbackStart; returns the LSNs of matchpoint and RollbackStart."""
    matchpoint = log.commit(vlsn)
    log.stream(vlsn + 1, invisible=True)
    return matchpoint, log.rollback_start(matchpoint, vlsn)


def test_two_rollback_ends_of_one_period() -> None:
    """Recovery refuses such a log; the periods, taken by their RollbackStarts, look as they should."""
    log = LogWriter()
    matchpoint, start = period(log, 1)
    first = log.rollback_end(matchpoint, start)
    log.next_file()
    second = log.rollback_end(matchpoint, start)
    log.stream(2)
    # Recovery reads backward, so it is the earlier one that it takes for the second.
    assert places(log.files) == [("JE-LOG-028", "error", first, "00000000.jdb")]
    log.rollback_end(matchpoint, start)
    assert places(log.files) == [("JE-LOG-028", "error", second, "00000001.jdb")]


def test_a_rollback_end_without_its_start() -> None:
    """Damage where the file is there that should hold the RollbackStart; else the cleaner has deleted it."""
    log = LogWriter()
    log.trace()
    log.next_file()
    matchpoint = log.commit(1)
    end = log.rollback_end(matchpoint, matchpoint + 5)
    assert places(log.files) == [("JE-LOG-028", "error", end, "00000001.jdb")]
    log = LogWriter()
    log.next_file()
    log.next_file()
    log.add(DB_TREE, root_body(17))
    log.checkpoint_end(log.commit(1))
    log.rollback_end(lsn(1, 60), lsn(1, 90))
    files = log.files
    del files[NAMES[0]], files[NAMES[1]]
    assert [code for code in codes(files) if code != "JE-LOG-012"] == []


def test_a_write_while_a_node_rolls_back() -> None:
    log = LogWriter()
    matchpoint, start = period(log, 1)
    log.trace("local writes may come here")
    write = replicated_ln(log, 2)
    log.rollback_end(matchpoint, start)
    assert places(log.files) == [("JE-LOG-029", "error", write, "00000000.jdb")]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rolled_back", [False, True])
def test_vlsns_that_are_missing(split: bool, rolled_back: bool) -> None:
    """In a file, between two, and after a rollback, whose VLSNs are given again."""
    log = LogWriter()
    log.commit(1)
    if rolled_back:
        matchpoint, start = period(log, 2)
        log.rollback_end(matchpoint, start)
    else:
        log.commit(2)
    log.stream(3)
    if split:
        log.next_file()
    log.trace("local")
    after = log.stream(6)
    log.stream(7)
    (found,) = findings(log.files)
    assert (found.code, found.lsn) == ("JE-REP-011", after)
    assert "4..5, 2 of them" in found.message


def test_vlsns_in_a_file_that_is_gone_are_no_second_finding() -> None:
    log = LogWriter()
    log.commit(1)
    log.next_file()
    log.commit(2)
    log.next_file()
    log.commit(3)
    files = log.files
    del files[NAMES[1]]
    assert codes(files) == ["JE-LOG-010"]


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


def test_thousands_of_periods_take_no_quadratic_time() -> None:
    """A crafted log: each period begins where all the others do, and covers them."""
    log = LogWriter()
    first = log.commit(1)
    for _ in range(5000):
        start = log.rollback_start(first, 1)
        log.rollback_end(first, start)
    assert places(log.files) == []


def test_the_levels_alone() -> None:
    """``log`` is all of it, the last file included; ``tail`` says nothing of the rest."""
    files = changed(whole(), NAMES[3], 200, b"????")
    at = boundaries(files[NAMES[5]])[-1]
    files[NAMES[5]] = files[NAMES[5]][:-1]
    log, tail, both = (report(files, levels) for levels in (("log",), ("tail",), ("log", "tail")))
    assert [(f.code, f.lsn) for f in tail.findings] == [("JE-TAIL-001", lsn(5, at))]
    assert [f.code for f in log.findings] == ["JE-LOG-001", "JE-TAIL-001"]
    assert log == both
    assert (log.checked, tail.checked) == (("log", "tail"), ("tail",))
    assert tail.not_checked[0] == "log"
    assert "tail" not in log.not_checked


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
    assert [(f.code, f.severity) for f in findings(files)] == [("JE-LOG-027", "warning")]
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


@pytest.mark.parametrize("jobs", [1, 2])
def test_several_processes_say_the_same(jobs: int) -> None:
    from engine.verify.environment import DEFAULT, verify_environment

    files = changed(whole(), NAMES[2], 300, b"????")
    storage = MemoryStorage(files)
    assert verify_environment(storage, list_log_files(storage), DEFAULT, jobs=jobs) == report(files)
