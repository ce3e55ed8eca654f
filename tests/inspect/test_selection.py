"""Choosing entries: criteria that need the log as a whole, and those of a kind together."""

from __future__ import annotations

from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import NotFoundError
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN
from engine.inspect.selection import Selection, db_of, time_of, txn_of
from engine.inspect.statistics import BY, count_file
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.memory import MemoryStorage
from tests.support.harness import run
from tests.support.logs.golden_logs import GOLDEN
from tests.support.logs.log_writer import Files, golden, whole


def entries(files: Files) -> list[LogEntry]:
    storage = MemoryStorage(files)
    log = scan_log(storage, list_log_files(storage), marker=True)
    return [item for item in log.entries() if isinstance(item, LogEntry)]


def chosen(log: Files, **criteria: Any) -> list[LogEntry]:
    storage = MemoryStorage(log)
    found = list_log_files(storage)
    selection = Selection(**criteria).prepare(storage, found)
    wanted = selection.matcher()
    picked = [entry for entry in entries(log) if wanted(entry)]
    assert all(selection.wants_file(entry.lsn >> 32) for entry in picked)
    return picked


def test_open_selection() -> None:
    assert Selection().is_open()
    assert chosen(whole()) == entries(whole())
    assert not Selection(replicated=True).is_open()


def test_from_and_to_are_both_included() -> None:
    everything = entries(whole())
    assert chosen(whole(), from_lsn=everything[30].lsn, to_lsn=everything[400].lsn) == everything[30:401]
    assert chosen(whole(), from_lsn=0, to_lsn=0) == everything[:1]
    selection = Selection(from_lsn=2 << 32, to_lsn=3 << 32 | 5)
    assert [number for number in range(6) if selection.wants_file(number)] == [2, 3]


def test_kinds_are_anded_and_values_of_a_kind_ored() -> None:
    everything = entries(whole())
    commits = [entry for entry in everything if entry.type_number == 17]
    both = chosen(whole(), types=frozenset((17, 18)))
    assert both == [entry for entry in everything if entry.type_number in (17, 18)]
    txns = frozenset(txn_of(entry) for entry in commits[3:5])
    assert None not in txns
    assert chosen(whole(), types=frozenset((17, 18)), txns=txns) == commits[3:5]
    assert chosen(whole(), types=frozenset((17,)), txns=txns, files=frozenset((99,))) == []
    of_txns = chosen(whole(), txns=txns)
    assert of_txns == [entry for entry in everything if txn_of(entry) in txns]
    assert len(of_txns) > 2


def test_headers() -> None:
    files = golden("je-17/ha-rollback")
    everything = entries(files)
    assert chosen(files, invisible=True) == [entry for entry in everything if entry.invisible]
    assert chosen(files, replicated=True) == [entry for entry in everything if entry.vlsn != -1]
    for low, high in ((5, 9), (None, 3), (200, None), (None, None)):
        expected = [e for e in everything if e.vlsn >= (low or 1) and (high is None or e.vlsn <= high)]
        assert chosen(files, vlsns=(low, high)) == expected
    yes = chosen(files, provisional=frozenset((Provisional.YES,)))
    assert yes
    assert yes == [entry for entry in everything if entry.flags & 0x80]


def test_database_names() -> None:
    """Every id that a name ever had; a name that was never there is an error that lists those that were."""
    files = whole()
    ids: dict[str, set[int]] = {}
    for entry in entries(files):
        record = entry.record() if entry.type_number in (5, 6) else None
        if isinstance(record, LN) and isinstance(record.content, NameLN):
            ids.setdefault(record.key.decode(), set()).add(record.content.db_id)
    assert len(ids) > 5
    for name, numbers in ids.items():
        found = chosen(files, db_names=(name,))
        assert found == [entry for entry in entries(files) if db_of(entry) in numbers]
    two = sorted(ids)[:2]
    both = ids[two[0]] | ids[two[1]]
    assert chosen(files, db_names=tuple(two)) == [entry for entry in entries(files) if db_of(entry) in both]
    with pytest.raises(NotFoundError, match="the log has no database 'nowhere'") as error:
        chosen(files, db_names=("nowhere", two[0]))
    assert error.value.hint is not None
    assert "names in the log: accounts, " in error.value.hint


def test_a_name_of_digits_comes_before_the_id() -> None:
    """Journals of frontends are databases called 1, 1001, and so on; ``id:`` means the id."""
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True)) as env:
        taken = env.create_database("first").state.id
        other = env.create_database(str(taken)).state.id
    files = list_log_files(storage)
    assert other != taken
    for word, number in ((str(taken), other), (f"id:{taken}", taken), (str(other), other), ("id:77", 77), ("-77", -77)):
        assert Selection(db_names=(word,)).prepare(storage, files).dbs == {number}, word
    with pytest.raises(NotFoundError, match="the log has no database 'id:x'"):
        Selection(db_names=("id:x",)).prepare(storage, files)


def test_rolled_back_does_not_need_the_invisible_bit() -> None:
    """The bits cleared: the periods and their transactions say the same."""
    files = golden("je-17/ha-rollback")
    invisible = [entry.lsn for entry in entries(files) if entry.invisible]
    assert [entry.lsn for entry in chosen(files, rolled_back=True)] == invisible
    data = bytearray(files["00000000.jdb"])
    for lsn in invisible:
        data[lsn + 5] &= ~0x10
    shown = chosen({"00000000.jdb": bytes(data)}, rolled_back=True)
    assert [entry.lsn for entry in shown] == invisible
    assert not any(entry.invisible for entry in shown)


def timed(files: Files) -> list[tuple[int, int]]:
    """LSN and time of the entries that have one."""
    found = [(entry.lsn, time_of(entry)) for entry in entries(files)]
    return [(lsn, time) for lsn, time in found if time is not None]


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_times(part: float) -> None:
    """``since`` begins after the last entry that is too old, ``until`` ends before the first that is too new."""
    files = whole()
    times = timed(files)
    since = times[int(part * (len(times) - 1))][1]
    found = chosen(files, since_ms=since)
    too_old = [lsn for lsn, time in times if time < since]
    assert found == [entry for entry in entries(files) if not too_old or entry.lsn > max(too_old)]
    assert found
    assert all((time_of(entry) or since) >= since for entry in found)
    until = since
    early = chosen(files, until_ms=until)
    too_new = [lsn for lsn, time in times if time > until]
    assert early == [entry for entry in entries(files) if not too_new or entry.lsn < min(too_new)]
    assert all((time_of(entry) or until) <= until for entry in early)


def test_times_together_with_lsns_and_out_of_range() -> None:
    files = whole()
    times = timed(files)
    first, last = min(time for _, time in times), max(time for _, time in times)
    everything = entries(files)
    assert chosen(files, since_ms=first) == everything
    assert chosen(files, until_ms=last) == everything
    # LNs carry no time: what follows the last entry that does may be newer.
    behind = max(lsn for lsn, _ in times)
    assert chosen(files, since_ms=last + 1) == [entry for entry in everything if entry.lsn > behind]
    closed = golden("je-17/empty")
    assert chosen(closed, since_ms=max(time for _, time in timed(closed)) + 1) == []
    assert chosen(files, until_ms=first - 1) == []
    low, high = everything[20].lsn, everything[90].lsn
    assert chosen(files, since_ms=first, until_ms=last, from_lsn=low, to_lsn=high) == everything[20:91]
    assert chosen(files, since_ms=last, until_ms=first - 1) == []


@pytest.mark.parametrize("way", [(), ("--limit", "3"), ("--tail", "3"), ("--reverse",), ("--stats",), ("--jobs", "2")])
def test_a_range_of_time_that_nothing_lies_in(way: tuple[str, ...]) -> None:
    """Before the log, after it, and ending before it begins: no entry, and no error, whichever way it is read."""
    env = GOLDEN / "je-17" / "empty"
    for options in (
        ("--until", "2001-01-01T00:00:00Z"),
        ("--since", "2101-01-01T00:00:00Z"),
        ("--since", "2101-01-01T00:00:00Z", "--until", "2001-01-01T00:00:00Z"),
    ):
        result = run("dump-log", env, "--format", "ndjson", *options, *way)
        assert result.code == 0, result.err
        (summary,) = result.lines()
        assert summary["rec"] == "summary"


def test_a_prepared_selection_holds_no_times() -> None:
    storage = MemoryStorage(whole())
    ready = Selection(since_ms=0, until_ms=1 << 60).prepare(storage, list_log_files(storage))
    assert (ready.since_ms, ready.until_ms) == (None, None)
    assert ready.to_lsn == NULL_LSN


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("environment", ["je-17/txn-crash", "je-17/ha-rollback", "je-26/txn-crash", "je-6/dups"])
def test_stats_count_what_the_entries_say(environment: str, by: str) -> None:
    """In bulk and entry by entry, with a selection and without."""
    files = golden(environment)
    storage = MemoryStorage(files)
    found = list_log_files(storage)
    keys = {"type": lambda e: e.type_number, "file": lambda e: e.lsn >> 32, "db": db_of, "txn": txn_of}
    for selection in (Selection(), Selection(types=frozenset((13, 17, 31, 33, 35)))):
        wanted = selection.matcher()
        picked = [entry for entry in entries(files) if wanted(entry)]
        expected: dict[int | None, list[LogEntry]] = {}
        for entry in picked:
            expected.setdefault(keys[by](entry), []).append(entry)
        counted = count_file(scan_log(storage, found).of_file(found.files[0]), by, selection)
        assert counted.damages == ()
        assert set(counted.totals) == set(expected)
        for group, members in expected.items():
            total = counted.totals[group]
            sizes = [entry.total_bytes for entry in members]
            assert total.entries == len(members)
            assert (total.total_bytes, total.least_bytes, total.most_bytes) == (sum(sizes), min(sizes), max(sizes))
            assert total.provisional == sum(entry.provisional is Provisional.YES for entry in members)
            before = sum(entry.provisional is Provisional.BEFORE_CKPT_END for entry in members)
            assert total.before_ckpt_end == before
