"""Where a log ends, and what goes on from there: T-42 to T-45, T-58, T-61, T-68, T-69."""

from __future__ import annotations

from pathlib import Path
from zlib import adler32

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError
from engine.format.entry.node import NodeRecord
from engine.format.entry.trace import Trace, encode_trace
from engine.format.entry_types import LNS, TREE_NODE_ENTRIES
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.passes import LogRange, backward, forward
from engine.log.writer import LogWriter
from engine.recovery.node_replay import logged_node
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import Workload, contents, open_env
from tests.support.logs.decoded import record_of
from tests.support.logs.entries import entries

READ_ONLY = EnvironmentConfig(read_only=True)


def jdb(storage: MemoryStorage) -> dict[str, bytes]:
    return {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}


def worked(seed: int = 9, steps: int = 40) -> tuple[MemoryStorage, Workload, list[LogEntry]]:
    """A log of a few files, its model, its entries; stopped without a word."""
    storage = MemoryStorage()
    env = open_env(storage)
    workload = Workload(seed, keys=30, ddl=False)
    workload.start(env)
    workload.run(env, steps)
    found = list(entries(env))
    env.engine.crash()
    return storage, workload, found


def cut(storage: MemoryStorage, lsn: int) -> MemoryStorage:
    """The log up to an entry, without it."""
    kept = {path: data for path, data in jdb(storage).items() if int(path[:8], 16) <= file_of(lsn)}
    last = f"{file_of(lsn):08x}.jdb"
    kept[last] = kept[last][: offset_of(lsn)]
    return MemoryStorage(kept)


def test_nothing_there_is_refused(tmp_path: Path) -> None:
    """T-42: a reader makes nothing, neither files nor a directory."""
    for config in (READ_ONLY, EnvironmentConfig(read_only=True, create=True), EnvironmentConfig()):
        with pytest.raises(NotFoundError):
            Environment(tmp_path, config)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError):
        Environment(tmp_path / "none", READ_ONLY)
    assert not (tmp_path / "none").exists()


def test_ids_go_on_with_and_without_a_checkpoint_behind_them() -> None:
    """T-43, R-REC-15: CkptEnd's value or the largest that follows it, whichever is larger."""
    storage = MemoryStorage()
    seen: list[tuple[int, int, int]] = []
    for turn, checkpoint in enumerate((True, False, True, False)):
        env = open_env(storage)
        db = env.create_database(f"db{turn}")
        with env.begin() as txn:
            for number in range(20):
                db.put(b"%04d" % number, b"v", txn)
        now = (db.state.id, txn.id, env.engine.node_ids.last)
        assert not seen or all(new > old for new, old in zip(now, seen[-1], strict=True))
        seen.append(now)
        if checkpoint:
            env.checkpoint(force=True)
        env.sync()
        env.engine.crash()
    with open_env(storage, read_only=True) as last:
        assert (last.engine.recovery.ids.db, last.engine.node_ids.last) >= (seen[-1][0], seen[-1][2])
        assert last.engine.recovery.ids.txn >= seen[-1][1]


@pytest.mark.parametrize("torn", ["bad checksum", "cut", "header only"])
def test_a_torn_last_file_whose_checkpoint_is_in_the_file_before(torn: str) -> None:
    """T-44: the last file holds no CkptEnd, and its tail is bad; for writers and readers alike."""
    storage, workload, found = worked()
    ends = [entry.lsn for entry in found if entry.type_name == "CkptEnd"]
    files = jdb(storage)
    last = max(files)
    in_last = [entry for entry in found if file_of(entry.lsn) == int(last[:8], 16) and entry.type_name != "FileHeader"]
    assert len(in_last) > 1
    first = in_last[0].lsn
    # A file that holds but its header does not count (R-LOG-30), and is not left as such (R-LOG-16).
    last_lsn_before = max(e.lsn + e.total_bytes for e in found if e.lsn < first and e.type_name != "FileHeader")
    assert any(lsn < first for lsn in ends)
    data = files[last]
    at = offset_of(first)
    if torn == "bad checksum":
        files[last] = data[: at + 20] + bytes((data[at + 20] ^ 1,)) + data[at + 21 : at + in_last[0].total_bytes]
    elif torn == "cut":
        files[last] = data[: at + 15]
    else:
        files[last] = data[:at]
    state = next(state for lsn, state in reversed(workload.marks) if lsn < first)
    before = dict(files)
    with Environment(MemoryStorage(files), READ_ONLY) as reader:
        assert contents(reader) == state
    assert files == before
    image = MemoryStorage(files)
    with open_env(image) as env:
        assert env.engine.recovery.end_lsn == last_lsn_before
        assert contents(env) == state
    with open_env(image, read_only=True) as reader:
        assert contents(reader) == state


def test_the_only_ckpt_end_is_cut_off() -> None:
    """T-45, R-REC-4: without any CkptEnd recovery reads the whole log."""
    storage = MemoryStorage()
    env = open_env(storage)
    db = env.create_database("db")
    for number in range(30):
        db.put(b"%04d" % number, b"v")
    env.sync()
    first = next(entry.lsn for entry in entries(env) if entry.type_name == "CkptEnd")
    env.engine.crash()
    whole = jdb(storage)
    with open_env(MemoryStorage(whole), read_only=True) as reader:
        assert reader.engine.recovery.ckpt_end_lsn == first
    # The entry becomes a Trace of its size: the log is whole, but has no checkpoint.
    old = next(e for e in entries_of(whole) if e.lsn == first)
    body = encode_trace(Trace(0, ""), 17)
    filler = encode_trace(Trace(0, "x" * (old.item_size - len(body))), 17)
    assert len(filler) == old.item_size
    path = f"{file_of(first):08x}.jdb"
    at = offset_of(first)
    whole[path] = whole[path][:at] + logged(filler, old.prev_offset) + whole[path][at + old.total_bytes :]
    image = MemoryStorage(whole)
    with open_env(image) as env:
        assert env.engine.recovery.ckpt_end_lsn == NULL_LSN
        assert env.engine.recovery.first_active_lsn == NULL_LSN
        assert contents(env) == {"db": {b"%04d" % number: b"v" for number in range(30)}}


def entries_of(files: dict[str, bytes]) -> list[LogEntry]:
    with open_env(MemoryStorage(files)) as env:
        return list(entries(env))


def logged(body: bytes, prev_offset: int, type_number: int = 24) -> bytes:
    """An entry, a Trace if nothing else is said, as it stands in a file."""
    storage = MemoryStorage()
    writer = LogWriter(LogAccess(storage, ()), make_lsn(0, 0), NULL_LSN, file_max=1 << 20, buffer_bytes=100)
    lsn = writer.log(type_number, body)
    writer.close()
    entry = storage.contents()["00000000.jdb"][offset_of(lsn) :]
    rest = entry[4:6] + prev_offset.to_bytes(4, "little") + entry[10:]
    return adler32(rest).to_bytes(4, "little") + rest


def test_what_is_written_behind_a_truncation_is_recovered() -> None:
    """T-58: a bad entry is cut off, work goes on there, and a second recovery reads it."""
    storage, workload, found = worked()
    victim = [entry for entry in found if entry.type_name == "Commit"][-1]
    files = jdb(storage)
    path = f"{file_of(victim.lsn):08x}.jdb"
    at = offset_of(victim.lsn) + 20
    files = {name: data for name, data in files.items() if name <= path}
    files[path] = files[path][:at] + bytes((files[path][at] ^ 0xFF,)) + files[path][at + 1 :]
    image = MemoryStorage(files)
    before = next(state for lsn, state in reversed(workload.marks) if lsn < victim.lsn)
    for turn in range(3):
        env = open_env(image)
        with env.open_database("plain") as db:
            assert dict(db.items()) == {**before["plain"], **{b"turn %d" % n: b"x" for n in range(turn)}}
            db.put(b"turn %d" % turn, b"x")
        env.engine.crash()


def test_damage_in_a_file_is_reported_again_and_again() -> None:
    """T-61, R-LOG-40, the lasting kind: the error names the place, at every read and after every restart."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=0))
    db = env.create_database("db")
    db.put(b"k", b"v" * 50)
    env.checkpoint(force=True)
    env.create_database("behind").close()
    env.sync()
    path, data = next((path, data) for path, data in storage.contents().items() if b"v" * 50 in data)
    file = storage.open_rw(path)
    file.write(data.index(b"v" * 50) + 5, b"?")
    file.close()
    env.engine.evict()
    for _ in range(2):
        with pytest.raises(DamageError, match=r"00000000\.jdb at 0x0/0x[0-9a-f]+"):
            db.get(b"k")
    env.engine.crash()


class Spoiled:
    """What the writer holds, with a flipped bit."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    def find(self, file_number: int, offset: int) -> bytes | None:
        found = self._writer.find(file_number, offset)
        return None if found is None else found[:-1] + bytes((found[-1] ^ 4,))

    def may_hold(self, file_number: int, offset: int) -> bool:
        return self._writer.may_hold(file_number, offset)

    def invalidate(self, failure: JetoolError) -> None:
        self._writer.invalidate(failure)


def test_damage_in_the_buffer_never_reaches_the_file() -> None:
    """T-61, R-LOG-40, the passing kind: the environment is invalid, the log as good as it was."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=0))
    db = env.create_database("db")
    db.put(b"k", b"committed" * 5)
    txn = env.begin()
    db.put(b"k", b"not yet" * 5, txn)
    env.engine.evict()
    assert env.engine.writer is not None
    env.engine.access.unwritten = Spoiled(env.engine.writer)
    with pytest.raises(DamageError):
        db.get(b"k", txn)
    with pytest.raises(RefusedError, match="invalid"):
        txn.commit()
    env.close()
    with open_env(storage) as again, again.open_database("db") as found:
        assert dict(found.items()) == {b"k": b"committed" * 5}


def test_ids_are_tracked_from_anywhere() -> None:
    """T-68, R-REC-15: a walk that begins in the middle of a file sees the ids of what follows, and no others."""
    storage, _, found = worked()
    access = LogAccess(storage, list_log_files(storage).files)
    end = found[-1].lsn + found[-1].total_bytes
    nodes = [e for e in found if isinstance(e.record(), NodeRecord)]
    for start in (nodes[0].lsn, nodes[len(nodes) // 2].lsn, nodes[-1].lsn):
        expected = [record_of(e, NodeRecord).node_id for e in nodes if e.lsn >= start]
        seen = []
        for raw in forward(access, LogRange(start, end), TREE_NODE_ENTRIES):
            _, node_id = logged_node(raw)
            seen.append(node_id)
        assert seen == expected
    access.close()


@pytest.mark.parametrize("piece", [1 << 20, 4096, 700, 200])
def test_records_are_the_same_in_both_directions(piece: int) -> None:
    """T-69, R-LOG-43: whatever the size of the pieces that are read, and wherever a pass begins and ends."""
    storage, _, found = worked()
    wanted = LNS
    access = LogAccess(storage, list_log_files(storage).files, piece)
    leaves = [e.lsn for e in found if e.type_number in wanted]
    end = found[-1].lsn + found[-1].total_bytes
    for start, stop in ((NULL_LSN, end), (leaves[5], end), (leaves[7], leaves[-9]), (leaves[3], leaves[3])):
        expected = [lsn for lsn in leaves if start <= lsn < stop]
        assert [raw.lsn for raw in forward(access, LogRange(start, stop), wanted)] == expected
        assert [raw.lsn for raw in backward(access, LogRange(start, stop), wanted)] == expected[::-1]
    access.close()
