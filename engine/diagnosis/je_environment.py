"""The diagnosis of a JE environment.

``verify`` checks the whole log. Recovery is done in memory as JE does it, which cuts the log at the first bad entry;
the recovered environment tells its application. A second recovery, which only reads, tells it if the first one fails,
cuts off what has to be named, or leaves transactions open. Trees are walked only where the log has damage that opening
does not meet, or files are missing, since only then do they say more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from engine.db.config import EnvironmentConfig, read_ahead_for
from engine.db.environment import Environment
from engine.db.startup import files_kept
from engine.diagnosis import losses, rules
from engine.diagnosis.application import ApplicationFacts, application_of, look_at_application
from engine.diagnosis.readiness import (
    lock_reason,
    permission_reasons,
    release_reasons,
    settings_reasons,
    written_files,
)
from engine.diagnosis.record import (
    MOST_NAMES,
    Diagnosis,
    DiagnosisOptions,
    Identity,
    LogVersionSpan,
    Loss,
    LostName,
    Reason,
    judge,
)
from engine.diagnosis.rules import reason
from engine.diagnosis.steps import StepFacts, steps_for
from engine.errors import (
    DamageError,
    FormatError,
    JetoolError,
    RefusedError,
    StorageError,
    UnsupportedError,
    UsageError,
    plural,
)
from engine.format.lsn import format_lsn
from engine.format.versions import JE_RELEASES
from engine.inspect.survey import Survey, survey
from engine.journals.id_range import IdRange
from engine.log.files import LOCK_FILE, LogFiles, list_log_files
from engine.log.tail import Tail
from engine.rescue.je_notes import notes_for_je
from engine.rescue.missing_files import find_missing
from engine.rescue.repair.recovery import RepairOptions, plan_recovery, recover
from engine.storage.disk import DiskStorage
from engine.verify import log_rules, repairs
from engine.verify.environment import verify_environment
from engine.verify.report import ERROR, Finding, Report

_TREE_LEVELS = ("data",)
_STOPPING = (log_rules.MARKER.code, log_rules.RESTORE_ASKED.code)
_MISSING = (log_rules.MISSING_NEEDED.code, log_rules.MISSING_UNKNOWN.code)
_UNREAD = (log_rules.UNREADABLE.code, log_rules.UNSUPPORTED.code)
_LONGEST_CAUSE = 60
# Damage before the end of the log: only the trees say whether somebody needs what stood there.
_OF_LOG = "JE-LOG"


class RecoveryPreview(NamedTuple):
    """What opening for writing would do.

    Attributes:
        tail: the end of the log; None if it cannot be found.
        changed: number of damaged entries that recovery reads as they are.
        records: records outside transactions after damage.
        stops: why JE would not open it; None if it would, or if that is not known.
        problem: why that is not known; empty if it is.
        settings: what is wrong with ``je.properties``; empty if it can be read.
    """

    tail: Tail | None
    changed: int = 0
    records: int = 0
    stops: JetoolError | None = None
    problem: str = ""
    settings: str = ""


def diagnose_je(env: str, options: DiagnosisOptions) -> Diagnosis:
    """Diagnose an environment; nothing is changed.

    Raises:
        NotFoundError: no environment.
        StorageError: the directory cannot be read.
    """
    disk = DiskStorage(env)
    # A running cleaner must not delete files before they are read.
    with files_kept(disk):
        return _Examination(disk, list_log_files(disk), options).diagnosis()


class _Examination:
    """The parts of one diagnosis."""

    def __init__(self, disk: DiskStorage, files: LogFiles, options: DiagnosisOptions) -> None:
        self._disk = disk
        self._files = files
        self._options = options
        self._unknown = ""
        self._supported = True
        self._survey = self._look()
        self._report = self._verified(("log",))
        self._in_preview: ApplicationFacts | None = None
        self._preview = self._previewed()
        root = None if self._survey is None else self._survey.root
        self._app = self._in_preview or look_at_application(disk, files, root, options)

    def diagnosis(self) -> Diagnosis:
        """All answers."""
        preview, app = self._preview, self._app
        # A log that this program cannot open for writing, for want of a key order, but can read, JE opens.
        if preview.problem and (not self._supported or app.problem):
            self._unknown = self._unknown or preview.problem
        reasons, loss = tuple(self._reasons()), self._loss()
        reasons += tuple(self._of_trees)
        can_start, verdict = judge(reasons, loss, self._unknown)
        not_checked = self._report.not_checked if self._report is not None else ()
        if preview.problem:
            not_checked = (f"opening for writing ({preview.problem})", *not_checked)
        frontend = app.frontend
        journals = None
        if frontend is not None and frontend.first is not None and frontend.last is not None:
            journals = IdRange(first=frontend.first, last=frontend.last)
        identity = self._identity()
        steps = steps_for(
            StepFacts(
                path=self._disk.root,
                application=identity.application,
                can_start=can_start,
                codes=frozenset(one.code for one in reasons if one.severity == ERROR),
                loss=loss,
                damage=self._damage,
                last_file=self._files.files[-1].path if self._files.files else "",
            )
        )
        return Diagnosis(
            directory=self._disk.root,
            identity=identity,
            can_start=can_start,
            verdict=verdict,
            reasons=reasons,
            loss=loss,
            next=steps,
            not_checked=not_checked,
            supported=self._supported,
            journals=journals,
        )

    def _look(self) -> Survey | None:
        try:
            return survey(self._disk, self._files, quick=True, listener=self._options.listener)
        except UnsupportedError as error:
            self._supported, self._unknown = False, _in_words(error)
        except (DamageError, StorageError) as error:
            self._unknown = error.what
        return None

    def _verified(self, levels: tuple[str, ...]) -> Report | None:
        options = self._options
        try:
            return verify_environment(self._disk, self._files, levels, jobs=options.jobs, listener=options.listener)
        except UnsupportedError as error:
            self._supported, self._unknown = False, _in_words(error)
        except (StorageError, RefusedError) as error:
            self._unknown = self._unknown or error.what
        return None

    def _previewed(self) -> RecoveryPreview:
        """Recovery in memory, as JE does it: whatever follows the first bad entry is given up."""
        tail = None
        try:
            plan = plan_recovery(self._disk.root, self._options.listener)
            tail = plan.tail
            run = recover(
                plan,
                RepairOptions(dry_run=True),
                accept_loss=True,
                config=EnvironmentConfig(read_ahead_bytes=read_ahead_for(self._options.jobs)),
                look=self._look_into,
                listener=self._options.listener,
            )
        except (DamageError, FormatError, RefusedError) as error:
            return RecoveryPreview(tail, stops=error)
        except (StorageError, UnsupportedError) as error:
            return RecoveryPreview(tail, problem=error.what)
        except UsageError as error:
            # Settings in je.properties; JE refuses what it cannot read too.
            return RecoveryPreview(tail, problem=error.what, settings=_in_words(error))
        return RecoveryPreview(tail, changed=len(run.result.changed), records=run.records_given_up)

    def _look_into(self, env: Environment) -> None:
        """Ask the environment of the preview what it is, which saves a recovery for reading.

        A reader sees it differently if transactions stay open, and if the preview has cut off what a reader names.
        """
        engine = env.engine
        if engine.recovery.resurrected or engine.tail is None or engine.tail.holds_records:
            return
        # What cannot be read here is reported by the reader.
        with suppress(JetoolError):
            self._in_preview = application_of(env, self._options)

    @property
    def _findings(self) -> tuple[Finding, ...]:
        return () if self._report is None else self._report.findings

    @property
    def _damage(self) -> str:
        """Where the log is damaged, for the next command; empty if it is not."""
        tail = self._preview.tail
        return format_lsn(tail.damage.lsn) if tail is not None and tail.damage is not None else ""

    def _reasons(self) -> Iterator[Reason]:
        disk, files, preview = self._disk, self._files, self._preview
        holder = self._survey.lock_holder if self._survey is not None else None
        yield from lock_reason(holder, LOCK_FILE)
        paths = [file.path for file in files.files]
        yield from permission_reasons(disk.root, paths, written_files(disk, paths[-1]) if paths else ())
        versions = self._survey.versions if self._survey is not None else ()
        notes = list(notes_for_je(disk, files, None if self._survey is None else self._survey.last_checkpoint))
        if versions:
            yield from release_reasons(versions[-1].version, self._options.je_release, notes, files.data_directories)
        risk = preview.tail.commits_at_risk if preview.tail is not None else 0
        if preview.settings:
            yield reason(rules.WRONG_PROPERTIES, preview.settings, file="je.properties")
        else:
            yield from settings_reasons(disk, risk, self._damage)
        yield from (self._of_finding(one) for one in self._findings)
        if preview.stops is not None and not any(one.code in _STOPPING for one in self._findings):
            yield _not_opened(preview.stops)
        if preview.changed:
            damaged = plural(preview.changed, "damaged entry", "damaged entries")
            yield reason(rules.UNVERIFIED, f"{damaged} before the last file: recovery reads them as they are")
        self._note_unread()
        if self._app.frontend is not None:
            yield from self._app.frontend.reasons

    def _of_finding(self, one: Finding) -> Reason:
        found = rules.of_finding(one, stops=one.code in _STOPPING)
        marker = None if self._survey is None else self._survey.marker
        if one.code == log_rules.MARKER.code and marker is not None:
            # The cause decides what to do next.
            return found._replace(text=f"restore marker {one.file}, set for {marker.failure_type[:_LONGEST_CAUSE]}")
        return found

    def _note_unread(self) -> None:
        """Files that were not checked, and an unfinished repair, leave the verdict open."""
        for one in self._findings:
            if one.code == repairs.RULE.code:
                self._unknown = "a repair was interrupted; undo it first"
            elif one.code == log_rules.UNSUPPORTED.code:
                self._supported, self._unknown = False, one.message
            elif one.code in _UNREAD:
                self._unknown = self._unknown or f"{one.file} cannot be read"

    def _loss(self) -> Loss:
        preview, names = self._preview, list(self._app.lost)
        self._of_trees: list[Reason] = []
        gone = 0
        if not self._unknown:
            damaged, gone = self._gone()
            names = [*names, *damaged]
        tail = preview.tail
        commits = 0 if tail is None or preview.stops is not None else tail.commits_at_risk
        return Loss(
            commits=commits,
            records=preview.records,
            cut_bytes=tail.given_up_bytes if tail is not None else 0,
            broken=self._app.broken if commits else 0,
            evidence=tail.after.in_words() if tail is not None and commits else None,
            gone=gone,
            names=tuple(names[:MOST_NAMES]),
            unnamed=max(len(names) - MOST_NAMES, 0),
        )

    def _gone(self) -> tuple[list[LostName], int]:
        """Records that missing files or damage before the end have destroyed."""
        if any(one.code in _MISSING for one in self._findings):
            report = find_missing(self._disk, self._disk.root, self._options.listener)
            return losses.of_missing(report, self._app.plan), losses.gone_by(report)
        damaged = any(one.severity == ERROR and one.code.startswith(_OF_LOG) for one in self._findings)
        # The trees can be walked only if recovery succeeds.
        if not damaged or self._preview.stops is not None:
            return [], 0
        walked = self._verified(_TREE_LEVELS)
        if walked is None:
            return [], 0
        found = [one for one in walked.findings if not one.code.startswith(("JE-LOG", "JE-TAIL"))]
        self._of_trees = [rules.of_finding(one) for one in found if one.code != repairs.RULE.code]
        names = list(losses.of_findings(found, self._app.plan))
        return names, len(names)

    def _identity(self) -> Identity:
        app, files = self._app, self._files.files
        versions = self._survey.versions if self._survey is not None else ()
        members = (
            () if app.members is None else tuple(node.name or "" for node in app.members.nodes if not node.removed)
        )
        return Identity(
            application=app.kind,
            title=app.title,
            node=app.node,
            role=app.role,
            group=app.group,
            group_uuid=app.group_uuid,
            members=members,
            versions=tuple(
                LogVersionSpan(version=str(one.version), first_file=one.first_file, last_file=one.last_file)
                for one in versions
            ),
            release=f"JE {JE_RELEASES[versions[-1].version]} and later" if versions else "",
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
            last_time=(self._survey.last_time or None) if self._survey is not None else None,
        )


def _in_words(error: JetoolError) -> str:
    """The error without the path, which the diagnosis has already."""
    return f"{error.what}: {error.found}" if error.found else error.what


def _not_opened(error: JetoolError) -> Reason:
    name = (error.file or "").rpartition("/")[2]
    place = " at ".join(part for part in (name, error.lsn or "") if part)
    text = f"{error.what} ({place})" if place else error.what
    return reason(rules.NOT_OPENED, text, stops=True, file=name or None, place=error.lsn)
