"""``jetool stream --to --file-format``: Avro and Parquet files have what the lines of NDJSON have."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.rep.changes.columns import COLUMNS, RETRACT, TORN
from engine.rep.changes.transactions import RecordChange
from jetool.commands.stream.column_files import AVRO, PARQUET, row_file
from jetool.frame import exits
from jetool.output.shape import expiration_text
from tests.cli.test_stream import IDLE
from tests.support.groups.group_double import GroupDouble
from tests.support.groups.streamed import group, rows_of, stream
from tests.support.groups.subscribers import forked, operations
from tests.support.tools import needs

__all__ = ["group"]
TOOLS = {AVRO: "fastavro", PARQUET: "pyarrow"}
Record = dict[str, Any]


@pytest.fixture(params=[AVRO, PARQUET])
def form(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    needs(TOOLS[name])
    return name


def read(form: str, data: bytes) -> list[Record]:
    if form == AVRO:
        import fastavro

        return [dict(record) for record in fastavro.reader(io.BytesIO(data)) if isinstance(record, dict)]
    from pyarrow import BufferReader
    from pyarrow.parquet import read_table

    found: list[Record] = read_table(BufferReader(data)).to_pylist()
    return found


def in_files(form: str, directory: Path) -> list[Record]:
    return [row for path in sorted(directory.glob(f"changes-*.{form}")) for row in read(form, path.read_bytes())]


def in_columns(lines: list[Record]) -> Iterator[Record]:
    """What NDJSON has, in columns."""
    waiting: list[Record] = []
    for line in lines:
        if line["rec"] == "change":
            waiting.append(line)
        elif line["rec"] == "transaction":
            for change in waiting:
                yield {
                    "commit_vlsn": line["vlsn"], "vlsn": change["vlsn"], "txn": line["txn"], "master": line["master"],
                    "time": datetime.fromisoformat(line["time"]), "op": change["op"], "db": change["db"],
                    "db_id": change["db_id"], "key": _bytes(change["key"]), "data": _bytes(change["data"]),
                    "expiration": change["expires"], "old_name": change["old_name"], "torn": line["torn"],
                }  # fmt: skip
            waiting.clear()


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


def test_files_have_each_change_once(group: GroupDouble, tmp_path: Path, form: str) -> None:
    wanted = list(in_columns(rows_of(stream(*IDLE).out)))
    to = ("--to", tmp_path / "d", "--file-format", form, "--file-size", "900")
    first = rows_of(stream(*IDLE, *to, "--limit", "9").out)
    assert (tmp_path / "d" / Path(first[0]["path"]).name).stat().st_size == first[0]["bytes"]
    assert stream(*IDLE, *to).code == exits.DONE
    found = in_files(form, tmp_path / "d")
    assert [row | {"expiration": expiration_text(row["expiration"] or 0)} for row in found] == wanted
    assert len({row["expiration"] for row in found}) > 2
    assert len(wanted) == 30
    assert list(wanted[0]) == list(COLUMNS)


def test_a_fork_is_a_row(group: GroupDouble, tmp_path: Path, form: str) -> None:
    log = operations()
    group.nodes[0].entries = log[:76]
    to = ("--to", tmp_path / "d", "--file-format", form)
    stream(*IDLE, *to)
    group.nodes[0].entries = forked(log, 60)
    stream(*IDLE, *to)
    (row,) = [row for row in in_files(form, tmp_path / "d") if row["op"] == RETRACT]
    assert (row["vlsn"], row["commit_vlsn"], row["db"], row["torn"]) == (60, 60, None, False)


def test_a_torn_transaction_without_changes_is_a_row(group: GroupDouble, tmp_path: Path, form: str) -> None:
    begin = ("--from", "18", "--fast", "--until-idle", "0")
    lines = rows_of(stream(*begin).out)
    empty = [row["vlsn"] for row in lines if row["rec"] == "transaction" and not row["changes"]]
    stream(*begin, "--to", tmp_path / "d", "--file-format", form)
    torn = [row for row in in_files(form, tmp_path / "d") if row["op"] == TORN]
    assert [row["commit_vlsn"] for row in torn] == empty
    assert len(in_files(form, tmp_path / "d")) - len(torn) == len(list(in_columns(lines)))


def test_row_groups_and_names_that_are_not_utf8(form: str) -> None:
    parts: list[bytes] = []
    made = row_file(form, group_rows=7)(parts.append)
    time = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
    rows = [
        (9, number, -5, 1, time, "insert", f"d\udc80{number}", 300, b"k", b"", -20_000, None, False)
        for number in range(20)
    ]
    made.add(rows)
    made.finish()
    found = read(form, b"".join(parts))
    assert [row["db"] for row in found] == [f"d\\udc80{number}" for number in range(20)]
    assert [tuple(row.values())[7:] for row in found] == [row[7:] for row in rows]
    assert len(COLUMNS) == len(rows[0]) == len(RecordChange._fields) + 5


def test_a_file_that_is_given_up(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes no footer when nobody refers to it any more: on a full disk nothing would catch what that raises."""
    full = False
    uncaught: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", uncaught.append)

    def write(data: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")

    made = row_file(form, group_rows=1)(write)
    time = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
    made.add([(9, 1, -5, 1, time, "insert", "d", 300, b"k", b"", -20_000, None, False)])
    full = True
    made.abandon()
    del made
    gc.collect()
    assert uncaught == []


def test_a_library_that_is_missing(group: GroupDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro.write", None)
    result = stream("--to", tmp_path / "d", "--file-format", AVRO)
    assert result.code == exits.UNSUPPORTED
    assert "pip install 'jetool[avro]'" in result.err
    assert not (tmp_path / "d").exists()


def test_a_format_without_files_is_refused(group: GroupDouble) -> None:
    result = stream("--file-format", PARQUET)
    assert result.code == exits.USAGE
    assert "are for --out" in result.err
