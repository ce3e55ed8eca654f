"""Counts of trees: those of JE's DbStat for environments of JE, and those that follow from what we wrote."""

from __future__ import annotations

from pathlib import Path

from engine.log.files import list_log_files
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.tree_stats import StatsReport, TreeProfile, tree_stats
from tests.support.damage.spoiled_slots import branch_to_record
from tests.support.damage.spoiled_trees import RECORDS, sound, spoiled


def stats(storage: Storage) -> StatsReport:
    return tree_stats(storage, list_log_files(storage))


def one(storage: Storage, name: str) -> TreeProfile:
    return next(tree for tree in stats(storage).trees if tree.name == name)


def test_counts_of_db_stat(golden_dir: Path) -> None:
    """``DbStat -s accounts`` of JE 18.3.20: bins=4, binsByFillPercent=[50-59%: 3; 60-69%: 1], deletedLNs=1, ..."""
    found = one(DiskStorage(golden_dir / "je-17" / "txn-crash"), "accounts")
    assert (found.depth, found.bins, found.ins, found.records, found.deleted) == (2, 4, 1, 294, 1)
    assert found.nodes_by_level == (4, 1)
    assert found.bins_by_fill == (0, 0, 0, 0, 0, 3, 1, 0, 0, 0)


def test_counts_of_db_stat_in_three_levels(corpus: Path) -> None:
    """``DbStat -s users``: 158 bins, one of them 40-49 % full and the others 90-99 %, two nodes of level 2."""
    env = corpus / "je" / "je-18.3.20" / "plain-load" / "env"
    found = one(DiskStorage(env), "users")
    assert (found.depth, found.bins, found.ins, found.records, found.deleted) == (3, 158, 3, 20_000, 0)
    assert found.nodes_by_level == (158, 2, 1)
    assert found.bins_by_fill == (0, 0, 0, 0, 1, 0, 0, 0, 0, 157)


def test_every_database_of_an_environment_that_we_wrote() -> None:
    report = stats(sound())
    assert not report.damaged
    names = [tree.name for tree in report.trees]
    assert names[:2] == ["_jeIdMap", "_jeNameMap"]
    assert set(names) >= {"large", "small", "dups", "prefixed", "_jeUtilization"}
    for tree in report.trees:
        assert sum(tree.nodes_by_level) == tree.bins + tree.ins
        assert sum(tree.bins_by_fill) == tree.bins
        assert len(tree.nodes_by_level) == tree.depth
        if not tree.name.startswith("_je"):
            assert (tree.records, tree.deleted, tree.depth) == (RECORDS, 0, 4)
            assert tree.embedded == (RECORDS if tree.name == "small" else 0)


def test_a_damaged_branch_is_missing_in_the_counts() -> None:
    report = stats(spoiled(branch_to_record))
    assert report.damaged
    found = next(tree for tree in report.trees if tree.name == "large")
    assert 0 < found.records < RECORDS


def test_nothing_can_be_counted_when_recovery_fails() -> None:
    storage = MemoryStorage({"00000000.jdb": sound().contents()["00000000.jdb"][:60]})
    assert stats(storage) == StatsReport((), True)
