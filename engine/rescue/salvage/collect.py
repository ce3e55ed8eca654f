"""Salvage: the records of damaged environments in order, and what is lost, in doubt, or of no known database.

Each log is read twice: once for what is few (``sources``), once for all versions of all records, which are sorted by
database and key (``sorting``). Then the rows of one record stand together and are judged (``verdict``), so that memory
does not grow with the logs. Nothing is written to the sources.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.scan import key_and_data
from engine.errors import FormatError, JetoolError
from engine.events import SILENT, Listener
from engine.format.bytecursor import join_two_part_key, split_two_part_key
from engine.format.entry.ln import LN
from engine.format.entry_types import COMMIT, USER_LNS
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.scan import LogSurvey, SalvageDb, SalvagedVersion, end_of, version_rows
from engine.rescue.salvage.sorting import Row, SortedRows
from engine.rescue.salvage.sources import SalvageNode, SalvageSource
from engine.rescue.salvage.verdict import ABORTED, COMMITTED, OPEN, Verdict, choose, judge
from engine.storage.disk import DiskStorage
from engine.tree.bin_node import is_expired
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins, slot_data

TREE: Final = "tree"
LOG: Final = "log"
SLOT: Final = "slot"
_KINDS: Final = ("ln", "void", "slot", TREE)
_NONE: Final = b""


class SalvagedDatabase(NamedTuple):
    """A database of the result.

    Attributes:
        source: index of the source.
        db: what is known of it.
        orphan: no MapLN names it: its records are those of an unknown database.
    """

    source: int
    db: SalvageDb
    orphan: bool


class SalvagedRecord(NamedTuple):
    """A record, with where it comes from.

    Attributes:
        database: index of its database.
        expiration: days, or negative hours, since 1970; 0 for none.
        env: the environment that gave it.
        origin: ``tree``: recovery; ``log``: an LN; ``slot``: its BIN had the data embedded.
        lsn, vlsn, txn, time_ms: of the version, and of its Commit; NULL_LSN, NULL_VLSN and None where not known.
        stood_in: a newer version is lost.
    """

    database: int
    key: bytes
    data: bytes
    expiration: int
    env: str
    origin: str
    lsn: int
    vlsn: int
    txn: int | None
    time_ms: int | None
    stood_in: bool


class LostVersion(NamedTuple):
    """A key whose newest version cannot be read.

    Attributes:
        stood_in: an older one was given in its place.
        older_lsn: where that stands; NULL_LSN without one.
    """

    database: int
    key: bytes
    env: str
    lsn: int
    stood_in: bool
    older_lsn: int


class DoubtfulVersion(NamedTuple):
    """A version newer than the one that was given, whose transaction has neither Commit nor Abort in the log."""

    database: int
    key: bytes
    env: str
    lsn: int
    txn: int
    data: bytes | None


Salvaged = SalvagedRecord | LostVersion | DoubtfulVersion


class Salvage:
    """One salvage.

    Arguments:
        sources: what is salvaged.
        listener: hears ``read`` with bytes of log.
        now_ms: by which records expire; None: the time now.

    Attributes:
        databases: of the result, complete once the logs are read.
        counts: by word, while rows are taken: ``records``, ``deleted``, ``expired``, ``lost``, ``stood-in``,
            ``in-doubt``, and versions passed over: ``aborted``, ``open``, ``rolled-back``, ``removed`` (of databases
            that were removed).
    """

    def __init__(
        self, sources: Sequence[SalvageSource], listener: Listener = SILENT, now_ms: int | None = None
    ) -> None:
        self._sources = sources
        self._listener = listener
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self.databases: list[SalvagedDatabase] = []
        self.counts: Counter[str] = Counter()
        self._numbers: dict[tuple[int, str], int] = {}
        self._rows = SortedRows()
        # By node of all sources: times of Commits, Aborts, and the newest complete version of each BIN.
        self._nodes = [(at, node) for at, source in enumerate(sources) for node in source.nodes]
        self._commits = [TxnLsns() for _ in self._nodes]
        self._aborts = [TxnLsns() for _ in self._nodes]
        self._bin_lsns: list[dict[int, int]] = [{} for _ in self._nodes]

    def rows(self) -> Iterator[Salvaged]:
        """Records in the order of database and key, each after what is to be said of it; once."""
        total = sum(file.size_bytes for _, node in self._nodes for file in node.files.files)
        done = 0
        try:
            for number, (at, node) in enumerate(self._nodes):
                source = self._sources[at]
                if source.base is not None and source.nodes[source.base] is node:
                    self._read_tree(number, at, node)
                elif source.base is None or len(source.nodes) > 1:
                    for file in node.files.files:
                        self._listener.step("read", done, total)
                        self._read_file(number, at, node, file)
                        done += file.size_bytes
            self._listener.step("read", total, total)
            for (database, key), group in groupby(self._rows, key=lambda row: row[:2]):
                yield from self._judge(database, key, list(group))
        finally:
            self._rows.close()

    def _database(self, at: int, db: SalvageDb, *, orphan: bool = False) -> int:
        """The number of a database of a source."""
        number = self._numbers.get((at, db.name))
        if number is None:
            number = self._numbers[at, db.name] = len(self.databases)
            self.databases.append(SalvagedDatabase(at, db, orphan))
        return number

    def _own(self, number: int, db_id: int, db: SalvageDb) -> SalvageDb:
        """A database under the name that it has in the result: what is not replicated belongs to its node."""
        at, node = self._nodes[number]
        if db_id < 0 or len(self._sources[at].nodes) == 1:
            return db
        return db._replace(name=f"{db.name} ({node.env})")

    def _read_tree(self, number: int, at: int, node: SalvageNode) -> None:
        """Records of recovery, with the last VLSN of their node."""
        vlsn = node.survey.last_vlsn
        with Environment(node.env, EnvironmentConfig(read_only=True)) as env:
            for name in env.database_names():
                with env.open_database(name) as db:
                    state = db.state
                    found = SalvageDb(
                        name=name,
                        duplicates=db.duplicates,
                        key_prefixing=state.prefixing,
                        max_entries=state.max_entries,
                        comparator=state.order.comparator is not None,
                    )
                    database = self._database(at, self._own(number, state.id, found))
                    records: Iterator[tuple[bytes, bytes, int, int]] = self._tree_records(env, db.state)
                    if env.prepared():
                        # Slots show what is not committed, too; a cursor does not.
                        records = ((key, data, 0, NULL_LSN) for key, data in db.items())
                    for key, data, expiration, lsn in records:
                        stored = join_two_part_key(key, data) if db.duplicates else key
                        kept = _NONE if db.duplicates else data
                        row = (database, stored, number, 3, lsn, 0, 0, kept, 0, vlsn, -1, NULL_LSN, expiration, 0)
                        self._rows.add(row, len(stored) + len(kept))

    def _tree_records(self, env: Environment, state: DatabaseState) -> Iterator[tuple[bytes, bytes, int, int]]:
        """Key, data, expiration and LSN of every record of a tree."""
        engine = env.engine
        for node in bins(engine.ctx, state):
            for index in range(len(node)):
                if not node.is_live(index):
                    continue
                if is_expired(node.expirations[index], self._now_ms):
                    self.counts["expired"] += 1
                    continue
                data = slot_data(engine.ctx, node, index)
                if data is not None:
                    key, value = key_and_data(state, node.keys[index], data)
                    yield key, value, node.expirations[index], node.lsns[index]
            env.engine.keep_budget()

    def _read_file(self, number: int, at: int, node: SalvageNode, file: LogFile) -> None:
        """Versions and ends of transactions of one file; the survey has said what cannot be read."""
        survey = node.survey
        try:
            reader = FileReader(DiskStorage(node.env), file, is_last=file.number >= node.files.end_file())
        except JetoolError:
            return
        with reader:
            for item in reader.entries():
                if not isinstance(item, LogEntry):
                    continue
                end = end_of(item)
                if end is not None:
                    ends = self._commits if item.type_number == COMMIT else self._aborts
                    ends[number].setdefault(end.id, max(end.time, 0))
                elif item.type_number in USER_LNS:
                    self._read_ln(number, at, item, survey)
                else:
                    self._read_slots(number, at, item, survey)

    def _read_ln(self, number: int, at: int, item: LogEntry, survey: LogSurvey) -> None:
        found = False
        for row in version_rows("", item, survey):
            found = True
            self._add(number, at, row, self._own(number, row.db, survey.dbs[row.db]))
        if found:
            return
        record = _decoded(item)
        if not isinstance(record, LN) or record.db_id in survey.dbs or record.db_id in survey.internal:
            return
        if record.db_id in survey.removed:
            self.counts["removed"] += 1
            return
        # No MapLN of this database is legible.
        unknown = SalvageDb(f"database {record.db_id}", duplicates=False)
        known = survey._replace(dbs={record.db_id: unknown})
        for row in version_rows("", item, known):
            self._add(number, at, row, unknown, orphan=True)

    def _read_slots(self, number: int, at: int, item: LogEntry, survey: LogSurvey) -> None:
        for row in version_rows("", item, survey):
            if row.kind == "node":
                self._bin_lsns[number][row.node] = max(item.lsn, self._bin_lsns[number].get(row.node, NULL_LSN))
            else:
                self._add(number, at, row, self._own(number, row.db, survey.dbs[row.db]))

    def _add(self, number: int, at: int, row: SalvagedVersion, db: SalvageDb, *, orphan: bool = False) -> None:
        database = self._database(at, db, orphan=orphan)
        data = row.data or _NONE
        self._rows.add(
            (
                database, row.key, number, _KINDS.index(row.kind), row.lsn, int(row.deleted), int(row.embedded), data,
                row.txn or 0, row.vlsn, row.node, row.bin_lsn, row.expiration, int(row.txn is not None),
            ),
            len(row.key) + len(data),
        )  # fmt: skip

    def _judge(self, database: int, key: bytes, rows: list[Row]) -> Iterator[Salvaged]:
        """What is to be said of one record, and the record."""
        source = self._sources[self.databases[database].source]
        by_node: dict[int, list[Row]] = {}
        for row in rows:
            by_node.setdefault(row[2], []).append(row)
        verdicts: dict[int, Verdict] = {}
        for number, found in by_node.items():
            versions = [_version(row) for row in found]
            if versions[0].kind == TREE:
                verdicts[number] = Verdict(versions[0], False, NULL_LSN, None, {})
            else:
                verdicts[number] = judge(versions, partial(self._fate, number), self._bin_lsns[number])
        for verdict in verdicts.values():
            self.counts.update(verdict.passed_over)
        if source.base is not None:
            verdicts = self._after_base(source, verdicts)
            if not verdicts:
                return
        last_vlsns = [node.survey.last_vlsn for _, node in self._nodes]
        chosen, lost = choose(verdicts, last_vlsns)
        verdict = verdicts[chosen]
        if lost:
            self.counts["lost"] += 1
            self.counts["stood-in"] += verdict.live
            older = verdict.version.lsn if verdict.version is not None and verdict.live else NULL_LSN
            env = self._nodes[chosen][1].env
            yield LostVersion(database, key, env, verdict.lost_lsn, verdict.live, older)
        doubt = verdict.doubt
        if doubt is not None:
            self.counts["in-doubt"] += 1
            env = self._nodes[chosen][1].env
            yield DoubtfulVersion(database, key, env, doubt.lsn, doubt.txn or 0, None if doubt.deleted else doubt.data)
        yield from self._record(database, key, chosen, verdict, stood_in=lost)

    def _after_base(self, source: SalvageSource, verdicts: dict[int, Verdict]) -> dict[int, Verdict]:
        """What the base says, and what others know beyond its last VLSN."""
        floor = source.floor
        base = next((v for v in verdicts.values() if v.version is not None and v.version.kind == TREE), None)
        return {
            number: verdict
            for number, verdict in verdicts.items()
            if verdict is base or (verdict.vlsn != NULL_VLSN and verdict.vlsn > floor)
        }

    def _record(
        self, database: int, key: bytes, chosen: int, verdict: Verdict, *, stood_in: bool
    ) -> Iterator[SalvagedRecord]:
        version = verdict.version
        if version is None:
            return
        if not verdict.live:
            self.counts["deleted"] += 1
            return
        if is_expired(version.expiration, self._now_ms):
            self.counts["expired"] += 1
            return
        data = version.data or _NONE
        if self.databases[database].db.duplicates:
            try:
                key, data = split_two_part_key(key)
            except (FormatError, IndexError):
                self.counts["malformed"] += 1
                return
        self.counts["records"] += 1
        origin = {"ln": LOG, "slot": SLOT}.get(version.kind, TREE)
        time_ms = None
        if version.txn is not None:
            found = self._commit_time(chosen, version.txn)
            time_ms = found if found else None
        yield SalvagedRecord(
            database=database,
            key=key,
            data=data,
            expiration=version.expiration,
            env=self._nodes[chosen][1].env,
            origin=origin,
            lsn=version.lsn,
            vlsn=NULL_VLSN if origin == TREE else version.vlsn,
            txn=version.txn,
            time_ms=time_ms,
            stood_in=stood_in,
        )

    def _fate(self, number: int, txn: int) -> str:
        if txn in self._commits[number]:
            return COMMITTED
        if txn in self._aborts[number]:
            return ABORTED
        # Ids of replicated transactions are the same on all nodes of a group.
        if txn < 0 and self._commit_time(number, txn) is not None:
            return COMMITTED
        return OPEN

    def _commit_time(self, number: int, txn: int) -> int | None:
        """The time of a Commit on this node, or on another one of its group."""
        here = self._nodes[number][0]
        numbers = [number] if txn > 0 else [n for n, (at, _) in enumerate(self._nodes) if at == here]
        return next((self._commits[n].get(txn) for n in numbers if txn in self._commits[n]), None)


def _version(row: Row) -> SalvagedVersion:
    (
        database, key, _, kind, lsn, deleted, embedded, data, txn, vlsn, node, bin_lsn, expiration, in_txn
    ) = row  # fmt: skip
    return SalvagedVersion(
        env="",
        kind=_KINDS[kind],
        db=database,
        key=key,
        lsn=lsn,
        deleted=bool(deleted),
        embedded=bool(embedded),
        data=data,
        txn=txn if in_txn else None,
        vlsn=vlsn,
        node=node,
        bin_lsn=bin_lsn,
        expiration=expiration,
    )


def _decoded(item: LogEntry) -> object:
    try:
        return item.record()
    except (FormatError, IndexError, ValueError):
        return None
