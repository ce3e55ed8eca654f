"""What verify and info say of the fixtures, of the damage cases, and of damage made here."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from engine.derby import database_info as info
from engine.derby.database import DerbyDatabase
from engine.derby.format import control, instant, page
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.verify import check as verify
from engine.derby.verify import findings
from engine.errors import JetoolError, NotFoundError, UnsupportedError
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import NAMES, damaged_of, files_of, json_of, storage_of

FIVE = "crash-five-transactions"


def codes(storage: MemoryStorage) -> set[str]:
    return {found.code for found in verify.verify(DerbyDatabase(storage)).findings}


@pytest.mark.parametrize("name", NAMES)
def test_databases_after_a_crash_have_no_warning(name: str) -> None:
    """What a crash leaves is open transactions and stubs: notes."""
    before = storage_of(name).contents()
    storage = storage_of(name)
    report = verify.verify(DerbyDatabase(storage))
    assert {found.severity for found in report.findings} <= {findings.NOTE}
    assert report.containers > 70
    assert report.pages > 200
    assert report.rows > 1500
    assert storage.contents() == before


@pytest.mark.parametrize("name", NAMES)
def test_info_agrees_with_the_manifest(name: str) -> None:
    manifest = json_of(name, "manifest.json")
    found = info.gather(DerbyDatabase(storage_of(name)))
    assert found.problem is None
    assert found.release == (10, 14)
    assert instant.show(found.controls.checkpoint) == manifest["control_files"]["log.ctrl"]["checkpoint"]
    assert [one.number for one in found.log_files] == list(range(1, len(manifest["log_files"]) + 1))
    analysis = found.analysis
    assert analysis is not None
    marks = manifest["last_checkpoint"]["op"]
    assert instant.show(analysis.start.redo_lwm) == marks["redoLWM"]
    assert instant.show(analysis.start.undo_lwm) == marks["undoLWM"]
    assert [one.number for one in analysis.losers] == manifest["recovery"]["undo_order"]
    opened = {
        str(one.number): (instant.show(one.first), one.internal, one.prepared)
        for one in (*analysis.losers, *analysis.in_doubt)
    }
    expected = {
        number: (entry["first"], entry["internal"], entry["prepared"])
        for number, entry in manifest["open_at_end"].items()
    }
    assert opened == expected
    assert analysis.clean == (name == "clean-shutdown")
    assert analysis.after.records == 0
    after = manifest["recovery"]["checkpoint"]
    if after is not None:
        assert analysis.next_transaction == after["xid"]


def test_five_transactions_of_the_diagram() -> None:
    """Section C of the behaviour document: only T4 (196) is left, with nothing of T1 or T3."""
    analysis = info.gather(DerbyDatabase(storage_of(FIVE))).analysis
    assert analysis is not None
    assert [(one.number, instant.show(one.first), one.records) for one in analysis.losers] == [(196, "(1,40998)", 10)]
    assert analysis.to_redo == 9


EXPECTED = {
    "trailing length of the last record is zero": {"DRB-LOG-001"},
    "last ten bytes are zero": {"DRB-LOG-001"},
    "only the length word of the last record was written": {"DRB-LOG-001"},
    "checksum record of the last group never written, its data was": {"DRB-LOG-002"},
    "one byte changed in a group in the middle of the log": {"DRB-LOG-002"},
    "garbage a hundred bytes after the end marker": {"DRB-LOG-009"},
    "plausible length and wrong instant right at the end": {"DRB-LOG-010"},
    "negative length word right at the end": {"DRB-LOG-010"},
    "huge length word right at the end": {"DRB-LOG-001"},
    "file truncated inside the last record": {"DRB-LOG-001"},
    "file truncated exactly at the end": set(),
    "file truncated two bytes after the end": {"DRB-LOG-001"},
    "log.ctrl: checksum damaged": {"DRB-CTL-001"},
    "log.ctrl: checkpoint instant damaged": {"DRB-CTL-001"},
    "log.ctrl is empty": {"DRB-CTL-001"},
    "log.ctrl is missing, the mirror is good": {"DRB-CTL-002"},
    "both control files damaged": {"DRB-CTL-004"},
    "mirror damaged, log.ctrl good": {"DRB-CTL-003"},
    "next log file exists, chained, no records": set(),
    "next log file exists, chained, header only": set(),
    "next log file exists, previous instant wrong": {"DRB-LOG-005"},
    "next log file exists, file number wrong": {"DRB-LOG-004"},
    "next log file exists, header cut short": {"DRB-LOG-004"},
    "control files point at a record that is not a checkpoint": {"DRB-CTL-007"},
    "control files of a newer release": set(),
    "control files of an older release": set(),
    "control file of sixteen bytes": {"DRB-CTL-001"},
    "log file of the checkpoint is missing": {"DRB-LOG-003"},
}


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_of(FIVE, "damage.json")["cases"]
    return found


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_damage_cases_have_their_codes(number: int) -> None:
    case = cases()[number]
    assert codes(damaged_of(FIVE, case)) - {"DRB-REC-001", "DRB-CONT-004"} == EXPECTED[case["damage"]]


def test_every_damage_case_is_in_the_table() -> None:
    assert {case["damage"] for case in cases()} == set(EXPECTED)


def test_valid_records_after_the_end_are_named() -> None:
    case = next(c for c in cases() if c["damage"].startswith("one byte changed"))
    report = verify.verify(DerbyDatabase(damaged_of(FIVE, case)))
    found = next(one for one in report.findings if one.code == "DRB-LOG-002")
    assert found.severity == findings.ERROR
    assert "14 valid records, 2 commits among them" in found.message
    assert "(1,42612)" in found.message
    analysis = info.gather(DerbyDatabase(damaged_of(FIVE, case))).analysis
    assert analysis is not None
    assert analysis.after.transactions == (194, 200)


def changed(path: str, at: int, data: bytes, *, name: str = FIVE) -> MemoryStorage:
    files = dict(files_of(name))
    content = bytearray(files[path])
    content[at : at + len(data)] = data
    files[path] = bytes(content)
    return MemoryStorage(files, root=name)


def with_page(path: str, number: int, content: bytearray) -> MemoryStorage:
    return changed(path, number * 4096, page.sealed(content))


def page_of(path: str, number: int) -> bytearray:
    return bytearray(files_of(FIVE)[path][number * 4096 : (number + 1) * 4096])


def test_page_checksum() -> None:
    assert "DRB-PAGE-001" in codes(changed("seg0/c490.dat", 4096 + 100, b"\xff"))


def test_page_behind_the_log() -> None:
    """R-DRB-34, worked example: page 1 of 0x490 at version 13 while the next record needs 14."""
    data = page_of("seg0/c490.dat", 1)
    assert int.from_bytes(data[6:14], "big") == 14
    data[6:14] = (13).to_bytes(8, "big")
    report = verify.verify(DerbyDatabase(with_page("seg0/c490.dat", 1, data)))
    found = next(one for one in report.findings if one.code == "DRB-PAGE-004")
    assert found.message == "page version 13, the first record for it needs 14"
    assert (instant.show(found.instant), found.container, found.page) == ("(1,41924)", 0x490, 1)


def test_page_ahead_of_the_log() -> None:
    data = page_of("seg0/c490.dat", 1)
    data[6:14] = (99).to_bytes(8, "big")
    assert "DRB-PAGE-005" in codes(with_page("seg0/c490.dat", 1, data))


def test_slot_table_and_row() -> None:
    data = page_of("seg0/c490.dat", 1)
    data[4096 - 14 : 4096 - 12] = b"\x0f\xff"
    assert "DRB-PAGE-002" in codes(with_page("seg0/c490.dat", 1, data))
    data = page_of("seg0/c490.dat", 1)
    data[60] = 0xC0
    assert "DRB-PAGE-003" in codes(with_page("seg0/c490.dat", 1, data))


def test_deleted_rows_are_counted() -> None:
    data = page_of("seg0/c490.dat", 1)
    data[36:38] = b"\x00\x09"
    assert "DRB-PAGE-006" in codes(with_page("seg0/c490.dat", 1, data))


def test_container_header_and_missing_container() -> None:
    assert "DRB-CONT-001" in codes(changed("seg0/c490.dat", 120, b"\xff"))
    files = dict(files_of(FIVE))
    del files["seg0/c490.dat"]
    assert "DRB-CONT-002" in codes(MemoryStorage(files))


def test_damage_in_front_of_the_undo_low_water_mark() -> None:
    assert "DRB-LOG-006" in codes(changed("log/log1.dat", 20000, b"\xff\xff\xff\xff"))


def test_log_that_ends_in_front_of_its_checkpoint() -> None:
    found = codes(changed("log/log1.dat", 41287, b"\xff\xff"))
    assert {"DRB-LOG-008", "DRB-LOG-002"} <= found


def test_control_files_that_differ() -> None:
    name = "crash-log-files"
    mirror = files_of(FIVE)["log/logmirror.ctrl"]
    assert "DRB-CTL-005" in codes(changed("log/logmirror.ctrl", 0, mirror, name=name))


def test_encrypted_database_is_refused() -> None:
    files = dict(files_of(FIVE))
    files["service.properties"] += b"dataEncryption=true\n"
    with pytest.raises(UnsupportedError, match="encrypted"):
        verify.verify(DerbyDatabase(MemoryStorage(files)))
    found = info.gather(DerbyDatabase(MemoryStorage(files)))
    assert (found.encrypted, found.analysis) == (True, None)


def test_unknown_release_is_refused() -> None:
    files = dict(files_of(FIVE))
    files["log/log.ctrl"] = control.encode(control.Control(1, 11, 0))
    with pytest.raises(UnsupportedError, match=r"release 11\.0"):
        info.gather(DerbyDatabase(MemoryStorage(files)))


def test_other_directories_are_no_database() -> None:
    with pytest.raises(NotFoundError, match="no Derby database"):
        DerbyDatabase(MemoryStorage({"00000000.jdb": b""}))


def test_every_code_is_complete() -> None:
    for code, line in findings.CODES.items():
        assert code.startswith("DRB-")
        assert line.severity in (findings.ERROR, findings.WARNING, findings.NOTE)
        assert line.consequence
        assert line.remedy


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(60))
def test_random_damage_never_breaks_the_readers(seed: int) -> None:
    """Bytes anywhere in log, control file or container: findings or a clear error, no other exception."""
    draw = random.Random(seed)
    files = dict(files_of("crash-mixed"))
    for _ in range(draw.randint(1, 6)):
        path = draw.choice(["log/log1.dat"] * 6 + ["log/log.ctrl", "seg0/c490.dat", "seg0/c4b1.dat", "seg0/c4e0.dat"])
        content = bytearray(files[path])
        limit = min(len(content), 220_000)
        at = draw.randrange(limit)
        length = draw.choice([1, 1, 2, 4, 40, 600])
        content[at : at + length] = draw.choice([draw.randbytes(length), bytes(length), b"\xff" * length])
        files[path] = bytes(content)
    with contextlib.suppress(JetoolError):
        report = verify.verify(DerbyDatabase(MemoryStorage(files)))
        assert report.containers > 70
        assert info.gather(DerbyDatabase(MemoryStorage(files))).analysis is not None or report.findings
        ForwardScan(DerbyLogFiles(DerbyDatabase(MemoryStorage(files))), instant.make(1, 24)).run()


def test_container_whose_creation_was_interrupted_is_a_note() -> None:
    """Header written, page 0 never: what a crash in the middle of a creation leaves."""
    first = bytearray(4096)
    first[108:189] = files_of(FIVE)["seg0/c490.dat"][108:189]
    storage = MemoryStorage({**files_of(FIVE), "seg0/c720.dat": bytes(first)})
    report = verify.verify(DerbyDatabase(storage))
    found = next(one for one in report.findings if one.container == 0x720)
    assert (found.code, found.severity) == ("DRB-CONT-005", findings.NOTE)


def test_catalogue_against_files() -> None:
    """A table file that nothing in the log names is missed all the same, and a foreign one is noted."""
    files = dict(files_of("clean-shutdown"))
    report = verify.verify(DerbyDatabase(MemoryStorage(files)))
    assert report.findings == ()
    assert "tables and indexes of the catalogue against their files" not in report.not_checked
    moved = files.pop("seg0/c490.dat")
    files["seg0/c9990.dat"] = moved
    found = verify.verify(DerbyDatabase(MemoryStorage(files))).findings
    assert [(one.code, one.container) for one in found] == [("DRB-CONT-005", 0x9990), ("DRB-CONT-002", 0x490)]
