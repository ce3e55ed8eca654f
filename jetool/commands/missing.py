"""``jetool missing``: missing or truncated log files, and the data that only they held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, NamedTuple

import click

from engine.errors import UsageError, plural
from engine.fields import Bool, Choices, Int, Key, Like, Lsn, Row, Text, record, shape_of
from engine.format.lsn import NULL_LSN
from engine.log.files import log_file_name
from engine.rescue.missing_files import CUT, MISSING, STATES, UNKNOWN, AbsentFile, MissingReport, find_missing
from engine.storage.disk import DiskStorage
from engine.verdict import CheckVerdict
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import require_je
from jetool.frame.options import Run, out_option
from jetool.output.shape import Style, to_text
from jetool.output.verdicts import VerdictFields


@record("file")
class MissingFileRow(NamedTuple):
    """A log file that is missing or truncated."""

    file: Annotated[Text, "its name"]
    state: Annotated[
        Text,
        "missing: something needs it; cleaned: nothing does; cut: it ends too early; unknown: "
        "recovery refuses, and damage keeps from walking the trees",
        Choices(STATES),
    ]
    in_recovery: Annotated[Bool, "recovery has to read it"]
    nodes: Annotated[Int, "references to nodes that lead there"]
    records: Annotated[Int, "references to records that lead there"]
    referrer: Annotated[Text | None, "a database that they belong to"]


@record("key")
class MissingKey(NamedTuple):
    """A record whose newest version was in a missing file."""

    db: Annotated[Text, "the database"]
    key: Annotated[Key, "the key"]
    lsn: Annotated[Lsn, "where it was"]
    older_lsn: Annotated[Lsn, "an older committed version in the log; null if there is none"]
    internal: Annotated[Bool, "the database is one of JE's own"]


@record("subtree")
class MissingSubtree(NamedTuple):
    """A subtree whose top node was in a missing file."""

    db: Annotated[Text, "the database"]
    low: Annotated[Key | None, "keys from this one on; null: from the first"]
    high: Annotated[Key | None, "keys below this one; null: to the last"]
    lsn: Annotated[Lsn, "where the node was"]
    level: Annotated[Int, "1 for a bottom node"]
    records: Annotated[Int, "how many records, about"]
    internal: Annotated[Bool, "the database is one of JE's own"]


@record("summary")
class MissingSummary(NamedTuple):
    """What is missing."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "its directory"]
    problem: Annotated[Text | None, "why recovery refuses, or what it does not read; null when it reads everything"]
    missing: Annotated[Int, "files that something needs"]
    cut: Annotated[Int, "files that end too early"]
    cleaned: Annotated[Int, "numbers of files that nothing needs"]
    unknown: Annotated[Int, "numbers whose contents are unknown, since recovery refuses"]
    databases: Annotated[Sequence[Text], "databases that are lost entirely"]
    keys: Annotated[Int, "records whose newest version is lost, without records of JE's own databases"]
    with_older: Annotated[Int, "records that have an older version in the log"]
    subtrees: Annotated[Int, "parts of trees that are lost, without JE's own databases"]
    subtree_records: Annotated[Int, "records in them, about"]
    internal: Annotated[Int, "records and parts of trees of JE's own databases that are lost"]
    copy: Annotated[Text | None, "where the environment without them was made; null: no record is left"]
    dry_run: Annotated[Bool, "nothing was written"]
    next: Annotated[Text | None, "the next command"]


def _check(run: Run, *, repair: bool, to: str | None, **__: object) -> None:
    if repair != (to is not None):
        raise UsageError("--repair and --out belong together", hint="--repair --out COPY makes a copy that opens")
    if run.dry_run and not repair:
        raise UsageError("--dry-run is for --repair", hint="without it nothing is written")


def _line(rec: str, row: Row, style: Style) -> str:
    """One line of text: the kind of the row, then its values."""
    values = [to_text(kind, value, style) for _, kind, value in row]
    if rec == shape_of(MissingFileRow).rec:
        leading = f"{plural(row[3][2], 'node')} and {plural(row[4][2], 'record')} lead there"
        needs = leading if values[5] != "-" else "nothing leads there"
        read = ", recovery has to read it" if row[2][2] else ""
        return f"file     {values[0]}  {values[1]}: {needs}{read}"
    if rec == shape_of(MissingKey).rec:
        own = ", of JE's own" if row[4][2] else ""
        return f"key      {values[0]}  {values[1]}  stood at {values[2]}, older version {values[3]}{own}"
    extent = f"from {values[1]} to {values[2]}, level {values[4]}, about {plural(row[5][2], 'record')}"
    return f"subtree  {values[0]}  {extent}, stood at {values[3]}"


@command(
    "missing",
    check=_check,
    outputs=lambda: Outputs("stream", (MissingFileRow, MissingKey, MissingSubtree), MissingSummary),
    features=("fields", "progress", "keys"),
    examples=(
        ("Missing files, and the data lost with them", "jetool missing /data/env"),
        ("The keys, for a script", "jetool missing /data/env --format ndjson --key-format hex"),
        ("A copy that opens without the missing files", "jetool missing /data/env --repair --out /data/env2"),
    ),
    exits={
        exits.DONE: "nothing is missing: all absent files were cleaned",
        exits.FINDINGS: "files are missing or cut short, or recovery refuses, or does not read the whole log",
        exits.REFUSED: "the directory of the copy is not empty",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.DATA_GIVEN_UP: "the copy was made, without the listed data",
        exits.INCOMPLETE: "a file cannot be read, or the copy cannot be written",
    },
)
@environment
@click.option("--repair", is_flag=True, help="Create a copy of everything that is left, as jetool salvage does.")
@out_option("With --repair: a new directory; COPY/env opens.", "COPY", required=False)
@click.option("-n", "--dry-run", is_flag=True, help="With --repair: print the result, and write nothing.")
def missing(run: Run, env: str, repair: bool, to: str | None) -> int:
    """List log files that are missing or cut short, whether they are needed, and what only they held.

    Cleaning leaves gaps in the file numbers. A file counts as missing if a tree refers to it or recovery has to read
    it. Then the command lists the records whose newest version was in it, each with an older version if the log has
    one, and the subtrees whose nodes were in it, with their key range and an estimate of their records. If recovery
    refuses, the trees are walked as far as the log can be read.

    Nothing is changed. With --repair a new environment is created in COPY/env from everything that is left.
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
            # A refusal already names its file.
            file=env if report.walked else None,
            consequence="what they wrote was not looked at" if report.walked else "the trees are as the log has them",
            hint=f"jetool salvage {env} --out DIR saves what is legible",
        )
    found = exits.FINDINGS if wrong else exits.DONE
    # A file that is there may be damaged: only its end is looked at.
    said = exits.verdict(found, _why(report, counts), partly=True)
    with run.out.stream(MissingFileRow, MissingKey, MissingSubtree, line=_line, verdict=said) as stream:
        for file in report.files:
            stream.row(_absent(file))
        for key in report.keys:
            stream.row(MissingKey(db=key.db, key=key.key, lsn=key.lsn, older_lsn=key.older, internal=key.internal))
        for one in report.subtrees:
            stream.row(
                MissingSubtree(
                    db=one.db,
                    low=one.low,
                    high=one.high,
                    lsn=one.lsn,
                    level=one.level,
                    records=one.records,
                    internal=one.internal,
                )
            )
        code, copy = found, None
        if repair and to is not None:
            code, copy = _copy(run, env, to)
        stream.end(_summary(env, said, report, counts, to, copy, dry_run=run.dry_run))
    return code


def _copy(run: Run, env: str, to: str) -> tuple[int, str | None]:
    """Create an environment from the remaining data; returns the exit code, and its path if any record remains."""
    from engine.pipeline.tables import new_directory
    from engine.rescue.salvage.collect import Salvage
    from engine.rescue.salvage.sources import look_at, sources_of
    from jetool.commands.salvage.salvage_run import save

    sources = sources_of([look_at(env, run.listener)])
    done = Salvage(sources, run.listener)
    with nullcontext() if run.dry_run else new_directory(to) as staging:
        databases = save(done, sources, staging, "env")
    is_made = any(one.in_ == "env" for one in databases)
    return exits.DATA_GIVEN_UP if sources[0].base is None else exits.DONE, to if is_made else None


def _absent(file: AbsentFile) -> MissingFileRow:
    return MissingFileRow(
        file=log_file_name(file.number),
        state=file.state,
        in_recovery=file.in_recovery,
        nodes=file.nodes,
        records=file.records,
        referrer=file.first_db or None,
    )


def _why(report: MissingReport, counts: Counter[str]) -> str:
    """What the verdict rests on: the files that are missing, and the records that stood only there."""
    gone = [plural(counts[MISSING], "file is missing", "files are missing")] if counts[MISSING] else []
    gone += [plural(counts[CUT], "file is cut short", "files are cut short")] if counts[CUT] else []
    gone += [plural(counts[UNKNOWN], "absent file is unknown", "absent files are unknown")] if counts[UNKNOWN] else []
    if gone:
        keys = sum(not key.internal for key in report.keys)
        below = sum(one.records for one in report.subtrees if not one.internal)
        lost = [f"the database {name}" for name in report.databases]
        lost += [plural(keys, "record")] if keys else []
        lost += [f"about {plural(below, 'record')} in lost parts of trees"] if below else []
        return f"{', '.join(gone)}; lost with them: {', '.join(lost) or 'no record that is known'}"
    if report.problem:
        return report.problem
    cleaned = f" ({plural(counts['cleaned'], 'number')} left out by the cleaner)" if counts["cleaned"] else ""
    return f"no log file is missing or cut short{cleaned}; checksums were not checked: jetool verify"


def _summary(
    env: str,
    verdict: CheckVerdict,
    report: MissingReport,
    counts: Counter[str],
    to: str | None,
    copy: str | None,
    *,
    dry_run: bool,
) -> MissingSummary:
    next_command = None
    if copy is not None:
        next_command = f"jetool verify {copy}/env --full"
    elif to is not None:
        next_command = f"restore the files from a backup: no environment could be made; {to} has what is legible"
    elif report.problem and not (counts[MISSING] or counts[CUT] or counts[UNKNOWN]):
        next_command = f"jetool salvage {env} --out DIR"
    elif counts[MISSING] or counts[CUT] or report.problem:
        next_command = f"restore the files from a backup, or: jetool missing {env} --repair --out COPY"
    keys = [key for key in report.keys if not key.internal]
    subtrees = [one for one in report.subtrees if not one.internal]
    return MissingSummary(
        verdict=verdict.word,
        why=verdict.why,
        environment=env,
        problem=report.problem or None,
        missing=counts[MISSING],
        cut=counts[CUT],
        cleaned=counts["cleaned"],
        unknown=counts[UNKNOWN],
        databases=list(report.databases),
        keys=len(keys),
        with_older=sum(key.older != NULL_LSN for key in keys),
        subtrees=len(subtrees),
        subtree_records=sum(one.records for one in subtrees),
        internal=len(report.keys) - len(keys) + len(report.subtrees) - len(subtrees),
        copy=copy,
        dry_run=dry_run,
        next=next_command,
    )
