"""A sequence: numbers that are given out once, across any number of handles and processes, like JE's ``Sequence``.

The state of a sequence is one record (``engine.format.sequence_record``), which a JE program can continue to use. A
handle takes ``cache_size`` numbers at a time, so that most calls write nothing; numbers that it has taken but not given
out are lost with it.

Example::

    ids = db.sequence(b"ids", SequenceConfig(create=True, initial=1, cache_size=100))
    order = ids.next()      # 1; the next 99 calls write nothing
    block = ids.next(1000)  # the first of 1000 numbers
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.db.engine import Engine
from engine.db.key_range import shown_key
from engine.db.record_keys import comparable_key
from engine.db.scan import walker_of
from engine.db.transaction import Transaction, inner_of
from engine.db.write_operation import write_operation
from engine.errors import ExistsError, NotFoundError, RefusedError, UsageError
from engine.format.sequence_record import SequenceRecord, decode_sequence, encode_sequence
from engine.tree.database_state import DatabaseState
from engine.txn.lock_types import LockType
from engine.txn.payload import PutMode, user_payload
from engine.txn.txn import Durability, Txn

_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True)
class SequenceConfig:
    """How a sequence is opened. ``range_min`` to ``wrap`` are used only when the sequence is created.

    Attributes:
        create: create the sequence if it does not exist.
        exclusive: with ``create``: refuse if the sequence exists.
        cache_size: how many numbers the handle takes at a time.
        range_min, range_max: the smallest and the largest number.
        initial: the first one.
        descending: count down.
        wrap: start again after the last number; otherwise further calls are refused.
        no_sync: the sequence's own transactions commit without sync.
    """

    create: bool = False
    exclusive: bool = False
    cache_size: int = 0
    range_min: int = _LONG_MIN
    range_max: int = _LONG_MAX
    initial: int = 0
    descending: bool = False
    wrap: bool = False
    no_sync: bool = False


class Sequence:
    """A handle of a sequence; ``Database.sequence`` makes it. Threads may share it.

    Arguments:
        engine, state, key: where its record is.
        config: how it is opened.
        txn: the transaction that creates it; None: a transaction of its own.
        check: raises if the database's handle or the environment is closed.

    Attributes:
        gets, cached_gets: number of calls of ``next``, and how many of them wrote nothing.

    Raises:
        UsageError: the range is empty or smaller than the cache; or the database has duplicates.
        NotFoundError: the sequence does not exist, and ``create`` is not set.
        ExistsError: the sequence exists, and ``exclusive`` is set.
        FormatError: the record of that key is not the record of a sequence.
    """

    def __init__(
        self,
        engine: Engine,
        state: DatabaseState,
        key: bytes,
        config: SequenceConfig,
        txn: Transaction | None,
        check: Callable[[], None],
    ) -> None:
        _check_config(config, state)
        self._engine = engine
        self._state = state
        self._config = config
        self._check = check
        self._key = key
        self._at = comparable_key(state, key)
        self._mutex = threading.Lock()
        self.gets = self.cached_gets = 0
        self._record = self._open(txn)
        # Nothing is cached: the next call takes numbers from the record.
        self._next = self._record.stored
        self._last = self._next - self._sign

    def __repr__(self) -> str:
        return f"<Sequence {shown_key(self._key)} of {self._state.name or ''!r}, {self._record.stored} stored>"

    @property
    def key(self) -> bytes:
        """The key of its record."""
        return self._key

    @property
    def state(self) -> SequenceRecord:
        """The record of the sequence, as last read or written by this handle."""
        return self._record

    def next(self, delta: int = 1, txn: Transaction | None = None) -> int:
        """Take ``delta`` numbers; returns the first, from which the caller counts up, or down in a descending sequence.

        Arguments:
            txn: the transaction that takes numbers from the record if the cache has too few. If it aborts, they are
                given out again; without a transaction they are never given out twice.

        Raises:
            UsageError: ``delta`` is less than one, or more than the range holds.
            RefusedError: all numbers have been given out, or the record was deleted.
        """
        self._check()
        if not 0 < delta <= self._record.range_max - self._record.range_min:
            raise UsageError(
                "a sequence gives out no such block", expected="at least 1, within its range", found=str(delta)
            )
        with self._mutex:
            self.gets += 1
            if (self._last - self._next) * self._sign + 1 >= delta:
                self.cached_gets += 1
            else:
                self._take(delta, txn)
            first = self._next
            self._next += delta * self._sign
            return first

    @property
    def _sign(self) -> int:
        return 1 if self._record.ascends else -1

    def _open(self, txn: Transaction | None) -> SequenceRecord:
        config = self._config
        found = self._read_committed(txn)
        if found is not None and config.create and config.exclusive:
            raise ExistsError(f"there is a sequence of the key {self._key!r} already")
        if found is not None:
            return decode_sequence(found)
        if not config.create:
            raise NotFoundError(f"no sequence of the key {self._key!r}", hint="open it with create")
        record = SequenceRecord(
            range_min=config.range_min,
            range_max=config.range_max,
            stored=config.initial,
            ascends=not config.descending,
            wraps=config.wrap,
            exhausted=False,
        )
        engine = self._engine
        with write_operation(engine, inner_of(txn, engine), db=self._state) as locker:
            self._relax(locker, txn)
            payload = user_payload(encode_sequence(record), 0)
            if engine.records.put(self._state, self._at, payload, locker, PutMode.INSERT_ONLY):
                return record
            # Another transaction has created the sequence meanwhile; use that sequence.
            return self._locked(locker)

    def _read_committed(self, txn: Transaction | None) -> bytes | None:
        found = walker_of(self._engine, self._state, inner_of(txn, self._engine)).exact(self._at)
        return None if found is None else found.data

    def _take(self, delta: int, txn: Transaction | None) -> None:
        """Take numbers from the record, as many as the cache size requires."""
        engine = self._engine
        with write_operation(engine, inner_of(txn, engine), db=self._state) as locker:
            self._relax(locker, txn)
            record = self._locked(locker)
            if record.exhausted:
                raise RefusedError(
                    "the numbers of a sequence are used up",
                    found=str(record.stored),
                    hint="make another with a larger range",
                )
            sign = 1 if record.ascends else -1
            adjust = max(delta, self._config.cache_size)
            left = record.range_max - record.stored if record.ascends else record.stored - record.range_min
            if left < delta and record.wraps:
                record = record._replace(stored=record.range_min if record.ascends else record.range_max)
            elif left < delta:
                # The last number is still given out; later calls are refused.
                record, adjust = record._replace(exhausted=True), 0
            else:
                adjust = min(adjust, left)
            taken = record._replace(stored=record.stored + adjust * sign)
            engine.records.put(
                self._state, self._at, user_payload(encode_sequence(taken), 0), locker, PutMode.OVERWRITE
            )
        # Set after the commit: if it fails, no number was given out.
        self._record = taken
        self._next, self._last = record.stored, taken.stored - sign

    def _locked(self, locker: Txn) -> SequenceRecord:
        data = self._engine.records.get(self._state, self._at, locker, LockType.WRITE)
        if data is None:
            raise RefusedError(f"the sequence of the key {self._key!r} has been deleted while it is open")
        return decode_sequence(data)

    def _relax(self, locker: Txn, txn: Transaction | None) -> None:
        if txn is None and self._config.no_sync:
            locker.durability = Durability.NO_SYNC


def _check_config(config: SequenceConfig, state: DatabaseState) -> None:
    if state.duplicates:
        raise UsageError("a database with duplicates holds no sequences", found=state.label)
    if not _LONG_MIN <= config.range_min < config.range_max <= _LONG_MAX:
        raise UsageError("the range of a sequence holds nothing", found=f"{config.range_min} to {config.range_max}")
    if not config.range_min <= config.initial <= config.range_max:
        raise UsageError("a sequence begins outside of its range", found=str(config.initial))
    if not 0 <= config.cache_size <= config.range_max - config.range_min:
        raise UsageError("the cache of a sequence is larger than its range", found=str(config.cache_size))
