"""``dump-log --stats`` on a Derby database: records and bytes by operation, file, transaction or container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

from engine.derby.format import instant
from engine.derby.format.operations import registry
from engine.derby.format.record import Record
from engine.fields import Float, Int, Text, record
from jetool.frame.options import Run


@record("counted")
class RecordGroup(NamedTuple):
    """Records of one group."""

    group: Annotated[Text, "operation, log file, transaction or container"]
    records: Annotated[Int, "how many"]
    compensations: Annotated[Int, "CLRs among them"]
    total_bytes: Annotated[Int, "their bytes, envelopes included"]
    min_bytes: Annotated[Int, "the smallest"]
    max_bytes: Annotated[Int, "the largest"]
    avg_bytes: Annotated[Int, "average, rounded down"]
    percent: Annotated[Float, "share of the bytes of all records counted"]


Group: TypeAlias = str | int | None
Counts: TypeAlias = dict[Group, list[int]]


def add(counts: Counts, by: str, one: Record) -> None:
    """Count one record; ``by`` is ``type``, ``file``, ``txn`` or ``container``."""
    size = one.end - one.instant
    totals = counts.setdefault(_group(by, one), [0, 0, 0, size, size])
    totals[0] += 1
    # Only a CLR names a compensated record.
    totals[1] += one.undo_instant is not None
    totals[2] += size
    totals[3] = min(totals[3], size)
    totals[4] = max(totals[4], size)


def print_counts(run: Run, counts: Counts, summary: Any) -> None:
    """Print the groups in order, and their sum."""
    all_bytes = sum(totals[2] for totals in counts.values()) or 1
    # Sort numbers by value and names alphabetically; records without a group come last.
    ordered = sorted(counts.items(), key=lambda item: (item[0] is None, isinstance(item[0], str), item[0] or 0))
    rows = [_group_of_records("-" if group is None else str(group), totals, all_bytes) for group, totals in ordered]
    if counts:
        parts = list(zip(*counts.values(), strict=True))
        rows.append(_group_of_records("total", [*map(sum, parts[:3]), min(parts[3]), max(parts[4])], all_bytes))
    if run.out.format == "text":
        run.out.table(RecordGroup, rows)
        return
    with run.out.stream(RecordGroup) as stream:
        for row in rows:
            stream.row(row)
        stream.end(summary)


def _group(by: str, one: Record) -> Group:
    if by == "file":
        return f"log{instant.file_of(one.instant)}.dat"
    if by == "txn":
        return one.transaction
    if by == "container":
        # Transaction and checksum records change no container.
        return getattr(one.operation, "container", None)
    return registry.type_of(one.operation).name


def _group_of_records(name: str, totals: Sequence[int], all_bytes: int) -> RecordGroup:
    records, compensations, total, least, most = totals
    return RecordGroup(
        group=name,
        records=records,
        compensations=compensations,
        total_bytes=total,
        min_bytes=least,
        max_bytes=most,
        avg_bytes=total // records,
        percent=round(100 * total / all_bytes, 1),
    )
