"""Bulk DDL, which Derby does not log (R-DRB-74), and containers without a file (R-DRB-75)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import gather
from engine.derby.format import page
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.verify.check import verify
from engine.derby.verify.findings import ERROR, NOTE, WARNING, DerbyFinding
from engine.errors import DamageError, JetoolError, RefusedError
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import BULK, files_of, storage_of
from tests.support.derby_java import java

# A page of the index TB of bulk-committed: filled unlogged to version 63, then changed by logged records.
INDEX = "seg0/c4e1.dat"
# Made and filled in the log, and not named since.
MADE_AGAIN = ("seg0/c4f0.dat", "seg0/c501.dat", "seg0/c510.dat")
# What indexes and tables then show; the last is a table without an index.
COMPARED = {
    "seg0/c4f0.dat": [("DRB-IDX-002", ERROR, "80 entries for 0 rows")],
    "seg0/c501.dat": [("DRB-IDX-002", ERROR, "0 entries for 80 rows")],
    "seg0/c510.dat": [],
}
BOOT_NEEDS = ("c10.dat", "c60.dat", "c71.dat", "cc0.dat", "cd1.dat")

BASE = """\
CREATE TABLE T (ID INT NOT NULL PRIMARY KEY, A INT, B VARCHAR(200), C INT)
!repeat 300 INSERT INTO T VALUES (?, ?, 'text of a row that fills some pages', ?)
!commit
!repeat 100 DELETE FROM T WHERE ID = ? * 3
!commit
CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()
!commit
"""
INDEX_MADE = "CREATE INDEX TB ON T (B, A)\n!commit\n"
COLUMN_DROPPED = "ALTER TABLE T DROP COLUMN C\n!commit\n"
COMPRESSED = "CALL SYSCS_UTIL.SYSCS_COMPRESS_TABLE('APP', 'T', 0)\n!commit\n"
# Values that equal the old ones stay as they were in an index; rows from before a column was added do not have it.
EQUAL_VALUES = "UPDATE T SET B = B || '  ' WHERE ID < 50\nALTER TABLE T ADD COLUMN D INT\nCREATE INDEX TD ON T (D)\n"
LIVES = (
    INDEX_MADE + "!repeat 30 INSERT INTO T VALUES (1000 + ?, 1, 'b', 2)\n!commit\n" + EQUAL_VALUES + "!commit\n",
    "CREATE INDEX TB ON T (B, A)\n",
    "CREATE INDEX TB ON T (B, A)\n!rollback\nINSERT INTO T VALUES (5000, 1, 'b', 2)\n!commit\n",
    INDEX_MADE + COMPRESSED + COMPRESSED,
    COLUMN_DROPPED + "!repeat 30 INSERT INTO T VALUES (1000 + ?, 1, 'b')\n!commit\n",
)


def found_in(files: dict[str, bytes]) -> list[DerbyFinding]:
    report = verify(DerbyDatabase(MemoryStorage(files)))
    return [one for one in report.findings if one.severity != NOTE]


def without(name: str, *gone: str) -> dict[str, bytes]:
    files = dict(files_of(name))
    for path in gone:
        del files[path]
    return files


@pytest.mark.parametrize("name", BULK)
def test_pages_that_were_filled_unlogged_are_no_finding(name: str) -> None:
    assert found_in(files_of(name)) == []
    analysis = gather(DerbyDatabase(storage_of(name))).analysis
    assert analysis is not None
    assert analysis.presence.lost == ()


def page_with(version: int, number: int) -> dict[str, bytes]:
    """The index with another version on one of its pages."""
    files = dict(files_of("bulk-committed"))
    data = bytearray(files[INDEX])
    image = bytearray(data[number * 4096 : (number + 1) * 4096])
    image[6:14] = version.to_bytes(8, "big")
    data[number * 4096 : (number + 1) * 4096] = page.sealed(image)
    return {**files, INDEX: bytes(data)}


def test_a_page_must_be_past_the_jump_and_not_ahead_of_what_follows() -> None:
    """Where the log has changes after the jump, both bounds hold again."""
    versions = {number: int.from_bytes(files_of("bulk-committed")[INDEX][number * 4096 + 6 :][:8]) for number in (1, 2)}
    assert min(versions.values()) > 2
    assert [one.code for one in found_in(page_with(2, 1))] == ["DRB-PAGE-004"]
    assert [one.code for one in found_in(page_with(1 << 20, 1))] == ["DRB-PAGE-005"]
    assert [one.code for one in found_in(page_with(1 << 20, 2))] == ["DRB-PAGE-005"]
    with pytest.raises(DamageError, match="has version 2, the record is for"):
        recover(MemoryStorage(page_with(2, 1)))


def test_an_ordinary_new_container_has_to_agree_with_its_log() -> None:
    """crash-ddl makes the table 0x560 with logged rows: page 1 ahead of the log is still found."""
    files = dict(files_of("crash-ddl"))
    path = "seg0/c560.dat"
    image = bytearray(files[path][4096:8192])
    image[6:14] = (14).to_bytes(8, "big")
    files[path] = files[path][:4096] + page.sealed(image) + files[path][8192:]
    assert [one.code for one in found_in(files)] == ["DRB-PAGE-005"]


@pytest.mark.parametrize("name", ["crash-five-transactions", "bulk-committed"])
def test_a_container_of_the_catalogue_without_a_file(name: str) -> None:
    """Derby does not boot without these; the log names none of them."""
    for file in BOOT_NEEDS:
        files = without(name, f"seg0/{file}")
        (found,) = found_in(files)
        assert (found.code, found.severity, found.file) == ("DRB-CONT-002", ERROR, f"seg0/{file}")
        storage = MemoryStorage(files)
        before = storage.contents()
        for dry_run in (True, False):
            with pytest.raises(RefusedError, match="its file is missing"):
                recover(storage, dry_run=dry_run)
        assert storage.contents() == before


def test_every_container_counts() -> None:
    """Each file of a crashed database in turn: verify is red, recover refuses before the first byte changes."""
    checked = 0
    for path in sorted(files_of("bulk-committed")):
        if not path.startswith("seg0/c") or path in MADE_AGAIN:
            continue
        rest = without("bulk-committed", path)
        assert [one.code for one in found_in(rest) if one.severity == ERROR] == ["DRB-CONT-002"], path
        storage = MemoryStorage(rest)
        before = storage.contents()
        with pytest.raises(JetoolError):
            recover(storage)
        assert storage.contents() == before, path
        checked += 1
    assert checked > 70


def test_the_loss_of_a_table_can_be_accepted() -> None:
    """The rest is recovered; what a record needs cannot be given up."""
    storage = MemoryStorage(without("bulk-committed", "seg0/cd1.dat"))
    result = recover(storage, RecoveryOptions(accept_loss=True))
    assert [one.key.container for one in result.analysis.presence.lost] == [0xD1]
    assert "container 209 is in the catalogue and its file is missing" in result.notes
    with pytest.raises(DamageError, match="not all of its pages"):
        recover(MemoryStorage(without("bulk-committed", INDEX)), RecoveryOptions(accept_loss=True))


@pytest.mark.parametrize("path", MADE_AGAIN)
def test_rows_that_the_log_may_not_have(path: str) -> None:
    """Redo makes the container again; the log does not say whether it was filled unlogged, its index or table does."""
    files = without("bulk-committed", path)
    found, *compared = found_in(files)
    assert (found.code, found.severity, found.file) == ("DRB-CONT-002", WARNING, path)
    assert [(one.code, one.severity, one.message.partition(": ")[2]) for one in compared] == COMPARED[path]
    result = recover(MemoryStorage(files))
    assert [note for note in result.notes if "put there unlogged" in note]


def test_tables_of_open_transactions() -> None:
    """What an open transaction made after redoLWM is made again and taken away; what it made before has to be there."""
    storage = MemoryStorage(without("bulk-open", "seg0/c511.dat"))
    assert found_in(storage.contents()) == []
    recover(storage)
    assert found_in(storage.contents()) == []
    assert "seg0/c511.dat" not in storage.contents()
    for path in ("seg0/c4e0.dat", "seg0/c4f1.dat", "seg0/c501.dat"):
        files = without("bulk-open", path)
        assert [one.code for one in found_in(files)] == ["DRB-CONT-002"], path
        storage = MemoryStorage(files)
        before = storage.contents()
        with pytest.raises(DamageError, match="named in the log and missing"):
            recover(storage)
        assert storage.contents() == before


def test_lives_with_real_derby(classes: Path, tmp_path: Path) -> None:
    """Databases halted right after bulk DDL: nothing to complain of, and after our recovery what Derby's leaves."""
    for number, life in enumerate(LIVES):
        made = java(
            classes, "DerbyScript", f"jdbc:derby:{tmp_path / str(number)};create=true", text=BASE + life + "!halt\n"
        )
        assert made.returncode == 9, made.stderr
        shutil.copytree(tmp_path / str(number), tmp_path / f"{number}-ours")
        storage = DiskStorage(str(tmp_path / f"{number}-ours"))
        report = verify(DerbyDatabase(storage))
        assert [one for one in report.findings if one.severity != NOTE] == [], life
        recover(storage)
        assert [one for one in verify(DerbyDatabase(storage)).findings if one.severity != NOTE] == [], life
    names = [str(tmp_path / f"{number}{kind}") for number in range(len(LIVES)) for kind in ("", "-ours")]
    looked = [
        json.loads(line) for line in java(classes, "DerbyOracle", text="\n".join(names) + "\n").stdout.splitlines()
    ]
    for theirs, ours in zip(looked[::2], looked[1::2], strict=True):
        assert theirs["error"] is None
        assert (ours["tables"], ours["check"]) == (theirs["tables"], theirs["check"])
        assert set(ours["check"].values()) == {1}
