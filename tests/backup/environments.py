"""What the tests of backups share: a writer that works while files are read, and environments made of backups."""

from __future__ import annotations

from collections.abc import Callable

from engine.backup.check import BackupCheckup, check_backups
from engine.backup.manifest import Manifest
from engine.backup.repository import Repository
from engine.backup.view import BackupView
from engine.storage.base import ReadFile, Storage
from engine.storage.overlay import WrappedStorage
from tests.support.environments.models import state_of
from tests.support.environments.workload import State


class WatchedStorage(WrappedStorage):
    """A storage that calls somebody before a file of it is opened, as if that somebody wrote at the same time."""

    def __init__(self, base: Storage, opened: Callable[[str], None]) -> None:
        super().__init__(base)
        self._opened = opened

    def open(self, path: str) -> ReadFile:
        self._opened(path)
        return self._base.open(path)


def view_of(repository: Repository, manifest: Manifest) -> BackupView:
    return BackupView(repository, manifest.files, manifest.id)


def state_in(repository: Repository, manifest: Manifest) -> State:
    """What recovery finds in a backup."""
    return state_of(view_of(repository, manifest))


def problems_of(repository: Repository) -> list[str]:
    """What is wrong with any backup."""
    found: list[BackupCheckup] = check_backups(repository, repository.ids(), sums_only=False)
    return [problem for one in found for problem in one.problems]
