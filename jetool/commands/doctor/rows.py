"""Records of a diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.diagnosis.nodes import BASES, STANDINGS, NodeChoice
from engine.diagnosis.record import ANSWERS, APPLICATIONS, LOST_KINDS, Diagnosis, Identity, LostName, Step
from engine.fields import Bool, Choices, Int, Key, SizeBytes, Text, Time, record
from engine.verify.report import ERROR, NOTE, WARNING


@record()
class LogVersionRow(NamedTuple):
    """Consecutive log files of one version."""

    version: Annotated[Text, "the log version; for Derby the release"]
    first_file: Annotated[Int, "number of the first file"]
    last_file: Annotated[Int, "number of the last one"]


@record()
class StartReason(NamedTuple):
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
class LossName(NamedTuple):
    """Something that starting loses, or that damage has destroyed."""

    kind: Annotated[Text, "what it is", Choices(LOST_KINDS)]
    db: Annotated[Text | None, "its database"]
    name: Annotated[Text, "journal id or ids, DN, key, range of keys, or transaction"]
    key: Annotated[Key | None, "its key in the log"]
    place: Annotated[Text | None, "where it stands in the log"]
    certain: Annotated[Bool, "false: lost only if the damaged bytes were its Commit"]


@record()
class StartLoss(NamedTuple):
    """What starting loses."""

    commits: Annotated[Int, "committed transactions after damage, which opening cuts off"]
    records: Annotated[Int, "records outside transactions after damage"]
    cut_bytes: Annotated[SizeBytes, "bytes after the end of the log"]
    broken: Annotated[Int, "of these commits: those with a record in the damaged bytes, which cannot be named"]
    evidence: Annotated[Text | None, "whether these commits had been durable"]
    gone: Annotated[Int, "records that damage or missing files have already destroyed, about"]
    names: Annotated[Sequence[LossName], "what is lost, by name; the first thousand"]
    unnamed: Annotated[Int, "how many more there are"]


@record()
class NextCommand(NamedTuple):
    """A command to run."""

    command: Annotated[Text, "the command line, with real paths"]
    purpose: Annotated[Text, "what it is for"]
    risk: Annotated[Text, "what it changes or risks"]


@record()
class RecoveredJournals(NamedTuple):
    """Journals of a frontend that recovery reads."""

    first: Annotated[Int, "first id"]
    last: Annotated[Int, "last id"]


@record()
class DirectoryIdentity(NamedTuple):
    """What a directory is."""

    application: Annotated[Text, "kind of application", Choices(APPLICATIONS)]
    title: Annotated[Text, "the application in words"]
    node: Annotated[Text | None, "name of the node"]
    role: Annotated[Text | None, "of a frontend: FOLLOWER or OBSERVER"]
    group: Annotated[Text | None, "replication group"]
    group_uuid: Annotated[Text | None, "its identity"]
    members: Annotated[Sequence[Text], "its members"]
    versions: Annotated[Sequence[LogVersionRow], "log versions"]
    release: Annotated[Text, "releases that write the newest of them"]
    files: Annotated[Int, "log files; for Derby containers too"]
    bytes: Annotated[SizeBytes, "their size"]
    last_time: Annotated[Time | None, "when the last transaction ended"]


@record()
class DirectoryDiagnosis(NamedTuple):
    """The answers about one directory."""

    directory: Annotated[Text, "the environment or database"]
    can_start: Annotated[Text, "whether its application would start here", Choices(ANSWERS)]
    verdict: Annotated[Text, "the same in words"]
    identity: Annotated[DirectoryIdentity, "what it is"]
    journals: Annotated[RecoveredJournals | None, "journals of a frontend that recovery reads"]
    reasons: Annotated[Sequence[StartReason], "what to know before starting it"]
    loss: Annotated[StartLoss, "what starting loses"]
    next: Annotated[Sequence[NextCommand], "what to run next, in order"]
    not_checked: Annotated[Sequence[Text], "what was not checked"]


@record()
class NodeStart(NamedTuple):
    """A node compared with the one to start from."""

    directory: Annotated[Text, "its directory"]
    node: Annotated[Text | None, "its name"]
    standing: Annotated[Text, "compared with the one to start from", Choices(STANDINGS)]
    last: Annotated[Int | None, "its last journal, or the VLSN of its last transaction"]
    behind: Annotated[Int, "journals or transactions that it lacks"]
    own: Annotated[Int, "those that only this one has, which are lost"]


@record()
class GroupStart(NamedTuple):
    """Nodes of one group."""

    group: Annotated[Text, "name of the group"]
    uuid: Annotated[Text, "its identity; groups are told apart by it"]
    basis: Annotated[Text, "what was compared", Choices(BASES)]
    start: Annotated[Text | None, "the directory to start from; null when none can start"]
    nodes: Annotated[Sequence[NodeStart], "the nodes"]
    problem: Annotated[Text | None, "why they were not compared; null when they were"]
    next: Annotated[Sequence[NextCommand], "commands that show the differences"]


@record("doctor")
class DoctorReport(NamedTuple):
    """Directories, what each is, and whether it can start."""

    verdict: Annotated[Text, "one line: of the directory, or of all of them"]
    directories: Annotated[Sequence[DirectoryDiagnosis], "the directories, in the order of their paths"]
    groups: Annotated[Sequence[GroupStart], "groups with several nodes among them"]


def directory_of(found: Diagnosis) -> DirectoryDiagnosis:
    """A diagnosis as it is printed."""
    loss = found.loss
    return DirectoryDiagnosis(
        directory=found.path,
        can_start=found.can_start,
        verdict=found.verdict,
        identity=_identity(found.identity),
        journals=None if found.journals is None else RecoveredJournals(first=found.journals[0], last=found.journals[1]),
        reasons=[
            StartReason(
                code=one.code,
                severity=one.severity,
                stops=one.stops,
                text=one.text,
                file=one.file,
                place=one.place,
                consequence=one.consequence,
                remedy=one.remedy,
            )
            for one in found.reasons
        ],
        loss=StartLoss(
            commits=loss.commits,
            records=loss.records,
            cut_bytes=loss.cut_bytes,
            broken=loss.broken,
            evidence=loss.evidence or None,
            gone=loss.gone,
            names=loss_names(loss.names),
            unnamed=loss.unnamed,
        ),
        next=commands_of(found.steps),
        not_checked=list(found.not_checked),
    )


def loss_names(names: Sequence[LostName]) -> list[LossName]:
    """Names of lost things as they are printed."""
    return [
        LossName(kind=one.kind, db=one.db, name=one.name, key=one.key, place=one.place, certain=one.certain)
        for one in names
    ]


def commands_of(steps: Sequence[Step]) -> list[NextCommand]:
    """Steps as they are printed."""
    return [NextCommand(command=one.command, purpose=one.purpose, risk=one.risk) for one in steps]


def _identity(found: Identity) -> DirectoryIdentity:
    return DirectoryIdentity(
        application=found.application,
        title=found.title,
        node=found.node,
        role=found.role,
        group=found.group,
        group_uuid=found.group_uuid,
        members=list(found.members),
        versions=[
            LogVersionRow(version=one.version, first_file=one.first_file, last_file=one.last_file)
            for one in found.versions
        ],
        release=found.release,
        files=found.files,
        bytes=found.size_bytes,
        last_time=found.last_time,
    )


def group_of(found: NodeChoice) -> GroupStart:
    """The nodes of a group as they are printed."""
    return GroupStart(
        group=found.group,
        uuid=found.group_uuid,
        basis=found.basis,
        start=found.start,
        nodes=[
            NodeStart(
                directory=one.path,
                node=one.node,
                standing=one.standing,
                last=one.last,
                behind=one.behind,
                own=one.own,
            )
            for one in found.ranks
        ],
        problem=found.problem or None,
        next=commands_of(found.steps),
    )
