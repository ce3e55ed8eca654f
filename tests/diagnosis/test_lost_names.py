"""What recovery cuts off is named only if there is something to name."""

from __future__ import annotations

import pytest

from engine.diagnosis.application import names_after_damage
from engine.diagnosis.record import LostNames
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.storage.base import ReadFile
from engine.storage.disk import DiskStorage
from tests.support import corpus

JE = corpus.path() / "je/je-18.3.20"


class NotRead(DiskStorage):
    """Files that must not be read."""

    def open(self, path: str) -> ReadFile:
        raise AssertionError(path)


@pytest.mark.parametrize("name", ["txn-crash", "torn-cut-mid", "torn-flip-last"])
def test_nothing_is_recovered_for_a_torn_tail(name: str) -> None:
    storage = DiskStorage(JE / name / "env")
    files = list_log_files(storage)
    assert names_after_damage(NotRead(JE / name / "env"), files, find_end(storage, files)) == LostNames()


def test_commits_after_damage_are_named() -> None:
    storage = DiskStorage(JE / "corrupt-middle/env")
    files = list_log_files(storage)
    assert names_after_damage(storage, files, find_end(storage, files)).lost
