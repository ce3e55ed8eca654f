"""What keeps an application from starting besides the log: locks, permissions, releases, settings, disk space.

Permissions are judged for the user who owns the newest log file, since that is the user of the application: a tool that
somebody ran as root leaves files behind that this user cannot write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from engine.db.config import read_properties
from engine.diagnosis import rules
from engine.diagnosis.record import Reason
from engine.diagnosis.rules import reason
from engine.errors import StorageError, UsageError, plural
from engine.format.versions import JE_RELEASES, OLDEST_CONTINUED, PRIOR_VERSION, TWO_PART_DUPLICATES
from engine.log.files import LOCK_FILE
from engine.rescue.je_notes import DISK_FULL, PRE_UPGRADE
from engine.storage.base import Storage
from engine.storage.posix_locks import holder_in_words
from engine.verify.report import Finding

HALT: Final = "je.haltOnCommitAfterChecksumException"
# JE 5 has one tree for duplicates, and refuses the older form in the recovery interval.
_JE_5: Final = (5,)
# Measured with 7.3.8: JE 3.2 and 3.3 still read these nodes.
_JE_7_3: Final = (7, 3)
# JE 25 refuses log versions before 8; measured with 25.3.17.
_JE_25: Final = (25,)
_MOST_NAMED: Final = 5
_ROOT: Final = 0


def lock_reason(holder: int | None, lock_file: str) -> Iterator[Reason]:
    """A process that has the directory open."""
    if holder is not None:
        text = f"{holder_in_words(holder)} has it open"
        yield reason(rules.LOCKED, text, stops=True, file=lock_file)


def release_reasons(
    version: int, release: tuple[int, ...] | None, notes: Iterable[Finding], data_directories: int
) -> Iterator[Reason]:
    """The log against a release of JE, and the notes about what JE needs.

    Arguments:
        version: log version of the last file.
        release: None if no release is named: then one that fits the log is assumed.
        notes: of ``engine.rescue.je_notes``.
    """
    if release is not None:
        first = JE_RELEASES.get(version, "")
        said = ".".join(map(str, release))
        if first and release[:2] < tuple(map(int, first.split("."))):
            text = f"the log has version {version}, which JE {first} and later read; JE {said} does not"
            yield reason(rules.NEWER_LOG, text, stops=True)
        elif release >= _JE_7_3 and version < OLDEST_CONTINUED:
            text = (
                f"the log has version {version}; JE {said} reads the tree nodes of version {OLDEST_CONTINUED} and later"
            )
            yield reason(rules.UNREAD_NODES, text, stops=True)
        elif release >= _JE_25 and version < TWO_PART_DUPLICATES:
            text = f"the log has version {version}; JE {said} reads version {TWO_PART_DUPLICATES} and later"
            yield reason(rules.OLDER_LOG, text, stops=True)
        if release >= _JE_25 and data_directories:
            text = f"the log lies in {plural(data_directories, 'data directory', 'data directories')}"
            yield reason(rules.NO_DATA_DIRECTORIES, f"{text}, which JE {said} does not know", stops=True)
    for note in notes:
        if note.code == DISK_FULL.code:
            # Releases before 18 do not look at the disk.
            if release is None or release[:2] >= tuple(map(int, JE_RELEASES[PRIOR_VERSION].split("."))):
                yield reason(rules.DISK, note.message)
        elif note.code == PRE_UPGRADE.code and release is not None:
            if release >= _JE_5:
                yield rules.of_finding(note, stops=True)
        else:
            yield rules.of_finding(note)


def settings_reasons(storage: Storage, commits_at_risk: int, damage: str) -> Iterator[Reason]:
    """Settings in ``je.properties`` that decide whether JE opens a damaged log."""
    try:
        said = read_properties(storage).get(HALT, "")
    except (StorageError, UsageError):
        # Opening names the file.
        return
    if said.strip().lower() == "true" and commits_at_risk:
        committed = plural(commits_at_risk, "commit follows damage", "commits follow damage")
        text = f"{committed}, and je.properties sets {HALT}"
        yield reason(rules.HALTS, text, stops=True, file="je.properties", place=damage)


def permission_reasons(root: str, files: Iterable[str], written: Iterable[str]) -> Iterator[Reason]:
    """Files that the user of the application cannot use.

    Arguments:
        root: the directory.
        files: paths that must be readable, relative to it; the last one shows who the user is.
        written: paths that must be writable; missing ones are skipped.
    """
    read = list(files)
    if not read:
        return
    try:
        owner = os.stat(os.path.join(root, read[-1]))
        wrong = [path for path in read if not _may(os.path.join(root, path), owner, stat.S_IRUSR)]
        locked = [path for path in written if not _may(os.path.join(root, path), owner, stat.S_IWUSR)]
        if not _may(root, owner, stat.S_IWUSR | stat.S_IXUSR):
            locked.append(".")
    except OSError:
        # The check of the log reports files that cannot be read.
        return
    for paths, what in ((wrong, "read"), (locked, "write")):
        if paths:
            named = ", ".join(paths[:_MOST_NAMED]) + (" and others" if len(paths) > _MOST_NAMED else "")
            text = f"the user {owner.st_uid}, who owns the log, cannot {what} {named}"
            yield reason(rules.PERMISSIONS, text, stops=True, file=paths[0])


def written_files(storage: Storage, last: str) -> list[str]:
    """The files of an environment that JE opens for writing: the lock file, and the last log file."""
    return [path for path in (LOCK_FILE, last) if storage.stat(path) is not None]


def _may(path: str, owner: os.stat_result, wanted: int) -> bool:
    """Whether a user may use a file in a way.

    Arguments:
        owner: the status of a file of that user.
        wanted: permission bits of the owner.
    """
    found = os.stat(path)
    if owner.st_uid == _ROOT:
        return True
    if found.st_uid == owner.st_uid:
        bits = wanted
    elif found.st_gid == owner.st_gid:
        bits = wanted >> 3
    else:
        bits = wanted >> 6
    return found.st_mode & bits == bits
