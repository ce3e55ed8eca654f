"""A node of ours in a group of JE 25.3 that is played, on log version 26, and on the versions between."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from engine.format.codecs import encode_body
from engine.format.entry.group_db import GROUP_KEY, decode_group
from engine.format.entry.ln import BEFORE_IMAGE, HAS_EXPIRATION, LN, TOMBSTONE
from engine.format.entry.txn_end import LAST_TERM, PRE_TERM, TxnEnd
from engine.format.entry_types import COMMIT, INS_LN_TX, NAME_LNS, UPD_IMAGE, UPD_LN_TX
from engine.format.tuples import string_key
from engine.rep.group import release_of
from engine.rep.replay import Replay, StreamRecord
from engine.rep.stream import StreamReader, last_end, new_term
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry
from engine.storage.memory import MemoryStorage
from tests.rep.member.test_following import manifest
from tests.support.groups.group_double import GroupDouble, recorded_entries
from tests.support.groups.playing import described, failure_of, followed, group_of, opened
from tests.support.groups.streams import check_index

RECORDED = "database-operations-25/004-Feeder-n1.jsonl.gz"


def operations() -> list[WireEntry]:
    """What a recorded master of JE 25.3 streamed, in log version 26."""
    return list(recorded_entries(RECORDED))


def uuid_of(log: list[WireEntry]) -> tuple[int, int]:
    for entry in log:
        record = entry.record()
        if isinstance(record, LN) and record.key == string_key(GROUP_KEY) and record.data is not None:
            group = decode_group(record.data)
            return group.uuid_high, group.uuid_low
    raise AssertionError


def group_25(log: list[WireEntry], stream: int = 26) -> GroupDouble:
    """A node of JE 25.3 with this log."""
    return group_of(
        log, uuid=uuid_of(log), protocol=14, je_version="25.3.17", log_version=26, stream=stream, needs_ack=True
    )


def logged(storage: MemoryStorage) -> list[WireEntry]:
    """The stream as the log of a node has it."""
    with opened(storage) as env:
        check_index(env)
        with closing(StreamReader(env.engine, 1)) as reader:
            return [WireEntry(raw.vlsn, raw.type_number, raw.version, raw.body) for raw in reader.raw()]


def shared(record: object) -> object:
    """What all nodes have of an entry."""
    if isinstance(record, TxnEnd):
        return record.id, record.master_id, record.dtvlsn, record.master_term
    assert isinstance(record, LN)
    times = record.modification_time, record.creation_time, record.expiration
    marks = record.flags2 & (TOMBSTONE | BEFORE_IMAGE)
    return record.db_id, record.txn_id, record.key, record.data, record.content, record.tail, times, marks


def test_an_empty_directory_takes_the_version_of_the_master() -> None:
    """The records are those that JE reported, and each entry has the times and the term that the master gave it."""
    log, storage = operations(), MemoryStorage()
    group = group_25(log)
    followed(group, storage)
    with opened(storage) as env:
        assert env.engine.log_version == 26
        assert described(env) == manifest("database-operations-25")
    found = logged(storage)
    assert [entry.log_version for entry in found] == [26] * len(log)
    for mine, theirs in zip(found, log, strict=True):
        assert mine[:2] == theirs[:2]
        if mine.type_number not in NAME_LNS:
            assert shared(mine.record()) == shared(theirs.record())


def test_it_speaks_the_protocol_of_its_release() -> None:
    """Release, log version, size of the cache; answers name the heartbeat, and what is durable here."""
    log = operations()
    group = group_25(log)
    followed(group, MemoryStorage())
    said = group.streams[0].messages
    assert next(m for m in said if isinstance(m, f.ReplicaProtocolVersion)).version == 14
    versions = next(m for m in said if isinstance(m, f.ReplicaJEVersions))
    assert (versions.je_version, versions.log_version) == ("25.3.17", 26)
    assert [type(m) for m in said if isinstance(m, f.CacheSizeRequest | f.EntryRequest | f.SyncupPing)] == [
        f.CacheSizeRequest, f.EntryRequest, f.SyncupPing,
    ]  # fmt: skip
    answers = [m for m in said if isinstance(m, f.HeartbeatResponse)]
    assert all(m.durable_vlsn == m.txn_end_vlsn and m.sent_ms for m in answers)
    ids = [m.id for m in answers if m.id is not None and m.id >= 0]
    assert ids
    assert ids == sorted(set(ids))
    acks = [m for m in said if isinstance(m, f.Ack | f.GroupAck)]
    ends = {end.id: end for entry in log if isinstance(end := entry.record(), TxnEnd) and entry.type_number == COMMIT}
    assert {txn for m in acks for txn in ((m.txn_id,) if isinstance(m, f.Ack) else m.txn_ids)} == set(ends)
    assert all((m.durable_vlsn or 0) <= log[-1].vlsn for m in acks)


@pytest.mark.parametrize("version", [17, 18, 19, 21, 22, 25])
def test_a_log_of_an_earlier_version(version: int) -> None:
    """The master rewrites its entries for it; the node says the release of its log, and keeps its version."""
    log = []
    for entry in operations():
        body = encode_body(entry.type_number, version, _for(entry, version))
        log.append(WireEntry(entry.vlsn, entry.type_number, version, body))
    storage = MemoryStorage()
    with opened(storage, log_version=version) as env:
        assert env.engine.log_version == version
    group = group_25(log)
    group.protocol = 14 if version > 17 else 9
    followed(group, storage)
    versions = next(m for m in group.streams[0].messages if isinstance(m, f.ReplicaJEVersions))
    assert (versions.je_version, versions.log_version) == (release_of(version), version)
    with opened(storage) as env:
        assert env.engine.log_version == version
        assert described(env) == manifest("database-operations-25")
    assert {entry.log_version for entry in logged(storage)} == {version}


def test_a_later_log_follows_an_earlier_master() -> None:
    """Entries of a master on log version 17 have no times, and no term: JE's mark for that is logged."""
    storage = MemoryStorage()
    with opened(storage, log_version=26):
        pass
    log = list(recorded_entries("database-operations/003-Feeder-n1.jsonl.gz"))
    followed(group_of(log), storage)
    ends = [end for entry in logged(storage) if isinstance(end := entry.record(), TxnEnd)]
    assert ends
    assert {end.master_term for end in ends} == {PRE_TERM}
    with opened(storage) as env:
        assert described(env) == manifest("database-operations")


def test_tombstones_times_and_before_images() -> None:
    """They reach the log and the slots as the master wrote them; before version 25 the operation is a plain update."""
    log = operations()
    at = next(at for at, entry in enumerate(log) if entry.type_number == INS_LN_TX and at > 40)
    old = log[at].record()
    assert isinstance(old, LN)
    insert = old._replace(flags2=TOMBSTONE, flags3=1, modification_time=1_700_000_000_000, creation_time=99)
    log[at] = log[at]._replace(body=encode_body(INS_LN_TX, 26, insert))
    txn = old.txn_id
    image = old._replace(
        flags=0,
        flags2=BEFORE_IMAGE,
        expiration=0,
        data=b"later",
        modification_time=1_710_000_000_000,
        creation_time=5,
        tail=20_000,
    )
    update = WireEntry(log[at].vlsn + 1, UPD_IMAGE, 26, encode_body(UPD_IMAGE, 26, image))
    log = [*log[: at + 1], update]
    end = TxnEnd(-1, txn or 0, 1_790_000_000_000, 1, 1, LAST_TERM)
    log.append(WireEntry(update.vlsn + 1, COMMIT, 26, encode_body(COMMIT, 26, end)))
    storage = MemoryStorage()
    followed(group_25(log), storage)
    *_, first, second, _ = logged(storage)
    assert [first.type_number, second.type_number] == [INS_LN_TX, UPD_IMAGE]
    assert [shared(first.record()), shared(second.record())] == [shared(insert), shared(image)]
    rewritten = [
        entry._replace(log_version=19, body=encode_body(entry.type_number, 19, _for(entry, 19)))
        for entry in log
        if entry is not update
    ]
    plain = image._replace(flags2=0, tail=None)
    rewritten.insert(-1, WireEntry(update.vlsn, UPD_LN_TX, 19, encode_body(UPD_LN_TX, 19, plain)))
    # A master of jetool sends a plain update, a master of JE 25.3 its own type without the new field.
    own = update._replace(log_version=19, body=encode_body(UPD_IMAGE, 19, image._replace(flags2=0)))
    of_je = [own if entry.vlsn == update.vlsn else entry for entry in rewritten]
    for stream in (rewritten, of_je):
        early = MemoryStorage()
        with opened(early, log_version=19):
            pass
        followed(group_25(stream), early)
        *_, second, _ = logged(early)
        assert (second.type_number, second.log_version) == (UPD_LN_TX, 19)
        assert shared(second.record()) == shared(plain._replace(creation_time=0))


def test_an_impossible_term() -> None:
    """JE would open no log that has it, so no part of it is replayed."""
    log = operations()
    end = next(entry for entry in log if entry.vlsn > 30 and entry.type_number == COMMIT)
    record = end.record()
    assert isinstance(record, TxnEnd)
    bad = end._replace(body=encode_body(COMMIT, 26, record._replace(master_term=LAST_TERM + 1)))
    error = failure_of(group_25([*log[: end.vlsn - 1], bad]), MemoryStorage())
    assert "no master has the term" in str(error)


def _for(entry: WireEntry, version: int) -> Any:
    """The record as a feeder rewrites it."""
    record = entry.record()
    if isinstance(record, LN) and version < entry.log_version:
        return record._replace(flags=record.flags & HAS_EXPIRATION, flags2=0, flags3=0)
    return record


def test_the_term_of_a_vote_is_that_of_the_last_end() -> None:
    """An entry of a master without terms, in a group of two releases, makes DTVLSNs decide again."""
    log = operations()
    last = next(entry for entry in reversed(log) if entry.type_number == COMMIT)
    record = last.record()
    assert isinstance(record, TxnEnd)
    null = record._replace(id=-9000, last_lsn=-1)
    later = WireEntry(log[-1].vlsn + 1, COMMIT, 17, encode_body(COMMIT, 17, null))
    for entries, term in ((log, record.master_term), ([*log, later], PRE_TERM)):
        with opened(MemoryStorage(), log_version=26) as env:
            replay = Replay(env.engine)
            assert replay.master_term == 0
            for entry in entries:
                replay.redo(StreamRecord(entry.vlsn, entry.type_number, entry.record()))
            end = last_end(env.engine)
            assert end is not None
            assert (replay.master_term, end.master_term) == (term, term)


def test_a_late_clock_begins_no_earlier_term() -> None:
    """A tool that writes as the only member: JE would refuse a log whose terms fall."""
    log = operations()
    with opened(MemoryStorage(), log_version=26) as env:
        replay = Replay(env.engine)
        for entry in log:
            replay.redo(StreamRecord(entry.vlsn, entry.type_number, entry.record()))
        end = TxnEnd(-1, -9000, 1_790_000_000_000, 1, 1, LAST_TERM)
        replay.redo(StreamRecord(log[-1].vlsn + 1, COMMIT, end))
        assert new_term(env.engine) == LAST_TERM
