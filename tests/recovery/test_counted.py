"""What recovery tells its hook of: every entry after CkptStart, one by one or in numbers (R-REC-18)."""

from __future__ import annotations

import contextlib
import re
from collections import Counter

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.parts import make_context
from engine.errors import JetoolError
from engine.format.entry.ln import HAS_PRIOR_SIZE, LN
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import PRIOR_VERSION
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.passes import RawEntry
from engine.log.scan import scan_log
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.recovery.result import PassCount, RecoveryResult
from engine.storage.disk import DiskStorage
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments

Totals = Counter[tuple[int, int]]


class Listening:
    """Counts entries and bytes by file and type."""

    def __init__(self, *, hears_all: bool) -> None:
        self.hears_all = hears_all
        self.entries: Totals = Counter()
        self.bytes: Totals = Counter()
        self.largest: dict[tuple[int, int], int] = {}
        self.one_by_one: list[int] = []
        self.redone_lsns: list[int] = []
        self.obsolete: Counter[tuple[int, str]] = Counter()
        self.in_bulk = 0

    def saw_entries(self, file_number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        self._count(file_number, type_number, entries, size_bytes, largest)

    def saw_entry(self, raw: RawEntry, *, provisional: bool, partial_start: int) -> None:
        self._count(raw.lsn >> 32, raw.type_number, 1, raw.size, raw.size)
        self.one_by_one.append(raw.lsn)

    def saw_summary(self, raw: RawEntry, record: LN) -> None:
        """Told once more as an entry."""

    def redone(self, raw: RawEntry, record: LN, db: DatabaseState, commit_lsn: int) -> None:
        self.redone_lsns.append(raw.lsn)
        # As the tracker of utilization has it (R-REC-57).
        if raw.version < PRIOR_VERSION or not record.flags2 & HAS_PRIOR_SIZE:
            return
        if record.prior_file >= 0:
            self._obsolete(record.prior_file << 32, record.prior_size, raw.lsn)
        elif not is_null(record.abort_lsn) and commit_lsn != NULL_LSN:
            self._obsolete(record.abort_lsn, record.prior_size, commit_lsn)

    def is_obsolete(self, lsn: int, made_by: int) -> bool:
        """About half of them."""
        return bool((lsn >> 32) + made_by & 1)

    def replaced(self, file_number: int, versions: int, sized: int, size_bytes: int) -> None:
        """Of plain updates."""
        self.in_bulk += versions
        self.obsolete += Counter(
            {(file_number, "versions"): versions, (file_number, "sized"): sized, (file_number, "bytes"): size_bytes}
        )

    def _obsolete(self, lsn: int, size: int, made_by: int) -> None:
        if self.is_obsolete(lsn, made_by):
            self.replaced(lsn >> 32, 1, 1 if size else 0, size)
            self.in_bulk -= 1

    def undone(self, raw: RawEntry, record: LN, db: DatabaseState | None) -> None:
        """Not counted here."""

    def _count(self, number: int, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        self.entries[number, type_number] += entries
        self.bytes[number, type_number] += size_bytes
        self.largest[number, type_number] = max(self.largest.get((number, type_number), 0), largest)


def recovered(storage: DiskStorage, hook: Listening) -> tuple[RecoveryResult, dict[int, list[tuple[object, ...]]]]:
    files = list_log_files(storage)
    ctx = make_context(EnvironmentConfig(read_only=True), LogAccess(storage, files.files))
    recovery = Recovery(ctx, find_end(storage, files), {}, hook=hook)
    catalog = recovery.run()
    trees = {}
    for db_id in catalog.ids():
        db = catalog.by_id(db_id)
        if db is not None and db.order.learned is None:
            trees[db_id] = [(*node.keys, *node.lsns, *node.states) for node in bins(ctx, db)]
    ctx.access.close()
    return recovery.result, trees


@pytest.mark.parametrize("environment", environments())
def test_the_hook_hears_of_every_entry_once(environment: Fixture) -> None:
    storage = DiskStorage(environment.path / "env")
    numbers, each = Listening(hears_all=False), Listening(hears_all=True)
    try:
        result, trees = recovered(storage, numbers)
    except JetoolError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            recovered(storage, each)
        return
    closely, same = recovered(storage, each)
    entries, sizes, largest = Counter[tuple[int, int]](), Counter[tuple[int, int]](), dict[tuple[int, int], int]()
    for item in scan_log(storage, list_log_files(storage), marker=True).entries():
        if isinstance(item, LogEntry) and result.ckpt_start_lsn <= item.lsn < result.end_lsn and item.lsn & 0xFFFFFFFF:
            at = item.lsn >> 32, item.type_number
            entries[at] += 1
            sizes[at] += item.total_bytes
            largest[at] = max(largest.get(at, 0), item.total_bytes)
    assert (numbers.entries, numbers.bytes, numbers.largest) == (entries, sizes, largest)
    assert numbers.one_by_one == sorted(numbers.one_by_one)
    # Whether LNs are taken in bulk or looked at one by one, the trees are the same, and so are the counts.
    assert trees == same
    assert [counts(one) for one in result.passes] == [counts(one) for one in closely.passes]
    assert set(numbers.redone_lsns) <= set(each.redone_lsns)
    assert numbers.obsolete == each.obsolete


def test_plain_updates_are_among_the_environments() -> None:
    """What replaces versions of plain records is summed up by file on some of them."""
    heard = Counter[str]()
    for parameters in environments():
        numbers, environment = Listening(hears_all=False), parameters.values[0]
        assert isinstance(environment, Fixture)
        with contextlib.suppress(JetoolError):
            recovered(DiskStorage(environment.path / "env"), numbers)
        heard += Counter({"in bulk": numbers.in_bulk, "files": len(numbers.obsolete)})
    assert heard["in bulk"] > 100
    assert heard["files"] > 10


def counts(one: PassCount) -> dict[str, int | str]:
    return one.fields()
