"""Checking a secondary against its primary, without the key creator of the application (``verify --secondary``).

A log does not record that a database is a secondary; the operator names it. An entry is a secondary key, with a primary
key as data. Without the key creator it is unknown which entries should exist. But each existing entry must refer to a
record and have the same expiration, as JE and the engine write them.

Example: a secondary ``people.city`` with ``London`` leading to ``4711``, and no record ``4711`` in ``people``: an
application that reads by ``London`` gets a SecondaryIntegrityException from JE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.db.environment import Environment
from engine.db.record_keys import comparable_key, key_and_data
from engine.errors import NotFoundError, UsageError
from engine.events import SILENT, Listener, counted
from engine.log.files import list_log_files
from engine.tree.bin_node import is_expired
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key, UnknownOrderError
from engine.tree.tree import edge_bin, find_bin, next_bin, slot_values
from engine.verify import record_rules as rules
from engine.verify.collector import Collector
from engine.verify.report import Finding


class SecondaryReport(NamedTuple):
    """The findings, and the number of secondary entries that were checked."""

    findings: tuple[Finding, ...]
    entries: int


class _Entry(NamedTuple):
    """A live slot of the secondary: its key in comparable form, and the primary key that it refers to."""

    key: Key
    primary_key: bytes
    expiration: int
    lsn: int


def check_secondary(env: Environment, name: str, primary: str, listener: Listener = SILENT) -> SecondaryReport:
    """Look up the primary record of every secondary entry.

    Arguments:
        env: an open environment that nothing else uses.
        name, primary: the two databases.
        listener: receives ``secondary`` steps in entries.

    Raises:
        NotFoundError: a database does not exist. UsageError: the primary has duplicates.
        UnknownOrderError: the primary uses a Java comparator, and its nodes do not reveal the order.
        DamageError, StorageError: something cannot be read; the levels for trees and records report the details.
    """
    secondary, of = _database(env, name), _database(env, primary)
    if of.duplicates:
        raise UsageError(f"database {primary} has duplicates, and no secondaries", file=env.home)
    findings = Collector(list_log_files(env.engine.storage))
    done = 0
    for batch in _entries(env, secondary):
        for entry in batch:
            expiration = _expiration(env, of, entry.primary_key)
            lsn, key, leads_to = entry.lsn, entry.key, f"{entry.primary_key!r} of {primary}"
            if expiration is None:
                findings.add(rules.SECONDARY_NO_RECORD, leads_to, lsn=lsn, db=secondary, key=key)
            elif expiration != entry.expiration:
                found = f"{leads_to}: {_in_words(entry.expiration)}, the record {_in_words(expiration)}"
                findings.add(rules.SECONDARY_OTHER_TIME, found, lsn=lsn, db=secondary, key=key)
        done += len(batch)
        counted(listener, "secondary", done, 0, done)
    return SecondaryReport(findings=tuple(findings.all()), entries=done)


def _database(env: Environment, name: str) -> DatabaseState:
    state = env.engine.database(name)
    if state is None:
        raise NotFoundError(f"no database {name!r}", file=env.home, hint=f"jetool dbs {env.home} lists them")
    return state


def _entries(env: Environment, state: DatabaseState) -> Iterator[list[_Entry]]:
    """The live slots of each bottom node in turn."""
    engine, last = env.engine, None
    while True:
        with engine.latch:
            ctx = engine.ctx
            here = None if last is None else find_bin(ctx, state, last)
            node = edge_bin(ctx, state) if here is None else next_bin(ctx, here)
            while node is not None and not len(node):
                node = next_bin(ctx, node)
            if node is None:
                return
            now_ms = engine.now_ms()
            live = [at for at in range(len(node)) if node.is_live(at) and not is_expired(node.expirations[at], now_ms)]
            batch = []
            for at, data in zip(live, slot_values(ctx, node, live), strict=True):
                # The slot was read between a deletion and the end of its transaction.
                if data is not None:
                    key = node.keys[at]
                    primary_key = key_and_data(state, key, data)[1]
                    batch.append(
                        _Entry(key=key, primary_key=primary_key, expiration=node.expirations[at], lsn=node.lsns[at])
                    )
            last = node.keys[-1]
        # The latch is released here, so that nodes can be evicted.
        engine.keep_budget()
        yield batch


def _expiration(env: Environment, state: DatabaseState, key: bytes) -> int | None:
    """The expiration of a record, 0 for never; None if there is no record."""
    engine = env.engine
    try:
        wanted = comparable_key(state, key)
    except UnknownOrderError:
        learned = state.order.learned
        if learned is None or learned.places is None:
            raise
        # Every existing key can be ordered.
        return None
    with engine.latch:
        node = find_bin(engine.ctx, state, wanted)
        index, exact = node.find(wanted) if node is not None else (0, False)
        found = node.expirations[index] if node is not None and exact and node.is_live(index) else None
    engine.keep_budget()
    return found


def _in_words(expiration: int) -> str:
    if not expiration:
        return "never expires"
    return f"expires at {expiration} days" if expiration > 0 else f"expires at {-expiration} hours"
