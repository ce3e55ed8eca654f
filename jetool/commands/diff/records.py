"""Comparing records of two environments, of two points of one, or with a running node, for ``jetool diff``.

A point of a log is treated like a crash at that point. In a view of the files, the log ends before the entry at that
LSN, and recovery runs on this view. Nothing is changed. INVISIBLE bits that a later rollback set in earlier entries
stay set in the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.db.environment import Environment
from engine.errors import DamageError, NotFoundError
from engine.format.lsn import NULL_LSN, format_lsn
from engine.inspect.common_log import common_log, shared_log
from engine.inspect.crash_points import cut_log
from engine.inspect.record_diff import diff_records
from engine.log.files import list_log_files
from engine.rep.client.connection import Address as NodeAddress
from engine.rep.peers import address_text
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from jetool.commands.diff.rows import node_comparison, record_comparison
from jetool.frame import exits
from jetool.frame.addresses import resolve
from jetool.frame.decode_option import decoding_for
from jetool.frame.environments import config_of, open_to_read, with_orders
from jetool.frame.networks import network_of
from jetool.frame.options import Run
from jetool.frame.param_types.places import Address

if TYPE_CHECKING:
    from engine.rescue.points import Point


class ComparedEnvironment(NamedTuple):
    """One of the two.

    Attributes:
        end_lsn: the assumed end of its log; NULL_LSN for the real end.
        unseen: the part of its log that was not read; None if everything up to that end was read.
    """

    env: str
    storage: Storage
    opened: Environment
    end_lsn: int
    unseen: str | None


def whole(run: Run, env: str, as_of: Point | None = None) -> ComparedEnvironment:
    """Open an environment in its current state or as of a point; errors as ``open_to_read``."""
    opened = open_to_read(run, env, as_of)
    end_lsn = NULL_LSN if as_of is None else opened.end_lsn
    return ComparedEnvironment(env, opened.engine.storage, opened, end_lsn, opened.unseen)


def at_point(run: Run, env: str, place: Address) -> ComparedEnvironment:
    """The environment as it was at a place: the log ends before the entry at that place.

    Raises:
        NotFoundError: there was no environment yet at that place. UsageError: the log begins later. Others as
            ``resolve``.
    """
    disk = DiskStorage(env)
    files = list_log_files(disk)
    lsn = resolve(place, disk, files)
    view = OverlayStorage(disk)
    # Truncate the view only: recovery then finds the end of the log where a crash would have left it.
    cut_log(view, files, lsn)
    try:
        opened = Environment(view, with_orders(run, view, config_of(run, read_only=True)), run.listener)
    # The log may end before the first root; that is not damage.
    except DamageError as error:
        raise NotFoundError(
            "recovery finds no environment in the log before this place",
            file=env,
            lsn=format_lsn(lsn),
            found=str(error),
            hint="name a later place; jetool dump-log --type ckpt prints the checkpoints",
        ) from error
    return ComparedEnvironment(env, view, opened, lsn, None)


def print_record_diff(
    run: Run, one: ComparedEnvironment, other: ComparedEnvironment, most: int, decode: str | None = None
) -> int:
    """Compare and print; returns the exit code.

    Arguments:
        most: differing records to print.
        decode: the decoder for both; None for no decoding.
    """
    files, other_files = list_log_files(one.storage), list_log_files(other.storage)
    log = common_log(one.storage, files, other.storage, other_files, run.listener)
    with one.opened, other.opened:
        shared = shared_log(log, one.storage, files, other_files, run.jobs, run.listener)
        found = diff_records(one.opened, other.opened, most, run.listener, shared=shared, jobs=run.jobs)
        decoding = decoding_for(run, one.opened, decode)
    unseen = "; ".join(f"{side.env}: {side.unseen}" for side in (one, other) if side.unseen) or None
    compared = record_comparison((one.env, other.env), (one.end_lsn, other.end_lsn), unseen, log, found, decoding)
    run.out.document(compared)
    return exits.DONE if found.is_same and unseen is None else exits.FINDINGS


def print_node_diff(
    run: Run, one: ComparedEnvironment, node: NodeAddress, most: int, decode: str | None, timeout_s: float
) -> int:
    """Compare an environment with a running node, and print; returns the exit code.

    Arguments:
        most: differing records to print.
        timeout_s: longest wait for each answer of the node.
    """
    # Loaded only here: comparing directories needs no node.
    from engine.rep.client.record_blocks import NodeRecords
    from engine.rep.node_diff import diff_with_node

    network = network_of(run)
    with one.opened:
        found = diff_with_node(one.opened, NodeRecords(network, node, timeout_s), most, run.listener)
        decoding = decoding_for(run, one.opened, decode)
    compared = node_comparison((one.env, address_text(node)), one.end_lsn, one.unseen, found, decoding)
    run.out.document(compared)
    if found.is_same and one.unseen is None:
        return exits.INCOMPLETE if found.skipped else exits.DONE
    return exits.FINDINGS
