"""How far a pass over log files is."""

from __future__ import annotations

from engine.format.lsn import make_lsn
from engine.log.files import LogFile, LogProgress, list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from tests.support.environments.oracle import named


class Steps:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.heard.append((name, done, total))


def test_bytes_are_those_before_the_entry_forward_and_backward() -> None:
    files = [LogFile(number, f"{number:08x}.jdb", 10 << 20) for number in (0, 3)]
    forward, backward = Steps(), Steps()
    told = LogProgress(forward, "read", files)
    for offset in (0, 100, 2 << 20, (2 << 20) + 9):
        told.at(make_lsn(3, offset))
    told.end()
    mega = 1 << 20
    assert [done / mega for _, done, _ in forward.heard] == [10, 12, 20]
    told = LogProgress(backward, "read", files, backward=True)
    for lsn in (make_lsn(3, 9 * mega), make_lsn(3, 0), make_lsn(0, 0)):
        told.at(lsn)
    assert [done / mega for _, done, _ in backward.heard] == [1, 10, 20]
    assert {total for _, _, total in forward.heard + backward.heard} == {20 * mega}


def test_it_tells_within_a_file_and_changes_nothing() -> None:
    storage = DiskStorage(named("je-18.3.20/plain-load").path / "env")
    files = list_log_files(storage)
    reader = scan_log(storage, files, marker=True)
    passes = ((reader.entries, False, 4), (reader.stretches, False, 1), (reader.backward, True, 4))
    for items, backward, every in passes:
        steps = Steps()
        told = LogProgress(steps, "read", files.files, backward=backward, every_bytes=1000)
        assert list(told.along(items(), every=every)) == list(items())
        assert steps.heard
        assert steps.heard == sorted(steps.heard)
