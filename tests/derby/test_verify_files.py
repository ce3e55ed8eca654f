"""``verify --files`` on Derby databases: some log files, each by itself, and ``--rate``."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.log import DerbyLogFiles
from engine.derby.verify.check import DerbyReport
from engine.derby.verify.findings import NOTE, WARNING
from engine.derby.verify.part import verify_log_files
from engine.errors import NotFoundError
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import files_of, records_of
from tests.support.derby_java import put
from tests.support.harness import run

NAME = "crash-log-files"


def numbers() -> list[int]:
    return DerbyLogFiles(DerbyDatabase(MemoryStorage(dict(files_of(NAME))))).numbers()


def check(first: int, last: int | None, **changed: bytes | None) -> DerbyReport:
    files = {**files_of(NAME), **{f"log/{name}.dat": data for name, data in changed.items() if data is not None}}
    for name, data in changed.items():
        if data is None:
            del files[f"log/{name}.dat"]
    return verify_log_files(DerbyDatabase(MemoryStorage(files)), first, last)


def codes(report: DerbyReport) -> list[tuple[str, str]]:
    return [(one.code, one.file or "") for one in report.findings]


def flipped(number: int, position: int) -> bytes:
    data = bytearray(files_of(NAME)[f"log/log{number}.dat"])
    data[position] ^= 1
    return bytes(data)


def record_in(number: int, part: float = 0.5) -> int:
    """Position of a record in the middle of a file, or another part of it."""
    found = [one.instant for one in records_of(NAME) if instant.file_of(one.instant) == number]
    return instant.position_of(found[int(len(found) * part)])


def test_every_file_by_itself_and_all_of_them() -> None:
    every = numbers()
    assert len(every) > 2
    whole = check(0, None)
    assert codes(whole) == []
    assert whole.records == len(records_of(NAME))
    assert whole.scope == f"files log{every[0]}.dat to log{every[-1]}.dat"
    parts = [check(number, number) for number in every]
    assert [codes(one) for one in parts] == [[]] * len(every)
    assert sum(one.records for one in parts) == whole.records
    assert parts[0].scope == f"file log{every[0]}.dat"
    assert "the end of the log" in parts[0].not_checked
    assert "the end of the log" not in parts[-1].not_checked
    assert "other log files" in parts[0].not_checked
    assert "other log files" not in whole.not_checked


def test_damage_is_found_in_its_file_alone() -> None:
    number = numbers()[-2]
    damaged = flipped(number, record_in(number) + 20)
    found = check(number, number, **{f"log{number}": damaged})
    # The record, and the group that holds it.
    assert set(codes(found)) == {("DRB-LOG-006", f"log/log{number}.dat")}
    last = numbers()[-1]
    assert codes(check(last, last, **{f"log{number}": damaged})) == []


def test_damage_that_recovery_does_not_read_is_a_note() -> None:
    """The undo low water mark is at (1,51904)."""
    first = numbers()[0]
    found = check(first, first, **{f"log{first}": flipped(first, record_in(first, 0.1) + 20)})
    assert set(codes(found)) == {("DRB-LOG-006", f"log/log{first}.dat")}
    assert {one.severity for one in found.findings} <= {NOTE, WARNING}


def test_a_commit_after_damage_in_the_last_file_is_an_error() -> None:
    last = numbers()[-1]
    found = check(last, last, **{f"log{last}": flipped(last, record_in(last) + 20)})
    assert "DRB-LOG-002" in [code for code, _ in codes(found)]


def test_flags_of_a_checksum_record() -> None:
    last = numbers()[-1]
    guard = next(one for one in records_of(NAME) if instant.file_of(one.instant) == last)
    found = check(last, last, **{f"log{last}": flipped(last, instant.position_of(guard.instant) + 14)})
    assert codes(found) == [("DRB-LOG-006", f"log/log{last}.dat")]
    assert "flags" in found.findings[0].message


def test_a_missing_file_and_a_file_of_another_log() -> None:
    every = numbers()
    middle = every[-2]
    missing = check(every[-1], None, **{f"log{middle}": None})
    assert missing.findings == () or codes(missing) == [("DRB-LOG-003", f"log/log{middle}.dat")]
    foreign = bytearray(files_of(NAME)[f"log/log{middle}.dat"])
    foreign[20:24] = (30).to_bytes(4, "big")
    assert ("DRB-LOG-006", f"log/log{middle}.dat") in codes(check(middle, middle, **{f"log{middle}": bytes(foreign)}))


def test_no_file_in_the_range() -> None:
    with pytest.raises(NotFoundError, match="no log file in this range"):
        check(900, None)


def test_the_command(tmp_path: Path) -> None:
    env = str(put(MemoryStorage(dict(files_of(NAME))), tmp_path / "db"))
    first, last = numbers()[0], numbers()[-1]
    found = run("verify", env, "--files", f"log{first}.dat..log{last - 1}.dat", "--json")
    assert found.code == 0
    summary = found.json()["summary"]
    assert summary["verdict"] == "no damage seen"
    assert summary["scope"] == f"files log{first}.dat to log{last - 1}.dat"
    assert summary["files"] == last - first
    assert run("verify", env, "--files", f"0x{last:x}", "--json").json()["summary"]["scope"] == f"file log{last}.dat"
    assert run("verify", env, "--files", "log900.dat").code == 4
    assert run("verify", env, "--files", f"{last:08x}.jdb").code == 2
    assert run("verify", env, "--files", f"log{last}.dat", "--full").code == 2
    assert run("verify", env, "--files", "log1.dat..00000002").code == 2
    (tmp_path / "db" / "log" / f"log{first}.dat").write_bytes(flipped(first, record_in(first, 0.1) + 20))
    summary = run("verify", env, "--files", f"log{first}.dat", "--json").json()["summary"]
    assert (summary["errors"], summary["notes"] + summary["warnings"]) == (0, 2)


def test_derby_files_are_refused_for_a_je_environment(golden_dir: Path) -> None:
    env = str(golden_dir / "je-17" / "txn-crash")
    for words in (("verify", env, "--files", "log1.dat"), ("space", env, "--files", "log1.dat")):
        found = run(*words)
        assert (found.code, "not available" in found.err) == (2, True)


def test_rate(tmp_path: Path) -> None:
    env = str(put(MemoryStorage(dict(files_of(NAME))), tmp_path / "db"))
    size = sum(len(files_of(NAME)[f"log/log{number}.dat"]) for number in numbers())
    started = time.monotonic()
    found = run("verify", env, "--files", "0x0..", "--rate", f"{2 * size // 1000}kB", "--json")
    assert found.code == 0
    # The log is read once at least.
    assert time.monotonic() - started > 0.4
    assert run("verify", env, "--rate", "900MB").code == 0
