"""Walking one tree and checking its structure (R-TREE-1 to R-TREE-22; R-UTIL-2 and more).

Checks of every node: its database and level (parent's level minus 1); room for its slots; keys ascending and inside the
range that the parent gives; the identifier key in that range and, in a bottom node, in one of its slots; its id unique
and not above the last assigned id; slots without LSN deleted; a delta consistent with its full version. Checks of a
root: its flag, its level, never provisional.

Nodes that recovery holds in memory are used from there. All others are read, checked and dropped, so a walk holds only
the path from the root. Since levels must descend, a damaged tree cannot cause an endless walk. The subtree of an
unreadable node is skipped; its siblings are still walked.

Example: IN 0x3/0x1234 has the keys ``a``, ``k``, ``t``. Its second child holds ``k2`` and ``x``: JE-TREE-007, since a
search for ``x`` goes to the third child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from operator import lt
from typing import Final, NamedTuple

from engine.format.entry.node import NodeRecord
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN, is_null
from engine.log.access import LogAccess
from engine.tree.bin_node import BIN, DELETED
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, root_in_memory
from engine.tree.keys import Key
from engine.tree.spill import is_spilled
from engine.verify import tree_rules as rules
from engine.verify.collector import Collector, FoundPart, at
from engine.verify.missing_file_refs import LostFile
from engine.verify.space import SpaceTally
from engine.verify.walk.node_reader import NodeReader

Visitor = Callable[[DatabaseState, IN], None]

# JE ignores identifier keys of older environments, because the conversion of old duplicates may have broken them.
_IDENTIFIERS_SINCE: Final = 15


# The bits of ids by page.
IdPages = dict[int, bytearray]


class Ids:
    """A set of node ids with one bit per id, since ids in use are dense.

    Attributes:
        last: the last id that the log has assigned.
    """

    __slots__ = ("_before", "_pages", "last")

    _PAGE_BITS: Final = 1 << 15

    def __init__(self, last: int) -> None:
        self._pages: dict[int, bytearray] = {}
        # The ids added before the current part.
        self._before: dict[int, bytearray] = {}
        self.last = last

    def add(self, number: int) -> bool:
        """Add an id; False if it was already there."""
        page, bit = divmod(number, self._PAGE_BITS)
        before = self._before.get(page)
        if before is not None and before[bit >> 3] & 1 << (bit & 7):
            return False
        bits = self._pages.get(page)
        if bits is None:
            bits = self._pages[page] = bytearray(self._PAGE_BITS // 8)
        mask = 1 << (bit & 7)
        new = not bits[bit >> 3] & mask
        bits[bit >> 3] |= mask
        return new

    def copy(self) -> IdPages:
        """A copy of the ids added so far."""
        return {page: bytearray(bits) for page, bits in self._pages.items()}

    def go_back(self, pages: IdPages) -> None:
        """Restore the ids of an earlier ``copy``."""
        self._pages = pages

    def begin_part(self) -> None:
        """Begin a part: collect further ids separately."""
        self._before, self._pages = self._pages, {}

    def end_part(self) -> IdPages:
        """End a part: remove and return the ids added since ``begin_part``."""
        added, self._pages, self._before = self._pages, self._before, {}
        return added

    def join(self, parts: Sequence[IdPages]) -> bool:
        """Add the ids of parts. Returns False and adds nothing if an id occurs in two parts or is already there."""
        whole: dict[int, int] = {}
        for part in parts:
            for page, bits in part.items():
                number, known = int.from_bytes(bits, "little"), whole.get(page, 0)
                # Compare with the other parts here, because each part was walked without their ids.
                if number & known or number & int.from_bytes(self._pages.get(page, b""), "little"):
                    return False
                whole[page] = number | known
        for page, number in whole.items():
            known = int.from_bytes(self._pages.get(page, b""), "little")
            self._pages[page] = bytearray((number | known).to_bytes(self._PAGE_BITS // 8, "little"))
        return True


class Range(NamedTuple):
    """The keys that a node may hold: from ``low`` up to but not including ``high``; None is no bound."""

    low: Key | None
    high: Key | None

    def holds(self, key: Key) -> bool:
        """Whether a key lies in it."""
        return (self.low is None or not key < self.low) and (self.high is None or key < self.high)


class PendingChild(NamedTuple):
    """A child still to be visited: its slot in the parent, and its key range. Only parents on the path are held."""

    parent: IN
    slot: int
    extent: Range


class WalkTally(NamedTuple):
    """Counts of a walk: nodes, used slots of bottom nodes, databases with an unknown key order."""

    nodes: int
    records: int
    unordered: frozenset[str]


NOTHING_WALKED: Final = WalkTally(0, 0, frozenset())


class TreeWalk:
    """Walks over trees.

    Arguments:
        access: the log, for reading the entries of roots.
        reader: reads nodes that are not in memory.
        findings: receives the findings.
        ids: ids of all nodes of the environment.
        initial_version: log version with which the environment was created.

    Attributes:
        nodes, records: number of nodes, and of used slots of bottom nodes.
        unordered: databases whose comparator is not registered, so that some keys could not be compared.
    """

    def __init__(
        self, access: LogAccess, reader: NodeReader, findings: Collector, ids: Ids, initial_version: int
    ) -> None:
        self._access = access
        self._reader = reader
        self._findings = findings
        self._ids = ids
        self._check_identifiers = initial_version >= _IDENTIFIERS_SINCE
        self.nodes = self.records = 0
        self.unordered: set[str] = set()

    def walk(self, db: DatabaseState, visit: Visitor) -> None:
        """Check a tree; ``visit`` is called with every node that could be read, parents first."""
        self.below(db, self.top(db, visit), visit)

    def top(self, db: DatabaseState, visit: Visitor) -> list[PendingChild]:
        """Check the root of a tree; returns its branches, last first."""
        if not db.has_root:
            return []
        root = root_in_memory(db)
        if root is None:
            root = self._reader.read(db, db.root_lsn)
        if root is None:
            return []
        self._check_root(db, root)
        return self._seen(db, root, Range(None, None), visit)

    def below(self, db: DatabaseState, branches: list[PendingChild], visit: Visitor) -> None:
        """Check the subtrees of branches, beginning with the last branch."""
        todo = list(branches)
        while todo:
            todo += self.node(db, todo.pop(), visit)

    def node(self, db: DatabaseState, branch: PendingChild, visit: Visitor) -> list[PendingChild]:
        """Check the node of a branch; returns its own branches, last first."""
        parent, index, extent = branch
        child = self._child(db, parent, index)
        return [] if child is None else self._seen(db, child, extent, visit)

    def swap(self, tally: WalkTally = NOTHING_WALKED) -> WalkTally:
        """Switch to another tally, by default an empty one; returns the previous one."""
        before = WalkTally(self.nodes, self.records, frozenset(self.unordered))
        self.nodes, self.records, self.unordered = tally.nodes, tally.records, set(tally.unordered)
        return before

    def join(self, later: WalkTally) -> None:
        """Add the counts of another walk."""
        self.nodes += later.nodes
        self.records += later.records
        self.unordered |= later.unordered

    def _seen(self, db: DatabaseState, node: IN, extent: Range, visit: Visitor) -> list[PendingChild]:
        """Check a node; returns its slots with the key ranges of the children, last first."""
        self.nodes += 1
        self._check_id(db, node)
        if isinstance(node, BIN):
            self._check_slots(db, node)
        elif not len(node):
            self._findings.add(rules.EMPTY_UPPER, f"node {node.node_id}", lsn=node.full_lsn, db=db)
        if db.order.learned is not None:
            # An order that was derived from the nodes cannot be used to check them.
            self.unordered.add(db.label)
        else:
            self._check_keys(db, node, extent)
        visit(db, node)
        if isinstance(node, BIN):
            return []
        # The key of slot 0 counts as minus infinity (R-TREE-6), so its child's range begins at the parent's lower
        # bound.
        bounds = [extent.low, *islice(node.keys, 1, None), extent.high]
        return [PendingChild(node, i, Range(bounds[i], bounds[i + 1])) for i in range(len(node) - 1, -1, -1)]

    def _child(self, db: DatabaseState, parent: IN, index: int) -> IN | None:
        child, lsn = parent.kids[index], parent.lsns[index]
        if child is None and is_spilled(lsn):
            child = self._reader.peek(db, lsn)
            if child is None:
                return None
            lsn = newest_version(child)
        elif child is None and is_null(lsn):
            message = f"slot {index} of the node {at(parent.full_lsn)}"
            self._findings.add(rules.NO_LSN, message, lsn=parent.full_lsn, db=db, key=parent.keys[index])
            return None
        if child is None or (isinstance(child, BIN) and not child.dirty and not is_null(lsn)):
            # A BIN that recovery has not changed is checked in its logged form, even if a lookup has already read it.
            child = self._reader.read(db, lsn)
        if child is None:
            return None
        if child.level != parent.level - 1:
            message = f"level 0x{child.level:x} below the node {at(parent.full_lsn)} of level 0x{parent.level:x}"
            self._findings.add(rules.WRONG_LEVEL, message, lsn=lsn, db=db)
            # Do not descend: only descending levels rule out cycles.
            return None
        if child.is_root:
            message = f"node {child.node_id} is below the node {at(parent.full_lsn)}"
            self._findings.add(rules.ROOT_FLAG, message, lsn=lsn, db=db)
        return child

    def _check_root(self, db: DatabaseState, root: IN) -> None:
        lsn = root.full_lsn
        if isinstance(root, BIN):
            self._findings.add(rules.LOW_ROOT, f"node {root.node_id}", lsn=lsn, db=db)
        # Recovery created the node in memory; the log has no version of it.
        if is_null(lsn):
            return
        # A root in memory need not have the root flag, so check the entry in the log.
        entry = self._access.read(lsn)
        record = entry.record()
        if isinstance(record, NodeRecord) and not record.is_root:
            self._findings.add(rules.ROOT_FLAG, f"node {root.node_id} is the root", lsn=lsn, db=db)
        if not db.deferred and entry.provisional is not Provisional.NO:
            self._findings.add(rules.PROVISIONAL_ROOT, f"node {root.node_id}", lsn=lsn, db=db)

    def _check_id(self, db: DatabaseState, node: IN) -> None:
        if node.node_id > 0 and not self._ids.add(node.node_id):
            self._findings.add(rules.SAME_NODE_ID, f"node {node.node_id}", lsn=node.full_lsn, db=db)
        # Nodes that recovery split off in memory were never logged, and neither were their ids.
        if node.node_id > self._ids.last and not is_null(node.full_lsn):
            message = f"node {node.node_id}, the last id is {self._ids.last}"
            self._findings.add(rules.NODE_ID_AHEAD, message, lsn=node.full_lsn, db=db)

    def _check_slots(self, db: DatabaseState, node: BIN) -> None:
        lsns, states = node.lsns, node.states
        for index in range(len(lsns)):
            if states[index] & DELETED:
                continue
            self.records += 1
            if lsns[index] == NULL_LSN:
                message = f"slot {index} of the BIN {at(node.full_lsn)}"
                self._findings.add(rules.NO_LSN, message, lsn=node.full_lsn, db=db, key=node.keys[index])

    def _check_keys(self, db: DatabaseState, node: IN, extent: Range) -> None:
        """Check order, range and identifier key, if the key order is known."""
        lsn = newest_version(node)
        # The key of slot 0 of an upper node counts as minus infinity, whatever it is (R-TREE-6).
        keys = node.keys if isinstance(node, BIN) else node.keys[1:]
        if not all(map(lt, keys, islice(keys, 1, None))):
            wrong = next(i for i in range(1, len(keys)) if not keys[i - 1] < keys[i])
            slot = wrong + len(node.keys) - len(keys)
            same = "equal" if keys[wrong] == keys[wrong - 1] else "descending"
            message = f"slots {slot - 1} and {slot} of node {node.node_id}: {same}"
            self._findings.add(rules.KEY_ORDER, message, lsn=lsn, db=db, key=keys[wrong])
            # If the keys are out of order, the first and last do not bound the others.
            outside = [key for key in keys if not extent.holds(key)]
        else:
            outside = [key for key in dict.fromkeys((*keys[:1], *keys[-1:])) if not extent.holds(key)]
        for key in outside:
            self._findings.add(rules.KEY_RANGE, f"node {node.node_id}", lsn=lsn, db=db, key=key)
        if self._check_identifiers:
            self._check_identifier(db, node, extent, lsn)

    def _check_identifier(self, db: DatabaseState, node: IN, extent: Range, lsn: int) -> None:
        if not extent.holds(node.ident):
            self._findings.add(rules.IDENTIFIER_RANGE, f"node {node.node_id}", lsn=lsn, db=db, key=node.ident)
        elif isinstance(node, BIN) and len(node) and node.ident not in node.keys:
            self._findings.add(rules.IDENTIFIER_ABSENT, f"node {node.node_id}", lsn=lsn, db=db, key=node.ident)


def newest_version(node: IN) -> int:
    """LSN at which a node was last logged; NULL_LSN if it never was."""
    if isinstance(node, BIN) and node.delta_lsn != NULL_LSN:
        return node.delta_lsn
    return node.full_lsn


class Seen(NamedTuple):
    """The results of a walk."""

    found: FoundPart | None
    tally: WalkTally
    lost: dict[int, LostFile] | None
    space: SpaceTally | None


class Part(NamedTuple):
    """The results for one branch of a tree, apart from those of other branches.

    Attributes:
        is_flushed: the queued slots were flushed for other processes; in a share: the queued slots are right.
    """

    seen: Seen
    ids: IdPages
    is_flushed: bool


class ShareOfTrees(NamedTuple):
    """The results for one share of the branches of an environment's trees.

    Attributes:
        number, of: number of the share, and number of shares.
        end_lsn: the end of the log according to recovery.
        parts: for each database the results of the share's branches, by the index of the branch among all branches of
            the tree.
    """

    number: int
    of: int
    end_lsn: int
    parts: dict[int, dict[int, Part]]
