"""``jetool vlsn find``: find the entry of a VLSN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.errors import DamageError, NotFoundError
from engine.format.entry_types import type_name
from engine.format.lsn import format_lsn
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from jetool.commands.vlsn.group import INDEX_EXITS, index_of, vlsn
from jetool.commands.vlsn.rows import VlsnPlace
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import open_to_read
from jetool.frame.node_stream import StreamNode
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.vlsn.index import VLSNIndex


@command(
    "find",
    parent=vlsn,
    outputs=lambda: Outputs("document", (VlsnPlace,)),
    features=("fields", "progress", "cache"),
    examples=(
        ("Where is VLSN 4711", "jetool vlsn find /data/env 4711"),
        ("Its LSN, for a script", "jetool vlsn find /data/env 4711 --json --fields lsn"),
    ),
    exits={
        exits.DONE: "found",
        **INDEX_EXITS,
        exits.FINDINGS: "found, but the index no longer refers to it, or damage was found",
        exits.NOT_FOUND: "no environment, or no such VLSN on this node",
    },
)
@environment
@click.argument("number", metavar="VLSN", type=click.IntRange(1), help="The VLSN.")
def vlsn_find(run: Run, env: str, number: int) -> int:
    """Print the place of the entry of a VLSN, found with the index and a scan of the log from there."""
    with open_to_read(run, env) as opened:
        index = index_of(run, opened)
    if not index.range.contains(number):
        raise NotFoundError(
            f"no VLSN {number}",
            file=env,
            found=f"the node has {index.range}" if str(index.range) != "empty" else "the node has none",
            hint="another member of the group may have it; jetool vlsn range shows the VLSNs of this node",
        )
    return _find(run, env, index, number)


def _find(run: Run, env: str, index: VLSNIndex, number: int) -> int:
    from engine.inspect.vlsn_find import find_vlsn

    bucket, start, end = index.lte_bucket(number), index.lte_lsn(number), index.gte_lsn(number)
    storage = StreamNode.open_storage(env)
    # Leave out the restore marker, whose entry is not part of the stream.
    log = scan_log(storage, list_log_files(storage))
    try:
        found = find_vlsn(log, number, start, end)
    except NotFoundError:
        found = None
    entry = found.entry if found is not None else None
    if found is None or entry is None:
        raise DamageError(
            f"the index leads to {format_lsn(start)}, and VLSN {number} is not after it",
            file=env,
            consequence="a replica that asks for it gets nothing",
            hint=f"jetool vlsn check {env} shows what is wrong; jetool vlsn rebuild repairs the index",
        )
    # The index keeps every n-th VLSN; others are found by reading forward from the previous mapping (R-VLSN-1).
    run.out.document(
        VlsnPlace(
            vlsn=number,
            lsn=entry.lsn,
            type=type_name(entry.type_number),
            how="scan" if found.passed_entries else "bucket",
            bucket_first=bucket.first,
            bucket_last=bucket.last,
            from_lsn=start,
            scanned_entries=found.passed_entries,
            scanned_bytes=found.passed_bytes,
        )
    )
    return exits.FINDINGS if found.damaged else exits.DONE
