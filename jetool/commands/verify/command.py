"""``jetool verify``: findings about an environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from engine.db.startup import files_kept
from engine.errors import (
    DamageError,
    JetoolError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnsupportedError,
    UsageError,
    plural,
)
from engine.log.check import FileCheck
from engine.log.files import LogFiles, list_log_files
from engine.rescue import je_notes
from engine.rescue.je_notes import notes_for_je
from engine.storage.disk import DiskStorage
from engine.verdict import CheckVerdict
from engine.verify import trees
from engine.verify.environment import (
    ALWAYS,
    DEFAULT,
    LEVELS,
    NOT_REPLICATION,
    QUICK,
    RULES,
    last_files,
    verify_environment,
)
from engine.verify.log import check_all, unsupported_findings
from engine.verify.log_rules import UNREADABLE, UNSUPPORTED
from engine.verify.report import ERROR, WARNING, Report
from jetool.commands.verify.rows import CheckSummary, JeFindingView, check_summary, why_of, words_of
from jetool.commands.verify.several import SeveralSummary, VerifiedEnvironment, verify_several
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.kinds import JE, require_files_of
from jetool.frame.options import RenamedOption, Run
from jetool.output.findings import FindingRow

if TYPE_CHECKING:
    from engine.db.parts import EnvironmentParts
    from engine.storage.base import Storage
    from engine.tree.comparators import SortKey
    from jetool.commands.vlsn.stream_check import ReplicationCheck

_REP: Final = "rep"
# Codes of findings about files whose entries were not checked, and the reason in words.
_UNREAD: Final = {UNREADABLE.code: "it cannot be read", UNSUPPORTED.code: "its log version is not supported"}


def _require_pairs(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a word that is no pair before the first environment is read."""
    for word in words:
        if not _pairs_in(word):
            raise UsageError("--secondary takes NAME:PRIMARY", found=word)
    return words


def _pairs_in(word: str) -> list[tuple[str, str]]:
    """Every way to split NAME:PRIMARY. A database name may contain colons."""
    parts = word.split(":")
    return [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]


def _check_stdin(*, env: str, stdin: str | None, pass_through: bool, **options: Any) -> None:
    """``--stdin`` reads no environment, and checks one file of a log."""
    if stdin is None:
        if pass_through:
            raise UsageError("--pass-through goes with --stdin")
        return
    shown = {"secondaries": "--secondary", "wanted": "--files", "name": "--db", "more": "more environments"}
    given = [shown.get(option, f"--{option}") for option, value in options.items() if value]
    given += [env] * (env != os.curdir)
    if given:
        raise UsageError("--stdin checks one log file and nothing else", found=", ".join(given), hint="leave it out")


@command(
    "verify",
    several=verify_several,
    check=lambda _, **options: _check_stdin(**options),
    instead="stdin",
    outputs=lambda: Outputs("findings", (FindingRow,), CheckSummary, several=(VerifiedEnvironment, SeveralSummary)),
    formats=("text", "json", "ndjson", "csv", "junit", "sarif", "prometheus"),
    features=("fields", "progress", "jobs", "order"),
    examples=(
        ("Is the log whole", "jetool verify /data/env"),
        ("Can every record be found and read", "jetool verify /data/env --full"),
        ("Are all environments of a directory whole", "jetool verify /data/*"),
        ("The log at 20 MB per second, on the disk of a running server", "jetool verify /data/env --rate 20MB"),
        ("Only the files that are new since the last check", "jetool verify /data/env --files 0x1f.."),
        (
            "A filter while a log file is copied",
            "jetool verify --stdin 0000001f.jdb --pass-through --output 0000001f.jdb < /mnt/n2/0000001f.jdb",
        ),
        ("Every record of one database", "jetool verify /data/env --db orders --data"),
        ("Does an index agree with its database", "jetool verify /data/env --secondary people.city:people"),
        ("For a pipeline: JUnit, warnings count too", "jetool verify /data/env --strict --format junit"),
    ),
    exits={
        exits.DONE: "checked and clean; a torn tail that holds no commit is clean, with a note",
        exits.FINDINGS: "damage, or a repair that was interrupted; the summary lists what could not be checked",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version or a release that this program does not read, or an encrypted database",
        exits.INCOMPLETE: "nothing was found, but not everything could be checked: a file cannot be read; or "
        "--pass-through ended at damage",
        exits.WARNINGS: "only warnings, and --strict",
    },
)
@environment
@click.option(
    "--log", "log", is_flag=True, help="Every entry of every file, and the links between files; includes --end."
)
@click.option(
    "--end",
    "tail",
    cls=RenamedOption,
    old=("--tail",),
    is_flag=True,
    help="The end of the log: a torn tail, or committed work after damage.",
)
@click.option("--tree", "tree", is_flag=True, help="The catalogue and every node of every tree; includes --end.")
@click.option(
    "--refs", "refs", is_flag=True, help="Every reference of the trees: the right entry, and not an obsolete one."
)
@click.option(
    "--data", "data", is_flag=True, help="Every record is read and decoded; also opens for writing, in memory."
)
@click.option("--space", "space", is_flag=True, help="The cleaner's utilization figures against log and trees.")
@click.option(
    "--rep", "rep", is_flag=True, help="Replication: the VLSN index against the log, gaps, the group; includes --end."
)
@click.option(
    "--secondary",
    "secondaries",
    multiple=True,
    callback=_require_pairs,
    metavar="NAME:PRIMARY",
    help="Every entry of a secondary refers to a record of its primary. Repeatable.",
)
@click.option("--files", "wanted", type=params.FILE_RANGE, help="Only these log files; both ends are included.")
@click.option(
    "--db", "name", metavar="NAME", help="Only this database: --tree, or also --refs or --data if they are given."
)
@click.option(
    "--rate", type=params.RateType(), help="Read at most SIZE bytes per second, in one process, to spare the disk."
)
@click.option(
    "--stdin",
    metavar="NAME",
    help="Read one log file from standard input instead of an environment; NAME is its name, such as 0000001f.jdb.",
)
@click.option("--pass-through", is_flag=True, help="With --stdin: print the bytes that were checked, and no findings.")
@click.option("--quick", is_flag=True, help="The last file only: --end.")
@click.option("--full", is_flag=True, help="All checks.")
@click.option("--strict", is_flag=True, help="Exit 8 if there are only warnings.")
def verify(run: Run, /, env: str, **options: Any) -> int:
    """Check an environment and print findings with stable codes. Without a level, --log and --end are checked.

    --log reads every byte of the log: types, sizes, checksums, prevOffsets, file headers, VLSN order, missing files,
    rollback periods. It judges damage in the last file as --end does: a torn tail without a committed entry is a note.
    If a file is missing and the log does not show why, it walks the trees to check whether they refer to the file.
    --tree, --refs and --data recover the environment in memory and check what JE would find when it opens it; each
    includes the previous one and --end, and --space includes --tree. They take longer: every node, and for --refs and
    --data every record, is read in key order. --rep includes --end, recovers the environment too, and looks up every
    mapping of the VLSN index in the log.

    --secondary declares NAME a secondary database (an index) of PRIMARY; the log does not record this. Each entry of
    NAME must refer to a record and have the same expiration. Missing entries cannot be found: only the application's
    key creator knows them. Given alone, --secondary checks nothing else.

    --files and --db check a part: the verdict is at most "no damage seen", and scope and not_checked say what it is
    about. With --files, damage at the end of a file counts as a torn tail only in the file in which the log ends.

    --stdin is for files that another program copies, as JE's LogVerificationInputStream: memory is bounded, and the
    check ends at the first bad entry. With --pass-through it is a filter that ends with 7 there, after the good bytes
    before it, and with --output the copy appears only if it is whole. Entries above 1 MiB pass while they are checked.

    For a Derby database both control files, the log, valid records after its end and missing containers are checked.
    Without --log, --end and --quick, every page of every container is checked too, and its version against the log.
    --files log3.dat..log7.dat checks the records, groups and links of these log files alone.

    Notes (JE-OPEN) name obstacles to opening a sound log with JE, and conditions for it: duplicates of JE 3 or 4 in the
    recovery interval, less free disk space than je.freeDisk, classes that order keys.

    Several environments are checked one after another: a verdict for each, one summary, and the worst exit code. A
    directory that is no environment, which a glob such as /data/* matches too, is named as skipped.

    The summary lists what was not checked. Nothing is changed. A running environment can be checked; the entry that its
    writer is writing may then look like a torn tail.
    """
    if options["stdin"] is not None:
        from jetool.commands.verify.filter import verify_stdin

        return verify_stdin(run, options["stdin"], pass_through=options["pass_through"])
    storage: Storage = DiskStorage(env)
    if options["rate"] is not None:
        from engine.storage.throttle import Throttle, ThrottledStorage

        # Processes would have a limit each.
        storage, run = ThrottledStorage(storage, Throttle(options["rate"])), replace(run, jobs=1)
    if options["wanted"] is not None or options["name"] is not None:
        return _verify_part(run, env, storage, options)
    return _verify_levels(run, env, storage, options)


def _verify_levels(run: Run, env: str, storage: Storage, options: Mapping[str, Any]) -> int:
    """Check all of an environment on the levels that are given."""
    full, secondaries = options["full"], options["secondaries"]
    levels: list[str] = [level for level in LEVELS if options[level]]
    if options["quick"] or options[_REP]:
        levels += [level for level in QUICK if level not in levels]
    # ``--secondary`` alone does not check the log.
    levels = list(LEVELS) if full else levels or ([] if secondaries else list(DEFAULT))
    # Take the lock before listing the files, because a running cleaner might delete files before they are read.
    with files_kept(storage):
        files = list_log_files(storage)
        report, entries = _checked(run, env, storage, files, levels, secondaries, rep=full or options[_REP])
    return _print(run, env, report, entries, _exit_code(report, files, levels, strict=options["strict"]))


def _verify_part(run: Run, env: str, storage: Storage, options: Mapping[str, Any]) -> int:
    """Check some log files, or one database, and print the findings.

    Raises:
        UsageError: options that exclude each other.
    """
    from engine.verify.part import DATABASE_LEVELS, files_between, verify_database, verify_files

    wanted, name = options["wanted"], options["name"]
    if wanted is not None:
        require_files_of(JE, wanted.kind)
    levels = [level for level in DATABASE_LEVELS if options[level]]
    others = ["log", "tail", "space", "rep", "quick", "full"] + ([*levels, "db"] if wanted is not None else [])
    given = [f"--{one}" for one in others if options.get(one if one != "db" else "name")]
    given += ["--secondary"] * bool(options["secondaries"])
    if given:
        option = "--files" if wanted is not None else "--db"
        raise UsageError(f"{option} and {given[0]} exclude each other", hint="leave one of them out")
    with files_kept(storage):
        files = list_log_files(storage)
        if wanted is not None:
            chosen, levels = files_between(storage, files, wanted.first, wanted.last), ["log"]
            report = verify_files(storage, files, chosen, jobs=run.jobs, listener=run.listener)
        else:
            chosen, levels = files._replace(files=()), levels or ["tree"]
            orders = _orders(run, storage)
            report = verify_database(
                storage, files, name or "", levels, jobs=run.jobs, comparators=orders, listener=run.listener
            )
    report = _with_unread(report)
    return _print(run, env, report, None, _exit_code(report, chosen, levels, strict=options["strict"]))


def _checked(
    run: Run,
    env: str,
    storage: Storage,
    files: LogFiles,
    levels: list[str],
    secondaries: tuple[str, ...],
    *,
    rep: bool,
) -> tuple[Report, int | None]:
    """The report, and the number of checked secondary entries; None without secondaries."""
    replication = _Replication(run, env) if rep else None
    results = None
    if replication is not None and "log" in levels:
        # Every file is read once, for the log, utilization and replication checks.
        results = check_all(storage, files, run.jobs, run.listener, with_sizes="space" in levels)
        replication.checks = [result.check for result in results if result.check is not None]
    report = verify_environment(
        storage,
        files,
        levels,
        jobs=run.jobs,
        listener=run.listener,
        comparators=_orders(run, storage),
        results=results,
        recovered=replication,
    )
    if replication is not None:
        report = replication.added_to(report, storage, files)
    entries = None
    if secondaries:
        report, entries = _with_secondaries(run, env, report, secondaries)
    report = report._replace(findings=(*report.findings, *notes_for_je(storage, files, listener=run.listener)))
    return _with_unread(report), entries


def _with_unread(report: Report) -> Report:
    """The report, with the files that were not read among what was not checked."""
    unread = tuple(f"{one.file} ({_UNREAD[one.code]})" for one in report.findings if one.code in _UNREAD)
    return report._replace(not_checked=(*report.not_checked, *unread))


def _print(run: Run, env: str, report: Report, entries: int | None, code: int) -> int:
    rules = (*ALWAYS, *je_notes.RULES, *(rule for level in report.checked for rule in RULES[level]))
    views = [JeFindingView(finding) for finding in report.findings]
    verdict = _verdict(report, views, code)
    found = run.out.findings(list(dict.fromkeys((rule.code, rule.title) for rule in rules)), [env], verdict)
    for view in views:
        found.add(view)
    found.end(check_summary(report, entries, verdict), [env] if code == exits.INCOMPLETE else [])
    return code


def _verdict(report: Report, views: list[JeFindingView], code: int) -> CheckVerdict:
    if code in (exits.INCOMPLETE, exits.UNSUPPORTED):
        unread = [view for view in views if view.code in _UNREAD]
        why = unread[0].message if unread else f"not everything was checked: {', '.join(report.not_checked)}"
        return exits.verdict(code, why)
    read = f"{plural(report.files, 'file')} and {plural(report.entries, 'entry', 'entries')}"
    checked = f"no error in {read}; checked: {', '.join(words_of(report))}"
    # The last file alone, or the trees alone, do not say that the log is whole.
    return exits.verdict(code, why_of(views, checked), partly="log" not in report.checked or bool(report.scope))


def _exit_code(report: Report, files: LogFiles, levels: list[str], *, strict: bool) -> int:
    # Damage decides the exit code even if a part was not checked, which the summary lists. A file that cannot be read
    # only makes the check incomplete.
    if any(finding.severity == ERROR and finding.code not in _UNREAD for finding in report.findings):
        return exits.FINDINGS
    if any(finding.code == UNSUPPORTED.code for finding in report.findings):
        return exits.UNSUPPORTED
    codes = [exits.DONE]
    if report.count(WARNING) and strict:
        codes.append(exits.WARNINGS)
    of_log = files.files if "log" in levels else last_files(files).files if "tail" in levels else ()
    # If fewer files were read than exist, a file could not be opened.
    if report.files < len(of_log) or _is_lost(report, levels):
        codes.append(exits.INCOMPLETE)
    return exits.worst(codes)


def _is_lost(report: Report, levels: list[str]) -> bool:
    """Whether the trees should have been walked but could not be."""
    return report.nodes is None and any(level in trees.LEVELS for level in levels)


class _Replication:
    """Checks the replicated side, in the environment that was recovered for the trees or only for this check.

    Attributes:
        checks: checks of files that were already read.
    """

    def __init__(self, run: Run, env: str) -> None:
        self._run = run
        self._env = env
        self._found: ReplicationCheck | None = None
        self._problem: JetoolError | None = None
        self.checks: list[FileCheck] = []

    def __call__(self, parts: EnvironmentParts) -> None:
        """Check the replicated side of a recovered environment."""
        from jetool.commands.vlsn.stream_check import check_recovered
        from jetool.frame.node_stream import StreamNode

        try:
            self._found = check_recovered(StreamNode(self._run, self._env, self.checks), parts)
        except JetoolError as error:
            # Keep the error for later, so that the findings about trees are still reported.
            self._problem = error

    def added_to(self, report: Report, storage: Storage, files: LogFiles) -> Report:
        """The report with the findings added.

        Raises:
            JetoolError: the check failed, and there are no other errors.
        """
        from jetool.commands.vlsn.group import has_stream, note_stand_alone

        found = self._found
        if found is None:
            if isinstance(self._problem, UnsupportedError):
                named = {one.file for one in report.findings if one.code == UNSUPPORTED.code}
                more = (one for one in unsupported_findings(storage, files) if one.file not in named)
                report = report._replace(findings=(*report.findings, *more))
            if self._problem is not None and not report.count(ERROR):
                raise self._problem
            reason = "recovery fails" if self._problem is None else self._problem.what
            words = {NOT_REPLICATION: f"{NOT_REPLICATION} ({reason})"}
            return report._replace(not_checked=tuple(words.get(word, word) for word in report.not_checked))
        if found.unread is None and not has_stream(found.node, found.view):
            note_stand_alone(self._run, self._env)
        # --log also finds missing VLSNs, from the same log.
        known = {(finding.code, finding.lsn) for finding in report.findings}
        return report._replace(
            findings=(*report.findings, *(f for f in found.findings if (f.code, f.lsn) not in known)),
            checked=(*report.checked, _REP),
            not_checked=tuple(word for word in report.not_checked if word != NOT_REPLICATION),
        )


def _orders(run: Run, storage: Storage) -> Mapping[str, SortKey]:
    """The key orders that the user has specified, by Java class."""
    if not run.orders:
        return {}
    from jetool.frame.environments import config_of, with_orders

    try:
        return with_orders(run, storage, config_of(run, read_only=True)).comparators
    except DamageError:
        # The check itself reports the damage.
        return {}


def _with_secondaries(run: Run, env: str, report: Report, wanted: tuple[str, ...]) -> tuple[Report, int | None]:
    """The report with findings about secondaries, and the number of their entries; None if they cannot be read.

    Raises:
        JetoolError: the secondaries cannot be read and there are no other errors, or a database does not exist.
    """
    from engine.verify.secondary import check_secondary
    from jetool.frame.environments import open_to_read

    entries = 0
    try:
        with open_to_read(run, env) as found:
            names = found.database_names(internal=True)
            # Resolve all names before reading the first, so that typing errors are reported early.
            for name, primary in [_names_of(word, names, env) for word in wanted]:
                checked = check_secondary(found, name, primary, run.listener)
                entries += checked.entries
                report = report._replace(findings=(*report.findings, *checked.findings))
    except (DamageError, RefusedError, StorageError, UnsupportedError) as error:
        if not report.count(ERROR):
            raise
        return report._replace(not_checked=(*report.not_checked, f"secondaries ({error.what})")), None
    return report._replace(checked=(*report.checked, "secondary")), entries


def _names_of(word: str, names: list[str], env: str) -> tuple[str, str]:
    """The two databases in NAME:PRIMARY."""
    splits = _pairs_in(word)
    known = [split for split in splits if split[0] in names and split[1] in names]
    if known:
        return known[0]
    missing = next(name for name in splits[0] if name not in names)
    raise NotFoundError(f"no database {missing!r}", file=env, hint=f"jetool dbs {env} lists them")
