"""Waiting for VLSNs, the log item cache, consistency, and threads (R-VLSN-60 to 63, T-24)."""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import pytest

from engine.errors import JetoolError, NotFoundError, UsageError
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.entry_waiters import RECHECK_MS, LogItem, LogItemCache, WaitTimeoutError
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.scanner import ForwardScanner
from tests.support.lockers import PATIENCE, Call, until
from tests.vlsn.memorydb import COMMIT, LN, MemoryDatabase


def item(vlsn: int, body: bytes = b"body") -> LogItem:
    return LogItem(vlsn, 100 * vlsn, LN, body)


def index_of(last: int, recheck_ms: int = RECHECK_MS) -> VLSNIndex:
    index = VLSNIndex(MemoryDatabase(), recheck_ms=recheck_ms)
    for vlsn in range(1, last + 1):
        index.put(vlsn, 100 * vlsn, LN, item(vlsn))
    return index


def wait(index: VLSNIndex, vlsn: int, timeout_ms: int = 60_000) -> Call:
    call = Call(lambda: index.wait_for(vlsn, timeout_ms))
    until(lambda: not call.is_alive() or waiting_for(index) == vlsn)
    return call


def waiting_for(index: VLSNIndex) -> int | None:
    awaited = index.stats().awaited_vlsn
    return None if awaited == NULL_VLSN else awaited


def test_present_vlsn_comes_from_the_cache() -> None:
    index = index_of(40)
    assert index.wait_for(40, 0) == item(40)
    assert index.wait_for(9, 0) == item(9)
    # 8 has given its slot to 40.
    assert index.wait_for(8, 0) is None
    stats = index.stats()
    assert (stats.cache_hits, stats.cache_misses) == (2, 1)


def test_all_waiters_get_the_item() -> None:
    index = index_of(3)
    calls = [wait(index, 4) for _ in range(3)]
    until(lambda: index.stats().waiters == 3)
    index.put(4, 400, COMMIT, item(4))
    assert [call.result() for call in calls] == [item(4)] * 3
    assert waiting_for(index) is None


def test_later_vlsn_wakes_without_an_item() -> None:
    """R-VLSN-61: the awaited one is in the log by then."""
    index = index_of(3)
    call = wait(index, 4)
    index.put(5, 500, LN, item(5))
    assert call.result() is None


def test_earlier_vlsn_wakes_nobody() -> None:
    index = index_of(1)
    index.put(3, 300, LN)
    call = wait(index, 4)
    index.put(2, 200, LN, item(2))
    assert call.is_alive()
    index.put(4, 400, LN)
    assert call.result() is None


def test_one_vlsn_at_a_time() -> None:
    index = index_of(3)
    call = wait(index, 4)
    with pytest.raises(JetoolError, match="others wait for VLSN 4"):
        index.wait_for(5, 0)
    index.put(4, 400, LN)
    call.result()
    assert index.wait_for(4, 0) is None


def test_timeout_leaves_nothing_behind() -> None:
    index = index_of(3)
    with pytest.raises(WaitTimeoutError, match="VLSN 4 was not written within 5 ms"):
        index.wait_for(4, 5)
    index.truncate_tail(3, 200)
    with pytest.raises(WaitTimeoutError):
        index.wait_for(3, 5)


def test_shutdown_and_failure_end_waits() -> None:
    index = index_of(3)
    call = wait(index, 4)
    index.close()
    assert isinstance(call.result(), WaitTimeoutError)
    with pytest.raises(WaitTimeoutError, match="closed"):
        index.wait_for(4, 60_000)
    failing = index_of(3)
    call = wait(failing, 4)
    error = JetoolError("environment invalid")
    failing.fail(error)
    assert call.result() is error


def test_await_consistency() -> None:
    """R-VLSN-63, T-24: until the range reaches what was allocated before the call."""
    index = index_of(3)
    index.await_consistency()
    assert [index.bump(), index.bump()] == [4, 5]
    call = Call(index.await_consistency)
    until(lambda: waiting_for(index) == 4)
    assert index.bump() == 6
    index.put(4, 400, LN)
    until(lambda: waiting_for(index) == 5)
    index.put(5, 500, LN)
    # 6 was allocated later and is not waited for.
    assert call.result() is None
    with pytest.raises(WaitTimeoutError, match="6 is allocated, but only 5 is registered"):
        index.await_consistency(20)


def test_await_consistency_ends_when_logging_has_failed() -> None:
    """T-24: an allocated VLSN that was never written."""
    index = index_of(3)
    index.bump()
    call = Call(index.await_consistency)
    until(lambda: waiting_for(index) == 4)
    error = JetoolError("logging failed")
    index.fail(error)
    assert call.result() is error


def test_rollback_lowers_the_target() -> None:
    index = index_of(3, recheck_ms=5)
    index.note_allocated(5)
    call = Call(index.await_consistency)
    until(lambda: waiting_for(index) == 4)
    index.note_allocated(3)
    assert call.result() is None


@pytest.mark.parametrize("size", [0, 1, 2, 32, 1024])
def test_cache_sizes(size: int) -> None:
    cache = LogItemCache(size)
    for vlsn in range(1, 50):
        cache.put(item(vlsn))
    kept = [vlsn for vlsn in range(1, 60) if cache.get(vlsn) is not None]
    assert kept == list(range(50 - min(size, 49), 50))
    cache.clear()
    assert cache.get(49) is None


@pytest.mark.parametrize("size", [-1, 3, 33, 2048])
def test_cache_size_must_be_a_power_of_two(size: int) -> None:
    with pytest.raises(UsageError, match=r"je\.rep\.vlsn\.logCacheSize"):
        LogItemCache(size)


def test_very_long_items_are_not_kept() -> None:
    cache = LogItemCache(32)
    cache.put(item(7))
    cache.put(item(39, bytes(100_000)))
    assert (cache.get(7), cache.get(39)) == (None, None)


def test_readers_and_writers_together() -> None:
    """Four writers register VLSNs out of order while readers look up, scan and wait, and checkpoints flush.

    Every answer lies on the right side of the VLSN, and in the end every VLSN can be found.
    """
    database = MemoryDatabase()
    index = VLSNIndex(database, BucketLimits(5, 20))
    index.put(1, place(1), LN)
    latch, write_latch, total = threading.Event(), threading.Lock(), 3000

    def write(seed: int) -> None:
        chance = random.Random(seed)
        while True:
            with write_latch:
                if index.latest_allocated >= total:
                    return
                vlsn = index.bump()
            if chance.random() < 0.05:
                time.sleep(0.0002)
            index.put(vlsn, place(vlsn), COMMIT, LogItem(vlsn, place(vlsn), COMMIT, b""))

    def read(seed: int) -> int:
        chance = random.Random(seed)
        lookups = 0
        while not latch.is_set() or lookups < 500:
            vlsn = chance.randint(1, index.range.last)
            assert index.lte_lsn(vlsn) <= place(vlsn) <= index.gte_lsn(vlsn)
            assert index.lsn(vlsn) in (NULL_LSN, place(vlsn))
            scanner = ForwardScanner(index)
            assert scanner.start(vlsn) <= place(vlsn)
            lookups += 1
        return lookups

    def follow() -> int:
        vlsn = 1
        while vlsn < total:
            vlsn += 1
            found = index.wait_for(vlsn, 60_000)
            assert found is None or found.vlsn == vlsn
        return vlsn

    def checkpoint() -> None:
        while not latch.is_set():
            index.await_consistency(60_000)
            index.flush()
            assert index.verify() == []
            time.sleep(0.002)

    writers = [Call(partial(write, seed)) for seed in range(4)]
    others = [Call(partial(read, seed)) for seed in range(2)]
    follower, flusher = Call(follow), Call(checkpoint)
    for call in writers:
        call.join(PATIENCE * 3)
        assert call.result() is None
    assert follower.result() == total
    latch.set()
    for call in (*others, flusher):
        call.join(PATIENCE * 3)
        assert not isinstance(call.result(), Exception), call.result()
    index.flush()
    assert (index.range.first, index.range.last, index.range.last_txn_end) == (1, total, total)
    assert index.verify() == []
    for vlsn in range(1, total + 1):
        assert index.lte_lsn(vlsn) <= place(vlsn) <= index.gte_lsn(vlsn)


def test_readers_beside_log_cleaning() -> None:
    """The head is cut again and again: a reader gets an answer, or learns that its VLSN is gone."""
    index = VLSNIndex(MemoryDatabase(), BucketLimits(5, 20))
    for vlsn in range(1, 1001):
        index.put(vlsn, place(vlsn), COMMIT)
        if vlsn == 700:
            index.flush()
    done = threading.Event()
    lookups = [0, 0, 0]

    def read(seed: int) -> None:
        chance = random.Random(seed)
        while not done.is_set():
            vlsn = chance.randint(index.range.first, 1000)
            try:
                assert index.lte_lsn(vlsn) <= place(vlsn) <= index.gte_lsn(vlsn)
                lookups[seed] += 1
            except NotFoundError:
                assert vlsn < index.range.first

    readers = [Call(partial(read, seed)) for seed in range(3)]

    def have_looked(before: list[int]) -> bool:
        # Or one has failed, which its result says.
        all_have = all(now > then for now, then in zip(lookups, before, strict=True))
        return all_have or not all(call.is_alive() for call in readers)

    for file_number in range(8):
        assert index.truncate_head(100 * (file_number + 1), file_number + 1)
        until(partial(have_looked, list(lookups)))
    done.set()
    for call in readers:
        assert call.result() is None, call.result()
    assert index.range.first == 801
    assert index.verify() == []


def place(vlsn: int) -> int:
    """A hundred VLSNs to a file."""
    return make_lsn((vlsn - 1) // 100, 50 + 10 * vlsn)
