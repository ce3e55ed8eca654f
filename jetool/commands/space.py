"""``jetool space``: what takes room, and why each file is kept."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from engine.errors import plural
from engine.log.files import LOCK_FILE, list_log_files
from engine.rescue.recalculation import DatabaseSpace, recalculate
from engine.rescue.space import OTHER, RESERVED, STATES, SpaceFile, recounted, survey_space
from engine.storage.disk import DiskStorage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.kinds import require_je
from jetool.app.opening import writer_of
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape, Style, to_text

_READERS_BYTE: Final = 1
_BAR: Final = 20
FILE: Final = Shape(
    "file",
    "A file of the directory.",
    (
        Field("file", "text", "its path in the environment"),
        Field("size_bytes", "size_bytes", "its length"),
        Field("state", "text", "live; cleaned: a checkpoint lets it go; reserved: nothing leads into it; other: no log "
              "file; unknown: recovery refuses", choices=STATES),
        Field("counted", "size_bytes", "bytes of entries that were counted", null=True),
        Field("obsolete", "size_bytes", "of these, what nothing needs", null=True),
        Field("expired", "size_bytes", "of these, what has expired; some of it may be among the obsolete", null=True),
        Field("live_min", "size_bytes", "bytes in use, at least", null=True),
        Field("live_max", "size_bytes", "bytes in use, at most", null=True),
        Field("reason", "text", "why it is there"),
    ),
)  # fmt: skip
DATABASE: Final = Shape(
    "database",
    "A database, with --recalc.",
    (
        Field("db", "text", "its name; null for one that was removed, or is not known", null=True),
        Field("id", "int", "its id; -1 for nodes of old forms, which do not name theirs in front"),
        Field("records", "int", "records that its tree has"),
        Field("live_bytes", "size_bytes", "bytes of its LNs and nodes that are in use"),
        Field("expired_bytes", "size_bytes", "bytes of its records that have expired"),
        Field("obsolete_bytes", "size_bytes", "bytes of its LNs and nodes that nothing needs"),
    ),
)
SUMMARY: Final = Shape(
    "summary",
    "The directory.",
    (
        Field("environment", "text", "its path"),
        Field("files", "int", "files in it, log files and others"),
        Field("size_bytes", "size_bytes", "their bytes, all of them"),
        Field("log_files", "int", "log files"),
        Field("log_bytes", "size_bytes", "their bytes"),
        Field("reserved_bytes", "size_bytes", "of these, files that nothing leads into"),
        Field("live_min", "size_bytes", "bytes in use, at least"),
        Field("live_max", "size_bytes", "bytes in use, at most"),
        Field("utilization_min", "int", "per cent of what was counted, at least; null when nothing was", null=True),
        Field("utilization_max", "int", "per cent, at most", null=True),
        Field("writer", "int", "process that has it open for writing (0: not named), or null", null=True),
        Field("reader", "int", "process whose reading keeps all files (0: not named), or null", null=True),
        Field("problem", "text", "why recovery refuses; null when it does not", null=True),
    ),
)


def _line(rec: str, row: Row, style: Style) -> str:
    """A file: a bar of what is in use, sizes, state; a database: its sizes."""
    values = {name: value for name, _, value in row}
    if rec == DATABASE.rec:
        live, expired, obsolete = (to_text(kind, value, style) for _, kind, value in row[3:])
        shares = f"live {live}, expired {expired}, obsolete {obsolete}"
        name = to_text("text", values["db"] or f"database {values['id']}", style)
        return f"{name:<22} {plural(values['records'], 'record')}, {shares}"
    counted, least, most = values["counted"], values["live_min"], values["live_max"]
    bar, used = " " * _BAR, ""
    if counted is not None and counted > 0:
        # The counters are those of the log, which may say anything; the bar has its width all the same.
        sure, perhaps = (min(max(round(_BAR * part / counted), 0), _BAR) for part in (least, most))
        bar = ("#" * sure + "+" * (perhaps - sure)).ljust(_BAR, ".")
        ends = round(100 * least / counted), round(100 * most / counted)
        used = f"{ends[0]} %" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} %"
    size = to_text("size_bytes", values["size_bytes"], style)
    return f"{to_text('text', values['file'], style):<22} {size:>10}  [{bar}] {used:<12} {values['state']}".rstrip()


def _line_with_reason(rec: str, row: Row, style: Style) -> str:
    """The same, with the reason."""
    if rec == DATABASE.rec:
        return _line(rec, row, style)
    return f"{_line(rec, row, style):<82}  {to_text('text', row[-1][2], style)}"


@command(
    "space",
    outputs=lambda: Outputs("stream", (FILE, DATABASE), SUMMARY),
    features=("fields", "progress"),
    examples=(
        ("How much of the log is in use", "jetool space /data/env"),
        ("Why each file is kept", "jetool space /data/env --why"),
        ("What every database takes, counted anew", "jetool space /data/env --recalc"),
        ("For a script: files that nothing leads into", "jetool space /data/env --format csv --fields file,state"),
    ),
    exits={
        exits.DONE: "printed",
        exits.FINDINGS: "printed from what the log says: recovery refuses, so that nobody can say what is in use now",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: "a file cannot be read",
    },
)
@environment
@click.option("--why", is_flag=True, help="In text, say of every file why it is there; other formats always do.")
@click.option("--recalc", is_flag=True, help="Count anew from trees and log; totals of databases, too.")
def space(run: Run, env: str, why: bool, recalc: bool) -> int:
    """Print what each file of the directory takes, how much of it is in use, and why it is kept.

    The figures are the cleaner's counters, as DbSpace shows them, after a recovery in memory; # is in use, + perhaps,
    since what has expired may have been counted already. The reasons are the cleaner's, too: enough is in use, too new,
    an open transaction, reserved for replicas, locked records. Every file of the directory is listed, so that the sum
    is that of the directory. Where recovery refuses, the last counters that the log holds are shown. Nothing is
    locked, created or changed.

    The counters are estimates. With --recalc the trees are walked over and the log is read: what they lead to is in
    use, the rest is not, and every database has its totals. Where recovery refuses, the newest committed versions that
    the log holds count as in use, of users' databases only.
    """
    storage = DiskStorage(env)
    require_je(storage)
    writer = writer_of(storage)
    reader = storage.lock_holder(LOCK_FILE, _READERS_BYTE) if storage.stat(LOCK_FILE) is not None else None
    report = survey_space(storage, run.listener)
    databases: tuple[DatabaseSpace, ...] = ()
    if recalc:
        files = list_log_files(storage)
        found = recalculate(storage, env, files, run.listener)
        report, databases = recounted(report, found, files), found.databases
        for unknown in found.not_walked:
            run.messages.warning(f"not counted: {unknown}", file=env, consequence="what it uses counts as obsolete")
    with run.out.stream(FILE, DATABASE, line=_line_with_reason if why else _line) as stream:
        for file in report.files:
            stream.row(FILE.rec, FILE.row(_values(file)))
        for one in databases:
            values = (one.name or None, one.id, one.records, one.live, one.expired, one.obsolete)
            stream.row(DATABASE.rec, DATABASE.row(values))
        stream.end(SUMMARY.row((env, *_sums(report.files), writer, reader, report.problem or None)))
    if reader is not None:
        run.messages.notice(
            f"process {reader or 'unknown'} has the environment open for reading",
            consequence="no file is deleted until it closes it",
        )
    return exits.FINDINGS if report.problem else exits.DONE


def _values(file: SpaceFile) -> tuple[object, ...]:
    live = file.live or (None, None)
    return (
        file.path, file.size_bytes, file.state, file.counted, file.obsolete, file.expired, *live, file.reason
    )  # fmt: skip


def _sums(files: tuple[SpaceFile, ...]) -> tuple[object, ...]:
    sizes: Counter[str] = Counter()
    for file in files:
        sizes["all"] += file.size_bytes
        sizes["log"] += 0 if file.state == OTHER else file.size_bytes
        sizes["reserved"] += file.size_bytes if file.state == RESERVED else 0
        sizes["counted"] += file.counted or 0
        sizes["least"] += file.live[0] if file.live is not None else 0
        sizes["most"] += file.live[1] if file.live is not None else 0
    counted = sizes["counted"]
    shares: tuple[int | None, int | None] = (None, None)
    if counted:
        shares = round(100 * sizes["least"] / counted), round(100 * sizes["most"] / counted)
    logs = sum(file.state != OTHER for file in files)
    return (
        len(files), sizes["all"], logs, sizes["log"], sizes["reserved"], sizes["least"], sizes["most"], *shares
    )  # fmt: skip
