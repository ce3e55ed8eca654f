"""What recovery tells of its phases while it works: bytes, up to the last one."""

from __future__ import annotations

from pathlib import Path

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.inspect.survey import survey
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from tests.support import corpus

OF_BYTES = ("READ_DBMAP_INFO", "UNDO_DATA_RECORDS", "REDO_DATA_RECORDS")


class Steps:
    def __init__(self) -> None:
        self.heard: dict[str, list[tuple[int, int]]] = {}

    def step(self, name: str, done: int, total: int) -> None:
        self.heard.setdefault(name, []).append((done, total))


def recovered(env: Path) -> tuple[Steps, int]:
    steps = Steps()
    with Environment(str(env), EnvironmentConfig(read_only=True), steps) as found:
        result = found.engine.recovery
        assert result is not None
        files = {int(path.stem, 16): path.stat().st_size for path in env.glob("*.jdb")}
        first, end = result.first_active_lsn, result.end_lsn
        total = sum(size for number, size in files.items() if first >> 32 <= number < end >> 32)
        return steps, total + (end & 0xFFFFFFFF) - (first & 0xFFFFFFFF)


def test_each_pass_tells_its_bytes_and_comes_to_its_end() -> None:
    steps, total = recovered(corpus.path() / "je/je-18.3.20/txn-crash/env")
    for name in OF_BYTES:
        heard = steps.heard[name]
        assert heard[0] == (0, total), name
        assert heard[-1] == (total, total), name
        assert heard == sorted(heard)


def test_files_that_are_verified_first_are_told_one_by_one() -> None:
    heard = recovered(corpus.path() / "je/je-18.3.20/rollback-straddle/env")[0].heard["VERIFY"]
    assert heard[0][0] == 0
    assert heard[-1][0] == heard[-1][1]


def test_the_search_for_a_checkpoint_far_back_is_told() -> None:
    storage = MemoryStorage()
    config = EnvironmentConfig(
        create=True, checkpoint_bytes=1 << 60, file_max_bytes=20_000, run_checkpointer=False, run_cleaner=False
    )
    env = Environment(storage, config)
    with env.create_database("d") as db, env.begin() as txn:
        for number in range(2000):
            db.put(b"%05d" % number, bytes(50), txn)
    env.engine.crash()
    files = list_log_files(storage)
    assert len(files.files) > 5
    steps = Steps()
    with Environment(storage, EnvironmentConfig(read_only=True), steps):
        heard = steps.heard["FIND_LAST_CKPT"]
    total = heard[-1][1]
    assert heard == sorted(heard)
    assert len(heard) > 5
    assert total // 2 < heard[-1][0] <= total < sum(file.size_bytes for file in files.files)
    of_survey = Steps()
    survey(storage, files, listener=of_survey)
    assert of_survey.heard["find checkpoint"] == [(number, 0) for number in range(len(files.files))]
