"""``dbs``, ``scan`` and ``dump`` on the tables of Derby databases: forms, names, damage, what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from engine.derby.format import page
from engine.derby.sql.tables import SqlTables
from jetool.frame import exits
from tests.cli.derby_databases import extract, fixture_path, state_of
from tests.support.harness import assert_valid, run

MIXED = "crash-mixed"
PAGE = 4096


def expected_tables() -> dict[str, list[object]]:
    """The rows of each table as Derby finds them after its own recovery."""
    return dict(json.loads((fixture_path(MIXED) / "contents-after-recovery.json").read_text())["tables"])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return extract(MIXED, tmp_path)


def test_tables_are_listed_with_columns_and_types(database: Path) -> None:
    before = state_of(database)
    result = run("dbs", database, "--count", "--json")
    assert result.code == exits.DONE, result.err
    assert_valid("dbs", result.out)
    rows = {row["name"]: row for row in result.json()["records"]}
    expected = {f"APP.{name}": len(found) for name, found in expected_tables().items()}
    assert {name: row["records"] for name, row in rows.items()} == expected
    assert rows["APP.LOB"]["columns"] == ["ID INTEGER NOT NULL", "B BLOB(204800)"]
    assert rows["APP.ACCT"]["kind"] == "user"
    listed = run("dbs", database, "--internal", "--json").json()["records"]
    assert {"SYS.SYSTABLES", "SYS.SYSCOLUMNS", "APP.ACCT"} <= {row["name"] for row in listed}
    assert state_of(database) == before


@pytest.mark.parametrize("form", ["json", "ndjson"])
@pytest.mark.parametrize("verb", ["scan", "dump"])
def test_rows_have_their_values_by_column(database: Path, verb: str, form: str) -> None:
    before = state_of(database)
    result = run(verb, database, "--db", "APP.ACCT", "--format", form)
    assert result.code == exits.DONE, result.err
    assert_valid(verb, result.out, form)
    rows = result.json()["records"] if form == "json" else result.lines()[:-1]
    assert len(rows) == len(expected_tables()["ACCT"])
    assert rows[0]["values"]["ID"] == 0
    assert rows[0]["values"]["NAME"].startswith("base1000")
    assert state_of(database) == before


def test_csv_has_a_column_for_each_column(database: Path) -> None:
    result = run("dump", database, "--db", "ACCT", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.text)))
    assert len(rows) == 143
    assert rows[1] == {"ID": "10", "NAME": rows[1]["NAME"], "BAL": "1"}
    assert run("scan", database, "--db", "ACCT", "--format", "csv").out == result.out


def test_text_and_limit(database: Path) -> None:
    result = run("scan", database, "--db", "acct", "--limit", "2")
    assert result.text.splitlines()[1].startswith('ID=10  NAME="base1010')
    assert "--limit left some out" in result.text
    assert run("scan", database, "--db", "acct", "--limit", "143", "--json").json()["summary"]["complete"] is True


def test_every_table_becomes_a_file(database: Path, tmp_path: Path) -> None:
    result = run("dump", database, "--all", tmp_path / "all", "--format", "ndjson")
    assert result.code == exits.DONE, result.err
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        "APP.ACCT.ndjson", "APP.BIG.ndjson", "APP.LOB.ndjson",
    ]  # fmt: skip
    assert result.lines()[-1]["complete"] is True


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scan", "--db", "NONE"), "no table 'NONE'"),
        (("scan",), "name one with --db"),
        (("scan", "--db", "ACCT", "--from", "1"), "has no keys"),
        (("scan", "--db", "ACCT", "--reverse"), "has no keys"),
        (("dump", "--db", "ACCT"), "no form in the format of DbDump"),
        (("dump", "--db", "ACCT", "--as-of", "vlsn:3"), "--as-of"),
        (("get", "1", "--db", "ACCT"), "no page store of jetool"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused(database: Path, words: tuple[str, ...], said: str) -> None:
    before = state_of(database)
    result = run(words[0], database, *words[1:])
    assert result.code != exits.DONE
    assert said in result.err
    assert state_of(database) == before


def damage(database: Path) -> None:
    """Flip a bit of the second page of ACCT that has rows."""
    (table,) = (row for row in run("dbs", database, "--db", "ACCT", "--json").json()["records"])
    path = database / "seg0" / f"c{table['container']:x}.dat"
    data = bytearray(path.read_bytes())
    stored = [at for at in range(0, len(data), PAGE) if data[at : at + 2] == page.STORED.to_bytes(2, "big")]
    data[stored[1] + 100] ^= 1
    path.write_bytes(data)


def test_damage_is_said_and_the_other_rows_follow(tmp_path: Path) -> None:
    database = extract("clean-shutdown", tmp_path)
    whole = run("scan", database, "--db", "ACCT", "--format", "ndjson").lines()
    damage(database)
    before = state_of(database)
    result = run("scan", database, "--db", "ACCT", "--format", "ndjson")
    assert result.code == exits.FINDINGS
    assert_valid("scan", result.out, "ndjson")
    *rows, summary = result.lines()
    bad = [row for row in rows if row["rec"] == "bad"]
    assert len(bad) == 1
    assert "checksum" in bad[0]["problem"]
    assert [row for row in rows if row["rec"] == "row"] == [row for row in whole[:-1] if row["page"] != bad[0]["page"]]
    assert summary["complete"] is False
    assert "1 place of APP.ACCT cannot be read" in summary["reason"]
    assert "jetool verify" in result.err
    assert "BAD page" in run("scan", database, "--db", "ACCT").text
    for words in (("dump", "--db", "ACCT", "--format", "csv"), ("dbs", "--count")):
        assert run(words[0], database, *words[1:]).code == exits.FINDINGS, words
    done = run("dump", database, "--all", tmp_path / "all", "--format", "csv")
    assert (done.code, "complete,reason" in done.text) == (exits.FINDINGS, False)
    assert state_of(database) == before


def test_a_container_without_a_file_and_a_value_of_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = extract("clean-shutdown", tmp_path)
    (table,) = run("dbs", database, "--db", "BIG", "--json").json()["records"]
    (database / "seg0" / f"c{table['container']:x}.dat").unlink()
    result = run("dbs", database, "--count", "--json")
    assert result.code == exits.FINDINGS
    assert {row["name"]: row["records"] for row in result.json()["records"]} == {"APP.ACCT": 110, "APP.BIG": 0}
    tables = SqlTables.tables

    def retyped(self: SqlTables) -> object:
        found = next(one for one in tables(self) if one.name == "ACCT")
        number, name, balance = found.columns
        return [found._replace(columns=(number, name._replace(kind=number.kind), balance))]

    monkeypatch.setattr(SqlTables, "tables", retyped)
    result = run("scan", database, "--format", "ndjson")
    assert result.code == exits.FINDINGS
    assert_valid("scan", result.out, "ndjson")
    assert "another length" in result.lines()[0]["problems"]["NAME"]
    assert result.lines()[-1]["reason"] == "110 values of APP.ACCT not of the column's type"


def test_a_catalogue_without_a_file_is_damage(tmp_path: Path) -> None:
    database = extract("clean-shutdown", tmp_path)
    (database / "seg0" / "c20.dat").unlink()
    result = run("scan", database, "--db", "ACCT")
    assert result.code == exits.INCOMPLETE
    assert f"does not name its own tables in {database}: page 0 of container 32: container 32 has no" in result.err
    assert f"jetool verify {database}" in result.err


def test_names_of_columns_come_from_disk(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = SqlTables.tables

    def renamed(self: SqlTables) -> object:
        found = next(one for one in tables(self) if one.name == "ACCT")
        number, name, balance = found.columns
        return [found._replace(columns=(number._replace(name="=cmd"), name._replace(name="a\x1b[2J"), balance))]

    monkeypatch.setattr(SqlTables, "tables", renamed)
    for form in ("text", "csv", "json", "ndjson"):
        assert b"\x1b" not in run("scan", database, "--limit", "1", "--format", form).out, form
    assert run("scan", database, "--limit", "1", "--format", "csv").text.startswith("'=cmd,")


def test_chosen_fields_in_csv(database: Path) -> None:
    rows = run("scan", database, "--db", "ACCT", "--limit", "1", "--format", "csv", "--fields", "record_id,values").text
    assert rows.splitlines()[0] == "record_id,values"
    assert rows.splitlines()[1].startswith('7,"{""ID"":0,')


def test_where_recovery_stops_it_is_said(tmp_path: Path) -> None:
    database = extract(MIXED, tmp_path)
    for path in (database / "log").glob("log1*"):
        path.unlink()
    result = run("scan", database, "--db", "ACCT", "--json")
    assert result.code == exits.FINDINGS
    summary = result.json()["summary"]
    assert summary["complete"] is False
    assert summary["reason"].startswith("recovery stops: ")
    assert "the rows are those on disk" in result.err


def test_a_name_of_several_schemas_needs_its_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = extract(MIXED, tmp_path)
    tables = SqlTables.tables

    def doubled(self: SqlTables) -> object:
        found = tables(self)
        return [*found, next(one for one in found if one.name == "ACCT")._replace(schema="OTHER")]

    monkeypatch.setattr(SqlTables, "tables", doubled)
    result = run("scan", database, "--db", "ACCT")
    assert result.code == 2
    assert "APP.ACCT, OTHER.ACCT" in result.err
    assert run("scan", database, "--db", "OTHER.ACCT", "--limit", "1").code == exits.DONE
