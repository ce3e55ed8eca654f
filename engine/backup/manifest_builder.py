"""The manifest of a copy: what its files hold, and what recovery finds in it.

Recovery runs in memory over the copied files, not over the originals, which another process may be writing. So it finds
what a restored environment will hold. A copy that cannot be recovered is still kept as a backup: its manifest names no
databases.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from engine.backup.log_facts import facts_of, last_commit_ms
from engine.backup.manifest import BackupFile, BackupGroup, Manifest
from engine.backup.repository import Repository
from engine.backup.view import BackupView
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import FormatError, JetoolError
from engine.events import Listener
from engine.format.entry.group_db import GROUP_KEY, decode_group
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.tuples import parse_string_key
from engine.format.vlsn import NULL_VLSN
from engine.log.files import LogFile, LogFiles
from engine.storage.base import Storage

_GROUP_DB = "_jeRepGroupDB"
_MASK = (1 << 64) - 1


class CopiedFile(NamedTuple):
    """A file of a copy; for the fields see ``BackupFile``."""

    path: str
    number: int
    size_bytes: int
    sha256: str
    modified_ms: int


class Origin(NamedTuple):
    """The origin of a copy.

    Attributes:
        source: the directory, or ``HOST:PORT``.
        node: the name of the node; None if unknown.
        began_ms: when.
    """

    source: str
    node: str | None
    began_ms: int


class ManifestResult(NamedTuple):
    """The manifest of a copy, and why it cannot be recovered; None when it can."""

    manifest: Manifest
    problem: JetoolError | None


class _Recovered(NamedTuple):
    """What recovery finds: names of the databases, the group, whether there are VLSNs."""

    databases: tuple[str, ...] | None
    group: BackupGroup | None
    replicated: bool
    problem: JetoolError | None


def describe(
    made: str,
    view: Storage,
    copied: Sequence[CopiedFile],
    origin: Origin,
    previous: Manifest | None,
    listener: Listener,
) -> ManifestResult:
    """Make the manifest of a copy.

    Arguments:
        made: the id of the backup.
        view: the copy, as an environment.
        copied: the files of the copy, ascending.
        previous: an earlier backup, whose files need not be read again.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    files = LogFiles(tuple(LogFile(one.number, one.path, one.size_bytes) for one in copied), None, (), (), 0)
    found = _recover(view, listener)
    known = {(one.path, one.sha256): one for one in previous.files} if previous is not None else {}
    listed = []
    for at, one in enumerate(copied):
        listener.step("describe", at, len(copied))
        before = known.get((one.path, one.sha256))
        if before is not None:
            listed.append(before._replace(modified_ms=one.modified_ms))
            continue
        facts = facts_of(view, files, files.files[at], replicated=found.replicated)
        listed.append(
            BackupFile(
                path=one.path,
                size_bytes=one.size_bytes,
                sha256=one.sha256,
                version=facts.version,
                first_lsn=facts.first_lsn,
                last_lsn=facts.last_lsn,
                first_vlsn=facts.first_vlsn,
                last_vlsn=facts.last_vlsn,
                modified_ms=one.modified_ms,
            )
        )
    listener.step("describe", len(copied), len(copied))
    last_lsns = {file.number: file.last_lsn for file in listed if file.last_lsn != NULL_LSN}
    manifest = Manifest(
        id=made,
        began_ms=origin.began_ms,
        ended_ms=time.time_ns() // 1_000_000,
        source=origin.source,
        node=origin.node,
        group=found.group,
        end_lsn=make_lsn(copied[-1].number, copied[-1].size_bytes),
        last_commit_ms=last_commit_ms(view, files, last_lsns),
        databases=found.databases,
        files=tuple(listed),
    )
    return ManifestResult(manifest, found.problem)


def view_of(repository: Repository, copied: Sequence[CopiedFile]) -> BackupView:
    """A copy as an environment; all its files must be stored."""
    files = [
        BackupFile(
            path=one.path,
            size_bytes=one.size_bytes,
            sha256=one.sha256,
            version=0,
            first_lsn=NULL_LSN,
            last_lsn=NULL_LSN,
            first_vlsn=NULL_VLSN,
            last_vlsn=NULL_VLSN,
            modified_ms=one.modified_ms,
        )
        for one in copied
    ]
    return BackupView(repository, tuple(files), "a new backup")


def _recover(view: Storage, listener: Listener) -> _Recovered:
    try:
        with Environment(view, EnvironmentConfig(read_only=True), listener) as env:
            group = _group_of(env) if env.replicated else None
            return _Recovered(tuple(sorted(env.database_names())), group, env.replicated, None)
    except JetoolError as error:
        # True: without recovery it is unknown whether the environment is replicated, so the log is searched for VLSNs.
        return _Recovered(None, None, True, error)


def _group_of(env: Environment) -> BackupGroup | None:
    if _GROUP_DB not in env.database_names(internal=True):
        return None
    with env.open_database(_GROUP_DB) as db:
        for key, data in db:
            try:
                if parse_string_key(key) == GROUP_KEY:
                    group = decode_group(data)
                    return BackupGroup(group.name or "", f"{group.uuid_high & _MASK:016x}{group.uuid_low & _MASK:016x}")
            except FormatError:
                continue
    return None
