"""Checks of backups: checksums, entries, and recovery of the copy in memory.

Each stored file is read once for its SHA-256 and its entries, even if many backups use it. Then each backup is
recovered as the environment that a restore would make of it, and the records of its databases are counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from engine.backup.manifest import BackupFile, Manifest
from engine.backup.repository import Repository, pieces_of
from engine.backup.view import BackupView
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.vlsn_index.view import read_index
from engine.errors import DamageError, JetoolError
from engine.events import SILENT, Listener
from engine.format.lsn import format_lsn
from engine.log.files import LogFile
from engine.log.scan import scan_file


class FileCheckup(NamedTuple):
    """The result for one stored file.

    Attributes:
        size_bytes: number of bytes that were read.
        entries: good entries; 0 if they were not checked.
        problems: descriptions of the faults.
    """

    size_bytes: int
    entries: int
    problems: tuple[str, ...]


class BackupCheckup(NamedTuple):
    """The result for one backup.

    Attributes:
        id: of the backup.
        manifest: the manifest of the backup; None if it cannot be read.
        bad_files: files that are missing or have changed.
        entries: good entries of its log.
        recovered: whether recovery succeeded; None if it was not tried.
        databases, records: their numbers after recovery; None if recovery was not tried or failed.
        problems: descriptions of the faults.
    """

    id: str
    manifest: Manifest | None
    bad_files: int
    entries: int
    recovered: bool | None
    databases: int | None
    records: int | None
    problems: tuple[str, ...]


class BackupChecker:
    """Checks backups of one repository.

    Arguments:
        repository: where they are.
        sums_only: skip entries and recovery.
        listener: receives progress of ``sums`` and ``entries`` in bytes.

    Attributes:
        read_bytes: bytes of stored files that were read for their sums.
    """

    def __init__(self, repository: Repository, *, sums_only: bool, listener: Listener = SILENT) -> None:
        self._repository = repository
        self._sums_only = sums_only
        self._listener = listener
        self._seen: dict[tuple[str, bool], FileCheckup] = {}
        self._sums: dict[str, tuple[str, ...]] = {}
        self.read_bytes = 0

    def check(self, made: str) -> BackupCheckup:
        """Check one backup; its faults are returned, not raised."""
        listed = self._repository.listed(made)
        manifest = listed.manifest
        nothing = BackupCheckup(
            id=made, manifest=None, bad_files=0, entries=0, recovered=None, databases=None, records=None, problems=()
        )
        if manifest is None:
            return nothing._replace(problems=(listed.problem,))
        view = BackupView(self._repository, manifest.files, made)
        problems: list[str] = []
        bad = entries = done = 0
        for file in manifest.files:
            self._listener.step("check", done, manifest.size_bytes)
            found = self._file(view, file, is_last=file is manifest.files[-1])
            bad += bool(found.problems)
            entries += found.entries
            problems += found.problems
            done += file.size_bytes
        self._listener.step("check", done, manifest.size_bytes)
        recovered: bool | None = None
        databases = records = None
        if not self._sums_only:
            try:
                databases, records = self._recover(view)
                recovered = True
            except JetoolError as error:
                recovered = False
                problems.append(f"it cannot be recovered: {error}")
        return nothing._replace(
            manifest=manifest,
            bad_files=bad,
            entries=entries,
            recovered=recovered,
            databases=databases,
            records=records,
            problems=tuple(problems),
        )

    def _file(self, view: BackupView, file: BackupFile, *, is_last: bool) -> FileCheckup:
        # The last file of one backup may be an inner file of the next backup, where a torn tail counts as damage.
        known = self._seen.get((file.stored, is_last))
        if known is not None:
            return known
        problems = self._sums.get(file.stored)
        if problems is None:
            problems = self._sums[file.stored] = self._sum(file)
        entries = 0
        if not self._sums_only and not problems:
            entries, problems = self._entries(view, file, is_last=is_last)
        found = self._seen[file.stored, is_last] = FileCheckup(file.size_bytes, entries, problems)
        return found

    def _sum(self, file: BackupFile) -> tuple[str, ...]:
        """The fault in the bytes of a stored file."""
        digest = hashlib.sha256()
        try:
            with closing(self._repository.open(file)) as handle:
                for piece in pieces_of(handle, file.size_bytes):
                    digest.update(piece)
                    self.read_bytes += len(piece)
                if handle.size() != file.size_bytes:
                    return (f"{file.stored} is of size {handle.size()}, not {file.size_bytes}",)
        except JetoolError as error:
            return (str(error),)
        if digest.hexdigest() != file.sha256:
            return (f"{file.stored} has another SHA-256: it was changed, or the disk has lost it",)
        return ()

    def _entries(self, view: BackupView, file: BackupFile, *, is_last: bool) -> tuple[int, tuple[str, ...]]:
        """Good entries and stretches of damage; the checksum matches, so the original had this damage too."""
        listed = LogFile(file.number, file.path, file.size_bytes)
        try:
            found = scan_file(view, listed, is_last=is_last).check(with_sizes=False)
        except JetoolError as error:
            return 0, (str(error),)
        stretches = [stretch.damage for stretch in found.damages]
        words = [
            f"{file.path} is damaged at {format_lsn(one.lsn)}, as the original was: {one.reason}" for one in stretches
        ]
        return found.entries, tuple(words)

    def _recover(self, view: BackupView) -> tuple[int, int]:
        """Databases and records of the copy as recovery finds them.

        Raises:
            JetoolError: the copy cannot be recovered, or a record cannot be read.
        """
        with Environment(view, EnvironmentConfig(read_only=True), self._listener) as env:
            if env.unseen:
                raise DamageError("recovery does not see all of the log", file=view.root, found=env.unseen)
            # A VLSN index that does not match the log keeps JE from opening the environment.
            index = read_index(env.engine.parts) if env.replicated else None
            if index is not None and index.refused is not None:
                raise index.refused
            names = env.database_names()
            records = 0
            for at, name in enumerate(names):
                self._listener.step("count", at, len(names))
                with env.open_database(name) as db:
                    records += sum(1 for _ in db.items())
            return len(names), records


def check_backups(
    repository: Repository, chosen: Sequence[str], *, sums_only: bool, listener: Listener = SILENT
) -> list[BackupCheckup]:
    """Check several backups; see ``BackupChecker.check``."""
    checking = BackupChecker(repository, sums_only=sums_only, listener=listener)
    return [checking.check(made) for made in chosen]
