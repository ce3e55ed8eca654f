"""A sample of the drill of ``verify``'s levels on Derby; ``python -m tests.derby.level_drill`` runs it at length.

And damaged index entries in containers that recovery would change.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import btree, page
from engine.derby.format import row as rows
from engine.derby.recovery.manager import DEFAULTS, recover_locked
from engine.derby.verify.check import DerbyReport, verify
from engine.derby.verify.findings import ERROR
from engine.errors import DamageError
from engine.events import SILENT
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import NAMES, damaged_of, files_of, json_of
from tests.derby.level_drill import of_seed
from tests.derby.mutations import mutation
from tests.support.logs.log_writer import Files

pytestmark = pytest.mark.exhaustive

SAMPLE = range(1, 21)
PAGE = 4096
# Entries that are flipped in each container.
ENTRIES = 3
MIDDLE = "one byte changed in a group in the middle of the log"
# SYSSTATEMENTS_INDEX1.
STATEMENTS_INDEX = 577
COMPARED = "rows against indexes in tables that recovery changes"


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_sample(seed: int) -> None:
    assert of_seed(seed).misses == ()


def test_a_seed_always_gives_the_same_mutation() -> None:
    assert mutation(5) == mutation(5)
    assert {mutation(seed).source for seed in SAMPLE} == set(NAMES)


def checked(files: Files) -> DerbyReport:
    return verify(DerbyDatabase(MemoryStorage(files)))


def recovered(files: Files) -> Files:
    storage = MemoryStorage(files)
    recover_locked(storage, DEFAULTS, None, SILENT)
    return storage.contents()


def page_at(files: Files, path: str, number: int) -> bytes:
    return files[path][number * PAGE : (number + 1) * PAGE]


def entries(files: Files, path: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Page, record and first column of the entries of an index; none of a table."""
    for number in range(1, len(files[path]) // PAGE):
        data = page_at(files, path, number)
        if not any(data):
            continue
        decoded = page.decode(data)
        control = btree.control_row(rows.decode_row(decoded.rows[0].record)) if decoded.rows else None
        if control is None or control.kind != btree.LEAF:
            continue
        for stored in decoded.rows[1:]:
            row = rows.decode_row(stored.record)
            if not row.header.deleted and row.fields[0].data:
                yield number, stored.record, row.fields[0].data


def flipped(files: Files, path: str, number: int, record: bytes, value: bytes) -> Files:
    """The files with the last byte of an entry's first column changed, and the page's checksum right."""
    changed = record.replace(value, value[:-1] + bytes((value[-1] ^ 1,)), 1)
    data = bytearray(page_at(files, path, number))
    at = data.find(record)
    data[at : at + len(record)] = changed
    sealed = page.sealed(data)
    whole = files[path]
    return {**files, path: whole[: number * PAGE] + bytes(sealed) + whole[(number + 1) * PAGE :]}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("crash")])
def test_a_flipped_entry_in_an_index_that_recovery_changes(name: str) -> None:
    files = dict(files_of(name))
    after = recovered(files)
    changed = [
        path for path in sorted(files) if path.startswith("seg0/c") and after.get(path) not in (None, files[path])
    ]
    found = 0
    for path in changed:
        for number, record, value in list(entries(files, path))[:ENTRIES]:
            damaged = flipped(files, path, number, record, value)
            report = checked(damaged)
            codes = {one.code for one in report.findings if one.severity == ERROR}
            try:
                healed = recovered(damaged)[path] == after[path]
            except DamageError:
                healed = False
            # Recovery may delete the entry, or write its page anew.
            assert codes or healed, (path, number, value)
            found += bool(codes)
    assert found > 2


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_entry_of_a_table_with_long_rows(name: str) -> None:
    """Texts of stored statements overflow; the identifier that the index is on does not."""
    files = dict(files_of(name))
    path = f"seg0/c{STATEMENTS_INDEX:x}.dat"
    number, record, value = next(entries(files, path))
    found = checked(flipped(files, path, number, record, value)).findings
    assert [(one.code, one.container) for one in found if one.severity == ERROR] == [("DRB-IDX-002", STATEMENTS_INDEX)]


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_database_is_compared_as_recovery_leaves_it(name: str) -> None:
    report = checked(dict(files_of(name)))
    assert {one.severity for one in report.findings} <= {"note"}
    assert not [clause for clause in report.not_checked if clause.startswith(COMPARED)]


def test_what_recovery_refuses_is_not_compared() -> None:
    """Committed transactions after the end of the log: recovery does not go on without a decision."""
    name = "crash-five-transactions"
    case = next(one for one in json_of(name, "damage.json")["cases"] if one["damage"] == MIDDLE)
    report = verify(DerbyDatabase(damaged_of(name, case)))
    assert "DRB-LOG-002" in {one.code for one in report.findings}
    assert [clause for clause in report.not_checked if clause.startswith("rows ")]


def test_recovery_that_stops() -> None:
    """An index entry that is to be taken back is not there any more: nothing on the pages is wrong by itself."""
    name = "crash-five-transactions"
    files = dict(files_of(name))
    stopped = []
    for path in sorted(path for path in files if path.startswith("seg0/c4")):
        for number, record, value in entries(files, path):
            report = checked(flipped(files, path, number, record, value))
            stopped += [one for one in report.findings if one.code == "DRB-REC-003"]
            if stopped:
                assert report.not_checked[-1] == f"{COMPARED} (recovery stops)"
                return
    raise AssertionError("recovery goes on after each")
