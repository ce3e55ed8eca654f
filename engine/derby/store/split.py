"""Making room in a B-tree: pages are split from the top down, each split in an internal transaction of its own.

* The root never moves. If it has no room, its rows move to a new child, and the tree gets one level more.
* A page other than the root is split when its parent has room for one more row of any size; otherwise the parent is
  split first, and the next call continues. So one internal transaction changes the page, its new right neighbour, the
  neighbour after that, and the parent.
* Half of the bytes go to the right. If keys are inserted in ascending order, the new page gets only the last row, so
  pages stay full.

Records of a split of leaf L into L and R under parent P, all of one internal transaction: insert of R's control row;
left link of the page after; right link of L; copy of the rows to R; purge of them from L; insert of R's first key in
P. The page R itself is taken by a nested transaction inside (``space.allocate``).
"""

from __future__ import annotations

from engine.derby.format import btree, row
from engine.derby.format.allocation import NO_PAGE
from engine.derby.format.operations import page as operations
from engine.derby.format.row import DecodedRow, RowField
from engine.derby.pages import LivePage
from engine.derby.store.index import FIRST_ROW, DescentStep, Index
from engine.derby.store.space import allocate
from engine.derby.store.write_path import RunningXact

_INSERT = operations.INSERT_DEFAULT | operations.INSERT_UNDO_WITH_PURGE
_UNCHANGED = RowField(row.FIELD_UNCHANGED, None)


def make_room(index: Index, key: bytes) -> None:
    """Split pages until the leaf of a key has room for its row."""
    while not index.has_room(key):
        _split_on_the_way(index, key)


def _split_on_the_way(index: Index, key: bytes) -> None:
    """Split the lowest page on the way to a key whose parent has room."""
    path = index.path(key)
    widest = index.container.header.page_size // 4
    level = len(path) - 1
    # A parent without room for a key of any size must be split before its child; the next call continues.
    while level > 0 and index.page(path[level - 1].page).free_bytes < widest:
        level -= 1
    with index.core.nested(internal=True) as running:
        if level == 0:
            _grow(index, running)
        else:
            _split(index, running, path[level - 1], path[level])


def _grow(index: Index, running: RunningXact) -> None:
    """Move the rows of the root to a new child."""
    # The root keeps its number, so its rows move instead.
    child = allocate(index.core, index.container)
    root = index.page(btree.ROOT_PAGE)
    control = index.control(root)
    moved = control._replace(is_root=False, descriptor=None, left=NO_PAGE, right=NO_PAGE)
    _insert(index, running, child, btree.CONTROL_SLOT, btree.control_fields(moved), operations.INSERT_DEFAULT)
    _move(index, running, btree.ROOT_PAGE, FIRST_ROW, child)
    grown = btree.control_fields(control._replace(kind=btree.BRANCH, level=control.level + 1, leftmost_child=child))
    # The control row is updated in place; unchanged fields are logged as such.
    old = index.page(btree.ROOT_PAGE).rows[btree.CONTROL_SLOT].decoded()
    header = old.header._replace(status=row.HAS_FIRST_FIELD, first_field=0, field_count=len(grown))
    changed = tuple(_UNCHANGED if n < len(old.fields) and old.fields[n] == new else new for n, new in enumerate(grown))
    before = tuple(_UNCHANGED if grown[n] == field else field for n, field in enumerate(old.fields))
    data = row.encode_logged(DecodedRow(header, changed)) + row.encode_row(DecodedRow(old.header, before))
    fields = btree.CONTROL_SLOT, old.header.record_id
    index.core.change(running, index.container, btree.ROOT_PAGE, operations.Update, *fields, data=data)


def _split(index: Index, running: RunningXact, parent: DescentStep, step: DescentStep) -> None:
    """Move the right part of a page to a new page, and insert it into the parent."""
    number = allocate(index.core, index.container)
    target = index.page(step.page)
    control = index.control(target)
    first = _split_slot(target, step.slot)
    fresh = control._replace(left=step.page, is_root=False, descriptor=None)
    key, at = target.rows[first].decoded().fields[:2]
    if control.kind == btree.BRANCH:
        fresh = fresh._replace(leftmost_child=btree.decode_page_number(target.rows[first].decoded().fields[2].data))
    _insert(index, running, number, btree.CONTROL_SLOT, btree.control_fields(fresh), operations.INSERT_DEFAULT)
    if control.right != NO_PAGE:
        _link(index, running, control.right, btree.LEFT_FIELD, number)
    _link(index, running, step.page, btree.RIGHT_FIELD, number)
    if control.kind == btree.BRANCH:
        # The child of the first moved row becomes the leftmost child of the new page; the key of the row moves to the
        # parent.
        _purge(index, running, step.page, first, 1)
    _move(index, running, step.page, first, number)
    upper = key, at, RowField(0, btree.encode_page_number(number))
    _insert(index, running, parent.page, parent.slot + 1, upper, _INSERT)


def _split_slot(target: LivePage, wanted: int) -> int:
    """The first slot to move: the middle by bytes, or the last row if the new key follows it."""
    # Ascending keys: the left page stays full.
    if wanted >= len(target.rows) - 1:
        return len(target.rows) - 1
    half = sum(one.footprint() for one in target.rows[FIRST_ROW:]) // 2
    for slot in range(FIRST_ROW, len(target.rows) - 1):
        half -= target.rows[slot].footprint()
        if half <= 0:
            return slot + 1
    return len(target.rows) - 1


def _insert(
    index: Index, running: RunningXact, number: int, slot: int, fields: tuple[RowField, ...], flags: int
) -> None:
    record_id = index.page(number).next_record_id
    image = row.new_row(record_id, fields)
    named = operations.Insert, record_id, False, slot, flags
    index.core.change(running, index.container, number, *named, data=row.encode_logged(image))


def _link(index: Index, running: RunningXact, number: int, field: int, other: int) -> None:
    """Change a link in the control row of a page."""
    control = index.page(number).rows[btree.CONTROL_SLOT]
    out = bytearray()
    row.put_logged_field(out, RowField(0, btree.encode_page_number(other)))
    row.put_field(out, control.decoded().fields[field])
    fields = operations.UpdateField, control.record_id, False, btree.CONTROL_SLOT, field
    index.core.change(running, index.container, number, *fields, data=bytes(out))


def _move(index: Index, running: RunningXact, source: int, first: int, goal: int) -> None:
    """Copy the rows from a slot on to another page, after its control row, and purge them."""
    rows = index.page(source).rows[first:]
    if not rows:
        return
    next_id = index.page(goal).next_record_id
    copied = tuple(operations.CopiedRow(next_id + n, len(one.slack)) for n, one in enumerate(rows))
    # Derby also reads the new ids from the copied rows, so the rows in the record have their new ids.
    images = [(one.record_id, source_row.decoded()) for one, source_row in zip(copied, rows, strict=True)]
    named = (DecodedRow(image.header._replace(record_id=record_id), image.fields) for record_id, image in images)
    data = b"".join(row.encode_row(image) for image in named)
    index.core.change(running, index.container, goal, operations.CopyRows, FIRST_ROW, copied, data=data)
    _purge(index, running, source, first, len(rows))


def _purge(index: Index, running: RunningXact, number: int, first: int, count: int) -> None:
    rows = index.page(number).rows[first : first + count]
    fields = operations.Purge, first, tuple(one.record_id for one in rows)
    data = b"".join(one.record for one in rows)
    index.core.change(running, index.container, number, *fields, data=data)
