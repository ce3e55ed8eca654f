"""The diagnosis of one directory, as records."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import plural
from engine.events import SILENT, Listener
from engine.verdict import unjudged
from engine.verify.report import ERROR

# Answers to "can it start here".
YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "unknown"
ANSWERS: Final = (YES, NO, UNKNOWN)

# Kinds of applications.
FRONTEND: Final = "frontend"
LDAP: Final = "ldap"
NOSQL: Final = "nosql"
OTHER: Final = "other"
PLAIN: Final = "je"
DERBY: Final = "derby"
APPLICATIONS: Final = (FRONTEND, LDAP, NOSQL, OTHER, PLAIN, DERBY)

# Kinds of names of lost things.
JOURNAL: Final = "journal"
DN: Final = "dn"
KEY: Final = "key"
RANGE: Final = "range"
DATABASE: Final = "database"
TRANSACTION: Final = "transaction"
LOST_KINDS: Final = (JOURNAL, DN, KEY, RANGE, DATABASE, TRANSACTION)


class DiagnosisOptions(NamedTuple):
    """Options of a diagnosis.

    Attributes:
        je_release: the release of JE that is to open the environment, such as (7, 3, 7); None: one that fits the log.
        jobs: processes that read the log.
    """

    je_release: tuple[int, ...] | None = None
    jobs: int = 1
    listener: Listener = SILENT


DEFAULT_OPTIONS: Final = DiagnosisOptions()


class LogVersionSpan(NamedTuple):
    """Consecutive log files of one version; for Derby the release is the version."""

    version: str
    first_file: int
    last_file: int


class Identity(NamedTuple):
    """What a directory is.

    Attributes:
        application: of ``APPLICATIONS``.
        title: the application in words.
        node: name of the node; None if nothing says it.
        role: of a frontend: FOLLOWER or OBSERVER.
        group, group_uuid: the replication group; None without one.
        members: names of its members.
        versions: log versions, in the order of the files.
        release: the releases that write the newest of these versions, in words.
        files, size_bytes: log files, and their size; for Derby the containers too.
        last_time: when the last transaction ended, ms since 1970; None if the end of the log does not say.
    """

    application: str
    title: str
    node: str | None
    role: str | None
    group: str | None
    group_uuid: str | None
    members: tuple[str, ...]
    versions: tuple[LogVersionSpan, ...]
    release: str
    files: int
    size_bytes: int
    last_time: int | None


class Reason(NamedTuple):
    """Something that an operator has to know before starting the application.

    Attributes:
        code: permanent; of ``engine.diagnosis.rules`` or of ``verify``.
        severity: error, warning or note.
        stops: JE, Derby or the application would not start.
        text: what is wrong.
        place: an LSN or an instant as text; None if it has none.
    """

    code: str
    severity: str
    stops: bool
    text: str
    consequence: str
    remedy: str
    file: str | None
    place: str | None


class LostName(NamedTuple):
    """Something that would be lost.

    Attributes:
        kind: of ``LOST_KINDS``.
        db: its database; None if it has none.
        name: for people.
        key: its key in the log; None if it has none.
        place: where it stands in the log; None if that is not known.
        certain: False: it is lost only if the damaged bytes were its Commit.
    """

    kind: str
    db: str | None
    name: str
    key: bytes | None
    place: str | None
    certain: bool


class Loss(NamedTuple):
    """What would be lost by starting.

    Attributes:
        commits: committed transactions after damage, which opening cuts off.
        records: records outside transactions after damage.
        cut_bytes: bytes after the end of the log.
        broken: how many of the commits have a record in the damaged bytes, which cannot be named.
        evidence: whether these commits had been durable, in words; empty without commits.
        gone: records that damage or missing files have already destroyed, as far as they are named.
        names: the first ones, by name.
        unnamed: how many more there are.
    """

    commits: int = 0
    records: int = 0
    cut_bytes: int = 0
    broken: int = 0
    evidence: str = ""
    gone: int = 0
    names: tuple[LostName, ...] = ()
    unnamed: int = 0

    def in_words(self) -> str:
        """What is lost, for the verdict; empty if nothing is."""
        parts = []
        if self.commits:
            parts.append(plural(self.commits, "commit"))
        if self.records:
            parts.append(plural(self.records, "record") + " outside transactions")
        if self.gone:
            parts.append(plural(self.gone, "record") + " already gone")
        return " and ".join(parts)


class Step(NamedTuple):
    """A command to run next: the command line, what it is for, and what it risks."""

    command: str
    purpose: str
    risk: str


class Diagnosis(NamedTuple):
    """The answers about one directory.

    Attributes:
        path: the environment or the database.
        can_start: of ``ANSWERS``.
        verdict: the answer in words, such as ``yes, losing 10 commits``.
        not_checked: what was not looked at.
        is_supported: False: a format that this program does not read.
        journals: first and last journal id of a frontend; None for others.
    """

    path: str
    identity: Identity
    can_start: str
    verdict: str
    reasons: tuple[Reason, ...]
    loss: Loss
    steps: tuple[Step, ...]
    not_checked: tuple[str, ...]
    is_supported: bool = True
    journals: tuple[int, int] | None = None

    @property
    def is_clean(self) -> bool:
        """Whether it can start, loses nothing, and has no error."""
        errors = any(reason.severity == ERROR for reason in self.reasons)
        return self.can_start == YES and not self.loss.in_words() and not errors


def judge(reasons: tuple[Reason, ...], loss: Loss, unknown: str) -> tuple[str, str]:
    """The answer and the verdict.

    Arguments:
        unknown: why it cannot be judged; empty if it can be.
    """
    stopping = next((reason for reason in reasons if reason.stops), None)
    if stopping is not None:
        return NO, f"no: {stopping.text}"
    if unknown:
        return UNKNOWN, unjudged(unknown)
    words = loss.in_words()
    if words:
        return YES, f"yes, losing {words}"
    error = next((reason for reason in reasons if reason.severity == ERROR), None)
    if error is None:
        return YES, "yes"
    if error.code.startswith("START"):
        return YES, f"yes, but {error.text}"
    # Findings of ``verify`` begin with their title; the rest is in the list of reasons.
    title = error.text.partition(":")[0]
    return YES, f"yes, but {title}" + (f" in {error.file}" if error.file and error.file not in title else "")
