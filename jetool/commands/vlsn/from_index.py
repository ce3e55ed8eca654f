"""``jetool vlsn range``, ``find`` and ``buckets``: the VLSN index, beside the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.log.files import list_log_files
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.node_stream import StreamNode
from jetool.app.opening import note_writer, open_to_read, reading_code
from jetool.app.options import Run
from jetool.commands.vlsn.group import INDEX_EXITS, has_stream, index_of, note_stand_alone, vlsn
from jetool.commands.vlsn.rows import BUCKET, RANGE, bucket_row, landmarks_of, range_of_index, range_of_log
from jetool.output.shape import Row

if TYPE_CHECKING:
    from engine.vlsn.vlsn_range import VLSNRange


@command(
    "range",
    parent=vlsn,
    outputs=lambda: Outputs("document", (RANGE,)),
    features=("fields", "progress", "jobs", "cache"),
    examples=(
        ("What this node has, index and log side by side", "jetool vlsn range /data/env"),
        ("From the log alone, when the index is damaged", "jetool vlsn range /data/env --source log"),
    ),
    exits={exits.DONE: "printed; with both, index and log agree", **INDEX_EXITS},
)
@environment
@click.option(
    "--source", type=click.Choice(("both", "index", "log")), default="both", show_default=True, help="Who is asked."
)
def vlsn_range(run: Run, env: str, source: str) -> int:
    """Print first and last VLSN, last sync point and last transaction end of a node.

    The index is what recovery leaves: the stored one, with what the log holds after the last checkpoint. Log cleaning
    cuts the index before it deletes files, so that the log may begin earlier; that is no difference.
    """
    if source == "index":
        with open_to_read(run, env) as opened:
            row = range_of_index(index_of(run, opened).range)
            run.out.document(RANGE, [*row, ("source", "text", "index")])
        return reading_code(opened)
    node = StreamNode(run, env)
    if source == "log":
        if not node.is_replicated:
            note_stand_alone(run, env)
        run.out.document(RANGE, [*range_of_log(node.facts), ("source", "text", "log")])
        return exits.FINDINGS if node.damaged else exits.DONE
    return _both(run, env, node)


def _both(run: Run, env: str, node: StreamNode) -> int:
    by_log = range_of_log(node.facts)
    if node.has_neither:
        # Recovery would find no index, however much of the log it has to replay.
        note_writer(run, node.storage)
        note_stand_alone(run, env)
        run.out.document(RANGE, _side_by_side(by_log, None, []))
        return exits.DONE
    from engine.db.vlsn_view import read_index

    with open_to_read(run, env) as opened:
        view, code = read_index(opened.engine.parts), reading_code(opened)
    if not has_stream(node, view):
        note_stand_alone(run, env)
    by_index = None if view.merged is None else range_of_index(view.merged.range)
    # JE would refuse to open the environment; that is the difference to report.
    if view.refused is not None:
        differences = [str(view.refused)]
    elif view.merged is None:
        differences = ["there is no index"] if node.is_replicated else []
    else:
        differences = _differences(view.merged.range, node.facts)
    run.out.document(RANGE, _side_by_side(by_log, by_index, differences))
    if differences:
        run.messages.warning("index and log disagree", file=env, hint=f"jetool vlsn check {env}")
    return exits.FINDINGS if differences or node.damaged else code


def _side_by_side(by_log: Row, by_index: Row | None, differences: list[str]) -> Row:
    return [
        *(by_log if by_index is None else by_index),
        ("source", "text", "log" if by_index is None else "index"),
        ("index", "record", by_index),
        ("log", "record", by_log),
        ("differences", "texts", differences),
    ]


def _differences(found: VLSNRange, facts: StreamFacts) -> list[str]:
    log = landmarks_of(facts)
    known = dict(zip(("last", "last_sync", "last_txn_end"), zip(found[1:], log[1:], strict=True), strict=True))
    if found.last_txn_end == NULL_VLSN and log[3] <= found.first:
        # Cut off, or forgotten when it became the first (D-10).
        del known["last_txn_end"]
    said = [f"{name}: index {here}, log {there}" for name, (here, there) in known.items() if here != there]
    # The other way round is legal: the index is cut before files are deleted (R-VLSN-54).
    if found.first < log[0]:
        said.insert(0, f"first: index {found.first}, log {log[0]}")
    return said


@command(
    "buckets",
    parent=vlsn,
    outputs=lambda: Outputs("table", (BUCKET,)),
    features=("fields", "progress", "cache"),
    examples=(
        ("The buckets of the index", "jetool vlsn buckets /data/env"),
        ("Every mapping, for a script", "jetool vlsn buckets /data/env --offsets --json"),
    ),
    exits={exits.DONE: "printed", **INDEX_EXITS},
)
@environment
@click.option("--offsets", is_flag=True, help="Every VLSN whose LSN is kept.")
def vlsn_buckets(run: Run, env: str, offsets: bool) -> int:
    """Print the buckets of the VLSN index as recovery leaves them."""
    with open_to_read(run, env) as opened:
        found = list(index_of(run, opened).buckets())
    paths = {file.number: file.path for file in list_log_files(opened.engine.storage).files}
    shape = BUCKET if offsets else BUCKET._replace(fields=BUCKET.fields[:-1])
    run.out.table(shape, [bucket_row(bucket, paths, offsets=offsets) for bucket in found])
    return reading_code(opened)
