"""Judges records one by one: the version that counts, losses, and doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from engine.errors import FormatError
from engine.format.bytecursor import split_two_part_key
from engine.format.lsn import NULL_LSN, file_of
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import ABORTED
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.coverage import covered_from
from engine.rescue.salvage.extinct import EXTINCT, ExtinctRange, word_for
from engine.rescue.salvage.results import DoubtfulVersion, LostVersion, Salvaged, SalvagedDatabase, SalvagedRecord
from engine.rescue.salvage.sorted_versions import SortedVersions
from engine.rescue.salvage.sources import SalvageSource
from engine.rescue.salvage.trees import DECIDED, UNPLACED, DatabaseBranches, KeyPlace
from engine.rescue.salvage.verdict import TxnFates, Verdict, choose, judge
from engine.rescue.salvage.version_reader import VersionTaker
from engine.rescue.salvage.versions import (
    DELETED,
    FROM_TREE,
    HIDDEN,
    IN_TXN,
    VOID,
    KeyVersions,
    LNVersion,
    SalvagedVersion,
)
from engine.tree.bin_node import is_expired

TREE: Final = "tree"
LOG: Final = "log"
SLOT: Final = "slot"
_ORIGINS: Final = {"ln": LOG, "slot": SLOT, "tree": TREE}
# A batch of records has at most this many records, or about this many bytes.
_BATCH: Final = 1024
_BATCH_BYTES: Final = 1 << 20
_new_tuple: Final = tuple.__new__


class Judge:
    """Judges the records of one salvage.

    Arguments:
        sources, databases, fates: those of the salvage.
        commits: by node, times of committed transactions.
        takers: by node, the reader of its log.
        counts: counters by word, which are increased.
        now_ms: time for testing expiration.
        extinct: discarded ranges of records, by database and node.
        branches: lost branches of the trees, by database and node, if there are any.

    Attributes:
        below: by database, number of records given although the node above them is lost.
        lost_files: by node, the log files that contained lost versions.
    """

    def __init__(
        self,
        sources: Sequence[SalvageSource],
        databases: list[SalvagedDatabase],
        fates: TxnFates,
        commits: list[TxnLsns],
        takers: list[VersionTaker],
        counts: Counter[str],
        now_ms: int,
        extinct: dict[tuple[int, int], list[ExtinctRange]],
        branches: dict[tuple[int, int], DatabaseBranches],
    ) -> None:
        nodes = [node for source in sources for node in source.nodes]
        self._envs = [node.env for node in nodes]
        self._last_vlsns = [node.survey.last_vlsn for node in nodes]
        members: list[range] = []
        for source in sources:
            first = members[-1].stop if members else 0
            members.append(range(first, first + len(source.nodes)))
        self._members = [members[database.source] for database in databases]
        self._bins = [taker.bins for taker in takers]
        self._old_duplicates = [taker.old_duplicates for taker in takers]
        # For each database, the VLSN up to which the base of its source is complete; None without a base.
        bases = [None if source.base is None else source.floor for source in sources]
        self._floors: list[int | None] = [bases[database.source] for database in databases]
        # For each database, the VLSN from which on the nodes of its source together have all VLSNs.
        covered = [covered_from(vlsns for node in source.nodes for vlsns in node.survey.vlsns) for source in sources]
        self._covered = [covered[database.source] for database in databases]
        self._duplicates = [database.db.duplicates for database in databases]
        self._ordered = [not database.db.comparator for database in databases]
        self._extinct = extinct
        self._branches = branches
        # Only records outside of these databases can take the fast path.
        self._has_extinct = frozenset(database for database, _ in extinct)
        self._has_lost = frozenset(database for (database, _), one in branches.items() if one.lost)
        self.below: Counter[int] = Counter()
        self.lost_files: list[set[int]] = [set() for _ in nodes]
        self._databases = databases
        self._orphan = [database.orphan for database in databases]
        # Such a database may have been removed, or may be one of JE's own.
        self._unknown = [database.orphan or database.nameless for database in databases]
        self._fates = fates
        self._commits = commits
        self._counts = counts
        self._now_ms = now_ms
        self._plain_records = self._plain_deletions = self._plain_unconfirmed = 0

    def batches(self, rows: SortedVersions) -> Iterator[list[Salvaged]]:
        """Records in order, each preceded by its findings; a batch belongs to one database."""
        batch: list[Salvaged] = []
        held, last = 0, -1
        for database, key, found in rows.groups():
            if database != last or len(batch) >= _BATCH or held >= _BATCH_BYTES:
                self._count_plain()
                if batch:
                    yield batch
                    batch = []
                held, last = 0, database
            size = -1
            plain = len(found) == 1 and self._floors[database] is None and not self._duplicates[database]
            if plain and database not in self._has_extinct and database not in self._has_lost:
                size = self._take_plain(database, key, found[0][0], found[0][1], batch)
            if size < 0:
                size = 0
                for one in self.record(database, key, found):
                    batch.append(one)
                    data = None if isinstance(one, LostVersion) else one.data
                    size += len(key) + (0 if data is None else len(data))
            held += size
        self._count_plain()
        if batch:
            yield batch

    def _count_plain(self) -> None:
        self._counts["records"] += self._plain_records
        self._counts["deleted"] += self._plain_deletions
        self._counts["unconfirmed"] += self._plain_unconfirmed
        self._plain_records = self._plain_deletions = self._plain_unconfirmed = 0

    def _take_plain(self, database: int, key: bytes, node: int, versions: KeyVersions, batch: list[Salvaged]) -> int:
        """Take a record without findings: all its LNs have committed, and no slot has a newer version.

        General twin: ``record``.

        Returns:
            Returns the size added to the batch; -1: the record has findings and is not taken.
        """
        commits = self._commits[node]
        best: LNVersion | None = None
        newest, newest_ms = NULL_LSN, 0
        for row in versions.lns:
            lsn, flags, _, txn, _, expiration = row
            # The Commit of a replicated transaction may be in the log of another node.
            if flags & (VOID | FROM_TREE | HIDDEN) or expiration or (txn < 0 and len(self._commits) > 1):
                return -1
            time_ms = 0
            if flags & IN_TXN:
                time_ms = commits.get(txn)
                if time_ms == NULL_LSN:
                    return -1
            if lsn > newest:
                best, newest, newest_ms = row, lsn, time_ms
        slot = versions.slot
        if best is None or (slot is not None and slot[0] > newest):
            return -1
        bins = self._bins[node]
        if versions.seen_lsn < bins.lsns.get(versions.seen_node, NULL_LSN):
            # Rule 3: the record may have been deleted.
            return -1
        if newest < bins.tree_time and not bins.in_tree(versions):
            # Rule 5: the same.
            return -1
        if best[1] & DELETED:
            self._plain_deletions += 1
            return 0
        self._plain_records += 1
        data, in_txn = best[2], best[1] & IN_TXN
        # The result is that of ``confirm``; versions after the damage need no call.
        confirmed = (newest >= bins.gap_end or bins.confirm(versions, newest)) and not self._unknown[database]
        self._plain_unconfirmed += not confirmed
        fields = (
            database, key, data, 0, self._envs[node], LOG, newest, best[4], best[3] if in_txn else None,
            newest_ms or None, False, confirmed,
        )  # fmt: skip
        # Same as the constructor, in half the time.
        batch.append(_new_tuple(SalvagedRecord, fields))
        return len(key) + len(data)

    def record(self, database: int, key: bytes, found: list[tuple[int, KeyVersions]]) -> list[Salvaged]:
        """The findings on one record, and the record."""
        floor = self._floors[database]
        if len(found) == 1 and floor is None:
            chosen = found[0][0]
            verdict = self._verdict(database, key, chosen, found[0][1])
            lost = verdict.lost_lsn != NULL_LSN
            confirmed = verdict.confirmed
        else:
            aborted = self._aborted(found)
            verdicts = {node: self._verdict(database, key, node, versions, aborted) for node, versions in found}
            if floor is not None:
                verdicts = _after_base(floor, verdicts)
                if not verdicts:
                    return []
            chosen, lost = choose(verdicts, self._last_vlsns)
            verdict = verdicts[chosen]
            confirmed = self._is_confirmed(database, verdicts, chosen)
        said: list[Salvaged] = []
        if lost:
            self._counts["lost"] += 1
            self.lost_files[chosen].add(file_of(verdict.lost_lsn))
            self._counts["stood-in"] += verdict.live
            older = verdict.version.lsn if verdict.version is not None and verdict.live else NULL_LSN
            said.append(LostVersion(database, key, self._envs[chosen], verdict.lost_lsn, verdict.live, older))
        doubt = verdict.doubt
        if doubt is not None:
            self._counts["in-doubt"] += 1
            data = None if doubt.deleted else doubt.data
            said.append(DoubtfulVersion(database, key, self._envs[chosen], doubt.lsn, doubt.txn or 0, data))
        confirmed = confirmed and not (lost or self._unknown[database])
        record = self._live(database, key, chosen, verdict, lost, confirmed)
        if record is not None:
            said.append(record)
        return said

    def _aborted(self, found: list[tuple[int, KeyVersions]]) -> set[int]:
        """VLSNs of aborted versions; a slot logged on another node before the abort may still have such a version."""
        return {
            row[4]
            for node, versions in found
            for row in versions.lns
            if row[4] != NULL_VLSN and row[1] & IN_TXN and self._fates.fate(node, row[3]) == ABORTED
        }

    def _verdict(
        self, database: int, key: bytes, node: int, versions: KeyVersions, aborted: Collection[int] = ()
    ) -> Verdict:
        if self._duplicates[database]:
            self._old_duplicates[node].complete(database, key, _main_key(key), versions)
        duplicates = self._duplicates[database]
        verdict = judge(
            versions, node, self._fates, self._bins[node], key, duplicates, self._place(database, key, node), aborted
        )
        if verdict.passed_over:
            self._counts.update(verdict.passed_over)
        return verdict

    def _is_confirmed(self, database: int, verdicts: dict[int, Verdict], chosen: int) -> bool:
        """Whether one of several nodes, or all of them together, show that there is no newer version."""
        vlsn = verdicts[chosen].vlsn
        if vlsn == NULL_VLSN or self._databases[database].local:
            return verdicts[chosen].confirmed
        if NULL_VLSN != self._covered[database] <= vlsn + 1 and verdicts[chosen].ended:
            return True
        nodes = self._members[database]
        last = max(self._last_vlsns[node] for node in nodes)
        return any(
            one.confirmed and one.vlsn == vlsn and self._last_vlsns[node] >= last for node, one in verdicts.items()
        )

    def _extinct_word(self, database: int, key: bytes, node: int, version: SalvagedVersion) -> str:
        ranges = self._extinct.get((database, node))
        return "" if ranges is None else word_for(ranges, key, version.lsn, ordered=self._ordered[database])

    def _place(self, database: int, key: bytes, node: int) -> KeyPlace:
        """The state of a key in the trees."""
        if self._orphan[database]:
            return UNPLACED
        branches = self._branches.get((database, node))
        return DECIDED if branches is None else branches.place(key)

    def _live(
        self, database: int, key: bytes, node: int, verdict: Verdict, lost: bool, confirmed: bool
    ) -> SalvagedRecord | None:
        version = verdict.version
        if version is None:
            return None
        if verdict.gone or version.deleted:
            # Discarded records disappear from the trees like deleted ones.
            extinct = not version.deleted and self._extinct_word(database, key, node, version) == EXTINCT
            self._counts[EXTINCT if extinct else "deleted"] += 1
            return None
        expiration = version.expiration
        if expiration and is_expired(expiration, self._now_ms):
            self._counts["expired"] += 1
            return None
        data = version.data
        self.below[database] += database in self._has_lost and self._place(database, key, node).is_lost
        if self._duplicates[database]:
            try:
                key, data = split_two_part_key(key)
            except (FormatError, IndexError):
                self._counts["malformed"] += 1
                return None
        word = self._extinct_word(database, key, node, version)
        if word:
            self._counts[word] += 1
        if word == EXTINCT:
            return None
        self._counts["records"] += 1
        self._counts["unconfirmed"] += not confirmed
        origin = _ORIGINS[version.kind]
        txn = version.txn
        time_ms: int | None = None
        if txn is not None:
            # A time of 0 means that damage destroyed the time.
            time_ms = self._fates.commit_time(node, txn) or None
        vlsn = NULL_VLSN if origin == TREE else version.vlsn
        fields = (
            database, key, data, expiration, self._envs[node], origin, version.lsn, vlsn, txn, time_ms, lost,
            confirmed,
        )  # fmt: skip
        # Same as the constructor, in half the time.
        return _new_tuple(SalvagedRecord, fields)


def _main_key(key: bytes) -> bytes | None:
    try:
        return split_two_part_key(key)[0]
    except (FormatError, IndexError):
        return None


def _after_base(floor: int, verdicts: dict[int, Verdict]) -> dict[int, Verdict]:
    """Verdicts from the recovered base, and those of other nodes on changes after its last VLSN."""
    return {
        node: verdict
        for node, verdict in verdicts.items()
        if (verdict.version is not None and verdict.version.kind == "tree")
        or (verdict.vlsn != NULL_VLSN and verdict.vlsn > floor)
    }
