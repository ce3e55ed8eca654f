"""Naming operations of a replication stream, done again on a replica (je-log-format.md 7.5, 9.3).

The NameLN is written under the replayed transaction, as it was on the master. The id and the configuration of a new
database come with it; its MapLN is each node's own. What waits for the commit on the master waits for it here.

Example: ``NameLN_TX "users" id -258 create {flags=0x4}`` makes the database -258, without a root, and its MapLN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.catalog.naming import Naming
from engine.errors import UnsupportedError
from engine.format.entry.db_tree import DatabaseImpl
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import OPERATIONS, DatabaseConfig, NameLN, NameOperation
from engine.format.lsn import NULL_LSN
from engine.format.versions import WRITTEN_VERSION
from engine.txn.records import NAME, Payload
from engine.txn.txn import Txn

_CREATE, _REMOVE, _TRUNCATE, _RENAME, _UPDATE = map(
    OPERATIONS.index, ("create", "remove", "truncate", "rename", "update_config")
)


class AtEnd(Protocol):
    """Keeps an action until a transaction ends."""

    def __call__(self, locker: Txn, *, committed: Callable[[], None] = ..., aborted: Callable[[], None] = ...) -> None:
        """Run ``committed`` after its commit, ``aborted`` after its abort."""


def replay_name(naming: Naming, record: LN, content: NameLN, txn: Txn, at_end: AtEnd) -> bool:
    """Do one NameLN again.

    Arguments:
        record, content: the NameLN.
        txn: its transaction, with the VLSN of the entry.
        at_end: runs an action when the transaction commits or aborts.

    Returns:
        False when the name is not there, or is there already.

    Raises:
        UnsupportedError: the operation changes the configuration of a database.
    """
    tail = record.tail
    operation = tail.operation if isinstance(tail, NameOperation) else 0
    if operation == _UPDATE or not isinstance(tail, NameOperation):
        raise UnsupportedError("a change of a database's configuration cannot be replayed", found=repr(record.key))
    name = record.key.decode("utf-8", "surrogateescape")
    if record.data is None or content.deleted:
        deleted = naming.delete_name(name, Payload(None, NAME, 0, content, tail), txn)
        await_end(naming, record, txn, at_end)
        return deleted
    if operation == _CREATE and tail.config is not None:
        naming.make_state(_impl(content.db_id, name, tail.config))
    if operation == _TRUNCATE:
        old = naming.catalog.by_id(tail.truncated_db_id or 0)
        if old is None:
            return False
        naming.make_state(naming.emptied(old, content.db_id, name))
    if not naming.put_name(name, Payload(b"", NAME, 0, content, tail), txn, replaces=operation == _TRUNCATE):
        return False
    state = naming.catalog.by_id(content.db_id)
    if state is None:
        return False
    if operation != _RENAME:
        naming.write_map_ln(state)
    await_end(naming, record, txn, at_end)
    return True


def await_end(naming: Naming, record: LN, txn: Txn, at_end: AtEnd) -> None:
    """Note what the end of a NameLN's transaction leaves to be done (R-REC-56).

    Arguments:
        record: any LN; those that are no NameLNs leave nothing.
        txn, at_end: as for ``replay_name``.
    """
    content, tail = record.content, record.tail
    if not isinstance(content, NameLN) or not isinstance(tail, NameOperation):
        return
    state = naming.catalog.by_id(content.db_id)
    if state is None:
        return
    if tail.operation == _CREATE:
        at_end(txn, aborted=lambda: naming.finish_removal(state))
    elif tail.operation == _REMOVE:
        at_end(txn, committed=lambda: naming.finish_removal(state))
    elif tail.operation == _RENAME:
        name = record.key.decode("utf-8", "surrogateescape")
        at_end(txn, committed=lambda: naming.finish_rename(state, name))
    elif tail.operation == _TRUNCATE:
        old = naming.catalog.by_id(tail.truncated_db_id or 0)
        if old is not None:
            at_end(
                txn,
                committed=lambda: naming.finish_removal(old),
                aborted=lambda: naming.finish_removal(state),
            )


def _impl(db_id: int, name: str, config: DatabaseConfig) -> DatabaseImpl:
    return DatabaseImpl(
        db_id, name, False, None, NULL_LSN, 0, config.flags, config.btree_comparator or b"",
        config.duplicate_comparator or b"", config.max_entries, 0, WRITTEN_VERSION, (), config.triggers,
    )  # fmt: skip
