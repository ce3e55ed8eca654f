"""``jetool vlsn range``, ``find`` and ``buckets``: the VLSN index, compared with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.fields import shape_of
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.log.files import list_log_files
from jetool.commands.vlsn.group import INDEX_EXITS, has_stream, index_of, note_stand_alone, vlsn
from jetool.commands.vlsn.rows import (
    IndexBucket,
    Landmarks,
    NodeRange,
    index_bucket,
    landmarks_of,
    range_of_index,
    range_of_log,
)
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import note_writer, open_to_read, reading_code
from jetool.frame.node_stream import StreamNode
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.vlsn.vlsn_range import VLSNRange


@command(
    "range",
    parent=vlsn,
    outputs=lambda: Outputs("document", (NodeRange,)),
    features=("fields", "progress", "jobs", "cache"),
    examples=(
        ("What this node has, index and log side by side", "jetool vlsn range /data/env"),
        ("From the log alone, when the index is damaged", "jetool vlsn range /data/env --source log"),
    ),
    exits={exits.DONE: "printed; with both, index and log agree", **INDEX_EXITS},
)
@environment
@click.option(
    "--source",
    type=click.Choice(("both", "index", "log")),
    default="both",
    show_default=True,
    help="Where to read the range from.",
)
def vlsn_range(run: Run, env: str, source: str) -> int:
    """Print first and last VLSN, last sync point and last transaction end of a node.

    The index is printed as recovery leaves it: the stored index plus the entries after the last checkpoint. The cleaner
    cuts the index before it deletes files, so the log may begin earlier; this does not count as a difference.
    """
    if source == "index":
        with open_to_read(run, env) as opened:
            run.out.document(_node_range(range_of_index(index_of(run, opened).range), "index"))
        return reading_code(opened)
    node = StreamNode(run, env)
    if source == "log":
        if not node.is_replicated:
            note_stand_alone(run, env)
        run.out.document(_node_range(range_of_log(node.facts), "log"))
        return exits.FINDINGS if node.damaged else exits.DONE
    return _both(run, env, node)


def _both(run: Run, env: str, node: StreamNode) -> int:
    by_log = range_of_log(node.facts)
    if node.has_neither:
        # The log holds neither a stream nor an index, so recovery is not needed.
        note_writer(run, node.storage)
        note_stand_alone(run, env)
        run.out.document(_side_by_side(by_log, None, []))
        return exits.DONE
    from engine.db.vlsn_index.view import read_index

    with open_to_read(run, env) as opened:
        view, code = read_index(opened.engine.parts), reading_code(opened)
    if not has_stream(node, view):
        note_stand_alone(run, env)
    by_index = None if view.merged is None else range_of_index(view.merged.range)
    # JE would refuse to open the environment, so report that as the difference.
    if view.refused is not None:
        differences = [str(view.refused)]
    elif view.merged is None:
        differences = ["there is no index"] if node.is_replicated else []
    else:
        differences = _differences(view.merged.range, node.facts)
    run.out.document(_side_by_side(by_log, by_index, differences))
    if differences:
        run.messages.warning("index and log disagree", file=env, hint=f"jetool vlsn check {env}")
    return exits.FINDINGS if differences or node.damaged else code


def _node_range(found: Landmarks, source: str) -> NodeRange:
    return NodeRange(
        first=found.first,
        last=found.last,
        last_sync=found.last_sync,
        last_txn_end=found.last_txn_end,
        entries=found.entries,
        source=source,
    )


def _side_by_side(by_log: Landmarks, by_index: Landmarks | None, differences: list[str]) -> NodeRange:
    found = _node_range(by_log, "log") if by_index is None else _node_range(by_index, "index")
    return found._replace(index_=by_index, log=by_log, differences=differences)


def _differences(found: VLSNRange, facts: StreamFacts) -> list[str]:
    log = landmarks_of(facts)
    known = dict(zip(("last", "last_sync", "last_txn_end"), zip(found[1:], log[1:], strict=True), strict=True))
    if found.last_txn_end == NULL_VLSN and log[3] <= found.first:
        # The index need not know ``last_txn_end`` if that is at or before its first VLSN: it was cut off, or forgotten
        # (D-10).
        del known["last_txn_end"]
    said = [f"{name}: index {here}, log {there}" for name, (here, there) in known.items() if here != there]
    # An index that begins later than the log is normal, since it is cut before files are deleted (R-VLSN-54).
    if found.first < log[0]:
        said.insert(0, f"first: index {found.first}, log {log[0]}")
    return said


@command(
    "buckets",
    parent=vlsn,
    outputs=lambda: Outputs("table", (IndexBucket,)),
    features=("fields", "progress", "cache"),
    examples=(
        ("The buckets of the index", "jetool vlsn buckets /data/env"),
        ("Every mapping, for a script", "jetool vlsn buckets /data/env --offsets --json"),
    ),
    exits={exits.DONE: "printed", **INDEX_EXITS},
)
@environment
@click.option("--offsets", is_flag=True, help="List every VLSN that has a mapping.")
def vlsn_buckets(run: Run, env: str, offsets: bool) -> int:
    """Print the buckets of the VLSN index after recovery."""
    with open_to_read(run, env) as opened:
        found = list(index_of(run, opened).buckets())
    paths = {file.number: file.path for file in list_log_files(opened.engine.storage).files}
    shape = shape_of(IndexBucket)
    shape = shape if offsets else shape._replace(fields=shape.fields[:-1])
    run.out.table(shape, [index_bucket(bucket, paths, offsets=offsets) for bucket in found])
    return reading_code(opened)
