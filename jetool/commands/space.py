"""``jetool space``: space used by each file, and the reason why it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import click

from engine.db.startup import files_kept
from engine.errors import plural
from engine.fields import Choices, Int, Like, Row, SizeBytes, Text, record, shape_of
from engine.log.files import LOCK_FILE, READERS_BYTE, LogFiles, list_log_files
from engine.rescue.repair.access import writer_of
from engine.rescue.space import OTHER, RESERVED, STATES, SpaceFile, SpaceReport, recounted, survey_space
from engine.storage.disk import DiskStorage
from engine.verdict import CheckVerdict
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import JE, require_files_of, require_je
from jetool.frame.options import Run
from jetool.frame.param_types.places import FileRange
from jetool.output.shape import Style, to_text
from jetool.output.verdicts import VerdictFields

if TYPE_CHECKING:
    from engine.rescue.recalculation import DatabaseSpace

_BAR: Final = 20


def _utilization(file: SpaceFile) -> float:
    """The share in use, the mean of its bounds; files without counters come last."""
    if file.live is None or not file.counted:
        return float("inf")
    return sum(file.live) / file.counted


_BY_FILE: Final = "file"
_ORDERS: Final[dict[str, Callable[[SpaceFile], float]]] = {
    _BY_FILE: lambda _: 0,
    "utilization": _utilization,
    "size": lambda file: -file.size_bytes,
}


@record("file")
class FileUse(NamedTuple):
    """A file of the directory."""

    file: Annotated[Text, "its path in the environment"]
    size_bytes: Annotated[SizeBytes, "its length"]
    state: Annotated[
        Text,
        "live; cleaned: a checkpoint lets it go; reserved: nothing leads into it; other: no log "
        "file; unknown: recovery refuses",
        Choices(STATES),
    ]
    counted: Annotated[SizeBytes | None, "bytes of entries that were counted"]
    obsolete: Annotated[SizeBytes | None, "of these, what nothing needs"]
    expired: Annotated[SizeBytes | None, "of these, what has expired; some of it may be among the obsolete"]
    live_min: Annotated[SizeBytes | None, "bytes in use, at least"]
    live_max: Annotated[SizeBytes | None, "bytes in use, at most"]
    reason: Annotated[Text, "why it is there"]


@record("database")
class DatabaseUse(NamedTuple):
    """A database, with --recalc."""

    db: Annotated[Text | None, "its name; null for one that was removed, or is not known"]
    id: Annotated[Int, "its id; -1 for nodes of old forms, which do not name theirs in front"]
    records: Annotated[Int, "records that its tree has"]
    live_bytes: Annotated[SizeBytes, "bytes of its LNs and nodes that are in use"]
    expired_bytes: Annotated[SizeBytes, "bytes of its records that have expired"]
    obsolete_bytes: Annotated[SizeBytes, "bytes of its LNs and nodes that nothing needs"]


@record("summary")
class DirectoryUse(NamedTuple):
    """The directory."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "its path"]
    files: Annotated[Int, "files in it, log files and others"]
    size_bytes: Annotated[SizeBytes, "their bytes, all of them"]
    log_files: Annotated[Int, "log files"]
    log_bytes: Annotated[SizeBytes, "their bytes"]
    reserved_bytes: Annotated[SizeBytes, "of these, files that nothing leads into"]
    live_min: Annotated[SizeBytes, "bytes in use, at least"]
    live_max: Annotated[SizeBytes, "bytes in use, at most"]
    utilization_min: Annotated[Int | None, "per cent of what was counted, at least; null when nothing was"]
    utilization_max: Annotated[Int | None, "per cent, at most"]
    writer: Annotated[Int | None, "process that has it open for writing (0: not named), or null"]
    reader: Annotated[Int | None, "process whose reading keeps all files (0: not named), or null"]
    problem: Annotated[Text | None, "why recovery refuses; null when it does not"]


def _line(rec: str, row: Row, style: Style) -> str:
    """A line of text: for a file a bar of its utilization, sizes and state; for a database its sizes."""
    values = {name: value for name, _, value in row}
    if rec == shape_of(DatabaseUse).rec:
        live, expired, obsolete = (to_text(kind, value, style) for _, kind, value in row[3:])
        shares = f"live {live}, expired {expired}, obsolete {obsolete}"
        name = to_text("text", values["db"] or f"database {values['id']}", style)
        return f"{name:<22} {plural(values['records'], 'record')}, {shares}"
    counted, least, most = values["counted"], values["live_min"], values["live_max"]
    bar, used = " " * _BAR, ""
    if counted is not None and counted > 0:
        # Counters in a damaged log may have any value, so clamp the bar to its width.
        sure, perhaps = (min(max(round(_BAR * part / counted), 0), _BAR) for part in (least, most))
        bar = ("#" * sure + "+" * (perhaps - sure)).ljust(_BAR, ".")
        ends = round(100 * least / counted), round(100 * most / counted)
        used = f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"
    size = to_text("size_bytes", values["size_bytes"], style)
    return f"{to_text('text', values['file'], style):<22} {size:>10}  [{bar}] {used:<12} {values['state']}".rstrip()


def _line_with_reason(rec: str, row: Row, style: Style) -> str:
    """The line of ``_line``, for a file with the reason why it is kept."""
    if rec == shape_of(DatabaseUse).rec:
        return _line(rec, row, style)
    return f"{_line(rec, row, style):<82}  {to_text('text', row[-1][2], style)}"


@command(
    "space",
    outputs=lambda: Outputs("stream", (FileUse, DatabaseUse), DirectoryUse),
    features=("fields", "progress"),
    examples=(
        ("How much of the log is in use", "jetool space /data/env"),
        ("Why each file is kept", "jetool space /data/env --why"),
        ("The size of every database, counted again", "jetool space /data/env --recalc"),
        ("The least utilized files first", "jetool space /data/env --sort utilization"),
        (
            "What will have expired in a week, of sixteen files",
            "jetool space /data/env --files 0x10..0x1f --expired-at 2026-12-05",
        ),
        ("For a script: the state of each file", "jetool space /data/env --format csv --fields file,state"),
    ),
    exits={
        exits.DONE: "printed",
        exits.FINDINGS: "printed from the counters in the log: recovery refuses, so current utilization is unknown",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: "a file cannot be read",
    },
)
@environment
@click.option(
    "--files",
    "wanted",
    type=params.FILE_RANGE,
    help="Only these log files, and nothing else of the directory. The totals are theirs.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(tuple(_ORDERS)),
    default=_BY_FILE,
    help="The order: by file; the least utilized first, files without counters last; the largest first.  "
    "[default: file]",
)
@click.option(
    "--expired-at",
    type=params.TIME,
    help="Count records as expired that have expired by TIME, which may be in the future.  [default: now]",
)
@click.option("--why", is_flag=True, help="In text, print why each file is kept; other formats always do.")
@click.option(
    "--recalc",
    is_flag=True,
    help="Compute what is in use from the trees and the log, not from the counters; also print totals per database.",
)
def space(
    run: Run, env: str, wanted: FileRange | None, order: str, expired_at: int | None, why: bool, recalc: bool
) -> int:
    """Print the size of each file of the directory, how much of it is in use, and why it is kept.

    The figures are the cleaner's counters, as DbSpace shows them, after a recovery in memory; # is in use; + is perhaps
    in use, because expired records may have been counted already. The reasons are the cleaner's too: enough is in use,
    too new, an open transaction, reserved for replicas, locked records. Every file is listed, so the total is that of
    the directory. If recovery refuses, the last counters in the log are shown. Nothing is created or changed; a writer
    that runs does not wait, and its cleaner deletes no log file meanwhile.

    As in DbSpace: -u is --sort utilization, -t --expired-at, -s and -e --files, which includes its last file.

    The counters are estimates. With --recalc the trees are walked and the log is read: entries that the trees refer to
    are in use, all others are not, and every database gets its totals. If recovery refuses, the newest committed
    versions in the log count as in use, for user databases only.
    """
    storage = DiskStorage(env)
    require_je(storage)
    if wanted is not None:
        require_files_of(JE, wanted.kind)
    writer = writer_of(storage)
    reader = storage.lock_holder(LOCK_FILE, READERS_BYTE) if storage.stat(LOCK_FILE) is not None else None
    databases: tuple[DatabaseSpace, ...] = ()
    with files_kept(storage):
        report = survey_space(storage, run.listener, expired_at, jobs=run.jobs)
        if recalc:
            report, databases = _recounted(run, env, storage, report, expired_at)
        report = report._replace(files=_chosen(report, list_log_files(storage), wanted, order))
    code = exits.FINDINGS if report.problem else exits.DONE
    read = "the trees and the log were" if recalc else "the cleaner's counters were"
    said = exits.verdict(code, report.problem or f"{read} read; checksums were not checked: jetool verify", partly=True)
    line = _line_with_reason if why else _line
    with run.out.stream(FileUse, DatabaseUse, line=line, verdict=said) as stream:
        for file in report.files:
            stream.row(_file(file))
        for one in databases:
            stream.row(
                DatabaseUse(
                    db=one.name or None,
                    id=one.id,
                    records=one.records,
                    live_bytes=one.live,
                    expired_bytes=one.expired,
                    obsolete_bytes=one.obsolete,
                )
            )
        stream.end(_summary(env, said, report, writer, reader))
    if reader is not None:
        run.messages.notice(
            f"process {reader or 'unknown'} has the environment open for reading",
            consequence="no file is deleted until it closes it",
        )
    return code


def _chosen(report: SpaceReport, files: LogFiles, wanted: FileRange | None, order: str) -> tuple[SpaceFile, ...]:
    """The files to print, in the order to print them."""
    chosen = list(report.files)
    if wanted is not None:
        paths = {file.path for file in files.files if wanted.holds(file.number)}
        chosen = [file for file in chosen if file.path in paths]
    return tuple(sorted(chosen, key=_ORDERS[order]))


def _recounted(
    run: Run, env: str, storage: DiskStorage, report: SpaceReport, expired_at: int | None
) -> tuple[SpaceReport, tuple[DatabaseSpace, ...]]:
    """The report with figures that are computed from the trees and the log, and totals of the databases."""
    from engine.rescue.recalculation import recalculate

    files = list_log_files(storage)
    found = recalculate(storage, env, files, run.listener, now_ms=expired_at)
    for unknown in found.not_walked:
        run.messages.warning(
            f"not counted: {unknown}", file=env, consequence="the entries that it uses count as obsolete"
        )
    return recounted(report, found, files), found.databases


def _file(file: SpaceFile) -> FileUse:
    least, most = file.live or (None, None)
    return FileUse(
        file=file.path,
        size_bytes=file.size_bytes,
        state=file.state,
        counted=file.counted,
        obsolete=file.obsolete,
        expired=file.expired,
        live_min=least,
        live_max=most,
        reason=file.reason,
    )


def _summary(
    env: str, verdict: CheckVerdict, report: SpaceReport, writer: int | None, reader: int | None
) -> DirectoryUse:
    files = report.files
    counted = sum(file.counted or 0 for file in files)
    least = sum(file.live[0] for file in files if file.live is not None)
    most = sum(file.live[1] for file in files if file.live is not None)
    return DirectoryUse(
        verdict=verdict.word,
        why=verdict.why,
        environment=env,
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        log_files=sum(file.state != OTHER for file in files),
        log_bytes=sum(file.size_bytes for file in files if file.state != OTHER),
        reserved_bytes=sum(file.size_bytes for file in files if file.state == RESERVED),
        live_min=least,
        live_max=most,
        utilization_min=round(100 * least / counted) if counted else None,
        utilization_max=round(100 * most / counted) if counted else None,
        writer=writer,
        reader=reader,
        problem=report.problem or None,
    )
