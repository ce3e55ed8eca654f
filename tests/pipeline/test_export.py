"""``jetool export``: every record, in every format, whole or not at all."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from engine import Environment, EnvironmentConfig
from engine.pipeline.export import Columns, export
from engine.pipeline.session import Session
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.harness import assert_valid, run

WANTED = [((number + (1 << 63)).to_bytes(8, "big"), bytes((number % 256,)) * (number % 5)) for number in range(1000)]


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """Records with every kind of byte, some data empty."""
    path = tmp_path / "env"
    path.mkdir()
    opened = Environment(str(path), EnvironmentConfig(create=True, node_max_entries=16))
    with opened, opened.create_database("d") as db, opened.begin() as txn:
        for key, data in WANTED:
            db.put(key, data, txn)
    return path


@pytest.mark.parametrize(("form", "partitions"), [("parquet", 1), ("orc", 4)])
def test_bytes_come_back(session: Session, env: Path, tmp_path: Path, form: str, partitions: int) -> None:
    words = ("export", env, "--db", "d", "--to", tmp_path / "out", "--as", form, "--partitions", str(partitions))
    done = run(*words, "--json")
    assert done.code == 0
    assert_valid("export", done.out)
    assert done.json()["records"] == 1000
    assert done.json()["files"] == partitions
    read = session.spark.read.format(form).load(str(tmp_path / "out")).toArrow().to_pylist()
    assert sorted((row["key"], row["data"]) for row in read) == WANTED
    again = run(*words)
    assert again.code == 3
    assert "not empty" in again.err
    assert not list(tmp_path.glob(".out*"))


def test_csv_and_json_hold_text(session: Session, env: Path, tmp_path: Path) -> None:
    text = ("--key-format", "tuple-long", "--data-format", "utf8")
    assert run("export", env, "--db", "d", "--to", tmp_path / "c", "--as", "csv", *text, "--partitions", "3").code == 0
    rows: list[Any] = []
    files = sorted((tmp_path / "c").glob("part-*.csv"))
    assert len(files) == 3
    for path in files:
        with path.open(newline="") as lines:
            rows += list(csv.DictReader(lines))
    # In key order from file to file.
    assert [int(row["key"]) for row in rows] == list(range(1000))
    assert rows[66] == {"key": "66", "data": "B"}
    assert rows[34] == {"key": "34", "data": '""""'}
    assert rows[130]["data"] == ""
    assert run("export", env, "--to", tmp_path / "j", "--as", "json").code == 0
    found = [
        json.loads(line) for path in (tmp_path / "j").glob("part-*.json") for line in path.read_text().splitlines()
    ]
    assert sorted((bytes.fromhex(row["key"]), bytes.fromhex(row["data"])) for row in found) == WANTED


def test_what_is_refused_or_missing(session: Session, env: Path, tmp_path: Path, corpus: Path) -> None:
    assert run("export", env, "--db", "none", "--to", tmp_path / "o", "--as", "csv").code == 4
    assert run("export", tmp_path / "no", "--db", "d", "--to", tmp_path / "o", "--as", "csv").code == 4
    assert run("export", env, "--db", "d", "--to", tmp_path / "o", "--as", "xls").code == 2
    (tmp_path / "file").write_text("")
    assert run("export", env, "--db", "d", "--to", tmp_path / "file", "--as", "csv").code == 3
    assert run("export", env, "--db", "d", "--to", tmp_path / "file" / "x", "--as", "csv").code == 7
    assert not (tmp_path / "o").exists()
    damaged = corpus / "je/je-18.3.20/corrupt-middle/env"
    done = run("export", damaged, "--db", "accounts", "--to", tmp_path / "d", "--as", "parquet")
    assert done.code == 1
    assert "committed transactions" in done.err


def test_what_records_mean_stands_beside_them(session: Session, tmp_path: Path) -> None:
    """The columns of ``decode``: on their own through the data source, and in an export."""
    env, to = tmp_path / "env", tmp_path / "out"
    write_frontend(env, rolled(1, 40, 20))
    read = session.spark.read.format("jerecords").option("db", "21").option("decode", "doris").load(str(env))
    frame = read.select("decoded_key", "decoded_data", "known")
    found = sorted((json.loads(row[0])["id"], json.loads(row[1])["name"], row[2]) for row in frame.collect())
    assert found[0] == (21, "UPSERT_TRANSACTION_STATE", True)
    assert [number for number, _, _ in found] == list(range(21, 41))
    logs = session.spark.read.format("jelog").option("decode", "auto").option("data", "true").load(str(env))
    logged = logs.where("db is not null").select("type", "key_hex", "decoded_key", "decoded_data", "known").collect()
    assert sorted(json.loads(row[2])["id"] for row in logged if row[2] and "op" in row[3]) == list(range(1, 41))
    assert {row[0] for row in logged if row[2] is None} >= {"BIN", "IN", "NameLN_TX", "MapLN"}
    assert export(session, str(env), "1", str(to), "json", Columns(), "auto").records == 20
    rows = [json.loads(line) for path in sorted(to.glob("*.json")) for line in path.read_text().splitlines()]
    assert [json.loads(row["decoded_key"]) for row in rows] == [{"id": number} for number in range(1, 21)]
    assert all(row["known"] for row in rows)


def test_the_records_of_a_point(session: Session, tmp_path: Path) -> None:
    """As ``dump --as-of`` prints them, also from a time."""
    env = tmp_path / "env"
    assert run("create", env, "--db", "d").code == 0
    for number in range(4):
        assert run("put", env, f"k{number}", "v", "--db", "d").code == 0
    words = ("export", env, "--as", "csv", "--partitions", "1", "--key-format", "utf8")
    points = ("commits:-2", run("txns", env, "--json", "--tail", "2").json()["records"][0]["time"])
    for at, point in enumerate((points[0], f"time:{points[1]}")):
        then = [
            line["key"]
            for line in run("dump", env, "--as-of", point, "-o", "ndjson", "--key-format", "utf8").lines()[:-1]
        ]
        done = run(*words, "--to", tmp_path / f"out{at}", "--as-of", point, "--json")
        assert done.code == 0, done.err
        assert_valid("export", done.out)
        (file,) = (tmp_path / f"out{at}").glob("part-*")
        assert [line.split(",")[0] for line in file.read_text().splitlines()[1:]] == then
        assert 2 <= len(then) < 4
        assert done.json()["records"] == len(then)
    assert run(*words, "--to", tmp_path / "none", "--as-of", "txn:999999").code == 4
    assert not (tmp_path / "none").exists()
