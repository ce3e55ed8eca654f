"""What ``jetool clean`` prints: the files that were cleaned, and why each other file stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.cleaner.cleaner import KeptFile
from engine.cleaner.offline import CleanedFile, OfflineReport
from jetool.output.shape import Field, Row, Shape

_CLEANED: Final = (
    Field("file", "text", "its name"),
    Field("size_bytes", "size_bytes", "its entries"),
    Field("utilization", "int", "per cent that was thought to be in use"),
    Field("needed_bytes", "size_bytes", "entries that were needed, and had to be logged again"),
    Field("records", "int", "records that were logged again"),
    Field("nodes", "int", "nodes of trees that were"),
    Field("expired", "int", "records that had expired"),
    Field("locked", "int", "records that a prepared transaction has locked: the file stays until it ends"),
    Field("deleted", "bool", "the file is gone"),
)
_KEPT: Final = (
    Field("file", "text", "its name"),
    Field("size_bytes", "size_bytes", "its length"),
    Field("utilization", "int", "per cent in use; null for a reserved file, which holds nothing", null=True),
    Field("state", "text", "live, cleaned (a checkpoint lets it go) or reserved (nothing leads into it)"),
    Field("reason", "text", "why it is still there"),
)
CLEANED: Final = Shape(
    "clean",
    "A run of the log cleaner.",
    (
        Field("files", "int", "log files when the run ended"),
        Field("files_cleaned", "int", "files that were read, and what was needed of them logged again"),
        Field("files_deleted", "int", "files that are gone, those that earlier runs had left included"),
        Field("bytes_before", "size_bytes", "all log files when the run began"),
        Field("bytes_after", "size_bytes", "all log files when it ended"),
        Field("freed_bytes", "size_bytes", "the difference"),
        Field("needed_bytes", "size_bytes", "entries of cleaned files that had to be logged again"),
        Field("utilization_before", "int", "per cent of the log in use when the run began"),
        Field("utilization_after", "int", "and when it ended"),
        Field("ended", "text", "why the run ended"),
        Field("backup", "text", "where the deleted files are; null with --backup-dir none", null=True),
        Field("saved_bytes", "size_bytes", "bytes saved there"),
        Field("dry_run", "bool", "nothing was changed: this is what would be done"),
        Field("cleaned", "records", "the cleaned files, in the order in which they were chosen", fields=_CLEANED),
        Field("kept", "records", "the files that are still there", fields=_KEPT),
    ),
)


def cleaned_row(
    report: OfflineReport, kept: Sequence[KeptFile], *, backup: str | None, saved_bytes: int, dry_run: bool
) -> Row:
    """The row of a run."""
    return CLEANED.row(
        (
            len(kept),
            len(report.cleaned),
            len(report.deleted),
            report.bytes_before,
            report.bytes_after,
            report.bytes_before - report.bytes_after,
            sum(one.report.live_bytes for one in report.cleaned),
            report.utilization_before,
            report.utilization_after,
            report.why,
            backup,
            saved_bytes,
            dry_run,
            [_file_row(one, one.report.number in report.deleted) for one in report.cleaned],
            [_kept_row(one) for one in kept],
        )
    )


def _file_row(found: CleanedFile, deleted: bool) -> Row:
    facts, report = found
    values = (
        f"{report.number:08x}.jdb", report.total_bytes, facts.average_utilization, report.live_bytes,
        report.lns_migrated, report.nodes_dirtied, report.lns_expired, report.lns_locked, deleted,
    )  # fmt: skip
    return [(field.name, field.kind, value) for field, value in zip(_CLEANED, values, strict=True)]


def _kept_row(one: KeptFile) -> Row:
    state = "live" if one.state is None else one.state.value
    used = None if one.facts is None else one.facts.average_utilization
    values = (f"{one.file.number:08x}.jdb", one.size_bytes, used, state, one.reason)
    return [(field.name, field.kind, value) for field, value in zip(_KEPT, values, strict=True)]
