"""``jetool info``: the control data of an environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from engine.errors import UsageError, plural
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.inspect.survey import Survey, survey
from engine.log.entry import REASONS, Damage
from engine.log.files import LogFiles, list_log_files, log_file_name
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from engine.verify.repairs import interrupted
from jetool.commands.info.rows import EnvironmentInfo, info_of
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.log_damage import lost_in
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.verify.tree_stats import TreeProfile

_MOST_WARNINGS: Final = 8
# Bytes of the log between two progress reports.
_PART_BYTES: Final = 16 << 20


def _outputs() -> Outputs:
    from jetool.commands.info.derby_rows import DerbyInfo
    from jetool.commands.info.statistics import StatReport

    return Outputs("document", (EnvironmentInfo, DerbyInfo, StatReport))


def _check(*, env: str, quick: bool, stats: bool, stats_file: str | None, **_: object) -> None:
    """``--stats-file`` reads no environment."""
    given = [name for name, value in (("--quick", quick), ("--stats", stats)) if value]
    if stats_file is not None and (given or env != os.curdir):
        raise UsageError(
            "--stats-file prints a file of JE's statistics and nothing else",
            found=", ".join(given or [env]),
            hint="leave it out",
        )


@command(
    "info",
    outputs=_outputs,
    check=lambda _, **options: _check(**options),
    instead="stats_file",
    features=("fields", "progress", "times"),
    examples=(
        ("What state is this environment in", "jetool info /data/env"),
        ("How large and how full are the trees", "jetool info /data/env --stats --fields trees"),
        ("An HTML page to read or to share", "jetool info /data/env --html env.html"),
        (
            "JE's own statistics, plotted, also on a page",
            "jetool info --stats-file /data/env/je.stat.csv --html stats.html",
        ),
        ("Was it closed cleanly, for a script", "jetool info /data/env --json --fields closed_cleanly,end_of_log"),
    ),
    exits={
        exits.DONE: "read; a torn tail is not damage",
        exits.FINDINGS: "read, but damage was found or a file is missing: see jetool verify",
        exits.NOT_FOUND: "no environment, or no file of that name",
        exits.UNSUPPORTED: "a log version, release or file that this program does not read, or an encrypted database",
        exits.INCOMPLETE: "a file cannot be read",
    },
)
@environment
@click.option("--quick", is_flag=True, help="Read only the end of the log: no recovery work, VLSNs or rollbacks.")
@click.option(
    "--html", type=click.Path(), metavar="FILE", help="Write a page with a map and charts; reads the whole log."
)
@click.option("--stats", is_flag=True, help="Add every database's tree: depth, nodes, records, fill.")
@click.option(
    "--stats-file",
    type=click.Path(),
    metavar="FILE",
    help="Print JE's own statistics, je.stat.csv, instead of an environment: columns that matter, with small plots; "
    "as JSON or CSV every value; with --html a page of charts.",
)
def info(run: Run, env: str, quick: bool, html: str | None, stats: bool, stats_file: str | None) -> int:
    """Print the control data of an environment: files, versions, the last checkpoint, the work of the next recovery.

    The command reads the last file, and the log from firstActive of the last checkpoint on. --stats recovers in memory
    and reads every node of every tree. --html reads every byte and writes a page as jetool fleet report does, in this
    process and without Spark. For a Derby database: both control files, the log from the undo low water mark on,
    losers, and what follows the end of the log. Nothing is changed.
    """
    if stats_file is not None:
        from jetool.commands.info.statistics import print_statistics

        return print_statistics(run, stats_file, html)
    return _print_control_data(run, env, quick=quick, html=html, stats=stats)


def _print_control_data(run: Run, env: str, *, quick: bool, html: str | None, stats: bool) -> int:
    storage = DiskStorage(env)
    files = list_log_files(storage)
    found = survey(storage, files, quick=quick, listener=run.listener)
    pending = interrupted(storage)
    trees, whole = _trees(run, storage, files) if stats else (None, True)
    belongs_to = "" if quick else _belongs_to(storage, found)
    if html is not None:
        _write_page(run, env, html)
    needed = missing_for_recovery(found)
    lost = {} if quick or needed else lost_in(run, storage, files)
    absent = {*needed, *lost}
    damages = [damage for damage in found.damages if not damage.is_tail]
    code = exits.FINDINGS if damages or found.lost_ends or absent or not whole else exits.DONE
    repair = pending.command if pending else None
    why = _why(found, damages, sorted(absent), repair, whole=whole, quick=quick)
    verdict = exits.verdict(code, why, partly=True)
    run.out.document(info_of(env, verdict, found, repair, trees, belongs_to, absent))
    if not whole:
        run.messages.warning(
            "trees cannot be read, or not completely",
            file=env,
            consequence="the counts are too low",
            hint=f"jetool verify {env} --tree",
        )
    for damage in damages:
        run.messages.warning(
            f"damage met: {REASONS[damage.reason]}",
            file=damage.path,
            lsn=format_lsn(damage.lsn),
            hint=f"jetool verify {env}",
        )
    for lsn in found.lost_ends[:_MOST_WARNINGS]:
        run.messages.warning(
            "a log file has lost its end: the next one names a last entry that is not there",
            file=log_file_name(file_of(lsn)),
            lsn=format_lsn(lsn),
            consequence="the entries in the missing part are lost",
            hint=f"jetool verify {env}",
        )
    if not quick:
        from jetool.frame.environments import say_notes_for_je

        say_notes_for_je(run, storage, files, found.last_checkpoint)
    # A gap may span thousands of files, so warn only about the first ones.
    for number in needed[:_MOST_WARNINGS]:
        run.messages.warning(
            "log file missing that recovery reads",
            file=log_file_name(number),
            consequence="JE refuses to open the environment, or loses what the file held",
            hint=f"jetool verify {env}",
        )
    return code


def _why(
    found: Survey, damages: Sequence[Damage], absent: Sequence[int], repair: str | None, *, whole: bool, quick: bool
) -> str:
    """What the verdict rests on: the first thing that is wrong, or what was read and what was not."""
    # Every crash leaves a torn tail, and recovery cuts it off (R-LOG-35).
    if damages:
        first, more = damages[0], len(damages) - 1
        also = f" and {plural(more, 'more place')}" if more else ""
        return f"{REASONS[first.reason]} in {first.path} at {format_lsn(first.lsn)}{also}"
    if absent:
        more = len(absent) - 1
        return f"{log_file_name(absent[0])} is missing" + (f", and {plural(more, 'more file')}" if more else "")
    if found.lost_ends:
        return f"{log_file_name(file_of(found.lost_ends[0]))} has lost its end"
    if not whole:
        return "trees cannot be read, or not completely"
    first_active = found.checkpoint.record.first_active_lsn if found.checkpoint is not None else NULL_LSN
    if quick or first_active == NULL_LSN:
        read = "only the end of the log was read"
    else:
        read = f"the last file and the log from {format_lsn(first_active)} on were read"
    stops = [f"JE refuses to open it ({found.marker.failure_type})"] if found.marker else []
    stops += [f"an interrupted {repair} is to be undone"] if repair else []
    return "; ".join([*stops, f"{read}, with checksums; jetool verify reads everything"])


def _belongs_to(storage: DiskStorage, found: Survey) -> str:
    """The application whose records the environment holds, judged by database names and recent records; empty if
    unknown.
    """
    if found.root is None:
        return ""
    from engine.contents.registry import recognise
    from engine.inspect.contents import sample_log

    files = found.files._replace(marker=None)
    kind = recognise(sample_log(scan_log(storage, files, marker=True), files, found.root))
    return kind.title if kind is not None else ""


def _write_page(run: Run, env: str, path: str) -> None:
    """The HTML page of one environment: the parts of the fleet report, collected in this process."""
    from engine.pipeline.fleet.collect_facts import collect_part
    from engine.pipeline.fleet.log_facts import Facts
    from engine.pipeline.fleet.profile import make_profile, unreadable
    from engine.pipeline.inventory import list_members, members, pack, parts_of
    from jetool.commands.fleet.report_output import page_file, write_page

    with page_file(run, path) as target:
        (listed,) = list_members(members([env]))
        if listed.files is None:
            profile = unreadable(listed.member, str(listed.error))
        else:
            facts, done = Facts(), 0
            total = sum(file.size_bytes for file in listed.files.files)
            for (part,) in pack([parts_of(listed.member.env, listed.files)], _PART_BYTES):
                run.listener.step("read log", done, total)
                facts.join(collect_part(part))
                done += sum(file.size_bytes for file in part.files)
            run.listener.step("read log", total, total)
            profile = make_profile(listed.member, listed.files, facts)
        if target is not None:
            write_page(target, [profile])


def _trees(run: Run, storage: DiskStorage, files: LogFiles) -> tuple[Sequence[TreeProfile], bool]:
    """The counts of all trees, and whether they are complete."""
    from engine.verify.tree_stats import tree_stats

    found = tree_stats(storage, files, run.listener)
    return found.trees, not found.damaged


def missing_for_recovery(found: Survey) -> list[int]:
    """Numbers of missing files that recovery would read; of those before the first existing file only the first."""
    first_active = found.checkpoint.record.first_active_lsn if found.checkpoint is not None else NULL_LSN
    start = 0 if first_active == NULL_LSN else file_of(first_active)
    # Gaps before the file ``start`` are normal, because the cleaner deletes files (R-LOG-14).
    needed = [number for number in found.files.missing() if number >= start]
    # ``missing`` covers only numbers after the first existing file, so check the file ``start`` separately.
    if found.checkpoint is not None and found.files.files and start < found.files.files[0].number:
        needed.insert(0, start)
    return needed
