"""Logging one node: delta or full, the update of its parent's slot, obsolete versions (R-TREE-30 to R-TREE-34,
R-CKPT-30, 31).

After a node is logged, its parent's slot (or the database's root LSN) holds the new LSN and the parent is dirty. With
NO or BEFORE_CKPT_END, the versions that it replaces are counted obsolete at once. With YES they are handed up to the
parent, since a crash may restore them.

After a successful recovery for writing, ``settle`` logs the nodes that are still in the scratch file; ``spill``
explains why. It also logs the trees in which recovery has split nodes: if a checkpoint logged one half and a crash
followed before the other half, the first half would replace the whole node (R-TREE-15, R-REC-24).
"""

from __future__ import annotations

from typing import Final

from engine.events import Listener, Progress
from engine.format.codecs import encode_body
from engine.format.entry.ln import EMBEDDED, HAS_EXPIRATION, LN, creation_flag
from engine.format.entry.node import DIRTY, SLOT_EMBEDDED, encode_node
from engine.format.entry_types import BIN_TYPE, DELTA_TYPE, IN_TYPE, INS_LN
from engine.format.fast.ln import encode_user_ln
from engine.format.header import HEADER_BYTES, Provisional
from engine.format.lsn import NULL_LSN, is_null
from engine.format.versions import LN_KEY_FIRST
from engine.format.vlsn import NULL_VLSN
from engine.log.writer import LogWriter
from engine.tree.bin_node import BIN, DELETED
from engine.tree.context import ExpirationListener, TreeContext
from engine.tree.in_node import IN, ObsoleteNode
from engine.tree.keys import UnknownOrderError
from engine.tree.node_codec import encode_usual, node_to
from engine.tree.spill import is_spilled
from engine.tree.tree import child_of, delist

_NODES_BETWEEN_REPORTS: Final = 16


def log_node(ctx: TreeContext, node: IN, provisional: Provisional, *, allow_delta: bool = False) -> int:
    """Log a node.

    Arguments:
        node: logged as it is; it is clean afterwards.
        provisional: chosen by the caller (``checkpoint.dirty_map``, splits: YES below the root).
        allow_delta: checkpoints and eviction may log a BIN as a delta.

    Returns:
        The LSN; NULL_LSN if nothing can be logged (then the node stays dirty).

    Raises:
        UnknownOrderError: the slots of the node are in a guessed order.
    """
    writer = ctx.writer
    if writer is None:
        node.dirty = True
        return NULL_LSN
    learned = node.db.order.learned
    if learned is not None and not learned.may_guess and isinstance(node, BIN) and node.guessed:
        # Recovery and the cleaner refuse earlier; this makes sure that no node in a wrong order reaches the log.
        raise UnknownOrderError(learned)
    if node.db.deferred and isinstance(node, BIN):
        # Log the records before the BIN is encoded: its slots need real LSNs (R-TREE-60).
        _log_deferred_lns(writer, node, provisional if node.db.temporary else Provisional.NO, ctx.expiring)
    delta = allow_delta and isinstance(node, BIN) and node.wants_delta(ctx.delta_percent)
    previous = _previous(node, delta)
    number = DELTA_TYPE if delta else BIN_TYPE if isinstance(node, BIN) else IN_TYPE
    # A crash would make the old versions current again, until an ancestor is logged (R-CKPT-31).
    counted = [] if provisional is Provisional.YES else previous + node.provisional_obsolete
    body, expires = _encoded(node, number, writer.version, delta=delta, with_filter=ctx.blind_puts)
    lsn = writer.log(
        number,
        body,
        provisional=provisional,
        obsolete_nodes=[(old.lsn, old.is_delta) for old in counted],
    )
    if provisional is not Provisional.YES:
        node.provisional_obsolete = []
    elif node.pruned and node.parent is not None:
        # Recovery reaches this version only through the parent, so the parent has to be logged too.
        node.parent.pruned = True
    node.pruned = False
    if ctx.expiring is not None and expires and isinstance(node, BIN):
        _count_expiring(ctx.expiring, node, lsn, HEADER_BYTES + len(body), delta)
    size = HEADER_BYTES + len(body)
    _logged(node, lsn, size, delta)
    # Update the parent last: its slot must not reference a version that is not in the log.
    _update_parent(node, lsn, size, previous if provisional is Provisional.YES else [])
    return lsn


def _encoded(node: IN, number: int, version: int, *, delta: bool, with_filter: bool) -> tuple[bytes, bool]:
    """The entry body of a node, and whether some of its slots expire."""
    usual = encode_usual(node, version, delta=delta, with_filter=with_filter)
    if usual is not None:
        return usual, isinstance(node, BIN) and any(node.expirations)
    record = node_to(node, version, delta=delta, with_filter=with_filter)
    return encode_node(record, version, number), record.expiration_base != -1


def _count_expiring(expiring: ExpirationListener, node: BIN, lsn: int, size: int, delta: bool) -> None:
    """Count the share of the entry's bytes that expires with each expiring slot (R-CLN-51)."""
    values = node.expirations
    logged = [value for value, state in zip(values, bytes(node.states), strict=True) if not delta or state & DIRTY]
    # Usually there are few distinct values: one call for each.
    for value in set(logged):
        if value:
            expiring.expires(lsn, value, size // len(logged) * logged.count(value))


def _log_deferred_lns(
    writer: LogWriter, node: BIN, provisional: Provisional, expiring: ExpirationListener | None
) -> None:
    """Log the records of a deferred-write database that exist only in memory (R-TREE-60)."""
    for index, lsn in enumerate(node.lsns):
        # Transient LSNs only: records in the log are not logged again.
        if lsn == NULL_LSN or not is_null(lsn) or node.states[index] & DELETED:
            continue
        data = node.values[index] or b""
        modified, created = node.times_of(index)
        expiration = node.expirations[index]
        flags = EMBEDDED if node.states[index] & SLOT_EMBEDDED else 0
        record = LN(
            flags=flags | HAS_EXPIRATION if expiration else flags, flags2=0,
            flags3=creation_flag(INS_LN, modified, created), db_id=node.db.id, abort_lsn=NULL_LSN, txn_id=None,
            last_lsn=NULL_LSN, abort_key=None, abort_data=None, abort_vlsn=NULL_VLSN, abort_expiration=0,
            abort_modification_time=0, abort_creation_time=0, expiration=expiration, modification_time=modified,
            creation_time=created, prior_size=0, prior_file=-1, node_id=None, data=data, content=None,
            key=node.db.order.unwrap(node.keys[index]), tail=None,
        )  # fmt: skip
        old = writer.version < LN_KEY_FIRST
        body = encode_user_ln(record) if old else encode_body(INS_LN, writer.version, record)
        born = bool(node.states[index] & SLOT_EMBEDDED) or node.db.duplicates
        node.lsns[index] = writer.log(INS_LN, body, provisional=provisional, born_obsolete=born)
        node.sizes[index] = HEADER_BYTES + len(body)
        if expiration and expiring is not None:
            expiring.expires(node.lsns[index], expiration, node.sizes[index])
        if not node.states[index] & SLOT_EMBEDDED:
            # The LN now has the times; the slot keeps them only for embedded records.
            node.times.pop(node.keys[index], None)
    for index, lsn in enumerate(node.lsns):
        # A transient LSN must not reach the log: the record was never in it.
        if node.states[index] & DELETED and is_null(lsn):
            node.lsns[index] = NULL_LSN


def _previous(node: IN, delta: bool) -> list[ObsoleteNode]:
    """The versions that the new one replaces (R-TREE-33)."""
    old = []
    if isinstance(node, BIN) and node.delta_lsn != NULL_LSN:
        old.append(ObsoleteNode(node.delta_lsn, True))
    # A delta depends on its full version; a new full version makes both obsolete (R-TREE-33).
    if not delta and node.full_lsn != NULL_LSN:
        old.append(ObsoleteNode(node.full_lsn, False))
    return old


def _logged(node: IN, lsn: int, size: int, delta: bool) -> None:
    node.dirty = False
    if isinstance(node, BIN):
        if delta:
            node.delta_lsn, node.delta_size = lsn, size
            return
        # Only a full version clears the slots' dirty bits: deltas are cumulative (R-TREE-31).
        node.clear_slot_dirt()
        node.delta_lsn, node.delta_size = NULL_LSN, 0
        node.no_delta = False
    node.full_lsn, node.full_size = lsn, size


def _update_parent(node: IN, lsn: int, size: int, handed_up: list[ObsoleteNode]) -> None:
    parent = node.parent
    if parent is None:
        node.db.root_lsn = lsn
        node.db.dirty = True
        return
    index = parent.slot_of(node)
    parent.set_child_lsn(index, lsn, size)
    # The node was logged with YES: the next ancestor that is logged with another flag counts these versions
    # (R-CKPT-31).
    if handed_up or node.provisional_obsolete:
        parent.provisional_obsolete += handed_up + node.provisional_obsolete
        node.provisional_obsolete = []


def settle(ctx: TreeContext, roots: list[IN], listener: Listener) -> None:
    """Log all nodes in the scratch file and all trees that recovery has split; then close the scratch file.

    Arguments:
        listener: receives the step ``LOG_SPILLED_NODES``.
    """
    if ctx.spill is not None:
        if ctx.spill.nodes:
            progress = Progress(listener, "LOG_SPILLED_NODES", ctx.spill.held, every=_NODES_BETWEEN_REPORTS)
            for root in roots:
                _settle(ctx, root, progress)
        # From now on there is a writer: evicted nodes are logged.
        ctx.spill.close()
        ctx.spill = None
    # Log the mapping tree first: MapLNs of the other databases are inserted into it.
    for root in sorted((root for root in roots if root.db.unlogged_splits), key=lambda root: root.db.id):
        db = root.db
        db.unlogged_splits = False
        if not db.temporary and not db.deleted:
            _log_below(ctx, root)
            # Recovery ignores the nodes logged so far, and uses all of them once the root is logged.
            log_node(ctx, root, Provisional.NO)
            if ctx.root_logged is not None:
                ctx.root_logged(db)


def _log_below(ctx: TreeContext, node: IN) -> None:
    """Log every dirty node below a node, bottom-up."""
    for kid in node.kids:
        if kid is not None:
            _log_below(ctx, kid)
            if kid.dirty:
                log_node(ctx, kid, Provisional.YES, allow_delta=True)


def _settle(ctx: TreeContext, node: IN, progress: Progress) -> None:
    for index, kid in enumerate(node.kids):
        if kid is not None:
            _settle(ctx, kid, progress)
        elif is_spilled(node.lsns[index]):
            child = child_of(ctx, node, index)
            # Children first: the node must hold their LSNs before it is logged.
            _settle(ctx, child, progress)
            # The following checkpoint logs the ancestors, so YES is enough (R-REC-64).
            log_node(ctx, child, Provisional.YES, allow_delta=True)
            node.kids[index] = None
            delist(ctx, child)
            progress.add(1)
