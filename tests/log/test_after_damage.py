"""What the log tells of commits after a bad entry: synced, acknowledged, torn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.format.entry.checkpoint import CkptStart, encode_ckpt_start
from engine.format.entry.txn_end import TxnEnd, encode_txn_end
from engine.format.entry_types import CKPT_START, COMMIT
from engine.format.lsn import NULL_LSN, make_lsn
from engine.log.damage import AfterDamage
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.storage.memory import MemoryStorage
from tests.support import corpus
from tests.support.harness import run
from tests.support.logs.log_writer import VERSION, Files, LogWriter

# A Trace that fills some sectors.
LONG = "x" * 120


def ckpt_start(log: LogWriter) -> int:
    return log.add(CKPT_START, encode_ckpt_start(CkptStart(1_700_000_000_000, 2, "api"), VERSION))


def commit(log: LogWriter, vlsn: int, dtvlsn: int) -> None:
    body = encode_txn_end(TxnEnd(NULL_LSN, -11, 1_700_000_000_000, 1, dtvlsn, 1), VERSION)
    log.add(COMMIT, body, flags=0x28, vlsn=vlsn)


def checkpointed(log: LogWriter) -> None:
    """One Commit, a checkpoint, another Commit and the begin of the next checkpoint, then a third."""
    log.commit()
    start = ckpt_start(log)
    log.checkpoint_end(start)
    log.commit()
    ckpt_start(log)
    log.commit()


def checkpoint_that_ends(log: LogWriter) -> None:
    """The CkptEnd is there, and nothing that waits for its sync."""
    start = ckpt_start(log)
    log.commit()
    log.checkpoint_end(start)
    log.commit()


def rolled_back(log: LogWriter) -> None:
    log.commit()
    log.commit()
    matchpoint = log.trace()
    start = log.rollback_start(matchpoint, 7)
    log.commit()
    log.rollback_end(matchpoint, start)


def replicated(log: LogWriter) -> None:
    commit(log, 11, 9)
    commit(log, 12, 11)
    commit(log, 13, 12)


def damaged(then: Callable[[LogWriter], None]) -> tuple[Files, int]:
    """A log whose second entry has a flipped bit, with what stands after it."""
    log = LogWriter()
    log.trace()
    bad = log.trace(LONG)
    then(log)
    data = bytearray(log.files["00000000.jdb"])
    data[bad + 40] ^= 1
    return {"00000000.jdb": bytes(data)}, bad


def after(files: Files) -> AfterDamage:
    storage = MemoryStorage(files)
    return find_end(storage, list_log_files(storage)).after


@pytest.mark.parametrize(
    ("then", "commits", "synced", "acknowledged"),
    [(checkpointed, 3, 1, 0), (checkpoint_that_ends, 2, 0, 0), (rolled_back, 3, 2, 0), (replicated, 3, 0, 2)],
)
def test_what_the_log_shows(then: Callable[[LogWriter], None], commits: int, synced: int, acknowledged: int) -> None:
    files, _ = damaged(then)
    found = after(files)
    assert (found.commits, found.synced, found.acknowledged, found.torn) == (commits, synced, acknowledged, False)
    assert (found.shown_by == NULL_LSN) is (synced == 0)
    assert "rather changed after they were written" in found.in_words()
    assert ("nothing in the log shows" in found.in_words()) is (synced == 0)


@pytest.mark.parametrize("later", [b"", b"\0" * 38])
def test_a_later_file_was_begun_after_a_sync(later: bytes) -> None:
    files, _ = damaged(checkpoint_that_ends)
    found = after({**files, "00000001.jdb": later})
    assert (found.commits, found.synced, found.shown_by) == (2, 2, NULL_LSN)
    assert found.in_words() == "all of them were durable, as a later file shows"


def test_without_damage_there_is_nothing_to_tell() -> None:
    log = LogWriter()
    checkpointed(log)
    assert after(log.files) == AfterDamage()


def test_a_torn_write_leaves_empty_sectors() -> None:
    log = LogWriter()
    for _ in range(10):
        log.trace(LONG)
    log.commit()
    data = bytearray(log.files["00000000.jdb"])
    data[512:1024] = bytes(512)
    found = after({"00000000.jdb": bytes(data)})
    assert (found.commits, found.synced, found.torn) == (1, 0, True)
    assert "a write leaves that a crash interrupted" in found.in_words()
    # As many zeros, but no sector of a disk: something else wrote them.
    data = bytearray(log.files["00000000.jdb"])
    data[700:1212] = bytes(512)
    assert not after({"00000000.jdb": bytes(data)}).torn


def test_the_operator_sees_it() -> None:
    env = corpus.path() / "je" / "je-18.3.20" / "corrupt-middle" / "env"
    done = run("recover", env, "-n", "--json")
    assert done.code == 3
    error = done.error()
    assert (error["commits_after"], error["commits_synced"], error["torn_write"]) == (3, 0, 0)
    assert "nothing in the log shows that they were durable" in error["found"]
    done = run("recover", env, "-n", "--accept-loss", "--json")
    assert done.code == 6
    said = done.json()
    assert (said["commits_lost"], said["commits_lost_synced"], said["torn_write"]) == (3, 0, False)
    assert said["end_lsn_before"] == "0x5/0x80e"


def test_the_place_of_the_proof() -> None:
    log = LogWriter()
    log.trace()
    bad = log.trace(LONG)
    log.commit()
    log.checkpoint_end(ckpt_start(log))
    proof = ckpt_start(log)
    data = bytearray(log.files["00000000.jdb"])
    data[bad + 40] ^= 1
    assert after({"00000000.jdb": bytes(data)}).shown_by == make_lsn(0, proof)
