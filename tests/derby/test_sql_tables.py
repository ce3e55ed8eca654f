"""Tables of databases that real Derby made: rows as Derby sees them after its own recovery, types, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.derby.database import DerbyDatabase
from engine.derby.format import page
from engine.derby.format.sql_type import SqlType, decode_text, decode_type, decode_value
from engine.derby.sql.heap_rows import LostRows
from engine.derby.sql.tables import SqlRow, SqlTable, SqlTables
from engine.errors import FormatError
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import BULK, NAMES, json_of, storage_of
from tests.derby.test_derby_16 import crashed

INTEGER = bytes.fromhex("000e 0013 0007") + b"INTEGER" + bytes.fromhex("0000000a 00000000 01 00000004")
NUMERIC = bytes.fromhex("000e 00c6 01 0007") + b"DECIMAL" + bytes.fromhex("00000009 00000005 00 0000000b")
UDT = bytes.fromhex("000e 0108 0005") + b'"APP"\0\5PRICE\0\3a.B' + bytes.fromhex("00000000 00000000 01 ffffffff")
TYPES = (
    "SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "DECIMAL", "NUMERIC", "BOOLEAN", "DATE", "TIME", "TIMESTAMP",
    "CHAR", "VARCHAR", "LONG VARCHAR", "CLOB", "CHAR () FOR BIT DATA", "VARCHAR () FOR BIT DATA",
    "LONG VARCHAR FOR BIT DATA", "BLOB", "XML", "a type of the user",
)  # fmt: skip


def java_hash(numbers: list[int]) -> str:
    """``h = 31 h + number`` in 64 bits, in hex."""
    found = 0
    for number in numbers:
        found = (31 * found + number) & (1 << 64) - 1
    return f"{found:x}"


def shown(value: Any, kind: SqlType | None) -> Any:
    """A value in the form of contents-after-recovery.json."""
    if kind is not None and kind.name in ("BLOB", "LONG VARCHAR FOR BIT DATA") and value is not None:
        data = bytes.fromhex(value)
        return f"bytes:{len(data)}:{java_hash([one - 256 if one > 127 else one for one in data])}"
    if isinstance(value, str) and len(value) > 48:
        return f"{value[:24]}#{len(value)}#{java_hash(list(map(ord, value)))}"
    return value


def user_tables(found: SqlTables) -> list[SqlTable]:
    return [one for one in found.tables() if not one.is_system]


def read(storage: Storage) -> tuple[dict[str, list[list[Any]]], list[LostRows], str | None]:
    """The rows of each table in schema APP, what could not be read, and the problem of recovery."""
    tables, lost = {}, []
    with SqlTables(DerbyDatabase(storage)) as found:
        for table in user_tables(found):
            kinds = [one.kind for one in table.columns]
            items = list(found.rows(table))
            lost += [one for one in items if isinstance(one, LostRows)]
            rows = [one.values for one in items if isinstance(one, SqlRow)]
            assert not [one for one in items if isinstance(one, SqlRow) and one.problems]
            tables[table.name] = [[shown(*pair) for pair in zip(row, kinds, strict=True)] for row in rows]
        return {name: sorted(rows, key=json.dumps) for name, rows in tables.items()}, lost, found.problem


@pytest.mark.parametrize("name", [*NAMES, *BULK])
def test_rows_are_those_that_derby_finds_after_its_recovery(name: str) -> None:
    storage = storage_of(name)
    before = dict(storage.contents())
    tables, lost, problem = read(storage)
    expected = json_of(name, "contents-after-recovery.json")
    assert tables == expected.get("tables", expected)
    assert (lost, problem) == ([], None)
    assert storage.contents() == before


def test_another_release() -> None:
    tables, lost, problem = read(MemoryStorage(crashed()))
    assert (lost, problem) == ([], None)
    assert [len(rows) for rows in tables.values()] == [2000]


def test_the_catalogue_describes_itself() -> None:
    with SqlTables(DerbyDatabase(storage_of("crash-mixed"))) as found:
        tables = {one.full_name: one for one in found.tables()}
        columns = [one.name for one in tables["SYS.SYSCOLUMNS"].columns]
        assert columns[:4] == ["REFERENCEID", "COLUMNNAME", "COLUMNNUMBER", "COLUMNDATATYPE"]
        rows = [one for one in found.rows(tables["SYS.SYSTABLES"]) if isinstance(one, SqlRow)]
        names = {str(row.values[1]) for row in rows}
    assert {"ACCT", "BIG", "LOB", "SYSTABLES"} <= names
    assert tables["SYS.SYSTABLES"].is_system
    assert not tables["APP.ACCT"].is_system


def pages_of(storage: MemoryStorage, table: SqlTable) -> tuple[str, list[tuple[int, page.PageHeader]]]:
    """The path of a table's container, and the headers of its stored pages by position."""
    path = f"seg0/c{table.container:x}.dat"
    data, size = storage.contents()[path], 4096
    starts = [at for at in range(0, len(data), size) if data[at : at + 2] == page.STORED.to_bytes(2, "big")]
    return path, [(at, page.read_page_header(data[at : at + size])) for at in starts]


@pytest.mark.parametrize("overflow", [False, True], ids=["a page of rows", "a page with pieces"])
def test_a_damaged_page_takes_its_rows_alone(overflow: bool) -> None:
    storage = storage_of("clean-shutdown")
    whole, _, _ = read(storage)
    with SqlTables(DerbyDatabase(storage)) as found:
        table = next(one for one in user_tables(found) if one.name == ("BIG" if overflow else "ACCT"))
    path, headers = pages_of(storage, table)
    used = [at for at, header in headers if header.overflow is overflow and header.status == page.VALID]
    data = bytearray(storage.contents()[path])
    data[used[-1] + 100] ^= 1
    damaged = MemoryStorage({**storage.contents(), path: bytes(data)})
    tables, lost, problem = read(damaged)
    assert problem is None
    assert {"checksum" in one.problem for one in lost} == {True}
    # The page itself, and each row with a piece on it.
    assert [one.record_id for one in lost].count(None) == 1
    gone = len(whole[table.name]) - len(tables[table.name])
    assert gone == len(lost) - 1 if overflow else gone > len(lost) == 1
    assert [row for row in tables[table.name] if row not in whole[table.name]] == []
    assert {name: rows for name, rows in tables.items() if name != table.name} == {
        name: rows for name, rows in whole.items() if name != table.name
    }


def test_where_recovery_stops_the_rows_are_those_on_disk() -> None:
    storage = storage_of("crash-mixed")
    files = {path: data for path, data in storage.contents().items() if not path.startswith("log/log1")}
    tables, lost, problem = read(MemoryStorage(files))
    assert problem is not None
    assert lost == []
    assert set(tables) == {"ACCT", "BIG", "LOB"}


def test_types_of_the_catalogue() -> None:
    assert decode_type(INTEGER) == SqlType(name="INTEGER", precision=10, scale=0, nullable=True, width=4)
    assert decode_type(NUMERIC).text == "NUMERIC(9,5)"
    assert decode_type(UDT).text == '"APP".PRICE'
    for size in range(len(INTEGER)):
        with pytest.raises(FormatError):
            decode_type(INTEGER[:size])


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("SMALLINT", "8000", -32768),
        ("BIGINT", "7fffffffffffffff", 2**63 - 1),
        ("REAL", "3f8ccccd", 1.1),
        ("DOUBLE", "3fb999999999999a", 0.1),
        ("DECIMAL", "0201fb", "-0.05"),
        ("DECIMAL", "000400bc614e", "12345678"),
        ("BOOLEAN", "01", True),
        ("DATE", "07cf0c1f", "1999-12-31"),
        ("TIME", "00173b3b00000000", "23:59:59"),
        ("TIMESTAMP", "07ea0b1c00010203 00000004", "2026-11-28 01:02:03.000000004"),
        ("TIMESTAMP", "07ea0b1c000a0000 00000000", "2026-11-28 10:00:00.0"),
        ("VARCHAR", "0003616263", "abc"),
        ("VARCHAR", "0000", ""),
        ("LONG VARCHAR", "0000616263e00000", "abc"),
        ("VARCHAR", "0006eda0bdedb880", "\U0001f600"),
        ("VARCHAR", "0003c08078", "\0x"),
        ("CLOB", "0000f00003616263", "abc"),
        ("CLOB", "0000f00000616263e00000", "abc"),
        ("CLOB", "0003616263", "abc"),
        ("BLOB", "82cafe", "cafe"),
        ("BLOB", "00000010cafe", "cafe"),
        ("BLOB", "00000000cafe", "cafe"),
        ("XML", "000000043c612f3e", "<a/>"),
        ("a type of the user", "cafe", "cafe"),
    ],
)
def test_values(name: str, data: str, value: object) -> None:
    kind = SqlType(name=name, precision=0, scale=0, nullable=True, width=0)
    found = decode_value(kind, bytes.fromhex(data))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("INTEGER", "0000"), ("BOOLEAN", "02"), ("DATE", "07cf0d1f"), ("TIME", "00173c3b00000000"),
        ("TIMESTAMP", "07ea0b1c000a0000 3b9aca00"), ("VARCHAR", "00046162"), ("VARCHAR", "0001ff"), ("VARCHAR", "00"),
        ("DECIMAL", "020201"), ("DECIMAL", "02010102"), ("VARCHAR", "0003eda0bd"),
    ],
)  # fmt: skip
def test_values_of_another_form(name: str, data: str) -> None:
    kind = SqlType(name=name, precision=0, scale=0, nullable=True, width=0)
    with pytest.raises(FormatError):
        decode_value(kind, bytes.fromhex(data))


@given(st.sampled_from(TYPES), st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_clear_error(name: str, data: bytes) -> None:
    kind = SqlType(name=name, precision=0, scale=0, nullable=True, width=0)
    try:
        found = decode_value(kind, data)
    except FormatError:
        return
    assert type(found) in (int, float, str, bool)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert not isinstance(found, str) or found.encode().decode() == found


@given(st.binary(max_size=60), st.binary(max_size=10))
def test_any_bytes_are_a_type_or_a_clear_error(data: bytes, rest: bytes) -> None:
    for one in (data, INTEGER[:4] + data, INTEGER + rest):
        try:
            found = decode_type(one)
        except FormatError:
            continue
        assert found.text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_texts_come_back(text: str) -> None:
    units = text.encode("utf-16-be")
    encoded = b"".join(
        b"\xc0\x80" if pair == b"\0\0" else pair.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        for pair in (units[at : at + 2] for at in range(0, len(units), 2))
    )
    assert decode_text(len(encoded).to_bytes(2, "big") + encoded) == text
