"""A copy and the stream after it: together they are the whole, wherever the copy ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.codecs import encode_body
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.rep.changes.after_copy import position_after
from engine.rep.changes.feed import BEGIN
from engine.rep.changes.position import Position
from engine.rep.wire.entries import WireEntry
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from jetool.frame import exits
from tests.support.groups.group_double import GroupDouble
from tests.support.groups.playing import group_of, joined, recorded_uuid
from tests.support.groups.streamed import group, rows_of, stream
from tests.support.groups.subscribers import Reader, operations
from tests.support.groups.subscribers import group_of as streaming_group
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S

__all__ = ["group"]


def copy_of(log: list[WireEntry], storage: Storage) -> None:
    """What a node of the group has on disk after these."""
    with joined(group_of(log), storage) as node:
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S)


def overlapping() -> list[WireEntry]:
    """The recorded stream; a transaction that begins at VLSN 54, before the Commit at 56, commits at 58 too."""
    log = operations()
    aborted = log[57].record()
    assert isinstance(aborted, TxnEnd)
    return [*log[:57], WireEntry(58, COMMIT, 17, encode_body(COMMIT, 17, aborted)), *log[58:]]


def after(storage: Storage) -> Position:
    with Environment(storage, EnvironmentConfig(read_only=True)) as environment:
        return position_after(environment, storage)


@pytest.mark.parametrize("end", [30, 55, 56, 62, 90, 140])
def test_the_stream_goes_on_wherever_the_copy_ends(end: int) -> None:
    log, storage = overlapping(), MemoryStorage()
    copy_of(log[:end], storage)
    position = after(storage)
    assert position.last is not None
    done, restart = position.last.vlsn, position.restart
    assert done <= end
    streaming = streaming_group(log)
    streaming.uuid = recorded_uuid()
    whole = Reader(streaming, BEGIN).read()
    rest = Reader(streaming, position).read()
    assert rest.transactions == [one for one in whole.transactions if one[0] > done]
    assert not any(torn for *_, torn, _ in rest.transactions)
    if end == 56:
        assert restart == 54
        assert [change.vlsn for change in rest.transactions[0][3]] == [54, 57]


def test_an_environment_of_no_group(tmp_path: Path, group: GroupDouble) -> None:
    assert run("create", tmp_path / "env").code == exits.DONE
    result = stream("--after", tmp_path / "env", "--to", tmp_path / "d")
    assert (result.code, "no replication group" in result.err) == (exits.NOT_FOUND, True)
    missing = stream("--after", tmp_path / "none", "--to", tmp_path / "e")
    assert (missing.code, (tmp_path / "e").exists()) == (exits.NOT_FOUND, False)
    twice = stream("--after", tmp_path / "env", "--from", "begin")
    assert twice.code == exits.USAGE


def test_the_command(tmp_path: Path, group: GroupDouble) -> None:
    """A stream of one database, whose name only the copy tells; the state file goes on where it ended."""
    log = operations()
    group.uuid = recorded_uuid()
    copy_of(log[:30], DiskStorage(str(tmp_path / "copy")))
    words = ("--after", tmp_path / "copy", "--fast", "--until-idle", "0", "--state", tmp_path / "state")
    found = rows_of(stream(*words, "--db", "alpha", "--limit", "2").out)
    assert [row["db"] for row in found if row["rec"] == "change"] == ["alpha"] * len(found[:-1][::2])
    assert found[0]["vlsn"] > 30
    assert rows_of(stream(*words).out)[0]["vlsn"] > found[-1]["last_vlsn"]
