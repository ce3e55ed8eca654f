"""Damage that a writer meets at work: the marker that it leaves, and who leaves none (R-LOG-37, R-LOG-40)."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, RefusedError
from engine.format.entry.markers import RestoreRequired
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.marker import MARKER
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage

STAYS = EnvironmentConfig(checkpoint_bytes=0, mark_damage=True)


def damaged() -> MemoryStorage:
    """An environment with a record that cannot be read, in front of what recovery reads."""
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=0)) as env:
        db = env.create_database("db")
        for key in (b"bad", b"good"):
            db.put(key, key * 20)
    with Environment(storage, EnvironmentConfig(force_new_file=True, force_checkpoint=True)):
        pass
    files = storage.contents()
    data = bytearray(files["00000000.jdb"])
    data[data.index(b"bad" * 20)] ^= 1
    return MemoryStorage({**files, "00000000.jdb": bytes(data)})


def test_a_process_that_stays_marks_the_environment_and_stops_writing() -> None:
    storage = damaged()
    env = Environment(storage, STAYS)
    db = env.open_database("db")
    assert db.get(b"good") == b"good" * 20
    assert storage.stat(MARKER) is None
    with pytest.raises(DamageError, match="checksum") as raised:
        db.get(b"bad")
    assert MARKER in (raised.value.consequence or "")
    with pytest.raises(RefusedError, match="invalid"):
        db.put(b"k", b"v")
    env.close()
    for read_only in (True, False):
        with pytest.raises(RefusedError, match="restore marker"):
            Environment(storage, EnvironmentConfig(read_only=read_only))


def test_the_marker_says_what_was_met_where() -> None:
    storage = damaged()
    env = Environment(storage, STAYS)
    with pytest.raises(DamageError) as raised:
        env.open_database("db").get(b"bad")
    env.close()
    marker = list_log_files(storage).marker
    assert marker is not None
    with FileReader(storage, marker, is_last=False) as reader:
        *_, entry = reader.entries()
    assert isinstance(entry, LogEntry)
    record = entry.record()
    assert isinstance(record, RestoreRequired)
    assert record.failure_type == "LOG_CHECKSUM"
    assert f"lsn={raised.value.lsn}\n" in record.properties


@pytest.mark.parametrize(
    "config", [EnvironmentConfig(read_only=True, mark_damage=True), EnvironmentConfig(checkpoint_bytes=0)]
)
def test_a_reader_and_a_single_command_leave_none(config: EnvironmentConfig) -> None:
    storage = damaged()
    env = Environment(storage, config)
    with pytest.raises(DamageError, match="checksum"):
        env.open_database("db").get(b"bad")
    assert env.open_database("db").get(b"good") == b"good" * 20
    env.close()
    assert storage.stat(MARKER) is None
