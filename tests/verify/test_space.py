"""Wrong utilization figures are found; right ones, and ones that recovery has counted inexactly, are not (R-CLN-1 to
R-CLN-13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.cleaner.file_records import RESERVED_FILE, RESERVED_FILES
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.format.entry.internal_db import ReservedFile
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import file_of, format_lsn
from engine.format.tuples import long_key
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import DELETED
from engine.tree.tree import bins, edge_bin
from engine.txn.payload import Payload, PutMode
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import ERROR, NOTE, WARNING
from tests.support.damage.spoiled_trees import ALL, CONFIG, codes, found, rewrite, sound, spoiled, state_of

SPACE = ("space",)


def one_entry_more(env: Environment) -> None:
    counters = env.engine.utilization.counters(0)
    counters.total_count += 1
    counters.changed = True


def bytes_missing(env: Environment) -> None:
    counters = env.engine.utilization.counters(1)
    counters.total_size -= 1
    counters.changed = True


def everything_obsolete(env: Environment) -> None:
    counters = env.engine.utilization.counters(0)
    counters.obsolete_ln_count = counters.total_ln_count
    counters.changed = True


def one_too_many(env: Environment) -> None:
    """The smallest figure that cannot be."""
    counters = env.engine.utilization.counters(0)
    used = _in_use(env, 0)
    counters.obsolete_ln_count = counters.total_ln_count - used + 1
    counters.changed = True


def as_many_as_can_be(env: Environment) -> None:
    counters = env.engine.utilization.counters(0)
    counters.obsolete_ln_count = counters.total_ln_count - _in_use(env, 0)
    counters.changed = True


def _in_use(env: Environment, number: int, *, expiring: bool = True) -> int:
    """LNs of a file that slots need, or those that do not expire of them."""
    count = 0
    with env.engine.latch:
        named = [env.engine.catalog.by_name(name) for name, _ in list(env.engine.catalog.names(internal=True))]
        for state in (env.engine.catalog.mapping, env.engine.catalog.naming, *named):
            if state is None or state.duplicates or state.root_lsn == -1:
                continue
            for node in bins(env.engine.ctx, state):
                for lsn, flags, expires in zip(node.lsns, node.states, node.expirations, strict=True):
                    counts = file_of(lsn) == number and not flags & (DELETED | SLOT_EMBEDDED)
                    count += counts and (expiring or not expires)
    return count


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (one_entry_more, {"JE-SPACE-001"}),
        (bytes_missing, {"JE-SPACE-001"}),
        (everything_obsolete, {"JE-SPACE-002"}),
        (one_too_many, {"JE-SPACE-002"}),
        (as_many_as_can_be, set()),
    ],
    ids=lambda c: getattr(c, "__name__", ""),
)
def test_wrong_figures(spoil: Any, expected: set[str]) -> None:
    storage = spoiled(spoil)
    assert codes(storage, ("tree",)) == set()
    assert codes(storage, SPACE) == expected
    for finding in found(storage, SPACE):
        assert finding.severity == WARNING
        assert finding.file in ("00000000.jdb", "00000001.jdb")


def test_expired_records_may_be_counted() -> None:
    """JE's cleaner does so, and leaves their slots."""
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env, env.create_database("d") as db:
        for i in range(100):
            db.put(b"%03d" % i, b"." * 60, expiration=20_000)
        env.checkpoint(force=True)
        counters = env.engine.utilization.counters(0)
        counters.obsolete_ln_count = counters.total_ln_count - _in_use(env, 0, expiring=False)
        assert counters.obsolete_ln_count > counters.total_ln_count - _in_use(env, 0) + 10
        counters.changed = True
    assert found(storage, SPACE) == ()


def test_uncounted_garbage_is_noted() -> None:
    storage = MemoryStorage()
    config = replace(CONFIG, file_max_bytes=400_000)
    with Environment(storage, config) as env, env.create_database("d") as db:
        for _ in range(3):
            for i in range(1500):
                db.put(b"%05d" % i, b"." * 100)
    assert found(storage, SPACE) == ()
    with Environment(storage, config) as env:
        counters = env.engine.utilization.counters(0)
        counters.obsolete_ln_count = counters.obsolete_ln_size = counters.obsolete_ln_size_counted = 0
        counters.changed = True
        env.checkpoint(force=True)
    assert [(f.code, f.severity, f.file) for f in found(storage, SPACE)] == [("JE-SPACE-003", NOTE, "00000000.jdb")]


def test_a_summary_that_cannot_be_read() -> None:
    storage = sound()
    for _ in range(2):
        # Two more checkpoints: the summaries of the first files are now in front of what recovery redoes.
        with Environment(storage, CONFIG) as env, env.open_database("small") as db:
            db.put(b"k", b"v")
    with Environment(storage, CONFIG) as env:
        state = env.engine.catalog.by_name("_jeUtilization")
        assert state is not None
        node = edge_bin(env.engine.ctx, state)
        assert node is not None
        index = next(i for i in range(len(node)) if node.is_live(i))
        lsn, name = node.lsns[index], f"{int.from_bytes(node.keys[index][:4], 'big'):08x}.jdb"
    rewrite(storage, lsn, lambda record: record._replace(db_id=7))
    (one,) = found(storage, SPACE)
    assert (one.code, one.lsn, one.severity) == ("JE-SPACE-004", lsn, WARNING)
    assert name in one.message


def test_a_reserved_file_that_is_in_use() -> None:
    """The cleaner, or whoever wrote its record, was wrong: the file may go at any time."""
    storage = sound()
    with Environment(storage, CONFIG) as env:
        cleaner = env.engine.cleaner
        assert cleaner is not None
        assert not found(storage, SPACE)
        cleaner.records.put_reserved(0, ReservedFile(0, -1, -1, ()))
    (one,) = found(storage, SPACE)
    assert (one.code, one.file, one.severity) == ("JE-SPACE-005", "00000000.jdb", ERROR)
    assert "lead into the file" in one.message


def with_reserved(key: bytes, data: bytes) -> MemoryStorage:
    """The sound environment with a record of a reserved file, rightly logged."""
    storage = sound()
    with Environment(storage, CONFIG) as env:
        engine = env.engine
        state = state_of(env, RESERVED_FILES)
        locker = engine.txns.begin(transactional=False)
        engine.records.put(state, state.order.wrap(key), Payload(data, RESERVED_FILE), locker, PutMode.OVERWRITE)
        engine.txns.end_operation(locker)
    return storage


@pytest.mark.parametrize(
    ("key", "data", "what"),
    [
        (b"", b"\x80\xff\xff\0", "expected 8 bytes, found 0"),
        (long_key(900)[:7], b"\x80\xff\xff\0", "expected 8 bytes, found 7"),
        (long_key(900), b"", "runs past the end"),
        (long_key(900), b"\x80\xff", "runs past the end"),
        (long_key(900), b"\x80\xff\xff\5", "impossible count"),
    ],
    ids=["no key", "a short key", "no data", "short data", "databases are missing"],
)
def test_a_record_of_a_reserved_file_that_nobody_reads(key: bytes, data: bytes, what: str) -> None:
    """JE does not open such an environment, neither does recovery for a writer: an error of each level that looks."""
    storage = with_reserved(key, data)
    (one,) = found(storage, SPACE)
    assert (one.code, one.severity, one.db, one.key) == ("JE-SPACE-006", ERROR, RESERVED_FILES, key)
    assert what in one.message
    (other,) = verify_environment(storage, list_log_files(storage), ("data",)).findings
    assert (other.code, other.severity, other.lsn) == ("JE-DATA-006", ERROR, one.lsn)
    with pytest.raises(DamageError, match=r"reserved file cannot be read.*JE does not open") as raised:
        Environment(storage, CONFIG)
    assert raised.value.lsn == format_lsn(one.lsn)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (long_key(900) + b"\0", b"\x80\xff\xff\0"),
        (long_key(900), b"\x80\xff\xff\0.."),
        (long_key(900), b"\x80\xff\xff\xff"),
    ],
    ids=["a longer key", "longer data", "a negative count"],
)
def test_a_record_of_a_reserved_file_that_je_reads(key: bytes, data: bytes) -> None:
    storage = with_reserved(key, data)
    assert found(storage, ALL) == ()
    assert verify_environment(storage, list_log_files(storage), LEVELS).findings == ()
    with Environment(storage, CONFIG) as env:
        assert env.engine.cleaner is not None
        assert list(env.engine.cleaner.records.reserved()) == [900]
