"""Databases of each release from 10.0 to 10.17, killed with two transactions open: read, checked and recovered.

``tests/golden/derby-releases.tar.xz`` has a database of each release. All hold the same rows (``rows.tsv``, as each
release itself printed them after its own recovery). ``after.json`` has a digest of the logged content of each container
after the release that made the database had recovered and closed a copy.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import control
from engine.derby.format.operations.transaction import Checksum
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.recovery.manager import DerbyRecoveryResult, recover
from engine.derby.sql.heap_rows import LostRows
from engine.derby.sql.tables import SqlRow, SqlTables
from engine.derby.verify.check import verify
from engine.derby.verify.findings import ERROR, WARNING
from engine.storage.memory import MemoryStorage
from tests.derby.derby_compare import logged_content
from tests.support.corpus import archive_members
from tests.support.derby_java import put
from tests.support.harness import run

ARCHIVE = Path(__file__).resolve().parents[1] / "golden" / "derby-releases.tar.xz"
RELEASES = [f"10.{minor}" for minor in range(18)]
TABLES = ("ACCOUNTS", "BYTES", "NUMBERS", "TEXTS")


@cache
def members() -> dict[str, bytes]:
    return archive_members(ARCHIVE)


def crashed(release: str) -> dict[str, bytes]:
    start = f"{release}/"
    return {name.removeprefix(start): data for name, data in members().items() if name.startswith(start)}


@cache
def recovered(release: str) -> tuple[dict[str, bytes], DerbyRecoveryResult]:
    storage = MemoryStorage(crashed(release))
    result = recover(storage)
    return storage.contents(), result


def shown(table: str, column: str, value: object) -> str:
    """A value as ``rows.tsv`` has it; numbers of all notations alike."""
    if value is None:
        return "null"
    if (table, column) == ("BYTES", "B"):
        data = bytes.fromhex(str(value))
        return f"{len(data)}:{zlib.crc32(data):x}"
    return str(float(str(value))) if column in ("R", "D") and table == "NUMBERS" else str(value)


def rows_of(files: dict[str, bytes]) -> tuple[dict[str, list[list[str]]], list[LostRows]]:
    """The rows of each table in order, and what could not be read."""
    found: dict[str, list[list[str]]] = {}
    lost: list[LostRows] = []
    with SqlTables(DerbyDatabase(MemoryStorage(files))) as tables:
        assert tables.problem is None
        for table in (one for one in tables.tables() if not one.is_system):
            names = [one.name for one in table.columns]
            rows = found.setdefault(table.name, [])
            for row in tables.rows(table):
                if isinstance(row, LostRows):
                    lost.append(row)
                    continue
                assert isinstance(row, SqlRow)
                assert row.problems == {}
                rows.append([shown(table.name, *pair) for pair in zip(names, row.values, strict=True)])
            rows.sort()
    return found, lost


@cache
def expected_rows() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {name: [] for name in TABLES}
    for line in members()["rows.tsv"].decode().splitlines():
        table, *values = line.split("\t")
        if table == "NUMBERS":
            values[4:6] = [one if one == "null" else str(float(one)) for one in values[4:6]]
        found[table].append(values)
    return {name: sorted(rows) for name, rows in found.items()}


def container_of(files: dict[str, bytes], name: str) -> str:
    with SqlTables(DerbyDatabase(MemoryStorage(files))) as tables:
        return next(f"seg0/c{one.container:x}.dat" for one in tables.tables() if one.name == name)


def digests(storage: MemoryStorage) -> dict[str, str]:
    content = logged_content(storage)
    return {path: hashlib.sha256(json.dumps(one).encode()).hexdigest()[:16] for path, one in content.items()}


@pytest.mark.parametrize("release", RELEASES)
def test_rows_without_a_start_are_those_of_the_release(release: str) -> None:
    rows, lost = rows_of(crashed(release))
    assert lost == []
    assert rows == expected_rows()
    assert sum(map(len, rows.values())) == 284


@pytest.mark.parametrize("release", RELEASES)
def test_recovery_leaves_what_the_release_leaves(release: str) -> None:
    expected: dict[str, Any] = json.loads(members()["after.json"])[release]
    files, result = recovered(release)
    assert (result.clean, result.lost_commits, len(result.undone)) == (False, 0, 2)
    before = digests(MemoryStorage(crashed(release)))
    assert before != expected
    assert digests(MemoryStorage(files)) == expected


@pytest.mark.parametrize("release", RELEASES)
def test_verify_finds_no_error_before_and_after(release: str) -> None:
    for files in (crashed(release), recovered(release)[0]):
        report = verify(DerbyDatabase(MemoryStorage(files)))
        assert [one for one in report.findings if one.severity in (ERROR, WARNING)] == []
        assert report.pages > 200


@pytest.mark.parametrize("release", RELEASES)
def test_only_releases_from_10_1_on_have_checksum_records(release: str) -> None:
    """10.0 does not start a database whose log has one: it does not know the operation."""
    files, result = recovered(release)
    log = DerbyLogFiles(DerbyDatabase(MemoryStorage(files)))
    written = list(ForwardScan(log, result.undo_from))
    assert len(written) > sum(one.clrs for one in result.undone) > 200
    assert any(isinstance(one.operation, Checksum) for one in written) is (release != "10.0")


def test_commands_name_the_release(tmp_path: Path) -> None:
    for release in ("10.0", "10.17"):
        env = str(put(MemoryStorage(crashed(release)), tmp_path / release))
        assert run("info", env, "--json").json()["release"] == release
        assert run("recover", env).code == 0
        assert run("verify", env, "--full").code == 0


def test_a_newer_release_is_refused(tmp_path: Path) -> None:
    files = crashed("10.17")
    for name in ("log/log.ctrl", "log/logmirror.ctrl"):
        files[name] = control.encode(control.decode(files[name])._replace(minor=18))
    put(MemoryStorage(files), tmp_path / "db")
    found = run("recover", str(tmp_path / "db"))
    assert found.code == 5
    assert "release 10.18: expected a release from 10.0 to 10.17" in found.err


@pytest.mark.parametrize("release", ["10.0", "10.4", "10.17"])
def test_an_emptied_page_in_use_is_missed(release: str) -> None:
    files, _ = recovered(release)
    path = container_of(files, "ACCOUNTS")
    data = bytearray(files[path])
    data[3 * 4096 : 4 * 4096] = bytes(4096)
    rows, lost = rows_of({**files, path: bytes(data)})
    assert [(one.page, one.record_id) for one in lost] == [(3, None)]
    assert "in use and empty" in lost[0].problem
    assert len(rows["ACCOUNTS"]) == len(expected_rows()["ACCOUNTS"]) - 1


@pytest.mark.parametrize("release", ["10.0", "10.17"])
def test_pages_after_the_end_of_a_file_are_missed(release: str) -> None:
    files, _ = recovered(release)
    path = container_of(files, "ACCOUNTS")
    rows, lost = rows_of({**files, path: files[path][: 30 * 4096]})
    assert lost[-1] == LostRows(30, None, f"page 30 of container {int(path[6:-4], 16)} is in use and missing")
    assert 0 < len(rows["ACCOUNTS"]) < len(expected_rows()["ACCOUNTS"])


def test_without_its_map_every_empty_page_may_be_in_use() -> None:
    files, _ = recovered("10.5")
    path = container_of(files, "ACCOUNTS")
    data = bytearray(files[path])
    data[400] ^= 1
    data[3 * 4096 : 4 * 4096] = bytes(4096)
    _, lost = rows_of({**files, path: bytes(data)})
    assert 3 in [one.page for one in lost]
