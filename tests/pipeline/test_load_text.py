"""CSV and JSON lines loaded by the standard library alone: as the pipeline loads them."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.harness import run
from tests.support.tools import needs

needs("Spark")


TEXT = ("--data-format", "utf8")
REPOSITORY = Path(__file__).resolve().parents[2]
CSV = 'id,name,age\n3,carol,41\n1,ann,7\nx,bad,1\n\n2,"bob, the second",9\n1,anna,8\n4,too,many,columns\n5,"open,1\n'
JSON_LINES = (
    '{"id":3,"name":"carol","tags":["a",1,null],"f":1.5}\n{"id":1,"name":"ann"}\n{"name":"nobody"}\nno json\n'
    '[1]\n{"id":1,"name":"é","more":{"x":true}}\n{"id":"12 ","name":null}\n{"id":99999999999999999999,"name":"big"}\n'
)


def loaded(directory: Path, source: Path, *words: str, light: bool, code: int | None = None) -> dict[str, Any]:
    """Load into a new environment; the summary, the records, and the rejects."""
    env = directory / ("light" if light else "arrow")
    assert run("create", env).code == 0
    with pytest.MonkeyPatch.context() as patch:
        if light:
            patch.setitem(sys.modules, "numpy", None)
        done = run("load", env, source, "--db", "d", "--create", "--engine", "local", "--json", *words)
    if done.code not in (0, 1):
        return {"code": done.code, "scan": run("dbs", env, "--format", "csv").text}
    summary = json.loads(done.out)
    rejects = summary.pop("rejects", None)
    # Files are made by the pipeline only; transactions by the other way only.
    for name in ("files", "bytes", "transactions"):
        summary.pop(name)
    return {
        "code": done.code,
        "summary": summary,
        "scan": run("scan", env, "--db", "d", "--key-format", "hex", "--data-format", "hex", "--format", "csv").out,
        "rejects": [] if rejects is None else sorted(map(_place_of, Path(rejects).read_text().splitlines())),
    }


def _place_of(line: str) -> tuple[Any, ...]:
    """A reject. Only a parser that reads line by line tells a quote that is not closed from missing columns."""
    found = json.loads(line)
    place = found["file"], found["line"], found["record"]
    return (*place, "", "") if '"' in found["record"] else (*place, str(found["column"]), found["reason"])


CASES = (
    ("a.csv", CSV, ("--key", "id", "--key-format", "tuple-long")),
    ("a.csv", CSV, ("--key", "id,name", "--value", "age", "--on-duplicate", "first")),
    ("a.csv", CSV, ("--key", "name", "--value", "id,age", "--value-format", "msgpack")),
    ("a.csv", CSV, ("--key", "id", "--on-duplicate", "error")),
    ("a.csv", CSV, ("--key", "nothing")),
    ("a.csv", "", ("--key", "id")),
    ("a.csv", "id\n1\n2\n", ("--key", "id")),
    ("a.csv", "\ufeff1,x\r\n2,y\r\n", ("--key", "c1", "--no-header")),
    ("a.csv", "a;b\nff;1\n0xfe;2\nzz;3\n", ("--key", "a", "--key-format", "hex", "--delimiter", ";")),
    ("a.csv", "a,b\nx\\00y,1\nx\\q,2\n", ("--key", "a", "--key-format", "text")),
    ("a.csv", "a,b\nAAE=,1\nA,2\n", ("--key", "a", "--key-format", "base64")),
    (
        "a.csv",
        "a,b\n2147483647,1\n2147483648,2\n-2147483648,3\n+7,4\n 8 ,5\n",
        ("--key", "a", "--key-format", "tuple-int"),
    ),
    ("a.csv", "a,b\nx\0y,1\né,2\n", ("--key", "a", "--key-format", "tuple-string")),
    ("a.tsv", "a\tb\n1\t2\n", ("--key", "a")),
    ("a.jsonl", JSON_LINES, ("--key", "id")),
    ("a.jsonl", JSON_LINES, ("--key", "name", "--value", "id")),
    ("a.jsonl", JSON_LINES, ("--key", "id", "--value", "name,tags,more", "--value-format", "msgpack")),
    (
        "a.jsonl",
        JSON_LINES,
        (
            "--key",
            "f",
        ),
    ),
    ("a.jsonl", '{"id":true,"v":1}\n', ("--key", "id")),
)


@pytest.mark.parametrize(("name", "text", "words"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_the_same_as_the_pipeline(tmp_path: Path, name: str, text: str, words: tuple[str, ...]) -> None:
    source = tmp_path / name
    source.write_text(text, encoding="utf-8", newline="")
    assert loaded(tmp_path, source, *words, light=True) == loaded(tmp_path, source, *words, light=False)


FIELD = st.text(alphabet="a1 \"',é\\+-", max_size=4)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.lists(FIELD, min_size=1, max_size=3).map(",".join), max_size=6),
    style=st.sampled_from(("utf8", "tuple-long", "text", "tuple-string")),
)
def test_random_lines(tmp_path_factory: pytest.TempPathFactory, rows: list[str], style: str) -> None:
    directory = tmp_path_factory.mktemp("random")
    source = directory / "a.csv"
    source.write_text("\n".join(["k,v", *rows]), encoding="utf-8")
    words = ("--key", "k", "--key-format", style)
    assert loaded(directory, source, *words, light=True) == loaded(directory, source, *words, light=False)


def test_compressed_and_several_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv.gz", tmp_path / "b.csv"
    first.write_bytes(gzip.compress(b"k,v\n1,a\n2,b\n"))
    second.write_bytes(b"k,v\n2,c\n")
    words = (str(second), "--key", "k")
    assert loaded(tmp_path, first, *words, light=True) == loaded(tmp_path, first, *words, light=False)
