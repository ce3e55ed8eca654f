"""The diagnosis of one directory, as records."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from engine.errors import plural
from engine.events import SILENT, Listener
from engine.fields import Bool, Choices, Int, Key, SizeBytes, Text, Time, record
from engine.journals.id_range import IdRange
from engine.verdict import unjudged
from engine.verify.report import ERROR, NOTE, WARNING

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
# The names of a loss that are listed; others are only counted.
MOST_NAMES: Final = 1000
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


@record()
class LogVersionSpan(NamedTuple):
    """Consecutive log files of one version."""

    version: Annotated[Text, "the log version; for Derby the release"]
    first_file: Annotated[Int, "number of the first file"]
    last_file: Annotated[Int, "number of the last one"]


@record()
class Identity(NamedTuple):
    """What a directory is."""

    application: Annotated[Text, "kind of application", Choices(APPLICATIONS)]
    title: Annotated[Text, "the application in words"]
    node: Annotated[Text | None, "name of the node; null if nothing says it"]
    role: Annotated[Text | None, "of a frontend: FOLLOWER or OBSERVER"]
    group: Annotated[Text | None, "replication group"]
    group_uuid: Annotated[Text | None, "its identity"]
    members: Annotated[tuple[Text, ...], "its members"]
    versions: Annotated[tuple[LogVersionSpan, ...], "log versions, in the order of the files"]
    release: Annotated[Text, "releases that write the newest of them"]
    files: Annotated[Int, "log files; for Derby containers too"]
    bytes: Annotated[SizeBytes, "their size"]
    last_time: Annotated[Time | None, "when the last transaction ended; null if the end of the log does not say"]


@record()
class Reason(NamedTuple):
    """Something to know before starting the application."""

    code: Annotated[Text, "permanent code: START for what doctor finds itself, others as in verify"]
    severity: Annotated[Text, "error: exit code 1", Choices((ERROR, WARNING, NOTE))]
    stops: Annotated[Bool, "it keeps JE, Derby or the application from starting"]
    text: Annotated[Text, "what is wrong"]
    file: Annotated[Text | None, "file concerned, below the directory"]
    place: Annotated[Text | None, "LSN or instant"]
    consequence: Annotated[Text, "what it means"]
    remedy: Annotated[Text, "what to do"]


@record()
class LostName(NamedTuple):
    """Something that starting loses, or that damage has destroyed."""

    kind: Annotated[Text, "what it is", Choices(LOST_KINDS)]
    db: Annotated[Text | None, "its database"]
    name: Annotated[Text, "journal id or ids, DN, key, range of keys, or transaction"]
    key: Annotated[Key | None, "its key in the log"]
    place: Annotated[Text | None, "where it stands in the log"]
    certain: Annotated[Bool, "false: lost only if the damaged bytes were its Commit"]


class LostNames(NamedTuple):
    """What recovery cuts off, by name, and how many of its commits have a record that cannot be named."""

    lost: tuple[LostName, ...] = ()
    broken: int = 0


@record()
class Loss(NamedTuple):
    """What starting loses."""

    commits: Annotated[Int, "committed transactions after damage, which opening cuts off"] = 0
    records: Annotated[Int, "records outside transactions after damage"] = 0
    cut_bytes: Annotated[SizeBytes, "bytes after the end of the log"] = 0
    broken: Annotated[Int, "of these commits: those with a record in the damaged bytes, which cannot be named"] = 0
    evidence: Annotated[Text | None, "whether these commits had been durable"] = None
    gone: Annotated[Int, "records that damage or missing files have already destroyed, about"] = 0
    names: Annotated[tuple[LostName, ...], "what is lost, by name; the first thousand"] = ()
    unnamed: Annotated[Int, "how many more there are"] = 0

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


@record()
class Step(NamedTuple):
    """A command to run."""

    command: Annotated[Text, "the command line, with real paths"]
    purpose: Annotated[Text, "what it is for"]
    risk: Annotated[Text, "what it changes or risks"]


@record()
class Diagnosis(NamedTuple):
    """The answers about one directory."""

    directory: Annotated[Text, "the environment or database"]
    can_start: Annotated[Text, "whether its application would start here", Choices(ANSWERS)]
    verdict: Annotated[Text, "the same in words, such as: yes, losing 10 commits"]
    identity: Annotated[Identity, "what it is"]
    journals: Annotated[IdRange | None, "journals of a frontend that recovery reads"]
    reasons: Annotated[tuple[Reason, ...], "what to know before starting it"]
    loss: Annotated[Loss, "what starting loses"]
    next: Annotated[tuple[Step, ...], "what to run next, in order"]
    not_checked: Annotated[tuple[Text, ...], "what was not checked"]
    supported: Annotated[Bool, "false: a format that this program does not read"] = True

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
