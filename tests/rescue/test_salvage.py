"""``salvage``: what is intact comes back, what is lost is named, and nothing wrong is called certain."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.entry.ln import LN
from engine.format.entry_types import USER_LNS
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import OPEN
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.reader import FileReader
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.databases import SalvageDb
from engine.rescue.salvage.record_choice import Judge
from engine.rescue.salvage.results import DoubtfulVersion, LostVersion, SalvagedDatabase, SalvagedRecord
from engine.rescue.salvage.scan import LogSurvey
from engine.rescue.salvage.sorted_versions import SortedVersions
from engine.rescue.salvage.sources import SalvageNode, SalvageSource, look_at, sources_of
from engine.rescue.salvage.verdict import NewestBins, TxnFates, choose, judge
from engine.rescue.salvage.version_reader import VersionTaker
from engine.rescue.salvage.versions import DELETED, IN_SLOT, IN_TXN, KeyVersions, Packed
from engine.storage.disk import DiskStorage
from tests.rescue.test_truncation import damage
from tests.support import corpus
from tests.support.environments.models import Modelled, entries_of
from tests.support.environments.oracle import named
from tests.support.environments.records import records_of, without_empty
from tests.support.environments.workload import State, contents


class Found:
    """What a salvage gives."""

    def __init__(self, *envs: Path) -> None:
        done = Salvage(sources_of([look_at(str(env)) for env in envs]))
        self.records: State = {}
        self.lost: list[tuple[str, bytes]] = []
        self.doubt: list[tuple[str, bytes]] = []
        self.given: list[SalvagedRecord] = []
        for one in done.rows():
            database = done.databases[one.database]
            if isinstance(one, LostVersion):
                self.lost.append((database.db.name, one.key))
            elif isinstance(one, DoubtfulVersion):
                self.doubt.append((database.db.name, one.key))
            elif not database.orphan:
                key: Any = (one.key, one.data) if database.db.duplicates else one.key
                self.records.setdefault(database.db.name, {})[key] = one.data
                self.given.append(one)
        self.counts = done.counts
        self.databases = done.databases


def write(files: dict[str, bytes], to: Path) -> Path:
    to.mkdir()
    for name, data in files.items():
        (to / name).write_bytes(data)
    return to


def flip(env: Path, entry: LogEntry) -> None:
    """Damage the body of an entry."""
    path = env / f"{file_of(entry.lsn):08x}.jdb"
    data = bytearray(path.read_bytes())
    data[offset_of(entry.lsn) + entry.total_bytes - 3] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("seed", [31, 32])
def test_one_damaged_record(seed: int, tmp_path: Path) -> None:
    """A bit of an LN at a third of the last files: everything but that record comes back."""
    made = Modelled(seed)
    state = made.marks[-1][1]
    env = write(made.files, tmp_path / "env")
    entries = entries_of(DiskStorage(env))
    lns = [entry for entry in entries[len(entries) // 3 :] if entry.type_number in USER_LNS]
    target = random.Random(seed).choice(lns)
    record = target.record()
    assert isinstance(record, LN)
    flip(env, target)
    found = Found(env)
    for name, records in state.items():
        for key, data in records.items():
            stored = key if isinstance(key, bytes) else None
            if record.key.startswith(key if isinstance(key, bytes) else key[0]):
                continue
            assert found.records[name].get(key) == data, (name, stored)


def test_what_recovers_is_what_recovery_says(tmp_path: Path) -> None:
    made = Modelled(33)
    env = write(made.files, tmp_path / "env")
    found = Found(env)
    assert found.records == without_empty(made.marks[-1][1])
    assert {one.origin for one in found.given} == {"tree"}
    assert not found.lost
    assert not found.doubt


REAL = ("txn-crash", "txn-closed", "multi-ckpt", "dups", "plain-load", "ckpt-crash-mid", "ttl", "ha-group/node1",
        "rollback-four-periods", "ha-rollback/node1", "schema-closed", "subdirs")  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_the_log_alone_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any damage the records that are put together from the log are those of recovery."""
    env = named(f"je-18.3.20/{name}").path / "env"
    with Environment(str(env), EnvironmentConfig(read_only=True)) as opened:
        said = contents(opened)
        ours = {db for db in opened.database_names() if not opened.open_database(db).state.order.learned}
    monkeypatch.setattr("engine.rescue.salvage.sources.recover_whole", lambda *_: ("not asked", 0))
    found = Found(env)
    assert {db: found.records.get(db, {}) for db in ours} == {db: said[db] for db in ours}
    assert {one.origin for one in found.given} <= {"log", "slot"}
    assert all(one.confirmed for one in found.given)
    assert not found.lost
    for one in found.given:
        assert one.lsn != NULL_LSN
        assert one.time_ms is not None or one.txn is None


def test_records_without_transactions_after_damage_in_the_last_file(tmp_path: Path) -> None:
    """Recovery, as JE, asks for Commits only before it gives up what stands after damage; salvage must not."""
    env = corpus.copy(named("je-18.3.20/plain-load").path / "env", tmp_path / "env")
    whole = records_of(env)
    last = max(env.glob("*.jdb"))
    data = bytearray(last.read_bytes())
    data[len(data) // 3] ^= 8
    last.write_bytes(data)
    kept = sum(map(len, records_of(env).values()))
    found = Found(env)
    given = sum(map(len, found.records.values()))
    assert kept < given
    assert sum(map(len, whole.values())) - given <= 1
    assert {one.origin for one in found.given} <= {"log", "slot"}


def test_three_replicas_each_damaged_elsewhere(tmp_path: Path) -> None:
    """Nothing is lost: what one node has lost another one has."""
    source = random.Random(41)
    envs: list[Path] = []
    whole: dict[str, Any] = {}
    for number in (1, 2, 3):
        env = corpus.copy(named(f"je-18.3.20/ha-group/node{number}").path / "env", tmp_path / f"node{number}")
        whole |= records_of(env)
        envs.append(env)
    for env in envs:
        entries = entries_of(DiskStorage(env))
        lns = [e for e in entries if e.type_number in USER_LNS and e.replicated]
        for target in source.sample(lns, 5):
            flip(env, target)
    found = Found(*envs)
    assert found.records == without_empty(whole)
    assert not found.lost
    # Together they have every VLSN.
    assert all(one.confirmed for one in found.given)
    alone = Found(envs[0])
    assert sum(map(len, alone.records.values())) < sum(map(len, found.records.values()))


def test_a_healthy_replica_gives_what_recovery_says(tmp_path: Path) -> None:
    one = corpus.copy(named("je-18.3.20/ha-group/node1").path / "env", tmp_path / "node1")
    other = named("je-18.3.20/ha-group/node2").path / "env"
    flip(one, next(entry for entry in entries_of(DiskStorage(one))[100:] if entry.type_number in USER_LNS))
    found = Found(one, other)
    assert found.records == without_empty(records_of(other))
    assert all(one.confirmed for one in found.given)


def test_a_key_whose_record_is_gone_is_lost_by_name(tmp_path: Path) -> None:
    """Recovery refuses, the file of records is not there: the tree still names their keys."""
    made = Modelled(35, 220)
    state = made.marks[-1][1]
    names = sorted(made.files)
    lost_at_all = 0
    for at in range(1, len(names) - 1):
        files = {name: data for name, data in made.files.items() if name != names[at]}
        env = write(files, tmp_path / f"env{at}")
        found = Found(env)
        lost_at_all += len(found.lost)
        lost = {key for _, key in found.lost}
        for name, records in found.records.items():
            for key, data in records.items():
                # Not the newest version, or one that was deleted: both only where something is missing.
                if state.get(name, {}).get(key) != data and isinstance(key, bytes) and key in lost:
                    lost_at_all += 1
    assert lost_at_all > 0


@pytest.mark.exhaustive
def test_hundreds_of_mutations(tmp_path: Path) -> None:
    """Whatever is done to the files, salvage ends well, and nearly everything that is intact comes back."""
    source = random.Random(14)
    made = Modelled(36)
    state = made.marks[-1][1]
    whole = sum(map(len, state.values()))
    kept = wrong = 0
    rounds = 120
    for number in range(rounds):
        files = {name: bytearray(data) for name, data in made.files.items()}
        damage(source, files)
        env = write({name: bytes(data) for name, data in files.items()}, tmp_path / f"m{number}")
        try:
            found = Found(env)
        except JetoolError as error:
            assert error.exit_code in (4, 5, 7)  # noqa: PT017 - the other ways out are the test's business, too
            continue
        right = {
            (name, key) for name, records in state.items() for key, data in records.items()
            if found.records.get(name, {}).get(key) == data
        }  # fmt: skip
        kept += len(right)
        wrong += sum(map(len, found.records.values())) - len(right)
    # One mutation hits a file of some ten: most records are in the others.
    assert kept / (rounds * whole) > 0.9
    assert wrong / (rounds * whole) < 0.1


def ln(lsn: int, *, txn: int | None = None, vlsn: int = NULL_VLSN, deleted: bool = False) -> Packed:
    flags = (DELETED if deleted else 0) | (0 if txn is None else IN_TXN)
    return [(lsn, flags, b"d", txn or 0, vlsn, 0)], None


def slot(lsn: int, flags: int = 0, node: int = 5, bin_lsn: int = 400) -> Packed:
    return [], (lsn, flags, b"d", NULL_VLSN, 0, node, bin_lsn)


def of(*parts: Packed) -> KeyVersions:
    found = KeyVersions()
    for part in parts:
        found.join(part)
    return found


def bins_of(node: int, lsn: int, last_gap: int = NULL_LSN, keys: tuple[bytes, ...] = (b"a", b"m")) -> NewestBins:
    bins = NewestBins(last_gap)
    bins.take(node, lsn, list(keys))
    return bins


def test_what_a_split_may_have_moved_is_not_deleted() -> None:
    """A record beyond the last key of its BIN, where the node after it may be what is damaged."""
    found, fates = of(ln(100, txn=1), slot(100)), fates_of(1)
    for key, gone in ((b"k", True), (b"z", False), (b"A", False)):
        assert judge(found, 0, fates, bins_of(5, 500, last_gap=900), key).gone == gone
        # Without damage all nodes are there.
        assert judge(found, 0, fates, bins_of(5, 500, last_gap=300), key).gone


def test_sorting_in_runs() -> None:
    """In runs or in memory: the same records in the same order, each with all that counts."""
    source = random.Random(1)
    commits = TxnLsns()
    for txn in range(1, 50):
        commits.setdefault(txn, 0)
    rows = []
    for lsn in range(1, 3000):
        key = bytes([source.randrange(100)])
        part = (
            ln(lsn, txn=source.randrange(1, 60)) if source.random() < 0.6 else slot(source.randrange(3000), 0, 7, lsn)
        )
        rows.append((source.randrange(3), key, source.randrange(2), part))
    held, spilled = SortedVersions([commits] * 2), SortedVersions([commits] * 2, most_bytes=20_000)
    # No more than two runs can be merged at a time.
    large = SortedVersions([commits] * 2, most_bytes=20_000, merge_bytes=1)
    for database, key, node, part in rows:
        for sort in (held, spilled, large):
            sort.add(database, key, node, part, 100)
    fates = TxnFates([commits] * 2, [TxnLsns()] * 2, [[0], [1]])

    def said(sort: SortedVersions) -> list[Any]:
        return [
            (database, key, node, judge(found, node, fates, bins_of(7, 2500), key))
            for database, key, nodes in sort.groups() for node, found in nodes
        ]  # fmt: skip

    everything = said(held)
    assert everything == said(spilled)
    assert everything == said(large)
    assert [one[:3] for one in everything] == sorted({row[:3] for row in rows})
    spilled.close()
    large.close()


def fates_of(*committed: int) -> TxnFates:
    commits = TxnLsns()
    for txn in committed:
        commits.setdefault(txn, 0)
    return TxnFates([commits], [TxnLsns()], [[0]])


def test_verdicts() -> None:
    fates = fates_of(1)
    old, new = ln(100, txn=1), ln(300, txn=11)
    found = judge(of(old, new), 0, fates, NewestBins(), b"k")
    assert found.version is not None
    assert found.doubt is not None
    assert (found.version.lsn, found.doubt.lsn, found.lost_lsn, found.passed_over) == (100, 300, NULL_LSN, {OPEN: 1})
    found = judge(of(old, slot(200)), 0, fates, bins_of(5, 400), b"k")
    assert found.version is not None
    assert (found.version.lsn, found.lost_lsn, found.live) == (100, 200, True)
    # A later version of the node does not have it.
    found = judge(of(old, slot(200)), 0, fates, bins_of(5, 500), b"k")
    assert found.gone
    assert not found.live
    # The slot has the data.
    found = judge(of(old, slot(200, IN_SLOT)), 0, fates, bins_of(5, 400), b"k")
    assert found.version is not None
    assert (found.version.kind, found.version.lsn, found.lost_lsn) == ("slot", 200, NULL_LSN)
    found = judge(of(slot(200, DELETED)), 0, fates, bins_of(5, 400), b"k")
    assert not found.live


def test_nodes_of_a_group_by_vlsn() -> None:
    fates = fates_of(1)
    older = judge(of(ln(100, vlsn=7, txn=1)), 0, fates, NewestBins(), b"k")
    newer = judge(of(ln(90, vlsn=9, txn=1, deleted=True)), 0, fates, NewestBins(), b"k")
    assert choose({0: older, 1: newer}, [20, 20]) == (1, False)
    lost = judge(of(ln(50, vlsn=5, txn=1), slot(99, 0, 5, 120)), 0, fates, NewestBins(), b"k")
    assert choose({0: lost}, [20]) == (0, True)
    assert choose({0: lost, 1: older}, [20, 20]) == (1, False)
    # The other node's log ends before the lost version may have come.
    same = judge(of(ln(44, vlsn=5, txn=1)), 0, fates, NewestBins(), b"k")
    assert choose({0: lost, 1: same}, [20, 10]) == (0, True)


def test_plain_records_are_judged_as_all_others() -> None:
    """Versions as they may come: batches say of every record what the general way says of it."""
    source = random.Random(4)
    commits = TxnLsns()
    for txn in range(1, 40):
        commits.setdefault(txn, source.choice([0, 1_700_000_000_000 + txn]))
    parts = []
    for lsn in range(1, 4000):
        ended, deleted = source.choice([None, source.randrange(1, 43)]), source.random() < 0.2
        leading = slot(max(lsn - source.randrange(3), 1), source.choice([0, 0, IN_SLOT, DELETED]), lsn % 3, lsn)
        version = (
            leading if source.random() < 0.2 else ln(lsn, txn=ended, vlsn=source.choice([-1, lsn]), deleted=deleted)
        )
        parts.append((bytes([source.randrange(2)]) + source.randbytes(1), version))
    survey = LogSurvey({}, frozenset(), frozenset(), (), (), None, NULL_VLSN)
    sources = [SalvageSource("one", (SalvageNode("/env", LogFiles((), None, (), (), 0), survey, "damaged"),), None)]
    databases = [SalvagedDatabase(0, SalvageDb("a", duplicates=False), orphan=False)]

    def judged() -> tuple[Judge, SortedVersions, Counter[str]]:
        rows, counts = SortedVersions([commits]), Counter[str]()
        taker = VersionTaker(rows, 0, commits, int, int, lambda entry: None, (NULL_LSN, NULL_LSN), NewestBins())
        taker.bins.take(1, 3900, [b"\x00", b"\xff"])
        for key, part in parts:
            rows.add(0, key, 0, part, 1)
        fates = TxnFates([commits], [TxnLsns()], [[0]])
        return Judge(sources, databases, fates, [commits], [taker], counts, 0, {}, {}), rows, counts

    judge_all, rows, counts = judged()
    judge_each, rows_again, counts_again = judged()
    in_batches = [one for batch in judge_all.batches(rows) for one in batch]
    assert in_batches == [one for group in rows_again.groups() for one in judge_each.record(*group)]
    assert counts == counts_again
    assert {"records", "deleted", "lost", "in-doubt", "open"} <= {name for name, count in counts.items() if count > 5}


GENERALLY = ("je-18.3.20/dups", "je-18.3.20/ttl", "je-18.3.20/ha-rollback/node1", "je-18.3.20/schema-crash",
             "je-3.3.98", "je-7.5.11", "je-25.3.17")  # fmt: skip


@pytest.mark.parametrize("start", GENERALLY)
def test_the_fast_way_takes_what_the_general_one_takes(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways over the same logs, without recovery: the same records, and the same said of them."""
    monkeypatch.setattr("engine.rescue.salvage.sources.recover_whole", lambda *_: ("not asked", 0))
    envs = sorted({path.parent for path in (corpus.path() / "je").glob(f"{start}/**/*.jdb")})
    assert envs
    fast = [(found.given, found.lost, found.doubt, found.counts) for found in map(Found, envs)]

    monkeypatch.setattr(FileReader, "stretches", FileReader.entries)
    general = [(found.given, found.lost, found.doubt, found.counts) for found in map(Found, envs)]
    assert fast == general
