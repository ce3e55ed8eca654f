"""What operators and disks do to the files and entries of a log, and what ``verify`` says of it."""

from __future__ import annotations

import pytest

from engine.errors import StorageError, UnsupportedError
from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry_types import FILE_HEADER
from engine.format.header import EntryHeader, encode_entry
from engine.format.lsn import NULL_LSN, make_lsn
from engine.log.files import list_log_files
from engine.storage.base import ReadFile
from engine.storage.memory import MemoryStorage
from tests.support.logs.log_writer import (
    NAMES,
    Files,
    LogWriter,
    boundaries,
    changed,
    codes,
    findings,
    places,
    report,
    whole,
)

# The last checkpoint of the golden log lies in file 2: CkptEnd 0x2/0x1bec, firstActive 0x2/0x44c.
LAST_CHECKPOINT_FILE = 2


def without(*names: str) -> Files:
    return {name: data for name, data in whole().items() if name not in names}


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
    assert sorted((f.code, f.file) for f in found) == [("JE-LOG-010", NAMES[0]), ("JE-LOG-010", NAMES[1])]


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
    assert places(files) == [("JE-LOG-004", "error", make_lsn(3, at), NAMES[3])]
    files[NAMES[3]] = files[NAMES[3]][: at + 5]
    assert places(files) == [("JE-LOG-004", "error", make_lsn(3, at), NAMES[3])]


@pytest.mark.parametrize("kept", [1, 2, -1])
def test_a_middle_file_cut_at_an_entry_boundary(kept: int) -> None:
    """Every entry that is left is right; only the next file's header knows better."""
    files = whole()
    offsets = boundaries(files[NAMES[3]])
    last = offsets[kept - 1] if kept > 0 else offsets[-2]
    files[NAMES[3]] = files[NAMES[3]][: offsets[kept]]
    assert places(files) == [("JE-LOG-009", "error", make_lsn(3, last), NAMES[3])]


@pytest.mark.parametrize("length", [0, 1, FILE_HEADER_BYTES - 1])
def test_a_middle_file_cut_to_less_than_a_header(length: int) -> None:
    files = whole()
    files[NAMES[2]] = files[NAMES[2]][:length]
    assert places(files) == [("JE-LOG-008", "error", make_lsn(2, 0), NAMES[2])]


def test_a_page_of_zeros_in_a_middle_file() -> None:
    files = whole()
    page = changed(files, NAMES[2], 4096, bytes(4096))
    hit = max(at for at in boundaries(files[NAMES[2]]) if at <= 4096)
    assert [f[2:] for f in places(page)] == [(make_lsn(2, hit), NAMES[2])]
    (found,) = findings(page)
    assert found.code in ("JE-LOG-001", "JE-LOG-002")
    behind = min(at for at in boundaries(files[NAMES[2]]) if at >= 8192)
    assert f"{behind - hit} bytes skipped, next entry 0x2/0x{behind:x}" in found.message


def test_a_page_of_zeros_at_the_start_of_a_middle_file() -> None:
    files = changed(whole(), NAMES[2], 0, bytes(4096))
    (found,) = findings(files)
    assert (found.code, found.lsn, found.file) == ("JE-LOG-006", make_lsn(2, 0), NAMES[2])


def test_a_page_of_zeros_at_the_start_of_the_last_file() -> None:
    """With data after it JE refuses to open: no torn tail."""
    files = whole()
    files = changed(files, NAMES[5], 0, bytes(2048))
    (found,) = findings(files)
    assert (found.code, found.severity, found.lsn) == ("JE-LOG-006", "error", make_lsn(5, 0))


def test_a_page_of_zeros_in_the_last_file() -> None:
    """Commits stand after it: JE would cut them off."""
    files = whole()
    hit = max(at for at in boundaries(files[NAMES[5]]) if at <= 512)
    (found,) = findings(changed(files, NAMES[5], 512, bytes(512)))
    assert (found.code, found.severity, found.lsn, found.file) == ("JE-TAIL-002", "error", make_lsn(5, hit), NAMES[5])
    assert "intact Commits" in found.message


def test_zeros_to_the_end_of_the_last_file() -> None:
    """A page that never reached the disk, with nothing after it: the usual torn tail."""
    files = whole()
    data = files[NAMES[5]]
    hit = max(at for at in boundaries(data) if at <= 1024)
    assert places(changed(files, NAMES[5], 1024, bytes(len(data) - 1024))) == [
        ("JE-TAIL-001", "note", make_lsn(5, hit), NAMES[5])
    ]


def test_two_files_with_their_names_swapped() -> None:
    files = whole()
    files[NAMES[1]], files[NAMES[3]] = files[NAMES[3]], files[NAMES[1]]
    found = places(files)
    assert ("JE-LOG-007", "error", make_lsn(1, 0), NAMES[1]) in found
    assert ("JE-LOG-007", "error", make_lsn(3, 0), NAMES[3]) in found
    assert {code for code, *_ in found} <= {"JE-LOG-007", "JE-LOG-009"}


def test_a_file_copied_under_another_number() -> None:
    files = whole()
    files["00000006.jdb"] = files[NAMES[4]]
    assert ("JE-LOG-007", "error", make_lsn(6, 0), "00000006.jdb") in places(files)
    files = whole()
    files[NAMES[2]] = files[NAMES[1]]
    assert ("JE-LOG-007", "error", make_lsn(2, 0), NAMES[2]) in places(files)


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
        assert places(files) == [("JE-LOG-006", "error", make_lsn(number, 0), NAMES[number])]
        assert report(files).entries == entries - 1


def test_a_version_that_steps_back() -> None:
    log = LogWriter(version=17)
    log.trace()
    log.next_file(version=15)
    log.trace()
    assert places(log.files) == [("JE-LOG-019", "error", make_lsn(1, 0), "00000001.jdb")]


def test_a_version_that_steps_up_is_normal() -> None:
    log = LogWriter(version=15)
    log.trace()
    log.next_file(version=17)
    log.trace()
    assert codes(log.files) == []


def _newer(number: int) -> bytes:
    """The header of a file of log version 27."""
    header = encode_file_header(FileHeader(0, number, 0, 17), 17)
    newer = header[:-4] + (27).to_bytes(4, "little")
    return encode_entry(EntryHeader(0, FILE_HEADER, 0, 0, 0, -1), newer, 17)


def test_one_file_of_a_version_above_those_known() -> None:
    """The other files are checked all the same, and levels that recover the environment name the file too."""
    files = changed(whole(), NAMES[1], 0, _newer(1))
    (found,) = findings(files)
    assert (found.code, found.file, found.lsn) == ("JE-LOG-032", NAMES[1], make_lsn(1, 0))
    assert found.message.endswith("version 27, expected 1 to 26")
    assert found in report(files, ("data",)).findings


def test_a_version_above_those_known() -> None:
    files = whole()
    for number, name in enumerate(NAMES):
        files = changed(files, name, 0, _newer(number))
    with pytest.raises(UnsupportedError) as error:
        findings(files)
    assert error.value.file == f"memory:/{NAMES[0]}"
    assert (error.value.expected, error.value.found) == ("1 to 26", "27")


def test_a_name_in_upper_case() -> None:
    files = whole()
    files["00000003.JDB"] = files.pop(NAMES[3])
    assert places(files) == [("JE-LOG-021", "warning", NULL_LSN, "00000003.JDB")]
    both = {**whole(), "00000003.JDB": b"x"}
    assert "JE-LOG-017" in codes(both)


def test_an_entry_taken_out_and_one_put_in_twice() -> None:
    """All checksums are right; the link to the entry before shows it. One finding, not one for each entry after."""
    files = whole()
    data = files[NAMES[3]]
    first, second = boundaries(data)[5:7]
    files[NAMES[3]] = data[:first] + data[second:]
    found = places(files)
    assert found[0] == ("JE-LOG-005", "error", make_lsn(3, first), NAMES[3])
    assert {code for code, *_ in found} <= {"JE-LOG-005", "JE-LOG-009"}
    files[NAMES[3]] = data[:second] + data[first:]
    found = places(files)
    assert found[0] == ("JE-LOG-005", "error", make_lsn(3, second), NAMES[3])
    assert {code for code, *_ in found} <= {"JE-LOG-005", "JE-LOG-009"}


def test_an_item_size_below_zero() -> None:
    files = whole()
    at = boundaries(files[NAMES[3]])[10]
    assert places(changed(files, NAMES[3], at + 10, b"\xff\xff\xff\xff")) == [
        ("JE-LOG-003", "error", make_lsn(3, at), NAMES[3])
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


def test_the_levels_alone() -> None:
    """``log`` is all of it, the last file included; ``tail`` says nothing of the rest."""
    files = changed(whole(), NAMES[3], 200, b"????")
    at = boundaries(files[NAMES[5]])[-1]
    files[NAMES[5]] = files[NAMES[5]][:-1]
    log, tail, both = (report(files, levels) for levels in (("log",), ("tail",), ("log", "tail")))
    assert [(f.code, f.lsn) for f in tail.findings] == [("JE-TAIL-001", make_lsn(5, at))]
    assert [f.code for f in log.findings] == ["JE-LOG-001", "JE-TAIL-001"]
    assert log == both
    assert (log.checked, tail.checked) == (("log", "tail"), ("tail",))
    assert tail.not_checked[0] == "log"
    assert "tail" not in log.not_checked


@pytest.mark.parametrize("jobs", [1, 2])
def test_several_processes_say_the_same(jobs: int) -> None:
    from engine.verify.environment import DEFAULT, verify_environment

    files = changed(whole(), NAMES[2], 300, b"????")
    storage = MemoryStorage(files)
    assert verify_environment(storage, list_log_files(storage), DEFAULT, jobs=jobs) == report(files)
