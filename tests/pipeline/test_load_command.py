"""``jetool load`` from files: with processes of this machine, and with Spark."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import needs

needs("Spark")

import pyarrow as pa
from pyarrow import orc, parquet

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JobError
from engine.format.tuples import long_key
from engine.pipeline.load import database_merge, stage
from engine.pipeline.session import Session
from tests.pipeline.loads import contents
from tests.support.harness import Result, run
from tests.support.logs.golden_logs import GOLDEN


@pytest.fixture
def env(tmp_path: Path) -> Path:
    home = tmp_path / "env"
    with Environment(home, EnvironmentConfig(create=True)):
        pass
    return home


def load(*words: str | Path, engine: str = "local") -> Result:
    return run("load", *words, "--db", "d", "--create", "--engine", engine, "--format", "json")


def counts(result: Result) -> dict[str, Any]:
    found = result.json()
    assert found["read"] == found["records"] + found["rejected"] + found["duplicates"]
    return dict(found)


def rejects(result: Result) -> list[dict[str, Any]]:
    path = result.json()["rejects"]
    return [] if path is None else [json.loads(line) for line in Path(path).read_text().splitlines()]


def csv_file(path: Path, rows: list[str], header: str = "id,name,n") -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


ENGINES = pytest.mark.parametrize("engine", ["local", "spark"])


@pytest.fixture
def started(request: pytest.FixtureRequest, engine: str) -> str:
    if engine == "spark":
        request.getfixturevalue("session")
    return engine


@pytest.mark.xdist_group("spark")
@ENGINES
def test_csv_with_bad_lines(env: Path, tmp_path: Path, started: str) -> None:
    rows = [f'{number},"name, ""{number}""",{number * 2}' for number in range(2000)]
    rows[8], rows[18], rows[28], rows[1998] = "oops", '7,"unclosed,3', "xx,a,1", "1,2,3,4"
    rows[40] = ""
    source = csv_file(tmp_path / "a.csv", rows)
    result = load(env, source, "--key", "id", "--key-format", "tuple-long", engine=started)
    assert result.code == 1
    found = counts(result)
    assert (found["read"], found["records"], found["rejected"], found["created"]) == (1999, 1995, 4, True)
    assert [
        (bad["line"], bad["column"], bad["record"]) for bad in sorted(rejects(result), key=lambda bad: bad["line"])
    ] == [
        (10, 2, "oops"),
        (20, None, '7,"unclosed,3'),
        (30, 1, "xx,a,1"),
        (2000, 4, "1,2,3,4"),
    ]
    assert {Path(bad["file"]).name for bad in rejects(result)} == {"a.csv"}
    records = contents(env, "d")
    assert records[long_key(5)] == b'{"name":"name, \\"5\\"","n":"10"}'
    assert len(records) == 1995
    assert run("verify", env, "--full").code == 0


@pytest.mark.xdist_group("spark")
@ENGINES
def test_lines_of_many_files_are_numbered_each(env: Path, tmp_path: Path, started: str) -> None:
    for number in range(3):
        csv_file(tmp_path / f"part-{number}.csv", [f"{number}{row},x" for row in range(number + 2)] + ["bad"], "id,v")
    result = load(env, tmp_path / "part-*.csv", "--key", "id", engine=started)
    assert result.code == 1
    assert sorted((Path(bad["file"]).name, bad["line"]) for bad in rejects(result)) == [
        ("part-0.csv", 4), ("part-1.csv", 5), ("part-2.csv", 6),
    ]  # fmt: skip
    assert sorted(contents(env, "d")) == [b"00", b"01", b"10", b"11", b"12", b"20", b"21", b"22", b"23"]


@pytest.mark.xdist_group("spark")
@ENGINES
@pytest.mark.parametrize(("keep", "value"), [("last", b"4"), ("first", b"0")])
def test_equal_keys_in_the_order_of_the_source(
    env: Path, tmp_path: Path, started: str, keep: str, value: bytes
) -> None:
    first = csv_file(tmp_path / "z.csv", [f"k,{number}" for number in range(3)], "id,v")
    second = csv_file(tmp_path / "a.csv", ["k,3", "k,4", "l,9"], "id,v")
    result = load(env, first, second, "--key", "id", "--on-duplicate", keep, engine=started)
    assert counts(result)["duplicates"] == 4
    assert contents(env, "d") == {b"k": value, b"l": b"9"}


@pytest.mark.xdist_group("spark")
@ENGINES
def test_equal_keys_by_a_column(env: Path, tmp_path: Path, started: str) -> None:
    rows = ["k,2026-01-03T00:00:00,c", "k,2026-01-09T00:00:00,i", "k,2025-12-31T00:00:00,a"]
    source = csv_file(tmp_path / "a.csv", rows, "id,at,v")
    result = load(env, source, "--key", "id", "--value", "v", "--order-by", "at", engine=started)
    assert counts(result)["duplicates"] == 2
    assert contents(env, "d") == {b"k": b"i"}


@pytest.mark.xdist_group("spark")
@ENGINES
def test_equal_keys_that_must_not_be(env: Path, tmp_path: Path, started: str) -> None:
    before = {path.name: path.read_bytes() for path in env.iterdir()}
    source = csv_file(tmp_path / "a.csv", ["k,1", "l,2", "k,3"], "id,v")
    result = load(env, source, "--key", "id", "--on-duplicate", "error", engine=started)
    assert result.code == 7
    assert "two records have the same key: 0x6b; the environment is as it was" in result.err
    assert {path.name: path.read_bytes() for path in env.iterdir()} == before


@pytest.mark.xdist_group("spark")
@ENGINES
@pytest.mark.parametrize("partitions", ["1", "2", "7"])
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_columns_of_bytes(env: Path, tmp_path: Path, started: str, form: str, partitions: str) -> None:
    rng = random.Random(4)
    records = {rng.randbytes(rng.choice([0, 3, 16])): rng.randbytes(rng.choice([0, 10, 100])) for _ in range(3000)}
    table = pa.table({"k": list(records), "v": list(records.values())})
    source = tmp_path / f"data.{form}"
    (parquet if form == "parquet" else orc).write_table(table, source)
    result = load(env, source, "--key", "k", "--partitions", partitions, engine=started)
    assert result.code == 0
    assert contents(env, "d") == records
    assert run("verify", env, "--full").code == 0


@pytest.mark.xdist_group("spark")
@ENGINES
def test_json_lines(env: Path, tmp_path: Path, started: str) -> None:
    source = tmp_path / "a.jsonl.gz"
    lines = ['{"id":7,"name":"ä","n":1}', '{"id":-1,"more":[1,2]}', "{no", "[]", '{"name":"x"}', '{"id":"q"}']
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    result = load(env, source, "--key", "id", engine=started)
    assert result.code == 1
    assert counts(result)["records"] == 2
    assert contents(env, "d") == {long_key(7): '{"name":"ä","n":1}'.encode(), long_key(-1): b'{"more":[1,2]}'}
    found = sorted(rejects(result), key=lambda bad: bad["line"])
    assert [bad["line"] for bad in found] == [3, 4, 5, 6]
    assert found[2]["reason"] == "key id is null"
    assert found[3]["reason"] == "key id: 'q' is not a whole number of 64 bits"


@pytest.mark.xdist_group("spark")
@ENGINES
def test_a_damaged_parquet_file(env: Path, tmp_path: Path, started: str) -> None:
    source = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"k": [b"a"] * 5000, "v": [b"b"] * 5000}), source)
    data = bytearray(source.read_bytes())
    data[10:60] = bytes(50)
    source.write_bytes(data)
    before = {path.name: path.read_bytes() for path in env.iterdir()}
    result = load(env, source, "--key", "k", engine=started)
    assert result.code == 7
    assert f"a file of the source cannot be read in {source}: " in result.err
    assert "the environment is as it was" in result.err
    assert {path.name: path.read_bytes() for path in env.iterdir()} == before


@pytest.mark.xdist_group("spark")
@ENGINES
@pytest.mark.parametrize(
    ("name", "data"), [("a.csv.gz", gzip.compress(b"id,v\nk,1\n" * 9999, mtime=0)[:-50]), ("a.parquet", b"x")]
)
def test_a_file_that_is_cut_off(env: Path, tmp_path: Path, started: str, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    result = load(env, tmp_path / name, "--key", "id", engine=started)
    assert result.code == 7
    assert f"a file of the source cannot be read in {tmp_path / name}: " in result.err
    assert "the environment is as it was" in result.err
    assert not (env / stage.DIRECTORY).exists()


@pytest.mark.xdist_group("spark")
@ENGINES
def test_into_a_database_with_records(env: Path, tmp_path: Path, started: str) -> None:
    first = csv_file(tmp_path / "a.csv", [f"{n:04d},a{n}" for n in range(0, 1000, 2)], "id,v")
    second = csv_file(tmp_path / "b.csv", [f"{n:04d},b{n}" for n in range(0, 1000, 3)], "id,v")
    assert load(env, first, "--key", "id", engine=started).code == 0
    refused = load(env, second, "--key", "id", "--no-overwrite", "--batch", "50", engine=started)
    assert refused.code == 1
    assert (refused.json()["records"], refused.json()["rejected"]) == (167, 167)
    assert refused.json()["transactions"] == 7
    ours = {b"%04d" % n: b"a%d" % n for n in range(0, 1000, 2)}
    others = {b"%04d" % n: b"b%d" % n for n in range(0, 1000, 3)}
    assert contents(env, "d") == others | ours
    assert load(env, second, "--key", "id", engine=started).code == 0
    assert contents(env, "d") == ours | others
    assert run("verify", env, "--full").code == 0


def test_a_merge_that_died_goes_on(env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(env, csv_file(tmp_path / "a.csv", ["0000,a"], "id,v"), "--key", "id").code == 0
    source = csv_file(tmp_path / "b.csv", [f"{n:04d},b" for n in range(100)], "id,v")
    left = [3]

    def dying(*_: Any) -> None:
        """After the third batch is noted."""
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    assert load(env, source, "--key", "id", "--resume").code == 4
    with monkeypatch.context() as patch:
        patch.setattr(database_merge, "counted", dying)
        assert load(env, source, "--key", "id", "--batch", "10").code == 130
    assert len(contents(env, "d")) == 30
    other = load(env, csv_file(tmp_path / "c.csv", ["1,2"], "id,v"), "--key", "id", "--resume")
    assert other.code == 2
    result = load(env, source, "--key", "id", "--resume")
    assert result.code == 0
    assert result.json()["records"] == 100
    assert len(contents(env, "d")) == 100
    assert not (env / stage.DIRECTORY).exists()


def test_sizes_from_nothing_to_megabytes(env: Path, tmp_path: Path) -> None:
    records = {b"": b"", b"k": b"v" * 20_000_000, b"x" * 1_000_000: b"1", b"x" * 999_999 + b"y": b"2", b"z": b""}
    source = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"k": list(records), "v": list(records.values())}), source, row_group_size=2)
    assert load(env, source, "--key", "k").code == 0
    assert contents(env, "d") == records
    assert run("verify", env, "--full").code == 0


def test_nearly_all_keys_in_one_range(env: Path, tmp_path: Path) -> None:
    rng = random.Random(9)
    keys = [b"AAAAAAAAAAAA%08d" % (n * 7919 % 20_000) if n % 100 else rng.randbytes(16) for n in range(20_000)]
    source = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"k": keys, "v": [b"%d" % n * 9 for n in range(20_000)]}), source)
    assert load(env, source, "--key", "k", "--partitions", "7").code == 0
    assert contents(env, "d") == {key: b"%d" % n * 9 for n, key in enumerate(keys)}
    assert run("verify", env, "--full").code == 0


def test_a_dry_run_changes_nothing(env: Path, tmp_path: Path) -> None:
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in env.iterdir()}
    source = csv_file(tmp_path / "a.csv", ["k,1", "k,2", "l,3", "x"], "id,v")
    result = load(env, source, "--key", "id", "-n")
    assert result.code == 1
    found = counts(result)
    assert (found["records"], found["rejected"], found["duplicates"], found["dry_run"]) == (2, 1, 1, True)
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in env.iterdir()} == before
    assert not Path(f"{env}.jetool-rejects").exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["ENV", "nothere.csv", "--key", "id"], 4, "no such source: nothere.csv"),
        (["ENV", "SRC"], 2, "name the column of the key: columns id, v"),
        (["ENV", "SRC", "--key", "nope"], 2, "the source has no column 'nope': expected one of id, v"),
        (["ENV", "SRC", "--key", "id", "--delimiter", ";;"], 2, "--delimiter is one ASCII character"),
        (["ENV", "SRC", "--key", "id", "--from", "parquet", "--delimiter", ";"], 2, "--delimiter has no meaning"),
        (["ENV", "SRC", "--key", "id", "--resume"], 3, "holds no records"),
        (["ENV", "SRC", "--key", "id", "--from", "avro"], 2, "--engine local reads csv, tsv, jsonl, parquet and orc"),
        (["missing", "SRC", "--key", "id"], 4, "no such directory"),
    ],
)
def test_what_makes_no_sense(env: Path, tmp_path: Path, words: list[str], code: int, text: str) -> None:
    source = csv_file(tmp_path / "a.csv", ["k,1"], "id,v")
    named = [
        {"SRC": str(source), "ENV": str(env), "missing": str(tmp_path / "missing")}.get(word, word) for word in words
    ]
    result = load(*named)
    assert (result.code, text in result.err) == (code, True), result.err


def test_without_create_and_without_a_name(env: Path, tmp_path: Path) -> None:
    source = csv_file(tmp_path / "a.csv", ["k,1"], "id,v")
    result = run("load", env, source, "--db", "d", "--key", "id", "--engine", "local")
    assert result.code == 4
    assert "--create makes it" in result.err
    assert run("load", env, source, "--key", "id").code == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--db", "d", "--create", "--key", "nope"), 2),
        (("--db", "d", "--create", "--key", "id", "--value", "nope"), 2),
        (("--db", "d", "--create", "--key", "id", "--order-by", "nope"), 2),
        (("--db", "d", "--create", "--key", "id", "--rejects", "/dev/null/rejects"), 7),
        (("--db", "d", "--key", "id"), 4),
        (("--db", "d", "--create", "--key", "id", "--resume"), 3),
    ],
)
def test_what_was_typed_is_checked_before_the_first_byte_changes(
    tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    """The environment was left by a crash: whoever opens it for writing recovers it and logs a checkpoint."""
    home = tmp_path / "env"
    shutil.copytree(GOLDEN / "je-17/txn-crash", home)
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    source = csv_file(tmp_path / "a.csv", ["k,1"], "id,v")
    assert run("load", home, source, *words, "--engine", "local").code == code
    after = {path.name: path.read_bytes() for path in home.iterdir() if path.name != "je.lck"}
    assert after == before
    assert not [path for path in tmp_path.iterdir() if ".jetool" in path.name]


@pytest.mark.parametrize(
    "words", [("load", "DUMP", "--db", "d"), ("put", "k", "v", "--db", "d"), ("delete", "k", "--db", "d")]
)
def test_a_wrong_name_of_a_database_changes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    home = tmp_path / "env"
    shutil.copytree(GOLDEN / "je-17/txn-crash", home)
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    (tmp_path / "a.dump").write_text("VERSION=3\nformat=print\ntype=btree\ndupsort=0\nHEADER=END\n k\n v\nDATA=END\n")
    done = run(words[0], home, *(str(tmp_path / "a.dump") if word == "DUMP" else word for word in words[1:]))
    assert done.code == 4
    assert "no database 'd'" in done.err
    assert {path.name: path.read_bytes() for path in home.iterdir() if path.name != "je.lck"} == before


def test_the_environment_comes_first(env: Path, tmp_path: Path) -> None:
    source, other = (csv_file(tmp_path / name, ["k,1"], "id,v") for name in ("a.csv", "b.csv"))
    assert load(env, source, "--key", "id").code == 0
    assert load(source, "--home", env, "--key", "id").code == 0
    assert contents(env, "d") == {b"k": b"1"}
    for words, right in (
        ((source, env), f"{env} {source}"),
        ((source, env, other), f"{env} {source} {other}"),
        ((source, tmp_path / "none"), f"{tmp_path / 'none'} {source}"),
    ):
        result = load(*words, "--key", "id")
        assert (result.code, result.out) == (2, b"")
        assert f"the environment comes first: jetool load {right}" in result.err


@pytest.mark.parametrize(
    ("value_format", "expected"),
    [
        ("json", b'{"a":1,"b":"x","c":null}'),
        ("msgpack", bytes.fromhex("83 a161 01 a162 a178 a163 c0")),
        ("avro", bytes.fromhex("02 02 02 02 78 00")),
    ],
)
def test_value_formats(env: Path, tmp_path: Path, value_format: str, expected: bytes) -> None:
    source = tmp_path / "a.parquet"
    columns = {"k": ["key"], "a": pa.array([1]), "b": ["x"], "c": pa.array([None], pa.float64())}
    parquet.write_table(pa.table(columns), source)
    result = load(env, source, "--key", "k", "--value-format", value_format)
    assert result.code == 0
    assert contents(env, "d") == {b"key": expected}
    schema = result.json()["value_schema"]
    if value_format == "avro":
        kinds = {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
        assert kinds == {"a": ["null", "long"], "b": ["null", "string"], "c": ["null", "double"]}
    else:
        assert schema is None


def test_avro_of_text(env: Path, tmp_path: Path) -> None:
    source = csv_file(tmp_path / "a.csv", ["k,1,x"], "id,a,b")
    assert load(env, source, "--key", "id", "--value-format", "avro").code == 0
    assert contents(env, "d") == {b"k": bytes.fromhex("02 02 31 02 02 78")}
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"id":"k","a":1}\n')
    result = load(env, lines, "--key", "id", "--value-format", "avro")
    assert (result.code, "which Avro needs" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("path", "package"), [("a.avro", "spark-avro_2.13"), ("s3a://bucket/a.parquet", "org.apache.hadoop:hadoop-aws")]
)
def test_what_spark_lacks_is_named(env: Path, tmp_path: Path, session: Session, path: str, package: str) -> None:
    (tmp_path / "a.avro").touch()
    result = load(env, path if ":" in path else tmp_path / path, "--key", "k", engine="spark")
    assert session.local
    assert (result.code, "--conf spark.jars.packages=" in result.err and package in result.err) == (7, True)


def test_columns_in_the_names_of_directories_are_sparks_business(env: Path, tmp_path: Path, session: Session) -> None:
    for day in (1, 2):
        directory = tmp_path / "data" / f"day={day}"
        directory.mkdir(parents=True)
        parquet.write_table(pa.table({"k": [f"{day}-{n}" for n in range(50)]}), directory / "a.parquet")
    result = load(env, tmp_path / "data", "--key", "k", "--value", "day", "--data-format", "utf8", engine="spark")
    assert result.code == 0, result.err
    assert session.local
    assert contents(env, "d") == {b"%d-%d" % (day, n): b"%d" % day for day in (1, 2) for n in range(50)}


def test_a_file_uri_and_a_scheme_that_nobody_knows(env: Path, tmp_path: Path, session: Session) -> None:
    source = csv_file(tmp_path / "a.csv", ["k,1"], "id,v")
    assert load(env, source.as_uri(), "--key", "id", engine="spark").code == 0
    assert contents(env, "d") == {b"k": b"1"}
    before = {path.name: path.read_bytes() for path in env.iterdir()}
    result = load(env, "nowhere://host/a.csv", "--key", "id", engine="spark")
    assert session.local
    assert (result.code, 'No FileSystem for scheme "nowhere"' in result.err) == (7, True), result.err
    assert "the environment is as it was" in result.err
    assert {path.name: path.read_bytes() for path in env.iterdir()} == before


def test_a_log_of_a_later_version_takes_records_one_by_one(tmp_path: Path) -> None:
    """Finished files are of version 17, which JE never puts after a later one."""
    env = tmp_path / "later"
    shutil.copytree(GOLDEN / "je-26" / "empty", env)
    source = csv_file(tmp_path / "rows.csv", [f"{number:04d},name {number},{number}" for number in range(500)])
    result = load(env, source, "--key", "id", "--value", "name")
    assert result.code == 0, result.err
    assert (counts(result)["records"], counts(result)["files"], counts(result)["created"]) == (500, 0, True)
    assert contents(env, "d") == {b"%04d" % number: b"name %d" % number for number in range(500)}
    rows = map(json.loads, run("dump-log", env, "--format", "ndjson").out.splitlines())
    assert {row["version"] for row in rows if row["rec"] == "entry"} == {26}


@pytest.mark.parametrize("asked", [(), ("--engine", "spark"), ("--master", "local[1]"), ("--conf", "spark.ui.port=0")])
def test_small_files_do_not_wait_for_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    """Unless Spark is asked for, in whichever way; larger and remote sources are Spark's."""
    started: list[str] = []

    def no_spark(settings: object, listener: object) -> object:
        started.append("spark")
        raise JobError("no Spark in this test")

    monkeypatch.setattr("engine.pipeline.session.open_session", no_spark)
    source = tmp_path / "a.csv"
    source.write_text("k,v\n" + "".join(f"{n},{n * n}\n" for n in range(3)))
    env = tmp_path / "env"
    run("create", env)
    words = ("load", env, source, "--db", "d", "--create", "--key", "k", "--json")
    result = run(*words, *asked)
    if asked:
        assert (result.code, started) == (7, ["spark"])
        return
    assert (result.code, started) == (0, [])
    assert result.json()["records"] == 3
    assert "read without Spark" in result.err
    assert "--engine spark" in result.err
    # A large source: Spark only on a cluster.
    monkeypatch.setattr("engine.pipeline.settings.SMALL_BYTES", source.stat().st_size)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert run(*words, "--on-duplicate", "last", "-n").code == 0
    assert started == []
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://host:7077\n")
    assert run(*words).code == 7
    assert started == ["spark"]


def test_both_engines_leave_the_same(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("k,v\n" + "".join(f"{n},{n * n}\n" for n in range(300)))
    dumps = []
    for engine in ("auto", "spark"):
        env = tmp_path / engine
        run("create", env)
        assert load(env, source, "--key", "k", engine=engine).code == 0
        dumps.append(run("dump", env, "--db", "d").out)
    assert dumps[0] == dumps[1]
    assert b"DATA=END" in dumps[0]
