"""``--decode``: the same records, with what they mean beside them, wherever records are printed."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from engine.contents.journals import encode_json_journal, journal_key
from engine.db.environment import Environment
from jetool.frame import exits
from tests.support.environments.frontends import rolled, write_cut_frontend, write_frontend
from tests.support.harness import assert_valid, run

FIFTH = {"op": 126, "name": "MODIFY_COMMENT", "payload": {"id": 10_005, "name": "table_5", "label": "insert_5f1e"}}


@pytest.fixture(scope="module")
def doris(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = tmp_path_factory.mktemp("doris")
    write_frontend(env, rolled(1, 40, 20))
    return env


def key_of(number: int) -> str:
    return f"0x{journal_key(number).hex()}"


def test_scan(doris: Path) -> None:
    result = run("scan", doris, "--db", "1", "--decode", "doris", "--json", "--limit", "5")
    assert_valid("scan", result.out, "json")
    found = result.json()["records"]
    assert [one["decoded_key"] for one in found] == [{"id": number} for number in range(1, 6)]
    assert {name: found[4]["decoded_data"][name] for name in FIFTH} == FIFTH
    assert (found[4]["known"], found[4]["key"]) == (True, key_of(5)[2:])
    assert "decoded_key" not in run("scan", doris, "--db", "1", "--json").json()["records"][0]


def test_auto_says_the_same(doris: Path) -> None:
    words = ("scan", doris, "--db", "21", "--json")
    assert run(*words, "--decode", "auto").out == run(*words, "--decode", "doris").out


def test_text_shows_what_it_means(doris: Path) -> None:
    lines = run("scan", doris, "--db", "1", "--decode", "auto", "--limit", "5").text.splitlines()
    assert lines[4].startswith('{"id":5}  {"op":126,"name":"MODIFY_COMMENT","payload":{"id":10005')
    chosen = run("scan", doris, "--db", "1", "--decode", "auto", "--limit", "1", "--fields", "key,known").text
    assert chosen.splitlines()[1].split() == [key_of(1), "yes"]


def test_csv_has_columns_for_it(doris: Path) -> None:
    rows = list(
        csv.DictReader(io.StringIO(run("scan", doris, "--db", "1", "--decode", "auto", "--format", "csv").text))
    )
    assert json.loads(rows[4]["decoded_data"])["payload"] == FIFTH["payload"]
    plain = run("scan", doris, "--db", "1", "--format", "csv").text.splitlines()[0]
    assert plain == "key,data"


def test_what_is_not_known_is_flagged(tmp_path: Path) -> None:
    write_frontend(tmp_path, {"1": {1: encode_json_journal(31_000, b"{}"), 2: b"\xff"}, "other": {}})
    found = run("scan", tmp_path, "--db", "1", "--decode", "doris", "--json").json()["records"]
    assert [(one["known"], one["decoded_data"]) for one in found] == [
        (False, {"op": 31_000, "name": None, "payload": {}, "padding": 0}), (False, {"hex": "ff"}),
    ]  # fmt: skip
    assert "(not all is known)" in run("scan", tmp_path, "--db", "1", "--decode", "doris").text


def test_get(doris: Path) -> None:
    result = run("get", doris, key_of(5), "--db", "1", "--decode", "auto", "--json")
    assert_valid("get", result.out, "json")
    assert result.json()["records"][0]["decoded_data"]["payload"] == FIFTH["payload"]


def id_of(env: Path, name: str) -> str:
    """A name of digits is taken for an id."""
    return str(run("dbs", env, "--db", name, "--json").json()["records"][0]["id"])


def test_history(doris: Path) -> None:
    result = run("history", doris, key_of(5), "--db", id_of(doris, "1"), "--decode", "auto", "--json")
    assert_valid("history", result.out, "json")
    assert result.json()["records"][0]["decoded_data"]["name"] == "MODIFY_COMMENT"
    assert (
        "decoded_data" not in run("history", doris, key_of(5), "--db", id_of(doris, "1"), "--json").json()["records"][0]
    )


def test_diff(doris: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(doris, tmp_path / "other"))
    with Environment(other) as env, env.open_database("1") as db:
        db.put(journal_key(5), encode_json_journal(126, b'{"id":0}'))
        db.delete(journal_key(6))
    result = run("diff", doris, other, "--decode", "doris", "--json")
    assert result.code == exits.FINDINGS
    assert_valid("diff", result.out, "json")
    changed, gone = result.json()["differences"]
    assert (changed["decoded_key"], changed["decoded_data"]["payload"]["id"]) == ({"id": 5}, 10_005)
    assert (changed["decoded_other"]["payload"], changed["known"]) == ({"id": 0}, True)
    assert (gone["decoded_key"], gone["decoded_other"]) == ({"id": 6}, None)


@pytest.mark.parametrize("more", [(), ("--jobs", "2"), ("--reverse",)])
def test_dump_log(doris: Path, more: tuple[str, ...]) -> None:
    result = run("dump-log", doris, "--db", id_of(doris, "1"), "--data", "--decode", "auto", "--json", *more)
    assert_valid("dump-log", result.out, "json")
    found = {one["decoded_key"]["id"]: one for one in result.json()["records"] if "decoded_key" in one}
    assert sorted(found) == list(range(1, 21))
    assert found[5]["decoded_data"]["payload"] == FIFTH["payload"]


def test_dump_log_as_text(doris: Path) -> None:
    text = run("dump-log", doris, "--data", "--decode", "auto", "--key", key_of(5)).text
    assert 'decoded_key={"id":5}' in text
    assert '"name":"MODIFY_COMMENT"' in text
    assert run("dump-log", doris, "--decode", "auto").code == exits.USAGE


def test_nobody_knows(tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("create", env, "--db", "d").code == 0
    assert run("put", env, "k", "v", "--db", "d").code == 0
    result = run("scan", env, "--db", "d", "--decode", "auto", "--json")
    assert (result.code, result.json()["records"]) == (0, [{"rec": "record", "key": "6b", "data": "76"}])
    assert "no decoder recognises" in result.err


def test_unknown_decoders_are_refused(doris: Path) -> None:
    result = run("scan", doris, "--db", "1", "--decode", "mysql")
    assert result.code == exits.USAGE
    assert "doris, starrocks" in result.err


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    env = tmp_path_factory.mktemp("cut")
    write_cut_frontend(env)
    return env


@pytest.mark.parametrize("name", ["auto", "doris"])
def test_a_log_of_which_recovery_sees_nothing(cut: Path, name: str) -> None:
    """Its databases are those of the log, and what they belong to is told by the records that a salvage finds."""
    assert run("dbs", cut, "--json").json()["records"] == []
    result = run("dump-log", cut, "--data", "--decode", name, "--format", "ndjson")
    found = {one["decoded_key"]["id"]: one for one in result.lines() if "id" in one.get("decoded_key", ())}
    assert sorted(found) == list(range(1, 42))
    assert found[5]["decoded_data"]["payload"] == FIFTH["payload"]
    history = run("history", cut, key_of(5), "--db", str(found[5]["db"]), "--decode", name, "--json")
    assert history.json()["records"][0]["decoded_data"]["name"] == "MODIFY_COMMENT"


@pytest.mark.parametrize(("form", "code"), [("ndjson", exits.DONE), ("csv", exits.DATA_GIVEN_UP)])
def test_salvage(doris: Path, cut: Path, tmp_path: Path, form: str, code: int) -> None:
    """Also of an environment of which recovery sees nothing."""
    env = Path(shutil.copytree(doris if code == exits.DONE else cut, tmp_path / "env"))
    result = run("salvage", env, "--to", tmp_path / "whole", "--as", form, "--decode", "auto", "--json")
    assert result.code == code, result.err
    lines = (tmp_path / f"whole/1.{form}").read_text().splitlines()
    if form == "ndjson":
        found = json.loads(lines[4])["decoded_data"]
    else:
        found = json.loads(list(csv.DictReader(lines))[4]["decoded_data"])
    assert found["payload"] == FIFTH["payload"]
    assert run("salvage", env, "--to", tmp_path / "x", "--decode", "auto").code == exits.USAGE
