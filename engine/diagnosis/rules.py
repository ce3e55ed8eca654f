"""Reasons with permanent codes that ``verify`` does not have: what keeps an application from starting on a sound log.

Codes are appended, never renumbered.
"""

from __future__ import annotations

from typing import Final

from engine.diagnosis.record import Reason
from engine.format.lsn import format_lsn, is_null
from engine.verify.report import ERROR, WARNING, Finding, Rule

LOCKED: Final = Rule(
    "START-001",
    ERROR,
    "another process has it open",
    "a second one is refused; the lock is on the open file, so deleting the lock file damages the data",
    "if that process should not run, stop it; otherwise nothing is wrong",
)
PERMISSIONS: Final = Rule(
    "START-002",
    ERROR,
    "files that their owner cannot use",
    "opening fails with FileNotFoundException or a message of denied permission",
    "give the files back to the user of the application (chown, chmod u+rw)",
)
NEWER_LOG: Final = Rule(
    "START-003",
    ERROR,
    "the log is newer than the release of JE",
    "this release refuses it with VersionMismatchException; a log is never converted back",
    "use the release that wrote it, or a later one",
)
OLDER_LOG: Final = Rule(
    "START-004",
    ERROR,
    "the log is too old for the release of JE",
    "this release refuses it",
    "open and close it once with a release between the two; jetool recover converts duplicates and deltas",
)
NOT_OPENED: Final = Rule(
    "START-005",
    ERROR,
    "recovery stops",
    "opening fails in the same place",
    "restore the file from a backup, or the node from a replica; jetool salvage saves what is legible",
)
HALTS: Final = Rule(
    "START-006",
    ERROR,
    "je.haltOnCommitAfterChecksumException is set, and commits follow damage",
    "JE refuses to open the environment, so that nothing is cut off",
    "decide about the commits first; then jetool recover --accept-loss, or take the setting out",
)
DISK: Final = Rule(
    "START-007",
    ERROR,
    "less of the disk is free than je.freeDisk",
    "JE opens the environment and refuses every write with DiskLimitException; most applications stop",
    "make room on the disk, or lower je.freeDisk",
)
NO_ROLE: Final = Rule(
    "START-008",
    ERROR,
    "the frontend's file ROLE is missing, or names no role",
    "the frontend takes itself for a new one",
    "bring image/ROLE back from a copy of this node: role= and name= of the group's member",
)
NOT_MEMBER: Final = Rule(
    "START-009",
    ERROR,
    "the name in ROLE is no member of the replication group",
    "the frontend asks to join as a new node; without a master it does not start",
    "compare image/ROLE with jetool group show; a restored bdb may belong to another node",
)
WRONG_ROLE: Final = Rule(
    "START-010",
    ERROR,
    "the role in ROLE is not that of the group's record",
    "JE refuses the node: its type cannot change",
    "a FOLLOWER is electable, an OBSERVER is a secondary; correct image/ROLE",
)
NO_VERSION: Final = Rule(
    "START-011",
    WARNING,
    "the frontend's file VERSION is missing, or names no cluster",
    "the frontend takes a new cluster id, and the other nodes and the backends refuse it",
    "bring image/VERSION back from a copy, or from another frontend of the cluster",
)
REPLAY_STOPS: Final = Rule(
    "START-012",
    ERROR,
    "the frontend stops in the middle of its journals",
    "JE opens the environment, and the frontend exits during replay",
    "jetool journal check says what is wrong with the journal; another frontend may have it",
)
REPLAY_UNSURE: Final = Rule(
    "START-013",
    WARNING,
    "a journal that the frontend may not know",
    "a release that does not have the operation stops there",
    "start the release that wrote it; jetool journal show prints the journal",
)
UNVERIFIED: Final = Rule(
    "START-014",
    ERROR,
    "damaged entries that recovery reads as they are",
    "records that they hold, or that they committed, may be lost or wrong",
    "jetool verify --data names them; restore the file from a backup",
)
WRONG_PROPERTIES: Final = Rule(
    "START-015",
    WARNING,
    "je.properties cannot be read",
    "JE refuses settings that it cannot read",
    "correct the file, or move it away",
)
NO_DATA_DIRECTORIES: Final = Rule(
    "START-016",
    ERROR,
    "the log lies in data directories",
    "JE 25 knows no data directories and refuses je.log.nDataDirectories",
    "use a release before JE 25",
)
UNREAD_NODES: Final = Rule(
    "START-017",
    ERROR,
    "the log is of JE 1.5 or 1.7",
    "JE 7.3 and later stop at its first tree node, and nothing converts it in place",
    "jetool salvage, or jetool dump and load, saves its records in a new environment",
)
BAD_IMAGE: Final = Rule(
    "START-018",
    ERROR,
    "the newest image of the frontend is not what was written",
    "JE opens the environment, and the frontend exits while it loads the image",
    "start from another node, or move the image away so that an older one is loaded; jetool journal check",
)
RULES: Final = (
    LOCKED,
    PERMISSIONS,
    NEWER_LOG,
    OLDER_LOG,
    NOT_OPENED,
    HALTS,
    DISK,
    NO_ROLE,
    NOT_MEMBER,
    WRONG_ROLE,
    NO_VERSION,
    REPLAY_STOPS,
    REPLAY_UNSURE,
    UNVERIFIED,
    WRONG_PROPERTIES,
    NO_DATA_DIRECTORIES,
    UNREAD_NODES,
    BAD_IMAGE,
)


def reason(rule: Rule, text: str, *, stops: bool = False, file: str | None = None, place: str | None = None) -> Reason:
    """A reason of one of the rules.

    Arguments:
        text: the whole message, for the verdict.
    """
    return Reason(
        code=rule.code,
        severity=rule.severity,
        stops=stops,
        text=text,
        consequence=rule.consequence,
        remedy=rule.remedy,
        file=file,
        place=place,
    )


def of_finding(one: Finding, *, stops: bool = False) -> Reason:
    """A finding of ``verify`` as a reason."""
    return Reason(
        code=one.code,
        severity=one.severity,
        stops=stops,
        text=one.message,
        consequence=one.consequence,
        remedy=one.remedy,
        file=one.file or None,
        place=None if is_null(one.lsn) else format_lsn(one.lsn),
    )
