"""``jetool missing``: log files that are gone or cut, and what stood only there."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Final

import click

from engine.errors import UsageError, plural
from engine.format.lsn import NULL_LSN
from engine.rescue.missing import CUT, MISSING, STATES, UNKNOWN, AbsentFile, MissingReport, find_missing
from engine.storage.disk import DiskStorage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.kinds import require_je
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape, Style, to_text

FILE: Final = Shape(
    "file",
    "A log file that is not there, or not whole.",
    (
        Field("file", "text", "its name"),
        Field("state", "text", "missing: something needs it; cleaned: nothing does; cut: it ends too early; unknown: "
              "recovery refuses, and damage keeps from walking the trees", choices=STATES),
        Field("in_recovery", "bool", "recovery has to read it"),
        Field("nodes", "int", "references to nodes that lead there"),
        Field("records", "int", "references to records that lead there"),
        Field("referrer", "text", "a database that they belong to", null=True),
    ),
)  # fmt: skip
KEY: Final = Shape(
    "key",
    "A record whose newest version stood there.",
    (
        Field("db", "text", "the database"),
        Field("key", "key", "the key"),
        Field("lsn", "lsn", "where it stood"),
        Field("older_lsn", "lsn", "an older committed version that is there; null: none is"),
        Field("internal", "bool", "the database is one of JE's own"),
    ),
)
SUBTREE: Final = Shape(
    "subtree",
    "A part of a tree whose upper node stood there.",
    (
        Field("db", "text", "the database"),
        Field("low", "key", "keys from this one on; null: from the first", null=True),
        Field("high", "key", "keys below this one; null: to the last", null=True),
        Field("lsn", "lsn", "where the node stood"),
        Field("level", "int", "1 for a bottom node"),
        Field("records", "int", "how many records, about"),
        Field("internal", "bool", "the database is one of JE's own"),
    ),
)
SUMMARY: Final = Shape(
    "summary",
    "What is missing.",
    (
        Field("environment", "text", "its directory"),
        Field("problem", "text", "why recovery refuses, or what it does not see; null when it sees all", null=True),
        Field("missing", "int", "files that something needs"),
        Field("cut", "int", "files that end too early"),
        Field("cleaned", "int", "numbers of files that nothing needs"),
        Field("unknown", "int", "numbers of which nothing is known, since recovery refuses"),
        Field("databases", "texts", "databases that are gone whole"),
        Field("keys", "int", "records whose newest version is gone, without those of JE's own databases"),
        Field("with_older", "int", "those of them of which an older version is there"),
        Field("subtrees", "int", "parts of trees that are gone, without those of JE's own databases"),
        Field("subtree_records", "int", "records in them, about"),
        Field("internal", "int", "records and parts of trees of JE's own databases that are gone"),
        Field("copy", "text", "where the environment without them was made; null: no record is left", null=True),
        Field("dry_run", "bool", "nothing was written"),
        Field("next", "text", "the next command", null=True),
    ),
)


def _check(run: Run, *, repair: bool, to: str | None, **__: object) -> None:
    if repair != (to is not None):
        raise UsageError("--repair and --to belong together", hint="--repair --to COPY makes a copy that opens")
    if run.dry_run and not repair:
        raise UsageError("--dry-run is for --repair", hint="without it nothing is written")


def _line(rec: str, row: Row, style: Style) -> str:
    """One line of text: what kind of thing, then its values."""
    values = [to_text(kind, value, style) for _, kind, value in row]
    if rec == FILE.rec:
        leading = f"{plural(row[3][2], 'node')} and {plural(row[4][2], 'record')} lead there"
        needs = leading if values[5] != "-" else "nothing leads there"
        read = ", recovery has to read it" if row[2][2] else ""
        return f"file     {values[0]}  {values[1]}: {needs}{read}"
    if rec == KEY.rec:
        own = ", of JE's own" if row[4][2] else ""
        return f"key      {values[0]}  {values[1]}  stood at {values[2]}, older version {values[3]}{own}"
    extent = f"from {values[1]} to {values[2]}, level {values[4]}, about {plural(row[5][2], 'record')}"
    return f"subtree  {values[0]}  {extent}, stood at {values[3]}"


@command(
    "missing",
    check=_check,
    outputs=lambda: Outputs("stream", (FILE, KEY, SUBTREE), SUMMARY),
    features=("fields", "progress", "keys"),
    examples=(
        ("Which files are missing, and what is lost with them", "jetool missing /data/env"),
        ("The keys, for a script", "jetool missing /data/env --format ndjson --key-format hex"),
        ("A copy that opens without them", "jetool missing /data/env --repair --to /data/env2"),
    ),
    exits={
        exits.DONE: "nothing is missing: whatever has no file was cleaned",
        exits.FINDINGS: "files are missing or cut short, or recovery refuses or does not see the whole log",
        exits.REFUSED: "the directory of the copy is not empty",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.DATA_GIVEN_UP: "the copy was made; what is listed is not in it",
        exits.INCOMPLETE: "a file cannot be read, or the copy cannot be written",
    },
)
@environment
@click.option("--repair", is_flag=True, help="Make a copy with everything else, as jetool salvage does.")
@click.option("--to", metavar="COPY", type=click.Path(), help="With --repair: a new directory; COPY/env opens.")
@click.option("-n", "--dry-run", is_flag=True, help="With --repair: print what it would print, and write nothing.")
def missing(run: Run, env: str, repair: bool, to: str | None) -> int:
    """Say which log files are gone or cut short, whether that matters, and what stood only there.

    A gap in the numbers is what cleaning leaves. A file is missing when a tree leads into it or recovery has to read
    it: then the records are listed whose newest version stood there, each with an older version where there is one, and
    the parts of trees whose nodes stood there, with the range of their keys and about how many records they hold. Where
    recovery refuses, the trees are walked as the log has them, beside what cannot be read.

    Nothing is changed. With --repair a new environment is made in COPY/env from everything that is left.
    """
    storage = DiskStorage(env)
    require_je(storage)
    if to is not None:
        from engine.pipeline.tables import require_new

        require_new(to)
    report = find_missing(storage, env, run.listener)
    counts = Counter(file.state for file in report.files)
    wrong = bool(counts[MISSING] or counts[CUT] or report.problem)
    if report.problem:
        run.messages.warning(
            report.problem,
            # A refusal names its file already.
            file=env if report.walked else None,
            consequence="what they wrote was not looked at" if report.walked else "the trees are as the log has them",
            hint=f"jetool salvage {env} --to DIR saves what is legible",
        )
    with run.out.stream(FILE, KEY, SUBTREE, line=_line) as stream:
        for file in report.files:
            stream.row(FILE.rec, FILE.row(_file(file)))
        for key in report.keys:
            stream.row(KEY.rec, KEY.row(key))
        for subtree in report.subtrees:
            stream.row(SUBTREE.rec, SUBTREE.row(subtree))
        code, copy = exits.FINDINGS if wrong else exits.DONE, None
        if repair and to is not None:
            code, copy = _copy(run, env, to)
        stream.end(SUMMARY.row(_summary(env, report, counts, to, copy, dry_run=run.dry_run)))
    return code


def _copy(run: Run, env: str, to: str) -> tuple[int, str | None]:
    """Make an environment of what is left; the exit code, and where it is when a record is left."""
    from engine.pipeline.tables import new_directory
    from engine.rescue.salvage.collect import Salvage
    from engine.rescue.salvage.sources import look_at, sources_of
    from jetool.commands.salvage.saving import save

    sources = sources_of([look_at(env, run.listener)])
    done = Salvage(sources, run.listener)
    with nullcontext() if run.dry_run else new_directory(to) as staging:
        databases = save(done, sources, staging, "env")
    is_made = any(row[-1][2] == "env" for row in databases)
    return exits.DATA_GIVEN_UP if sources[0].base is None else exits.DONE, to if is_made else None


def _file(file: AbsentFile) -> tuple[object, ...]:
    name = f"{file.number:08x}.jdb"
    return name, file.state, file.in_recovery, file.nodes, file.records, file.first_db or None


def _summary(
    env: str, report: MissingReport, counts: Counter[str], to: str | None, copy: str | None, *, dry_run: bool
) -> tuple[object, ...]:
    next_command = None
    if copy is not None:
        next_command = f"jetool verify {copy}/env --full"
    elif to is not None:
        next_command = f"restore the files from a backup: no environment could be made; {to} has what is legible"
    elif report.problem and not (counts[MISSING] or counts[CUT] or counts[UNKNOWN]):
        next_command = f"jetool salvage {env} --to DIR"
    elif counts[MISSING] or counts[CUT] or report.problem:
        next_command = f"restore the files from a backup, or: jetool missing {env} --repair --to COPY"
    keys = [key for key in report.keys if not key.internal]
    subtrees = [one for one in report.subtrees if not one.internal]
    return (
        env, report.problem or None, counts[MISSING], counts[CUT], counts["cleaned"], counts[UNKNOWN],
        list(report.databases), len(keys), sum(key.older != NULL_LSN for key in keys), len(subtrees),
        sum(one.records for one in subtrees),
        len(report.keys) - len(keys) + len(report.subtrees) - len(subtrees), copy, dry_run, next_command,
    )  # fmt: skip
