"""A unique B-tree index: keys in the order of their bytes, each with the location of its row.

* Page 1 is always the root. Slot 0 of every page is the control row; leaves are chained both ways. A branch row holds
  the first key of its child and the child's page; keys below the first row are in the leftmost child, which the control
  row names.
* A leaf row is inserted, marked and relocated with *logical* undo: it may have moved by the time of the undo, so
  recovery searches for its key (R-DRB-54). The undo of an insert purges the row.
* A deleted key stays as a marked row until the commit; if the key is inserted again before that, the row is reused.
* A page without room is split first, in an internal transaction (``split``). Pages that become empty stay in the chain.

A search is one binary search on each level; each compared row of a page is decoded only once.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.derby.containers import Container
from engine.derby.format import btree, column, page, row
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.column import Location
from engine.derby.format.operations import page as operations
from engine.derby.format.row import RowField
from engine.derby.pages import LivePage, LiveRow
from engine.derby.store.write_path import Core, RunningXact
from engine.errors import DamageError

FIRST_ROW = 1
_INSERT = operations.INSERT_DEFAULT | operations.INSERT_UNDO_WITH_PURGE
_LOCATION_FIELD = 1
_CHILD_FIELD = 2
# Least number of rows for which a branch page has room; with one, the tree would not get narrower towards the root.
_LEAST_ROWS = 4
_ROW_OVERHEAD = 64
_DEEPEST = 64


class IndexEntry(NamedTuple):
    """A row of a leaf: page, record id, key, location, and whether it is marked deleted."""

    page: int
    record_id: int
    key: bytes
    at: Location
    deleted: bool


class DescentStep(NamedTuple):
    """A page on the path from the root, and the slot of the row that was followed (0: the leftmost child)."""

    page: int
    slot: int


class Index:
    """The index of one table.

    Arguments:
        core: the write path.
        found: the container.
    """

    def __init__(self, core: Core, found: Container) -> None:
        self.core = core
        self.container = found
        self.longest_key = found.header.page_size // _LEAST_ROWS - _ROW_OVERHEAD

    def find(self, key: bytes) -> IndexEntry | None:
        """The row of a key, marked or not; None if the key does not exist."""
        leaf, slot = self._leaf(key)
        target = self.page(leaf)
        if slot < len(target.rows) and self.key_at(target, slot) == key:
            return self._entry(leaf, target.rows[slot])
        return None

    def batch(self, start: bytes | None, *, inclusive: bool, reverse: bool) -> list[IndexEntry]:
        """The rows of one leaf from a key on, in the direction of the walk; empty when there are no more.

        Arguments:
            start: the key; None for the end at which the walk begins.
            inclusive: whether to include the key itself.
            reverse: towards smaller keys.
        """
        number, slot = self._edge(reverse=reverse) if start is None else self._leaf(start)
        target = self.page(number)
        # The slot holds the first key not below ``start``. If this key is ``start``, a forward walk that excludes it
        # begins one slot later, and a backward walk that includes it ends its slice one slot later.
        if start is not None and inclusive == reverse:
            slot += slot < len(target.rows) and self.key_at(target, slot) == start
        rows = target.rows[FIRST_ROW:slot] if reverse else target.rows[slot:]
        seen = {number}
        # Pages that became empty stay in the chain.
        while not rows:
            control = self.control(target)
            number = control.left if reverse else control.right
            if number == NO_PAGE:
                return []
            if number in seen:
                raise self.damaged("its leaves go in a circle")
            seen.add(number)
            target = self.page(number)
            rows = target.rows[FIRST_ROW:]
        found = [self._entry(number, one) for one in rows]
        return found[::-1] if reverse else found

    def has_room(self, key: bytes) -> bool:
        """Whether the leaf of a key has room for its row."""
        return self.page(self._leaf(key).page).free_bytes >= _ROW_OVERHEAD + len(key)

    def insert(self, running: RunningXact, key: bytes, at: Location) -> None:
        """Insert a new key into a leaf that has room (``split.make_room``)."""
        leaf, slot = self._leaf(key)
        fields = RowField(0, column.encode_key(key)), RowField(0, column.encode_location(at))
        record_id = self.page(leaf).next_record_id
        image = row.new_row(record_id, fields)
        # Logical undo (R-DRB-54): a split may move the row before it is undone.
        named = operations.Insert, record_id, True, slot, _INSERT
        self._change(running, leaf, *named, data=row.encode_logged(image))

    def mark(self, running: RunningXact, entry: IndexEntry, *, deleted: bool) -> None:
        """Mark a row deleted, or take the mark off."""
        slot, one = self._find(entry)
        self._change(running, entry.page, operations.Delete, entry.record_id, True, slot, deleted, data=one.record)

    def relocate(self, running: RunningXact, entry: IndexEntry, at: Location) -> None:
        """Point a key to another row."""
        slot, one = self._find(entry)
        old = one.decoded()
        out = bytearray()
        # The record holds the new field for redo, the old field for undo, and the old row for the search.
        row.put_logged_field(out, RowField(0, column.encode_location(at)))
        row.put_field(out, old.fields[_LOCATION_FIELD])
        fields = operations.UpdateField, entry.record_id, True, slot, _LOCATION_FIELD
        self._change(running, entry.page, *fields, data=bytes(out) + one.record)

    def purge(self, running: RunningXact, entry: IndexEntry) -> None:
        """Purge a row, in an internal transaction."""
        slot, one = self._find(entry)
        self._change(running, entry.page, operations.Purge, slot, (entry.record_id,), data=one.record)

    def path(self, key: bytes) -> list[DescentStep]:
        """The pages from the root to the leaf of a key.

        The last slot is that of the key, or where it would be inserted.
        """
        number, steps = btree.ROOT_PAGE, list[DescentStep]()
        # Damage may link the pages in a circle.
        while len(steps) < _DEEPEST:
            target = self.page(number)
            control = self.control(target)
            slot = self._search(target, key)
            if control.kind == btree.LEAF:
                return [*steps, DescentStep(number, slot)]
            # The child of the last row whose key is not above the given one.
            exact = slot < len(target.rows) and self.key_at(target, slot) == key
            slot = slot if exact else slot - 1
            steps.append(DescentStep(number, slot))
            number = self._child(target, control, slot)
        raise self.damaged("its pages go in a circle")

    def control(self, target: LivePage) -> btree.ControlRow:
        """The control row of a page."""
        control = btree.control_row(target.row_at(btree.CONTROL_SLOT).decoded())
        if control is None:
            raise self.damaged("a page has no control row")
        return control

    def page(self, number: int) -> LivePage:
        """A page of the tree."""
        target = self.core.page(self.container, number)
        if not isinstance(target, LivePage) or target.header.status != page.VALID:
            raise self.damaged(f"page {number} does not belong to the tree")
        return target

    def key_at(self, target: LivePage, slot: int) -> bytes:
        """The key of a row."""
        return column.decode_key(target.rows[slot].decoded().fields[0].data or b"")

    def damaged(self, what: str) -> DamageError:
        """The error for an inconsistent tree."""
        return DamageError(
            f"the index in {self.container.key} cannot be used: {what}",
            file=self.container.path,
            consequence="the store cannot go on",
            hint="run verify; restore from a backup and roll forward",
        )

    def _leaf(self, key: bytes) -> DescentStep:
        return self.path(key)[-1]

    def _edge(self, *, reverse: bool) -> DescentStep:
        """The first or the last leaf."""
        number = btree.ROOT_PAGE
        for _ in range(_DEEPEST):
            target = self.page(number)
            control = self.control(target)
            slot = len(target.rows) - 1 if reverse else btree.CONTROL_SLOT
            if control.kind == btree.LEAF:
                return DescentStep(number, len(target.rows) if reverse else FIRST_ROW)
            number = self._child(target, control, slot)
        raise self.damaged("its pages go in a circle")

    def _child(self, target: LivePage, control: btree.ControlRow, slot: int) -> int:
        """The child that a row of a branch page leads to."""
        if slot == btree.CONTROL_SLOT:
            return control.leftmost_child
        return btree.decode_page_number(target.rows[slot].decoded().fields[_CHILD_FIELD].data)

    def _search(self, target: LivePage, key: bytes) -> int:
        """The first slot whose key is not below the given one."""
        low, high = FIRST_ROW, len(target.rows)
        while low < high:
            middle = (low + high) // 2
            if self.key_at(target, middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, number: int, one: LiveRow) -> IndexEntry:
        fields = one.decoded().fields
        at = column.decode_location(fields[_LOCATION_FIELD].data or b"")
        return IndexEntry(number, one.record_id, column.decode_key(fields[0].data or b""), at, one.deleted)

    def _find(self, entry: IndexEntry) -> tuple[int, LiveRow]:
        target = self.page(entry.page)
        slot = target.slot_of(entry.record_id)
        if slot is None:
            raise self.damaged(f"record {entry.record_id} is not on page {entry.page}")
        return slot, target.rows[slot]

    def _change(self, running: RunningXact, number: int, make: type, *fields: object, data: bytes) -> None:
        self.core.change(running, self.container, number, make, *fields, data=data)
