"""Replay of the naming operations of a replication stream on a replica (je-log-format.md 7.5, 9.3).

The NameLN is written under the replayed transaction, as it was on the master. The entry carries the id and the
configuration of a new database; each node writes its own MapLN. Actions that wait for the commit on the master wait for
it here too.

A change of the configuration (operation 5: a master has opened a database with other properties) takes effect with its
NameLN, whether or not the transaction commits: JE writes the MapLN outside the transaction. Here the MapLN is written
first, so that no crash can separate the two.

The old name of a renamed database is deleted by a separate entry without a VLSN, which each node logs for itself.
Masters of earlier releases of jetool put that entry into the stream, after the new name; in that case the old name is
put back first.

Example: ``NameLN_TX "users" id -258 create {flags=0x4}`` makes the database -258, without a root, and its MapLN;
``NameLN_TX "users" id -258 update_config {flags=0x14 max_entries=64}`` gives it key prefixing and smaller nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from engine.catalog.name_operations import NamingOperations
from engine.errors import DamageError, UnsupportedError, plural
from engine.format.entry.db_tree import DB_NOT_REPLICATED, DB_REPLICATED, TEMPORARY, DatabaseImpl
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import OPERATIONS, DatabaseConfig, NameLN, NameOperation
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.tree.database_state import DatabaseState
from engine.txn.payload import NAME, Payload
from engine.txn.txn import Txn

_LEAST_ENTRIES: Final = 4
_MOST_ENTRIES: Final = 32_767
_NONE, _CREATE, _REMOVE, _TRUNCATE, _RENAME, _UPDATE = map(
    OPERATIONS.index, ("none", "create", "remove", "truncate", "rename", "update_config")
)


class AtEnd(Protocol):
    """Registers an action for the end of a transaction."""

    def __call__(self, locker: Txn, *, committed: Callable[[], None] = ..., aborted: Callable[[], None] = ...) -> None:
        """Run ``committed`` after the transaction commits, ``aborted`` after it aborts."""


def replay_name(naming: NamingOperations, record: LN, content: NameLN, txn: Txn, at_end: AtEnd) -> bool:
    """Replay one NameLN.

    Arguments:
        record, content: the NameLN.
        txn: the transaction of the NameLN, with the VLSN of the entry.
        at_end: runs an action when the transaction commits or aborts.

    Returns:
        False when the name is not there, is there already, or stands for another database.

    Raises:
        UnsupportedError: the NameLN has a log version that does not record the operation.
        DamageError: the NameLN creates a database that no master can have created.
    """
    tail = record.tail
    if not isinstance(tail, NameOperation):
        raise UnsupportedError("a NameLN without its operation cannot be replayed", found=repr(record.key))
    operation = tail.operation
    name = record.key.decode("utf-8", "surrogateescape")
    if record.data is None or content.deleted:
        if operation == _NONE:
            _put_back(naming, name, content.db_id, txn)
        deleted = naming.delete_name(name, Payload(None, NAME, 0, content, tail), txn)
        await_end(naming, record, txn, at_end)
        return deleted
    if operation == _UPDATE:
        known = naming.find(name, txn)
        if known is None or known.id != content.db_id or tail.config is None:
            return False
        # Write the MapLN first: it takes effect even if the transaction aborts, so no crash may separate the two.
        naming.configure(known, _checked(name, known.id, tail.config))
        return naming.put_name(name, Payload(b"", NAME, 0, content, tail), txn, replaces=True)
    state = _named(naming, name, content, tail)
    if state is None:
        return False
    if operation == _RENAME:
        for old in naming.names_of(state.id):
            naming.drop_name(old, state.id, txn)
    if not naming.put_name(name, Payload(b"", NAME, 0, content, tail), txn, replaces=operation == _TRUNCATE):
        return False
    # A renamed database has its MapLN; it takes the new name after the commit (R-REC-62).
    if operation != _RENAME:
        naming.write_map_ln(state)
    await_end(naming, record, txn, at_end)
    return True


def _put_back(naming: NamingOperations, name: str, db_id: int, txn: Txn) -> None:
    """Put back an old name that the rename has already removed, since the stream is about to delete it."""
    vlsn, txn.vlsn = txn.vlsn, NULL_VLSN
    try:
        payload = Payload(b"", NAME, 0, NameLN(db_id, 0), NameOperation(_NONE, None, None))
        naming.put_name(name, payload, txn, replaces=False)
    finally:
        txn.vlsn = vlsn


def _named(naming: NamingOperations, name: str, content: NameLN, tail: NameOperation) -> DatabaseState | None:
    """The database that gets a name: a new one, or the renamed one; None if the entry contradicts the catalog."""
    if tail.operation == _RENAME:
        return naming.catalog.by_id(content.db_id)
    # A rolled-back creation may leave a MapLN without a name; a database with a name is in use.
    if naming.names_of(content.db_id):
        return None
    if tail.operation == _CREATE and tail.config is not None:
        return naming.make_state(_impl(content.db_id, name, tail.config, naming.log_version))
    old = naming.catalog.by_id(tail.truncated_db_id or 0) if tail.operation == _TRUNCATE else None
    return None if old is None else naming.make_state(naming.emptied(old, content.db_id, name))


def await_end(naming: NamingOperations, record: LN, txn: Txn, at_end: AtEnd) -> None:
    """Register the action that the end of a NameLN's transaction requires (R-REC-56).

    Arguments:
        record: any LN; only a NameLN requires an action.
        txn, at_end: as for ``replay_name``.
    """
    content, tail = record.content, record.tail
    if not isinstance(content, NameLN) or not isinstance(tail, NameOperation):
        return
    state = naming.catalog.by_id(content.db_id)
    if state is None:
        return
    if tail.operation == _CREATE:
        # R-REC-56: the MapLN is written outside the transaction, so an abort must remove it.
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


def _checked(name: str, db_id: int, config: DatabaseConfig) -> DatabaseConfig:
    """Check a configuration that came with the stream.

    Raises:
        DamageError: no master creates such a configuration.
    """
    wrong_flags = not config.flags & DB_REPLICATED or config.flags & (TEMPORARY | DB_NOT_REPLICATED)
    if not _LEAST_ENTRIES <= config.max_entries <= _MOST_ENTRIES or wrong_flags or db_id >= 0:
        raise DamageError(
            f"a database of the stream has an impossible configuration: {name!r}",
            expected=f"a replicated one with {_LEAST_ENTRIES}..{_MOST_ENTRIES} slots in a node, and a negative id",
            found=f"id {db_id}, flags {config.flags:#x}, {plural(config.max_entries, 'slot')}",
        )
    return config


def _impl(db_id: int, name: str, config: DatabaseConfig, log_version: int) -> DatabaseImpl:
    """The state of a new database; raises the errors of ``_checked``."""
    _checked(name, db_id, config)
    return DatabaseImpl(
        db_id=db_id,
        name=name,
        root_exists=False,
        root_key=None,
        root_lsn=NULL_LSN,
        root_state=0,
        flags=config.flags,
        btree_comparator=config.btree_comparator or b"",
        duplicate_comparator=config.duplicate_comparator or b"",
        max_entries=config.max_entries,
        max_dup_entries=0,
        created_at_version=log_version,
        utilization=(),
        triggers=config.triggers,
    )
