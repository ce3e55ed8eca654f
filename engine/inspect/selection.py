"""Choosing entries: the filters of ``dump-log``.

Criteria of different kinds are ANDed, values of one kind are ORed. A body is decoded only if a criterion needs it. Most
criteria apply to a single entry. Some depend on the whole log; ``prepare`` reads it first for them:

* database names, which NameLN entries give (every id that a name ever had counts). A number that is not the name of a
  database is an id, and ``id:7`` is always an id, because frontends name databases with digits;
* rollback periods, for ``rolled_back``: an entry is rolled back if it is in a period that lists its transaction as
  active (R-RB-4), whether or not its INVISIBLE bit is already set;
* partitions of Oracle NoSQL, for tables and regions: the databases ``p1``, ``p2`` and so on;
* times. LNs carry none. ``since`` begins after the last entry with an earlier time, so that the LNs of the first
  transaction that ended in the range are included; ``until`` ends before the first entry with a later time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from engine.contents.nosql import is_partition, region_of, table_of
from engine.errors import FormatError, NotFoundError
from engine.format.codecs import Record
from engine.format.entry.checkpoint import CkptEnd, CkptStart
from engine.format.entry.file_header import FileHeader
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry.node import NodeRecord, decode_node
from engine.format.entry.rollback import Matchpoint, RollbackEnd, RollbackStart
from engine.format.entry.trace import Trace
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import (
    BY_NUMBER,
    LNS,
    NAME_LNS,
    NODE_ENTRIES,
    NODES,
    ROLLBACK_START,
    TIMED_ENTRIES,
    TRANSACTIONAL,
)
from engine.format.fast.filters import ByteFilter
from engine.format.fast.header import header_lengths
from engine.format.fast.loops import keeping
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN, make_lsn
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.storage.base import Storage

_TIMED_RECORDS: Final = (CkptStart, CkptEnd, TxnEnd, Prepare, RollbackStart, RollbackEnd, Matchpoint, Trace, FileHeader)

_DATABASE_ID: Final = re.compile(r"(id:)?(-?[0-9]{1,19})")

# No file has the number -1, so this set selects nothing.
_NO_FILES: Final = frozenset((-1,))


@dataclass(frozen=True, slots=True)
class Selection:
    """The wanted entries; empty and None mean no limit.

    Attributes:
        from_lsn, to_lsn: the first and the last entry, inclusive; NULL_LSN means no limit.
        files: file numbers.
        vlsns: first and last VLSN; None for no limit.
        types, without_types: type numbers: those that are wanted, and those that are left out.
        txns, nodes: ids.
        dbs: database ids; ``prepare`` resolves ``db_names`` (names or ids as typed) and adds them.
        keys, key_prefixes: of LNs.
        tables, regions: ids of Oracle NoSQL's tables and regions, as the keys and values of rows name them.
        partitions: ids of the databases that hold rows; ``prepare`` sets it if tables or regions are chosen.
        provisional: states.
        replicated, invisible, rolled_back: select only such entries.
        since_ms, until_ms: times, turned into LSNs by ``prepare``.
        periods: matchpoint, RollbackStart and active transactions of each rollback period, from ``prepare``.
    """

    from_lsn: int = NULL_LSN
    to_lsn: int = NULL_LSN
    files: frozenset[int] = frozenset()
    vlsns: tuple[int | None, int | None] | None = None
    types: frozenset[int] = frozenset()
    without_types: frozenset[int] = frozenset()
    txns: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()
    dbs: frozenset[int] = frozenset()
    db_names: tuple[str, ...] = ()
    keys: frozenset[bytes] = frozenset()
    key_prefixes: tuple[bytes, ...] = ()
    tables: frozenset[int] = frozenset()
    regions: frozenset[int] = frozenset()
    partitions: frozenset[int] = frozenset()
    provisional: frozenset[Provisional] = frozenset()
    replicated: bool = False
    invisible: bool = False
    rolled_back: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    periods: tuple[tuple[int, int, frozenset[int]], ...] = field(default=())

    def is_open(self) -> bool:
        """Whether every entry is wanted."""
        return self == Selection()

    def prepare(self, storage: Storage, files: LogFiles) -> Selection:
        """Resolve the criteria that depend on the whole log.

        Raises:
            NotFoundError: no database ever had one of the names.
        """
        ready = self
        if self.db_names:
            ready = replace(ready, dbs=self.dbs | _ids_of(self.db_names, storage, files), db_names=())
        if self.tables or self.regions:
            ready = replace(ready, partitions=_partitions(storage, files))
        if self.rolled_back:
            ready = replace(ready, periods=_periods(storage, files))
        if self.since_ms is not None or self.until_ms is not None:
            ready = _with_times(ready, storage, files)
        return ready

    def wants_file(self, number: int) -> bool:
        """Whether a file can hold a wanted entry."""
        if self.from_lsn != NULL_LSN and number < self.from_lsn >> 32:
            return False
        if self.to_lsn != NULL_LSN and number > self.to_lsn >> 32:
            return False
        return not self.files or number in self.files

    def wants_all(self, stretch: Stretch) -> bool:
        """Whether every entry of a stretch is wanted: only files and bounds are selected, and it lies within them. The
        selection must be prepared.
        """
        bounds = Selection(self.from_lsn, self.to_lsn, self.files, since_ms=self.since_ms, until_ms=self.until_ms)
        if self != bounds or not self.wants_file(stretch.lsn >> 32):
            return False
        is_ended = self.to_lsn != NULL_LSN and self.to_lsn < stretch.last_lsn
        # NULL_LSN is below every LSN.
        return self.from_lsn <= stretch.lsn + stretch.start and not is_ended

    def chosen(self, items: Iterable[Stretch | LogEntry | Damage]) -> Iterator[LogEntry | Damage]:
        """The wanted entries of a pass, and all damage. The selection must be prepared.

        Types and raw fields exclude most entries; ``matcher`` decides about the rest after decoding.
        """
        choose = self.chooser()
        for item in items:
            yield from choose(item)

    def chooser(self) -> Callable[[Stretch | LogEntry | Damage], Iterator[LogEntry | Damage]]:
        """A function for ``chosen`` that gets the items of a pass one by one."""
        wanted, actions, sieve = self.matcher(), self._actions(), self._byte_filter()

        def choose(item: Stretch | LogEntry | Damage) -> Iterator[LogEntry | Damage]:
            if not isinstance(item, Stretch):
                if isinstance(item, Damage) or wanted(item):
                    yield item
                return
            if sieve is not None and not sieve.may_hold(item.data):
                return
            found = item.positions(actions)
            if sieve is not None:
                found = sieve.sieved(item.data, found, header_lengths(item.version), item.version)
            yield from (entry for entry in map(item.entry_at, found) if wanted(entry))

        return choose

    def _actions(self) -> list[int]:
        """The types that ``Stretch.positions`` keeps: those that can be wanted."""
        types = set(self.types or BY_NUMBER) - self.without_types
        if self.txns:
            types &= TRANSACTIONAL
        if self.dbs:
            types &= LNS | NODE_ENTRIES
        if self.nodes:
            types &= NODE_ENTRIES
        if self.keys or self.key_prefixes or self.tables or self.regions:
            types &= LNS
        return keeping(frozenset(types))

    def _byte_filter(self) -> ByteFilter | None:
        if not (self.txns or self.dbs or self.keys or self.key_prefixes):
            return None
        keys = self.keys if self.keys or self.key_prefixes else None
        return ByteFilter(self.txns or None, self.dbs or None, keys, self.key_prefixes)

    def matcher(self) -> Callable[[LogEntry], bool]:
        """A function that returns whether an entry is wanted. The selection must be prepared."""
        tests = list(_header_tests(self)) + list(_body_tests(self))
        if len(tests) == 1:
            return tests[0]
        return lambda entry: all(test(entry) for test in tests)


Test = Callable[[LogEntry], bool]


def _header_tests(s: Selection) -> list[Test]:
    tests: list[Test] = []
    if s.from_lsn != NULL_LSN:
        tests.append(lambda e: e.lsn >= s.from_lsn)
    if s.to_lsn != NULL_LSN:
        tests.append(lambda e: e.lsn <= s.to_lsn)
    if s.files:
        tests.append(lambda e: e.lsn >> 32 in s.files)
    if s.types:
        tests.append(lambda e: e.type_number in s.types)
    if s.without_types:
        tests.append(lambda e: e.type_number not in s.without_types)
    if s.vlsns is not None:
        # VLSNs start at 1; entries outside the stream have a negative number and never match.
        low, high = s.vlsns[0] or 1, s.vlsns[1] if s.vlsns[1] is not None else (1 << 63) - 1
        tests.append(lambda e: low <= e.vlsn <= high)
    if s.provisional:
        tests.append(lambda e: e.provisional in s.provisional)
    if s.replicated:
        tests.append(lambda e: e.replicated)
    if s.invisible:
        tests.append(lambda e: e.invisible)
    return tests


def _body_tests(s: Selection) -> list[Test]:
    tests: list[Test] = []
    if s.txns:
        tests.append(lambda e: txn_of(e) in s.txns)
    if s.dbs:
        tests.append(lambda e: db_of(e) in s.dbs)
    if s.nodes:
        tests.append(lambda e: _node_of(e) in s.nodes)
    if s.keys or s.key_prefixes:
        tests.append(lambda e: _has_key(e, s))
    if s.tables or s.regions:
        tests.append(lambda e: _is_row(e, s))
    if s.rolled_back:
        tests.append(lambda e: _is_rolled_back(e, s))
    return tests


def txn_of(entry: LogEntry) -> int | None:
    """The transaction of an entry; None if the entry has no transaction or cannot be decoded."""
    if entry.type_number not in TRANSACTIONAL:
        return None
    record = _record(entry)
    if isinstance(record, LN):
        return record.txn_id
    return record.id if isinstance(record, (TxnEnd, Prepare)) else None


def db_of(entry: LogEntry) -> int | None:
    """The database of an entry; None if the entry has no database or cannot be decoded."""
    if entry.type_number not in LNS and entry.type_number not in NODE_ENTRIES:
        return None
    record = _record(entry)
    db_id = getattr(record, "db_id", None)
    return db_id if isinstance(db_id, int) else None


def time_of(entry: LogEntry) -> int | None:
    """The time (ms) in an entry, or None."""
    if entry.type_number not in TIMED_ENTRIES:
        return None
    record = _record(entry)
    return record.time if isinstance(record, _TIMED_RECORDS) else None


def _node_of(entry: LogEntry) -> int | None:
    record = _record(entry) if entry.type_number in NODE_ENTRIES else None
    return record.node_id if isinstance(record, NodeRecord) else None


def _has_key(entry: LogEntry, s: Selection) -> bool:
    record = _record(entry) if entry.type_number in LNS else None
    if not isinstance(record, LN):
        return False
    return record.key in s.keys or (bool(s.key_prefixes) and record.key.startswith(s.key_prefixes))


def _is_row(entry: LogEntry, s: Selection) -> bool:
    """Whether an entry is a row of a wanted table and region of Oracle NoSQL."""
    record = _record(entry) if entry.type_number in LNS else None
    if not isinstance(record, LN) or record.db_id not in s.partitions:
        return False
    if s.tables and table_of(record.key) not in s.tables:
        return False
    # An empty first component marks a key of the store itself.
    is_own = record.key[:1] in (b"", b"\0")
    return not s.regions or (not is_own and region_of(record.data or b"") in s.regions)


def _is_rolled_back(entry: LogEntry, s: Selection) -> bool:
    if entry.invisible:
        return True
    inside = [active for matchpoint, start, active in s.periods if matchpoint < entry.lsn < start]
    if not inside or entry.type_number not in LNS:
        return False
    txn = txn_of(entry)
    return any(txn in active for active in inside)


def _record(entry: LogEntry) -> Record | None:
    try:
        # No filter needs slots, which make up most of a node.
        if entry.type_number in NODES:
            return decode_node(entry.body, entry.version, entry.type_number, with_slots=False)
        return entry.record()
    except (FormatError, IndexError, ValueError):
        return None


def database_id(word: str) -> int | None:
    """The id in ``id:7``; None for a name, which may be a number."""
    found = _DATABASE_ID.fullmatch(word)
    return int(found[2]) if found is not None and found[1] else None


def _ids_of(words: tuple[str, ...], storage: Storage, files: LogFiles) -> frozenset[int]:
    if all(database_id(word) is not None for word in words):
        return ids_of(words, (), storage.root)
    entries = scan_log(storage, files, types=NAME_LNS, marker=True).good_entries()
    return ids_of(words, map(_record, entries), storage.root)


def _partitions(storage: Storage, files: LogFiles) -> frozenset[int]:
    """The current and former ids of all partitions of an Oracle NoSQL shard.

    Raises:
        NotFoundError: the log has no partition.
    """
    ids: set[int] = set()
    for entry in scan_log(storage, files, types=NAME_LNS, marker=True).good_entries():
        record = _record(entry)
        if isinstance(record, LN) and isinstance(record.content, NameLN):
            name = record.key.decode("utf-8", "surrogateescape")
            ids |= {record.content.db_id} if is_partition(name) else set()
    if not ids:
        raise NotFoundError(
            "the log has no partition of Oracle NoSQL",
            file=storage.root,
            expected="databases p1, p2 and so on",
            hint="tables and regions are those of Oracle NoSQL; jetool dbs lists the databases",
        )
    return frozenset(ids)


def ids_of(words: tuple[str, ...], records: Iterable[Record | None], root: str) -> frozenset[int]:
    """The current and former ids of databases given by name or id.

    Arguments:
        records: all NameLNs of the log; other LNs are ignored.
        root: the path of the environment, for the error message.

    Raises:
        NotFoundError: no database ever had one of the names.
    """
    ids = {number for number in map(database_id, words) if number is not None}
    names = [word for word in words if database_id(word) is None]
    known: set[str] = set()
    for record in records:
        if isinstance(record, LN) and isinstance(record.content, NameLN):
            name = record.key.decode("utf-8", "surrogateescape")
            known.add(name)
            if name in names:
                ids.add(record.content.db_id)
    unknown = [name for name in names if name not in known]
    # An id also selects the remains of a removed database whose NameLNs the cleaner has deleted.
    ids.update(int(name) for name in unknown if _DATABASE_ID.fullmatch(name))
    missing = [name for name in unknown if not _DATABASE_ID.fullmatch(name)]
    if missing:
        shown = ", ".join(sorted(name for name in known if not name.startswith("_je"))[:20])
        raise NotFoundError(
            f"the log has no database {', '.join(map(repr, missing))}",
            file=root,
            hint=f"names in the log: {shown}"
            if shown
            else "use the id, as id:7; the NameLN may have been cleaned away",
        )
    return frozenset(ids)


def _periods(storage: Storage, files: LogFiles) -> tuple[tuple[int, int, frozenset[int]], ...]:
    periods = []
    for entry in scan_log(storage, files, types=frozenset((ROLLBACK_START,)), marker=True).good_entries():
        record = _record(entry)
        if isinstance(record, RollbackStart):
            periods.append((record.matchpoint_lsn, entry.lsn, frozenset(record.active_txn_ids)))
    return tuple(periods)


def _with_times(s: Selection, storage: Storage, files: LogFiles) -> Selection:
    """Replace times by LSNs."""
    ready = replace(s, since_ms=None, until_ms=None)
    low, high = NULL_LSN, NULL_LSN
    previous = NULL_LSN
    behind_early = True
    for item in scan_log(storage, files, start=_first_file_for(s, storage, files)).good_entries():
        time = time_of(item)
        if time is not None and s.until_ms is not None and time > s.until_ms:
            high = previous
            if high == NULL_LSN:
                return replace(ready, files=_NO_FILES)
            break
        # The range begins after the last entry that is too early.
        if behind_early:
            low, behind_early = item.lsn, False
        if time is not None and s.since_ms is not None and time < s.since_ms:
            behind_early = True
        previous = item.lsn
    if s.since_ms is not None:
        if behind_early:
            # No entry follows the last one that is older than ``since``.
            return replace(ready, files=_NO_FILES)
        ready = replace(ready, from_lsn=max(s.from_lsn, low))
    if high != NULL_LSN:
        ready = replace(ready, to_lsn=min(high, s.to_lsn) if s.to_lsn != NULL_LSN else high)
    return ready


def _first_file_for(s: Selection, storage: Storage, files: LogFiles) -> int:
    """Where to start reading for ``since``: the last file that was created before it."""
    if s.since_ms is None:
        return NULL_LSN
    first = NULL_LSN
    for scan in scan_log(storage, files).by_file():
        header = scan.head().header
        if header is None or header.time >= s.since_ms:
            break
        first = make_lsn(scan.files[0].number, 0)
    return first
