"""The names of databases, tracked through the stream, which contains a name only when the name changes.

Only committed operations are applied, in the order of the commits. A database without a name operation in the part of
the stream read so far has no name here: a request to the master would stop the master if the name did not exist.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.entry.db_tree import DUPLICATES
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import OPERATIONS, NameLN, NameOperation

CREATE: Final = OPERATIONS.index("create")
REMOVE: Final = OPERATIONS.index("remove")
TRUNCATE: Final = OPERATIONS.index("truncate")
RENAME: Final = OPERATIONS.index("rename")


class NamedDatabase(NamedTuple):
    """The known facts of a database.

    Attributes:
        duplicates: whether a key may have several data items, which are then part of the stored key; None: unknown.
    """

    name: str
    duplicates: bool | None


class NameChange(NamedTuple):
    """An operation on a name.

    Attributes:
        operation: a word of ``OPERATIONS``.
        old: the name before a renaming, if known.
    """

    operation: str
    db_id: int
    name: str
    old: str | None


Undo = dict[int, NamedDatabase | None]


class DatabaseNames:
    """Names by id.

    Arguments:
        known: the databases known at the beginning.
    """

    def __init__(self, known: dict[int, NamedDatabase]) -> None:
        self._known = dict(known)
        self._gone: list[int] = []

    def get(self, db_id: int) -> NamedDatabase | None:
        """The known facts of a database, including one that was just removed."""
        return self._known.get(db_id)

    def all(self) -> dict[int, NamedDatabase]:
        """All known databases that are not removed."""
        return {db_id: found for db_id, found in self._known.items() if db_id not in self._gone}

    def apply(self, records: list[LN]) -> tuple[list[NameChange], Undo]:
        """Apply the operations of one transaction.

        Returns:
            The operations, and those that undo them.
        """
        for db_id in self._gone:
            self._known.pop(db_id, None)
        self._gone = []
        undo: Undo = {}
        return [self._apply(record, undo) for record in records], undo

    def take_back(self, undo: Undo) -> None:
        """Undo the operations of a transaction, the last ones first."""
        for db_id, before in undo.items():
            if before is None:
                self._known.pop(db_id, None)
            else:
                self._known[db_id] = before
        self._gone = [db_id for db_id in self._gone if db_id not in undo]

    def _apply(self, record: LN, undo: Undo) -> NameChange:
        content, tail = record.content, record.tail
        assert isinstance(content, NameLN)
        assert isinstance(tail, NameOperation)
        db_id, name = content.db_id, record.key.decode("utf-8", "surrogateescape")
        before = self._known.get(db_id)
        old = before.name if before is not None and before.name != name else None
        if tail.operation == REMOVE or content.deleted:
            # Forget the database only later: the same transaction may have changed its records before.
            self._gone.append(db_id)
            undo.setdefault(db_id, before)
        elif tail.operation == TRUNCATE and tail.truncated_db_id is not None:
            replaced = self._known.get(tail.truncated_db_id)
            undo.setdefault(tail.truncated_db_id, replaced)
            self._gone.append(tail.truncated_db_id)
            self._set(db_id, NamedDatabase(name, replaced.duplicates if replaced is not None else None), undo)
        else:
            duplicates = before.duplicates if before is not None else None
            if tail.config is not None:
                duplicates = bool(tail.config.flags & DUPLICATES)
            self._set(db_id, NamedDatabase(name, duplicates), undo)
        return NameChange(OPERATIONS[tail.operation], db_id, name, old)

    def _set(self, db_id: int, found: NamedDatabase, undo: Undo) -> None:
        undo.setdefault(db_id, self._known.get(db_id))
        self._known[db_id] = found
