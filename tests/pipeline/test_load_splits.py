"""Splits of files: together they are the file, each record once, in order."""

from __future__ import annotations

import bz2
import datetime
import gzip
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tools import needs

needs("Spark")

import pyarrow as pa
from pyarrow import orc, parquet

from engine.pipeline.load.input import columnar, endings, lines, splits
from engine.pipeline.load.input.recipe import Recipe, SourceColumn
from engine.pipeline.load.input.sources import Layout, layout_of
from engine.pipeline.load.input.splits import Split


def ranges(path: Path, size: int) -> list[list[bytes]]:
    """The lines of a file, range by range."""
    cut = splits.splits_of("csv", "csv", (str(path),), size)
    return [
        [line for block in lines.blocks_of(one.path, one.start, one.stop) for line in lines.lines_of(block).to_pylist()]
        for one in cut
    ]


@settings(max_examples=60, deadline=None)
@given(
    found=st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))),
    size=st.integers(1, 12),
    closed=st.booleans(),
)
def test_ranges_of_bytes_hold_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, found: list[bytes], size: int, closed: bool
) -> None:
    data = b"\n".join(found) + (b"\n" if found and closed else b"")
    path = tmp_path_factory.mktemp("text") / "a.csv"
    path.write_bytes(data)
    parts = ranges(path, size)
    assert [line for part in parts for line in part] == data.split(b"\n")[
        : None if data[-1:] not in (b"\n", b"") else -1
    ]
    starts = [0, *(at + 1 for at, byte in enumerate(data[:-1]) if byte == 10)]
    assert [len(part) for part in parts] == [
        sum(1 for start in starts if at <= start < at + size and data) for at in range(0, max(len(data), 1), size)
    ]


def test_lines_longer_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "blocks_of", partial(lines.blocks_of, read_bytes=10, look_bytes=3))
    written = [b"x" * 35, b"", b"short\r", b"y" * 21]
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join(written))
    for size in (1, 7, 36, 100):
        assert [line for part in ranges(path, size) for line in part] == [written[0], b"", b"short", written[3]]


@pytest.mark.parametrize(("ending", "packed"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_text_is_one_split(tmp_path: Path, ending: str, packed: Any) -> None:
    path = tmp_path / f"a.csv{ending}"
    path.write_bytes(packed(b"id,v\n" + b"1,2\n" * 50_000))
    (split,) = splits.splits_of("csv", "csv", (str(path),), 100)
    assert (split.start, split.stop) == (0, None)
    blocks = list(lines.blocks_of(split.path, 0, None))
    assert [lines.count_of(block) for block in blocks] == [len(lines.lines_of(block)) for block in blocks]
    assert sum(map(lines.count_of, blocks)) == 50_001
    assert lines.first_lines(str(path), 2) == [b"id,v", b"1,2"]


LINES = (
    b"a,b",
    b"",
    b"c,",
    b'"d","e,f"',
    b'"g',
    b'h",i',
    b"j",
    b"k,l,m",
    b"n,o\r",
    b"p\0,\xc3\xa4",
    b"\xef\xbb\xbfq,r",
)


@settings(max_examples=300, deadline=None)
@given(
    written=st.lists(st.sampled_from(LINES), min_size=1, max_size=6),
    names=st.sampled_from([("x", "y"), ("x",)]),
    header=st.booleans(),
    bound=st.integers(1, 40),
    style=st.sampled_from(["utf8", "hex"]),
)
def test_a_block_gives_what_its_lines_give(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[bytes],
    names: tuple[str, ...],
    header: bool,
    bound: int,
    style: str,
) -> None:
    home = tmp_path_factory.mktemp("both")
    (home / "a.csv").write_bytes(b"\n".join(written))
    recipe = Recipe(
        staging=str(home), run_bytes=1 << 20, keep="first", form="csv", names=names, delimiter=",", header=header,
        keys=(SourceColumn("x", style),), values=(names[-1],), value_format="raw", value_style="utf8", order_by=None,
        files=(str(home / "a.csv"),),
    )  # fmt: skip

    def read(block_parser: Any) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lines, "blocks_of", partial(lines.blocks_of, read_bytes=bound))
            patch.setattr(lines, "parse_block", block_parser)
            part = splits.read_task(recipe, "csv", tuple(splits.splits_of("csv", "csv", recipe.files)))
        rejects = None if part.rejects is None else Path(part.rejects).read_text()
        records = [pa.ipc.open_file(run.path).read_all().to_pydict() for run in part.runs]
        return [part.read, part.rejected, part.splits, rejects, records]

    assert read(lines.parse_block) == read(lambda *_: None)


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_row_groups_and_stripes(tmp_path: Path, form: str) -> None:
    table = pa.table({"k": [b"%05d" % number for number in range(20_000)], "v": [b"v" * 50] * 20_000})
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        parquet.write_table(table, path, row_group_size=3000)
    else:
        orc.write_table(table, path, stripe_size=100_000)
    sizes = columnar.sizes(form, str(path))
    assert len(sizes) > 2
    for split_bytes in (1, max(sizes) * 2, sum(sizes)):
        cut = splits.splits_of(form, "table", (str(path),), split_bytes)
        assert [split.stop for split in cut[:-1]] == [split.start for split in cut[1:]]
        found = [
            batch for one in cut for batch in columnar.batches(form, one.path, one.start, one.stop, ("v", "k", "v"))
        ]
        assert pa.Table.from_batches(found).equals(table.select(["v", "k"]))
    assert len(cut) == 1


def test_tasks_take_small_splits_together() -> None:
    sizes = [5, 3, 4, 20, 1, 1, 9]
    made = [Split(number, "", 0, None, size) for number, size in enumerate(sizes)]
    assert [[split.size for split in task] for task in splits.tasks_of(made, 10)] == [[5, 3], [4], [20], [1, 1], [9]]


def test_types_of_a_form_of_their_own_are_read_as_plain_ones(tmp_path: Path) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)
    table = pa.table(
        {
            "dictionary": pa.array(["a", "b"]).dictionary_encode(),
            "fixed": pa.array([b"1234", b"abcd"], pa.binary(4)),
            "view": pa.array(["x", "y"], pa.string_view()),
            "time": pa.array([at, at], pa.timestamp("ns", "Europe/Berlin")),
            "uuid": pa.array([b"0" * 16, b"1" * 16], pa.uuid()),
        }
    )
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    schema = columnar.schema_of("parquet", str(path))
    assert [str(field.type) for field in schema] == [
        "string", "large_binary", "large_string", "timestamp[us, tz=UTC]", "large_binary",
    ]  # fmt: skip
    (batch,) = columnar.batches("parquet", str(path), 0, None, tuple(schema.names))
    assert batch.schema.equals(schema)
    assert batch.to_pylist()[0] == {
        "dictionary": "a", "fixed": b"1234", "view": "x", "time": at.replace(tzinfo=datetime.UTC), "uuid": b"0" * 16,
    }  # fmt: skip


def layout(path: Path, name: str = "parquet") -> Layout:
    return layout_of((str(path),), name, None, header=True)


def test_what_only_sparks_readers_can_read(tmp_path: Path) -> None:
    parted = tmp_path / "parted" / "day=1"
    parted.mkdir(parents=True)
    parquet.write_table(pa.table({"k": ["a"]}), parted / "a.parquet")
    assert splits.opened(layout(tmp_path / "parted")) is None
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    parquet.write_table(pa.table({"k": ["a"]}), mixed / "a.parquet")
    parquet.write_table(pa.table({"k": ["a"], "v": ["b"]}), mixed / "b.parquet")
    assert splits.opened(layout(mixed)) is None
    (mixed / "b.parquet").unlink()
    opened = splits.opened(layout(mixed))
    assert opened is not None
    assert (opened.files, opened.schema.names) == ((str(mixed / "a.parquet"),), ["k"])
    assert splits.opened(layout(mixed, "avro")) is None
    (tmp_path / "a.csv.snappy").write_bytes(b"")
    assert splits.opened(layout(tmp_path / "a.csv.snappy", "csv")) is None
    assert splits.opened(Layout(("s3a://bucket/a.csv",), "csv", ",", True)) is None
    assert endings.is_plain("a=b.csv")
