"""``load`` of CSV and JSON lines by the standard library alone; also in an installation without pyarrow."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import REPOSITORY, environment, run, spawn
from tests.support.waiting import PATIENCE_S

TEXT = ("--data-format", "utf8")


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.usefixtures("light")
def test_records_that_are_there(tmp_path: Path) -> None:
    env, source = tmp_path / "env", tmp_path / "a.csv"
    source.write_text("k,v\n1,a\n2,b\n3,c\n")
    words = ("--db", "d", "--key", "k", "--batch", "2", "--json")
    assert run("create", env, "--db", "d").code == 0
    assert run("put", env, "--db", "d", "2", "old").code == 0
    done = json.loads(run("load", env, source, *words, "-n").out)
    assert (done["records"], done["dry_run"], done["transactions"]) == (3, True, 0)
    done = run("load", env, source, *words, "--no-overwrite")
    assert done.code == 1
    assert {name: json.loads(done.out)[name] for name in ("records", "rejected", "transactions")} == {
        "records": 2, "rejected": 1, "transactions": 2,
    }  # fmt: skip
    assert "old" in run("get", env, "--db", "d", "2", *TEXT).text
    assert run("load", env, source, *words).code == 0
    assert run("get", env, "--db", "d", "2", *TEXT).text.split()[-1] == "b"
    assert run("verify", env, "--full", "--quiet").code == 0


@pytest.mark.parametrize(
    "words", [("--order-by", "v"), ("--engine", "spark"), ("--value-format", "avro"), ("--resume",)]
)
def test_what_needs_more_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    """In an interpreter without the packages; nothing is changed."""
    env, source = tmp_path / "env", tmp_path / "a.csv"
    source.write_text("k,v,w\n1,a,b\n")
    assert run("create", env, "--db", "d").code == 0
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    done = without_packages("load", str(env), str(source), "--db", "d", "--key", "k", *words)
    assert done.returncode == 5
    assert "pyarrow" in done.stderr
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before
    plain = without_packages("load", str(env), str(source), "--db", "d", "--key", "k")
    assert plain.returncode == 0, plain.stderr
    assert "line by line" in plain.stderr
    assert '{"v":"a","w":"b"}' in run("get", env, "--db", "d", "1", *TEXT).text


@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """pyarrow does not bring numpy along."""
    env, source = tmp_path / "env", tmp_path / "a.csv"
    source.write_text("k,v\n1,a\n")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert run("create", env, "--db", "d").code == 0
    monkeypatch.setitem(sys.modules, missing, None)
    done = run("load", env, source, "--db", "d", "--key", "k")
    assert done.code == 0
    # A light installation lacks both.
    assert missing in done.err.partition("without ")[2].partition(", which ")[0]
    assert "not installed, the source is read line by line" in done.err
    refused = run("load", env, tmp_path / "a.parquet", "--db", "d", "--key", "k")
    assert refused.code == 5
    assert missing in refused.err.partition("a source in the format parquet needs ")[2].partition(", which ")[0]
    assert "pip install 'pyarrow>=18' numpy" in refused.err


def without_packages(*words: str) -> subprocess.CompletedProcess[str]:
    """A command line in a new interpreter that finds none of the packages of the pipeline."""
    program = (
        "import sys\n"
        "for name in ('pyarrow', 'numpy', 'pandas', 'pyspark', 'py4j'): sys.modules[name] = None\n"
        "from jetool.__main__ import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("words", [(), ("-n",), ("--on-duplicate", "error")])
def test_a_file_that_cannot_be_read_to_its_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nothing is changed, not even the database made: the whole source is read before."""
    env, good, bad = tmp_path / "env", tmp_path / "a.csv", tmp_path / "b.csv.gz"
    good.write_text("k,v\n1,a\n")
    data = bytearray(gzip.compress(b"k,v\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(5000))))
    data[len(data) // 2] ^= 0xFF
    assert run("create", env).code == 0
    for content in (bytes(data), bytes(data[: len(data) // 2]), b"no gzip"):
        bad.write_bytes(content)
        before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
        done = run("load", env, good, bad, "--db", "d", "--create", "--key", "k", "--format", "json", *words)
        assert done.code == 7, done.err
        assert done.error()["file"] == str(bad)
        assert done.error()["consequence"] == "the environment is as it was"
        assert run("dbs", env, "--format", "csv").text.count("\n") == 1
        assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before


@pytest.mark.usefixtures("light")
def test_extreme_lines(tmp_path: Path) -> None:
    """A field above Python's own limit is taken; a number that Python refuses, and deep nesting, reject the line."""
    env, table, lines = tmp_path / "env", tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_text("k,v\n1," + "x" * 200_000 + "\n")
    lines.write_text('{"k":' + "9" * 5000 + "}\n" + '{"k":' + "[" * 100_000 + "]" * 100_000 + '}\n{"k":"a","v":1}\n')
    assert run("create", env).code == 0
    done = run("load", env, table, "--db", "t", "--create", "--key", "k", "--json")
    assert (done.code, done.json()["records"]) == (0, 1)
    done = run("load", env, lines, "--db", "l", "--create", "--key", "k", "--json")
    assert (done.code, done.json()["records"], done.json()["rejected"]) == (1, 1, 2)
    reasons = [json.loads(line)["reason"] for line in Path(done.json()["rejects"]).read_text().splitlines()]
    assert reasons == ["no JSON: a number has too many digits", "no JSON: nested too deeply"]


@pytest.mark.parametrize("words", [("-",), ()], ids=["dash", "nothing"])
@pytest.mark.parametrize("installed", [True, False], ids=["pyarrow", "light"])
@pytest.mark.parametrize(
    ("form", "text"),
    [("csv", "k,v\n1,a\n2,b\n1,c\n"), ("jsonl", '{"k":"1","v":"a"}\n{"k":"2","v":"b"}\n{"k":"1","v":"c"}\n')],
)
def test_standard_input(tmp_path: Path, words: tuple[str, ...], installed: bool, form: str, text: str) -> None:
    """The same result as from a file, and no file is left."""
    env, source, scratch = tmp_path / "env", tmp_path / f"a.{form}", tmp_path / "scratch"
    source.write_text(text)
    scratch.mkdir()
    assert run("create", env, "--db", "d").code == 0
    more = ("--from", form, "--db", "d", "--key", "k", "--value-format", "raw", "--json")
    begin = [sys.executable, "-m", "jetool"]
    if not installed:
        patch = (
            "import sys; sys.modules['pyarrow'] = None; from jetool.frame import cli; sys.exit(cli.run(sys.argv[1:]))"
        )
        begin = [sys.executable, "-c", patch]
    done = subprocess.run(
        [*begin, "load", env, *words, *more],
        input=text.encode(),
        capture_output=True,
        env=environment(TMPDIR=str(scratch)),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {name: json.loads(done.stdout)[name] for name in ("read", "records", "duplicates")} == {
        "read": 3, "records": 2, "duplicates": 1,
    }  # fmt: skip
    assert [record["data"] for record in run("scan", env, "--json", *TEXT).json()["records"]] == ["c", "b"]
    assert list(scratch.iterdir()) == []


def test_standard_input_without_a_format_is_a_dump(tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("create", env, "--db", "d").code == 0
    done = spawn("load", env, "-", "--db", "d", input=b"k,v\n1,a\n")
    assert done.returncode != 0
    assert b"dump" in done.stderr
