"""The databases of a log: their names, the removed ones, and JE's own.

The name of a database is the key of its NameLN (je-log-format.md 9.2). Since log version 16 the MapLN of the database
repeats the name, which helps if the NameLN is lost. A NameLN counts if its transaction committed. If its transaction
has no end in the log, the NameLN is used only for a database without another name, since the Commit may be lost.

Example: NameLN ``a`` -> 6 committed, NameLN ``a`` -> 9 of an open transaction (a truncation): 6 is ``a``, and 9 is
``a (database 9)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.format.entry.db_tree import DatabaseImpl
from engine.format.entry.ln_content import MapLN
from engine.tree.database_state import INTERNAL_PREFIX

# Two databases of the engine itself, the mapping and the naming tree.
_LEAST_USER_DB: Final = 2
GROUP_DATABASE: Final = "_jeRepGroupDB"
UTILIZATION_DATABASE: Final = "_jeUtilization"
# The first replicated database of a group, that of its members.
_GROUP_DB: Final = -257


class SalvageDb(NamedTuple):
    """A database according to the log.

    Attributes:
        comparator: a Java class defines the order of its keys.
    """

    name: str
    duplicates: bool
    key_prefixing: bool = False
    max_entries: int = 128
    comparator: bool = False


class NameRecord(NamedTuple):
    """A NameLN.

    Attributes:
        txn: None outside transactions.
        deleted: the name was removed from the database.
        truncated: the database that had the name and was replaced by a truncation; None for other changes.
    """

    lsn: int
    name: str
    db_id: int
    txn: int | None
    deleted: bool
    truncated: int | None = None


class LogDatabases(NamedTuple):
    """The databases of a log by id.

    Attributes:
        users: databases of the application with a legible MapLN.
        removed: databases that were removed, or whose creation was rolled back.
        internal: JE's own databases, and temporary ones.
        names: names of the application's databases without a legible MapLN.
        roots: LSN and state of the newest MapLN of each of ``users``.
        named: databases in ``users`` that certainly exist under their name, even if empty.
        own_roots: the same for ``internal``.
    """

    users: dict[int, SalvageDb]
    removed: frozenset[int]
    internal: frozenset[int]
    names: dict[int, str]
    roots: dict[int, tuple[int, DatabaseImpl]]
    named: frozenset[int]
    own_roots: dict[int, tuple[int, DatabaseImpl]]


def nameless_name(db_id: int) -> str:
    """The substitute name of a database whose name is lost."""
    return f"database {db_id}"


class DatabaseLedger:
    """Collects MapLNs and NameLNs in log order, and then determines the databases.

    Attributes:
        pending: transactions of NameLNs that have not ended yet; the caller reports their ends with ``end``.
    """

    def __init__(self) -> None:
        self._maps: dict[int, tuple[int, MapLN, bool]] = {}
        self._changes: list[NameRecord] = []
        self._committed: set[int] = set()
        self._aborted: set[int] = set()
        self._own: set[int] = set()
        self._own_names: set[str] = set()
        self.pending: set[int] = set()

    def map(self, lsn: int, content: MapLN, *, deleted: bool) -> None:
        """A MapLN."""
        self._maps[content.database.db_id] = (lsn, content, deleted)

    def name(self, change: NameRecord) -> None:
        """A NameLN."""
        self._changes.append(change)
        if change.txn is not None:
            self.pending.add(change.txn)

    def own(self, db_id: int, name: str) -> None:
        """Note id and name of a database with entries that JE writes only for its own databases."""
        self._own.add(db_id)
        self._own_names.add(name)

    def end(self, txn: int, *, committed: bool) -> None:
        """Note the end of a transaction."""
        if txn in self.pending:
            self.pending.discard(txn)
            (self._committed if committed else self._aborted).add(txn)

    def nameless(self) -> list[int]:
        """Databases whose name is lost; up to v15 MapLNs have no name. Then ``take_slots`` helps."""
        names, gone, _ = self._names()
        return sorted(
            db_id
            for db_id, (_, content, is_deletion) in self._maps.items()
            if db_id not in names
            and db_id not in gone
            and db_id not in self._own
            and not content.database.name
            and not (0 <= db_id < _LEAST_USER_DB or is_deletion or content.deleted)
        )

    def take_slots(self, names: Mapping[str, int]) -> None:
        """Names of the naming tree, with the LSNs of their NameLNs.

        If the number of lost NameLNs equals that of nameless databases, JE's own databases are those created first, and
        if one other NameLN and one database remain, they belong together.
        """
        seen = {change.lsn for change in self._changes}
        known = {change.name for change in self._changes}
        lost = sorted(name for name, lsn in names.items() if lsn not in seen and name not in known)
        nameless = self.nameless()
        if GROUP_DATABASE in lost and _GROUP_DB in nameless:
            self._own.add(_GROUP_DB)
            lost.remove(GROUP_DATABASE)
        # Replicated databases have negative ids; JE has one of these.
        local = [db_id for db_id in self.nameless() if db_id > 0]
        own = [name for name in lost if name.startswith(INTERNAL_PREFIX) and name not in self._own_names]
        users = [name for name in lost if not name.startswith(INTERNAL_PREFIX)]
        if len(local) == len(self.nameless()) == len(own) + len(users):
            self._own.update(local[: len(own)])
        elif own:
            return
        left = self.nameless()
        if len(left) == len(users) == 1:
            self._changes.append(NameRecord(lsn=names[users[0]], name=users[0], db_id=left[0], txn=None, deleted=False))

    def databases(self) -> LogDatabases:
        """The databases."""
        names, gone, sure = self._names()
        # In the order in which names are assigned: a committed NameLN first, then the newest MapLN.
        users: dict[int, SalvageDb] = {}
        removed, internal = set(gone), set(self._own)
        # An older database with the same name was removed; damage has destroyed the entry of its removal.
        used: set[str] = set()
        for db_id in sorted(self._maps, key=lambda one: (one not in sure, -self._maps[one][0])):
            _, content, is_deletion = self._maps[db_id]
            found = content.database
            name = names.get(db_id) or found.name or nameless_name(db_id)
            if 0 <= db_id < _LEAST_USER_DB or name.startswith(INTERNAL_PREFIX) or found.temporary or db_id in self._own:
                internal.add(db_id)
            elif content.deleted or is_deletion:
                removed.add(db_id)
            elif db_id not in gone:
                users[db_id] = SalvageDb(
                    name=f"{name} (database {db_id})" if name in used else name,
                    duplicates=found.duplicates,
                    key_prefixing=found.key_prefixing,
                    max_entries=found.max_entries,
                    comparator=bool(found.btree_comparator or found.duplicate_comparator),
                )
                used.add(name)
        internal |= {db_id for db_id, name in names.items() if name.startswith(INTERNAL_PREFIX)}
        removed -= internal
        others = {
            db_id: f"{name} (database {db_id})" if name in used else name
            for db_id, name in names.items()
            if db_id not in users and db_id not in removed and db_id not in internal
        }
        roots = {db_id: (self._maps[db_id][0], self._maps[db_id][1].database) for db_id in users}
        named = {db_id for db_id in users if db_id in sure or (db_id not in names and roots[db_id][1].name)}
        return LogDatabases(
            users=users,
            removed=frozenset(removed),
            internal=frozenset(internal),
            names=others,
            roots=roots,
            named=frozenset(named),
            own_roots={one: (self._maps[one][0], self._maps[one][1].database) for one in internal if one in self._maps},
        )

    def _counts(self, change: NameRecord) -> bool:
        return change.txn is None or change.txn in self._committed

    def _names(self) -> tuple[dict[int, str], set[int], set[int]]:
        """The name of each database; the databases without a name; those with a certain name."""
        holders: dict[str, int] = {}
        names: dict[int, str] = {}
        gone: set[int] = set()
        for change in self._changes:
            if not self._counts(change):
                continue
            name, db_id = change.name, change.db_id
            # The NameLN of the replaced database may be lost.
            before = holders.get(name) if change.truncated is None else change.truncated
            if change.deleted:
                if before == db_id:
                    del holders[name]
                if names.get(db_id, name) == name:
                    names.pop(db_id, None)
                    gone.add(db_id)
                continue
            if before is not None and before != db_id and names.get(before, name) == name:
                # A truncation moves the name to an empty database.
                names.pop(before, None)
                gone.add(before)
            holders[name] = db_id
            names[db_id] = name
            gone.discard(db_id)
        sure = set(names)
        for change in self._changes:
            if change.deleted or change.db_id in names or change.db_id in gone or self._counts(change):
                continue
            if change.txn in self._aborted:
                gone.add(change.db_id)
            else:
                names[change.db_id] = change.name
        return names, gone, sure
