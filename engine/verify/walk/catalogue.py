"""Checking the catalogue: the naming tree against the mapping tree (R-TREE-3 to R-TREE-5, je-log-format.md 9).

Each name has an id, and each id has a MapLN, which since v16 repeats the name. No two names have the same id, and no id
is above the last one that the DbTree and the log have assigned. A MapLN without a name belongs to a database that is
being removed, or whose creation did not commit; or its name is in an unreadable part of the naming tree.

Both trees are walked like any other, so after damage in one branch the databases of the other branches are still
checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, FormatError
from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID, DatabaseImpl
from engine.format.entry.ln_content import MapLN, NameLN
from engine.format.lsn import NULL_LSN
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import read_ln
from engine.verify import record_rules
from engine.verify import tree_rules as rules
from engine.verify.collector import Collector


class DatabaseCatalog:
    """The contents of the naming and the mapping tree, collected during their walks.

    Arguments:
        ctx, catalog: as recovery left them.
        renamed: databases by id that recovery renames, because a crash came before their MapLNs were written.
        findings: takes what is wrong.
    """

    def __init__(self, ctx: TreeContext, catalog: Catalog, renamed: Mapping[int, str], findings: Collector) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._renamed = renamed
        self._findings = findings
        self._names: dict[int, list[str]] = {}
        self._names_lost = False
        self._impls: dict[int, tuple[int, DatabaseImpl]] = {}

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Note the names or the MapLNs of a bottom node."""
        if not isinstance(node, BIN) or db.id not in (MAPPING_DB_ID, NAMING_DB_ID):
            return
        for index in range(len(node)):
            if node.is_live(index):
                self._note(db, node, index)

    def databases(self) -> list[DatabaseState]:
        """All databases except the two of the catalogue, ascending by id; reports findings about the catalogue."""
        # Test for damage in the naming tree before the names are compared, because the comparison adds findings of its
        # own. Levels that follow references report more about these slots, but find no further names.
        self._names_lost = self._findings.has_errors(self._catalog.naming, but=record_rules.RULES)
        for db_id, names in sorted(self._names.items()):
            self._check_name(db_id, names)
        found = []
        for db_id, (lsn, impl) in sorted(self._impls.items()):
            state = self._state(db_id, lsn)
            if state is not None:
                # The naming tree decides: after a rename the MapLN may still have the old name.
                state.name = self._names.get(db_id, [state.name])[0]
                self._check_impl(state, lsn, impl)
                found.append(state)
        return found

    def _note(self, db: DatabaseState, node: BIN, index: int) -> None:
        key, lsn = node.keys[index], node.lsns[index]
        try:
            content = read_ln(self._ctx, db, lsn).content
        except (DamageError, FormatError) as error:
            self._findings.add(rules.BAD_CATALOGUE_LN, error.what, lsn=lsn, db=db, key=key)
            return
        if isinstance(content, NameLN) and not content.deleted:
            self._names.setdefault(content.db_id, []).append(key.decode("utf-8", "replace"))
        elif isinstance(content, MapLN) and not content.deleted:
            # A MapLN is stored under its id in decimal digits.
            if key != b"%d" % content.database.db_id:
                message = f"key {key.decode('ascii', 'replace')!r} leads to database {content.database.db_id}"
                self._findings.add(rules.OTHER_ID, message, lsn=lsn, db=db, key=key)
                return
            self._impls[content.database.db_id] = (lsn, content.database)
        elif not isinstance(content, NameLN if db.id == NAMING_DB_ID else MapLN):
            # The type of the entry is damaged, so its content is lost.
            self._findings.add(rules.BAD_CATALOGUE_LN, "an entry of another type", lsn=lsn, db=db, key=key)

    def _check_name(self, db_id: int, names: list[str]) -> None:
        if len(names) > 1:
            shown = ", ".join(names)
            self._findings.add(rules.TWO_NAMES, f"{shown} are all database {db_id}", db=self._catalog.naming)
        if db_id not in self._impls:
            message = f"{names[0]!r} is database {db_id}, which has no MapLN"
            self._findings.add(rules.NO_MAP_LN, message, db=self._catalog.naming)

    def _state(self, db_id: int, lsn: int) -> DatabaseState | None:
        """The database as recovery left it; its root may be newer than the one in the MapLN."""
        try:
            return self._catalog.by_id(db_id)
        except (DamageError, FormatError) as error:
            self._findings.add(rules.BAD_CATALOGUE_LN, error.what, lsn=lsn, db=self._catalog.mapping)
            return None

    def _check_impl(self, state: DatabaseState, lsn: int, impl: DatabaseImpl) -> None:
        names = self._names.get(state.id, [])
        if not names:
            # If a part of the naming tree was unreadable, the name may be in that part, and need not have been removed.
            rule = rules.NAME_LOST if self._names_lost else rules.NO_NAME
            # Use the id as the label: the database may already have the fixed name of an internal database, from
            # another level.
            label = f"database {state.id}"
            self._findings.add(rule, f"{label}, once {impl.name or 'nameless'}", lsn=lsn, db=state, label=label)
        elif impl.name and (name := self._renamed.get(state.id, impl.name)) not in names:
            message = f"{name!r} and {names[0]!r}"
            self._findings.add(rules.OTHER_NAME, message, lsn=lsn, db=state)
        # Ids of replicated databases are negative and count down.
        last = self._catalog.last_local_db_id if state.id > 0 else self._catalog.last_replicated_db_id
        if abs(state.id) > abs(last):
            message = f"{state.id}, the last is {last}"
            self._findings.add(rules.ID_AHEAD, message, lsn=lsn if lsn != NULL_LSN else 0, db=state)
