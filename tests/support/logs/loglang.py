"""A small language for logs of rollback periods, as the tables of je-behaviour.md 6.6 write them.

``100 C-11 | 250 LN-12 | 300 A-12 | 400 RS200:-13,-14 | 500 RE`` stands for a Commit of transaction -11 at LSN 100, an
LN, an Abort, a RollbackStart with matchpoint 200 and two active transactions, and its RollbackEnd. ``RE20,22`` names
the matchpoint and the RollbackStart; without them it ends the RollbackStart before it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.format.entry.ln import ABORT_KNOWN_DELETED, HAS_ABORT_LSN, LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.recovery.rollback_tracker import RollbackPeriod, RollbackTracker
from engine.txn.chain import ChainDatabase, ChainEntry

_ITEM = re.compile(r"(\d+) (LN|C|A|RS|RE)(.*)")


class Item(NamedTuple):
    """One entry: ``txn_id`` for LN, C and A, ``record`` for RS and RE."""

    lsn: int
    kind: str
    txn_id: int
    record: RollbackStart | RollbackEnd | None


def parse(text: str) -> list[Item]:
    """The entries of a log in the small language."""
    items: list[Item] = []
    for part in text.split("|"):
        matched = _ITEM.fullmatch(part.strip())
        assert matched is not None, part
        lsn, kind, rest = int(matched[1]), matched[2], matched[3]
        if kind == "RS":
            matchpoint, _, ids = rest.partition(":")
            active = tuple(int(number) for number in ids.split(",") if number)
            items.append(Item(lsn, kind, 0, RollbackStart(0, int(matchpoint), 0, active)))
        elif kind == "RE":
            items.append(Item(lsn, kind, 0, _end(rest, items)))
        else:
            items.append(Item(lsn, kind, int(rest), None))
    return items


def _end(rest: str, items: list[Item]) -> RollbackEnd:
    if rest:
        matchpoint, start = map(int, rest.split(","))
        return RollbackEnd(matchpoint, start, 0)
    last = next(item for item in reversed(items) if item.kind == "RS")
    assert last.record is not None
    return RollbackEnd(last.record.matchpoint_lsn, last.lsn, 0)


def register(text: str, ckpt_start: int = NULL_LSN, first_lsn: int = NULL_LSN) -> RollbackTracker:
    """Pass 3 over a log, down to ``first_lsn``."""
    tracker = RollbackTracker(ckpt_start)
    for item in reversed(parse(text)):
        if item.lsn < first_lsn:
            break
        if item.kind == "C":
            tracker.check_commit(item.txn_id, item.lsn)
        elif isinstance(item.record, RollbackStart):
            tracker.register_start(item.record, item.lsn)
        elif isinstance(item.record, RollbackEnd):
            tracker.register_end(item.record, item.lsn)
    tracker.finish(first_lsn)
    return tracker


def shape(periods: list[RollbackPeriod]) -> list[object]:
    """Periods as (M, S, E) with their children, latest first."""
    return [(p.matchpoint_lsn, p.start_lsn, None if p.is_open else p.end_lsn, *shape(p.children)) for p in periods]


class NoLog:
    """A log for trackers whose chains are not asked for."""

    def read_ln(self, lsn: int) -> ChainEntry:
        raise AssertionError(lsn)

    def database(self, db_id: int) -> ChainDatabase | None:
        raise AssertionError(db_id)


def make_ln(
    txn_id: int,
    last_lsn: int,
    key: bytes,
    abort_lsn: int = NULL_LSN,
    data: bytes | None = b"data",
    *,
    db_id: int = 5,
    flags: int = 0,
    abort_known_deleted: bool = False,
    abort_data: bytes | None = None,
    abort_vlsn: int = NULL_VLSN,
    abort_key: bytes | None = None,
    expiration: int = 0,
    abort_expiration: int = 0,
) -> LN:
    """An LN body of version 17."""
    flags |= (HAS_ABORT_LSN if abort_lsn != NULL_LSN else 0) | (ABORT_KNOWN_DELETED if abort_known_deleted else 0)
    return LN(
        flags, 0, 0, db_id, abort_lsn, txn_id, last_lsn, abort_key, abort_data, abort_vlsn, abort_expiration, 0, 0,
        expiration, 0, 0, 0, -1, None, data, None, key, None,
    )  # fmt: skip
