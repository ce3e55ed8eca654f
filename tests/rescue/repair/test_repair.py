"""Recovery, undo and interrupted repairs, as a program calls them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.log.files import LOCK_FILE, WRITER_BYTE
from engine.rescue.repair.access import NOTHING_SAVED, backups_of
from engine.rescue.repair.recovery import RepairOptions, plan_recovery, recover
from engine.rescue.repair.settlement import SettledRepair, is_at_work, pending_repair, settle
from engine.rescue.repair.undo import undo_repair
from engine.storage.disk import DiskStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.sidecar import DirectoryBeside
from tests.support.children import child
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named

HALTED = "je-18.3.20/schema-crash"
DAMAGED = "je-18.3.20/corrupt-middle"


def contents(directory: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != LOCK_FILE}


@pytest.fixture
def halted(tmp_path: Path) -> Path:
    return copy_of(named(HALTED), tmp_path / "env")


@contextmanager
def held(env: Path) -> Iterator[None]:
    disk = DiskStorage(env)
    disk.open_rw(LOCK_FILE, create=True).close()
    lock = disk.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
    try:
        yield
    finally:
        lock.release()


def test_a_preview_leaves_no_trace(halted: Path) -> None:
    before = {path: path.read_bytes() for path in halted.parent.rglob("*") if path.is_file()}
    done = recover(plan_recovery(str(halted)), RepairOptions(dry_run=True))
    assert done.backup is None
    assert done.phases
    assert done.end_lsn > done.tail.end_lsn
    assert {path: path.read_bytes() for path in halted.parent.rglob("*") if path.is_file()} == before


def test_recovery_is_what_the_preview_says_and_is_undone(halted: Path) -> None:
    before = contents(halted)
    plan = plan_recovery(str(halted))
    preview = recover(plan, RepairOptions(dry_run=True))
    done = recover(plan)
    assert (done.end_lsn, done.checkpoint_end_lsn) == (preview.end_lsn, preview.checkpoint_end_lsn)
    assert done.backup is not None
    assert Path(done.backup).parent == Path(backups_of(str(halted)))
    assert contents(halted) != before
    undone = undo_repair(str(halted), dry_run=True)
    assert contents(halted) != before
    assert undo_repair(str(halted)) == undone
    assert (undone.command, undone.interrupted, undone.was_undone) == ("recover", False, False)
    assert contents(halted) == before
    assert undo_repair(str(halted)).was_undone


def test_committed_work_after_damage_is_not_given_up(tmp_path: Path) -> None:
    env = copy_of(named(DAMAGED), tmp_path / "env")
    before = contents(env)
    plan = plan_recovery(str(env))
    assert plan.tail.commits_at_risk > 0
    for options in (RepairOptions(), RepairOptions(dry_run=True)):
        with pytest.raises(RefusedError, match="after a bad entry"):
            recover(plan, options)
    assert contents(env) == before
    assert not Path(backups_of(str(env))).exists()
    assert recover(plan, accept_loss=True).backup
    undo_repair(str(env))
    assert contents(env) == before


def test_nothing_is_saved_when_nothing_is_to_be(halted: Path) -> None:
    assert recover(plan_recovery(str(halted)), RepairOptions(backup_dir=NOTHING_SAVED)).backup is None
    assert not Path(backups_of(str(halted))).exists()
    with pytest.raises(NotFoundError, match="no saved bytes"):
        undo_repair(str(halted))


def test_another_writer_refuses_recovery_and_undo(halted: Path) -> None:
    plan = plan_recovery(str(halted))
    before = contents(halted)
    done = recover(plan)
    assert done.backup
    undo_repair(str(halted))
    # In this process the lock of the test is not another's: a child holds it.
    code = (
        "import sys; from pathlib import Path; from tests.rescue.repair.test_repair import held\n"
        "with held(Path(sys.argv[1])):\n"
        "    print(flush=True); sys.stdin.read()"
    )
    words: list[str | Path] = [sys.executable, "-c", code, halted]
    with child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert is_at_work(str(halted))
        with pytest.raises(RefusedError):
            recover(plan)
        with pytest.raises(RefusedError):
            undo_repair(str(halted), done.backup)
    assert contents(halted) == before


def test_an_interrupted_repair_is_taken_back(halted: Path) -> None:
    before = contents(halted)
    backup = halted.parent / "saved"
    assert settle(str(halted)) is None
    saving = SavingStorage(DiskStorage(halted), DirectoryBeside(backup, str(halted)), "recover")
    with Environment(saving, EnvironmentConfig()):
        pass
    # Neither finished nor interrupted: as after SIGKILL.
    pending = pending_repair(str(halted))
    assert pending is not None
    assert pending.command == "recover"
    assert contents(halted) != before
    # A plan sees the environment as it was before.
    assert plan_recovery(str(halted)).tail.end_lsn > 0
    settled = settle(str(halted))
    assert settled is not None
    assert (settled.command, settled.was_undoing) == ("recover", False)
    assert contents(halted) == before
    assert pending_repair(str(halted)) is None


def test_recovery_takes_an_interrupted_repair_back_first(halted: Path) -> None:
    """Otherwise undo would bring back the half-finished state that the interrupted repair has left."""
    before = contents(halted)
    saving = SavingStorage(DiskStorage(halted), DirectoryBeside(halted.parent / "saved", str(halted)), "recover")
    # Neither finished nor interrupted: as after SIGKILL.
    with Environment(saving, EnvironmentConfig()):
        pass
    plan = plan_recovery(str(halted))
    preview = recover(plan, RepairOptions(dry_run=True))
    assert pending_repair(str(halted)) is not None
    done = recover(plan)
    assert done.settled == SettledRepair("recover", was_undoing=False)
    assert (done.end_lsn, done.checkpoint_end_lsn) == (preview.end_lsn, preview.checkpoint_end_lsn)
    assert pending_repair(str(halted)) is None
    assert undo_repair(str(halted)).backup == done.backup
    assert contents(halted) == before


def test_records_of_the_same_run_are_not_undone(halted: Path) -> None:
    saved = halted.parent / "saved"
    saving = SavingStorage(DiskStorage(halted), DirectoryBeside(saved, str(halted)), "open for writing", undoable=False)
    # Bytes that are overwritten are saved.
    file = saving.open_rw("00000000.jdb")
    file.write(100, file.read(100, 8))
    file.close()
    saving.finish({})
    with pytest.raises(RefusedError, match="undo does not take back"):
        undo_repair(str(halted), str(saved))
