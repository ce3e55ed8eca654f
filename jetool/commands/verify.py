"""``jetool verify``: findings about a log."""

from __future__ import annotations

from typing import Final

import click

from engine.format.lsn import NULL_LSN
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.verify.log import LEVELS, verify_log
from engine.verify.log_rules import RULES
from engine.verify.report import ERROR, NOTE, WARNING, Finding
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.options import Run
from jetool.output.findings import FINDING
from jetool.output.shape import Field, Shape

SUMMARY: Final = Shape(
    "summary",
    "What was checked.",
    (
        Field("errors", "int", "findings that are damage"),
        Field("warnings", "int", "findings to look at"),
        Field("notes", "int", "findings that explain"),
        Field("files", "int", "files read"),
        Field("entries", "int", "good entries in them"),
        Field("bytes", "size_bytes", "bytes read"),
        Field("checked", "texts", "levels that were checked"),
        Field("not_checked", "texts", "what was not checked"),
    ),
)
DERBY_SUMMARY: Final = Shape(
    SUMMARY.rec,
    SUMMARY.help,
    (
        *SUMMARY.fields,
        Field("containers", "int", "Derby: containers checked", optional=True),
        Field("pages", "int", "Derby: pages checked", optional=True),
        Field("rows", "int", "Derby: rows checked", optional=True),
    ),
)


@command(
    "verify",
    outputs=lambda: Outputs("findings", (FINDING,), DERBY_SUMMARY),
    formats=("text", "json", "ndjson", "csv", "junit", "sarif", "prometheus"),
    features=("fields", "progress", "jobs"),
    examples=(
        ("Is the log whole", "jetool verify /data/env"),
        ("For a pipeline: JUnit, warnings count too", "jetool verify /data/env --strict --format junit"),
    ),
    exits={
        exits.DONE: "checked and clean; a torn tail that holds no commit is clean, with a note",
        exits.FINDINGS: "damage",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version or a release that this program does not read, or an encrypted database",
        exits.INCOMPLETE: "a file cannot be read",
        exits.WARNINGS: "only warnings, and --strict",
    },
)
@environment
@click.option("--log", "log", is_flag=True, help="Every entry of every file, and how the files hang together.")
@click.option("--tail", "tail", is_flag=True, help="The end of the log: a torn tail, or committed work behind damage.")
@click.option("--strict", is_flag=True, help="Exit 8 when there are only warnings.")
def verify(run: Run, env: str, log: bool, tail: bool, strict: bool) -> int:
    """Check an environment and print findings with stable codes. Without --log or --tail both are checked.

    Every byte of the log is read: types, sizes, checksums, prevOffsets, file headers, VLSN order, missing files,
    rollback periods. Of a Derby database both control files, the log and valid records behind its end are checked, and
    without --log or --tail every page of every container too, its version against the log.

    The summary says what was not checked. Nothing is locked or changed; a running environment can be checked, and what
    its writer is just writing may then look like a torn tail.
    """
    storage = DiskStorage(env)
    if kinds.kind_of(storage) == kinds.DERBY:
        from jetool.derby.verify import verify_database

        return verify_database(run, storage, DERBY_SUMMARY, log_only=log or tail, strict=strict)
    files = list_log_files(storage)
    asked = [level for level, given in zip(LEVELS, (log, tail), strict=True) if given] or list(LEVELS)
    report = verify_log(storage, files, jobs=run.jobs, listener=run.listener, levels=asked)
    found = run.out.findings([(rule.code, rule.title) for rule in RULES])
    for finding in report.findings:
        found.add(_shown(finding))
    errors, warnings = report.count(ERROR), report.count(WARNING)
    found.end(
        SUMMARY.row(
            (
                errors, warnings, report.count(NOTE), report.files, report.entries, report.checked_bytes,
                report.checked, report.not_checked,
            )
        )
    )  # fmt: skip
    unread = exits.INCOMPLETE if report.files < len(files.files) else exits.DONE
    damage = exits.FINDINGS if errors else exits.DONE
    return exits.worst([unread, damage, exits.WARNINGS if warnings and strict else exits.DONE])


class _Shown:
    """A finding as the renderers take it: None where there is no place."""

    def __init__(self, finding: Finding) -> None:
        self.code, self.severity, self.message = finding.code, finding.severity, finding.message
        self.consequence, self.remedy = finding.consequence, finding.remedy
        self.lsn = None if finding.lsn == NULL_LSN else finding.lsn
        self.file = finding.file or None
        self.db = None if finding.db is None else str(finding.db)
        self.key = finding.key


def _shown(finding: Finding) -> _Shown:
    return _Shown(finding)
