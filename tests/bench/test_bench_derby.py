"""The parts of the benchmark beside Derby work and agree on a small log."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.derby.store.page_store import PageStore
from engine.storage.disk import DiskStorage
from tests.bench import derby


def test_generated_log_is_scanned_and_redone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derby, "FILE_BYTES", 1_000_000)
    count = derby.generate(tmp_path / "made", 33.5, 100)
    assert count % 100 == 0
    records = derby.scan(tmp_path / "made")
    # Two changes for each put, and their transactions, splits and pages.
    assert records > 2 * count
    assert derby.redo(tmp_path / "made") > 2 * count
    with PageStore(DiskStorage(tmp_path / "made"), read_only=True) as store:
        assert sum(1 for _ in store.scan("t")) == count
