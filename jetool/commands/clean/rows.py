"""Output records of ``jetool clean``: the cleaned files, and the reason why each other file stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.cleaner.cleaner import KeptFile
from engine.cleaner.offline import CleanedFile, OfflineReport
from engine.fields import Bool, Int, SizeBytes, Text, record
from engine.log.files import log_file_name


@record()
class CleanedLogFile(NamedTuple):
    """A file that was cleaned."""

    file: Annotated[Text, "its name"]
    size_bytes: Annotated[SizeBytes, "its entries"]
    utilization: Annotated[Int, "estimated utilization in per cent"]
    needed_bytes: Annotated[SizeBytes, "entries that were needed, and had to be logged again"]
    records: Annotated[Int, "records that were logged again"]
    nodes: Annotated[Int, "nodes of trees that were"]
    expired: Annotated[Int, "records that had expired"]
    locked: Annotated[Int, "records that a prepared transaction has locked: the file stays until it ends"]
    deleted: Annotated[Bool, "the file is deleted"]


@record()
class KeptLogFile(NamedTuple):
    """A file that is still there."""

    file: Annotated[Text, "its name"]
    size_bytes: Annotated[SizeBytes, "its length"]
    utilization: Annotated[Int | None, "per cent in use; null for a reserved file, which holds nothing"]
    state: Annotated[Text, "live, cleaned (a checkpoint lets it go) or reserved (nothing leads into it)"]
    reason: Annotated[Text, "why it is still there"]


@record("clean")
class CleaningRun(NamedTuple):
    """A run of the log cleaner."""

    files: Annotated[Int, "log files when the run ended"]
    files_cleaned: Annotated[Int, "files that were read, and what was needed of them logged again"]
    files_deleted: Annotated[Int, "deleted files, including files that earlier runs had left"]
    bytes_before: Annotated[SizeBytes, "all log files when the run began"]
    bytes_after: Annotated[SizeBytes, "all log files when it ended"]
    freed_bytes: Annotated[SizeBytes, "the difference"]
    needed_bytes: Annotated[SizeBytes, "entries of cleaned files that had to be logged again"]
    utilization_before: Annotated[Int, "per cent of the log in use when the run began"]
    utilization_after: Annotated[Int, "and when it ended"]
    ended: Annotated[Text, "why the run ended"]
    backup: Annotated[Text | None, "where the deleted files are; null with --backup-dir none"]
    saved_bytes: Annotated[SizeBytes, "bytes saved there"]
    dry_run: Annotated[Bool, "nothing was changed: this is what would be done"]
    deleted: Annotated[Sequence[Text], "the names of the deleted files"]
    reactivated: Annotated[Sequence[Text], "reserved files that the trees need, and that are back in the live log"]
    cleaned: Annotated[Sequence[CleanedLogFile], "the cleaned files, in the order in which they were chosen"]
    kept: Annotated[Sequence[KeptLogFile], "the files that are still there"]


def cleaning_run(
    report: OfflineReport,
    kept: Sequence[KeptFile],
    *,
    backup: str | None,
    saved_bytes: int,
    dry_run: bool,
    reactivated: Sequence[int] = (),
) -> CleaningRun:
    """The record of a run."""
    return CleaningRun(
        files=len(kept),
        files_cleaned=len(report.cleaned),
        files_deleted=len(report.deleted),
        bytes_before=report.bytes_before,
        bytes_after=report.bytes_after,
        freed_bytes=report.bytes_before - report.bytes_after,
        needed_bytes=sum(one.report.live_bytes for one in report.cleaned),
        utilization_before=report.utilization_before,
        utilization_after=report.utilization_after,
        ended=report.why,
        backup=backup,
        saved_bytes=saved_bytes,
        dry_run=dry_run,
        deleted=[log_file_name(number) for number in sorted(report.deleted)],
        reactivated=[log_file_name(number) for number in reactivated],
        cleaned=[_cleaned(one, one.report.number in report.deleted) for one in report.cleaned],
        kept=[_kept(one) for one in kept],
    )


def _cleaned(found: CleanedFile, deleted: bool) -> CleanedLogFile:
    facts, report = found
    return CleanedLogFile(
        file=log_file_name(report.number),
        size_bytes=report.total_bytes,
        utilization=facts.average_utilization,
        needed_bytes=report.live_bytes,
        records=report.lns_migrated,
        nodes=report.nodes_dirtied,
        expired=report.lns_expired,
        locked=report.lns_locked,
        deleted=deleted,
    )


def _kept(one: KeptFile) -> KeptLogFile:
    return KeptLogFile(
        file=log_file_name(one.file.number),
        size_bytes=one.size_bytes,
        utilization=None if one.facts is None else one.facts.average_utilization,
        state="live" if one.state is None else one.state.value,
        reason=one.reason,
    )
