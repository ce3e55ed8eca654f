"""The bloom filters of every delta that real JE wrote, rebuilt bit for bit (je-log-format.md 8.6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.bloom import bloom_filter, may_contain
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.tree.tree import edge_bin
from tests.support import corpus

ENVIRONMENTS = sorted(path.parent / "env" for path in (corpus.path() / "je").rglob("manifest.json"))


def filters(env: Path) -> tuple[int, int]:
    """How many filters of an environment could be rebuilt, and how many of them were the same."""
    storage = DiskStorage(env)
    files = list_log_files(storage)
    access = LogAccess(storage, files.files)
    tried = same = 0
    for file in files.files:
        with FileReader(storage, file, is_last=file is files.files[-1]) as reader:
            for entry in reader.entries():
                if not isinstance(entry, LogEntry) or entry.type_name != "NewBINDelta":
                    continue
                delta = entry.record()
                assert isinstance(delta, NodeRecord)
                left = _keys_left_out(access, delta)
                if delta.bloom_filter is not None and left is not None and len(left) == len(delta.bloom_filter):
                    tried += 1
                    same += bloom_filter(delta.key_prefix, left) == delta.bloom_filter
    access.close()
    return tried, same


def _keys_left_out(access: LogAccess, delta: NodeRecord) -> list[bytes] | None:
    """Keys of the complete BIN that are not in the delta, without the delta's prefix; None when it is gone."""
    try:
        full = access.read(delta.prev_full_lsn).record()
    except JetoolError:
        return None
    assert isinstance(full, NodeRecord)
    inside = {delta.full_key(slot) for slot in delta.slots}
    prefix = delta.key_prefix or b""
    left = [full.full_key(slot) for slot in full.slots if full.full_key(slot) not in inside]
    if len(left) != len(delta.bloom_filter or b""):
        # Deleted slots may have been compressed away since.
        gone = KNOWN_DELETED | PENDING_DELETED
        left = [full.full_key(s) for s in full.slots if full.full_key(s) not in inside and not s.state & gone]
    return [key[len(prefix) :] for key in left] if all(key.startswith(prefix) for key in left) else None


def test_every_filter_that_can_be_rebuilt_is_the_same() -> None:
    tried = same = 0
    for env in ENVIRONMENTS:
        found = filters(env)
        tried, same = tried + found[0], same + found[1]
    assert same == tried
    assert tried > 1000


@given(st.sets(st.binary(max_size=12), max_size=300), st.none() | st.binary(max_size=5))
def test_no_key_is_missed(keys: set[bytes], prefix: bytes | None) -> None:
    bits = bloom_filter(prefix, sorted(keys))
    assert len(bits) == len(keys)
    assert all(may_contain(bits, prefix, key) for key in keys)


def test_most_other_keys_are_known_to_be_absent() -> None:
    bits = bloom_filter(None, [b"%04d" % i for i in range(80)])
    wrong = sum(may_contain(bits, None, b"other%04d" % i) for i in range(1000))
    assert wrong < 100


@pytest.mark.parametrize("prefixing", [False, True])
def test_deltas_that_we_write(prefixing: bool) -> None:
    """With ``je.tree.binDeltaBlindPuts`` a delta has a filter over exactly the keys that it leaves out."""
    config = EnvironmentConfig(create=True, blind_puts=True, checkpoint_bytes=0)
    keys = [b"common/%04d" % i for i in range(60)]
    storage = MemoryStorage()
    with Environment(storage, config) as env:
        with env.create_database("d", DatabaseOptions(key_prefixing=prefixing)) as db:
            for key in keys:
                db.put(key, b"v" * 30)
            env.checkpoint(force=True, minimize=True)
            for key in keys[10:15]:
                db.put(key, b"w" * 30)
            env.checkpoint(force=True)
            node = edge_bin(env.engine.ctx, db.state)
            assert node is not None
            delta = env.engine.access.read(node.delta_lsn).record()
        assert isinstance(delta, NodeRecord)
        assert [delta.full_key(slot) for slot in delta.slots] == keys[10:15]
        prefix = delta.key_prefix or b""
        assert len(prefix) == (9 if prefixing else 0)
        left = [key for key in keys if key not in keys[10:15]]
        assert delta.bloom_filter == bloom_filter(None, left) == bloom_filter(prefix, [k[len(prefix) :] for k in left])
    with Environment(storage, EnvironmentConfig(read_only=True)) as env, env.open_database("d") as db:
        assert [key for key, _ in db.items()] == keys
