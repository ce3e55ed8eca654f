"""``jetool doctor``: what a directory is, whether it can start, what is lost, and what to run next."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from engine.diagnosis.directory import MOST_FOUND, diagnose, find_environments
from engine.diagnosis.nodes import NodeChoice, choose_nodes
from engine.diagnosis.record import UNKNOWN, YES, Diagnosis, DiagnosisOptions
from engine.errors import UsageError, plural
from engine.verify.report import ERROR
from engine.version import VERSION
from jetool.commands.doctor.page import DoctorReport, page
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment_or
from jetool.frame.options import Run

_RELEASE: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}")


class JeReleaseType(click.ParamType[tuple[int, ...]]):
    """A release of JE: ``7.3.7``, ``18.3``."""

    name = "RELEASE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Its numbers. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        if _RELEASE.fullmatch(str(value)) is None:
            self.fail(f"{value!r} is no release of JE; write it as 7.3.7", param, ctx)
        return tuple(map(int, str(value).split(".")))


@command(
    "doctor",
    any_directory=True,
    outputs=lambda: Outputs("document", (DoctorReport,)),
    formats=("text", "json", "ndjson"),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("What is this, and can it start", "jetool doctor /data/fe/meta"),
        ("Which of three frontends to start from", "jetool doctor /copies/fe1 /copies/fe2 /copies/fe3"),
        ("A page to read or to send", "jetool doctor /data/fe/meta --html doctor.html"),
        ("Would JE 7.3.7 open it", "jetool doctor /data/env --je 7.3.7"),
        ("The verdict, for a script", "jetool doctor /data/env --json --fields verdict"),
    ),
    exits={
        exits.DONE: "every directory can start, and loses nothing by it",
        exits.FINDINGS: "one cannot start, or loses something, or is damaged",
        exits.NOT_FOUND: "no environment and no database there or below",
        exits.UNSUPPORTED: "a log version or a release that this program does not read, or an encrypted database",
        exits.INCOMPLETE: "cannot be judged: a file cannot be read",
    },
)
@environment_or("DIR", "An environment, a Derby database, or a directory that holds some.")
@click.argument("more", metavar="[DIR]...", type=params.DIRECTORY, nargs=-1, help="Further directories.")
@click.option("--html", type=click.Path(), metavar="FILE", help="Write the diagnosis as a page too; one file.")
@click.option("--je", "release", type=JeReleaseType(), help="The release of JE that is to open it, such as 7.3.7.")
def doctor(run: Run, env: str, more: tuple[str, ...], html: str | None, release: tuple[int, ...] | None) -> int:
    """Say what a directory is, whether its application can start here, what is lost if it does, and what to run next.

    DIR is an environment, the meta directory of a frontend, the db directory of an LDAP server, the root of a NoSQL
    storage node, a Derby database, or a directory that holds some of these, up to five levels down. The log is checked
    as jetool verify does, and opening is tried in memory as jetool recover -n does. Locks, permissions, disk space,
    releases, and the files and journals of a frontend are checked too. The first line is the verdict. What would be
    lost is named: journal ids, DNs, keys.

    Several nodes of one replication group are compared, and the one to start from is named; groups are told apart by
    their UUID. Frontends are compared by their journals, other nodes by their streams. Copies of one environment
    without a group, such as a snapshot beside the original, are compared by their logs.

    --html writes the same as a page of one file.

    Without --je a release that fits the log is assumed. Permissions are judged for the owner of the newest log file.
    Pages of Derby tables are checked only as far as recovery reads them. Nothing is created or changed.
    """
    paths = list(dict.fromkeys(path for directory in (env, *more) for path in find_environments(directory)))
    if len(paths) > MOST_FOUND:
        raise UsageError(
            "too many environments for one diagnosis",
            expected=f"up to {MOST_FOUND}",
            found=plural(len(paths), "environment"),
            hint="name fewer directories; jetool fleet verify checks many",
        )
    options = DiagnosisOptions(je_release=release, jobs=run.jobs, listener=run.listener)
    from jetool.commands.fleet.report_output import page_file

    with page_file(run, html) as target:
        found = [diagnose(path, options) for path in paths]
        groups = choose_nodes(found, run.listener)
        report = DoctorReport(verdict=_verdict(found, groups), directories=found, groups=groups)
        if target is not None:
            from jetool.commands.doctor.html_page import diagnosis_page

            target.write(diagnosis_page(report, run.out.style, time.time_ns() // 1_000_000, VERSION).encode())
    if run.out.format == "text" and run.out.selected is None:
        run.out.text(page(report, run.out.style))
    else:
        run.out.document(report)
    return _code(found)


def _verdict(found: Sequence[Diagnosis], groups: Sequence[NodeChoice]) -> str:
    """One line about all directories."""
    if len(found) == 1:
        return found[0].verdict
    able, clean = sum(one.can_start == YES for one in found), sum(one.is_clean for one in found)
    text = f"{able} of {plural(len(found), 'directory', 'directories')} can start, {clean} without loss"
    starts = [one.start for one in groups if one.start is not None]
    return f"{text}; start from {', '.join(starts)}" if starts else text


def _code(found: Sequence[Diagnosis]) -> int:
    """The exit code, as that of ``verify``."""
    if all(not one.supported for one in found):
        return exits.UNSUPPORTED
    codes = []
    for one in found:
        if one.is_clean:
            codes.append(exits.DONE)
        elif one.can_start == UNKNOWN and not any(reason.severity == ERROR for reason in one.reasons):
            codes.append(exits.INCOMPLETE)
        else:
            codes.append(exits.FINDINGS)
    return exits.worst(codes)
