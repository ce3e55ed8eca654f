"""Runs and their merge give every key once, in order, whatever the parts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tools import needs

needs("Spark")

from engine.errors import JobError
from engine.pipeline.load.runs import (
    ERROR,
    FIRST,
    LAST,
    Merge,
    cuts_of,
)
from tests.pipeline.loads import runs_of

RECORDS = st.lists(st.tuples(st.binary(max_size=2), st.binary(max_size=5)), max_size=400)


@settings(max_examples=40)
@given(RECORDS, st.sampled_from([1, 500, 1 << 20]), st.sampled_from([1, 2, 7]), st.sampled_from([LAST, FIRST]))
def test_all_parts_together(records: list[tuple[bytes, bytes]], run_bytes: int, parts: int, keep: str) -> None:
    expected = dict(records) if keep == LAST else dict(reversed(records))
    with TemporaryDirectory() as directory:
        runs = runs_of(Path(directory), records, run_bytes=run_bytes, keep=keep)
        cuts = cuts_of(runs, parts)
        assert len(cuts) < parts
        found: list[tuple[bytes, bytes]] = []
        dropped = sum(run.duplicates for run in runs)
        for low, high in zip([None, *cuts], [*cuts, None], strict=True):
            merge = Merge([run.path for run in runs], low, high, keep)
            for table in merge.tables():
                found += zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
            dropped += merge.duplicates
    assert found == sorted(expected.items())
    assert len(found) + dropped == len(records)


def test_cuts_follow_the_bytes_of_skewed_keys(tmp_path: Path) -> None:
    many = [(b"a%06d" % number, b"v" * 20) for number in range(4000)] + [(b"z", b"v"), (b"zz", b"v")]
    runs = runs_of(tmp_path, many, run_bytes=20_000)
    sizes = []
    cuts = cuts_of(runs, 4)
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        sizes.append(sum(len(t) for t in Merge([r.path for r in runs], low, high, LAST).tables()))
    assert sum(sizes) == len(many)
    assert max(sizes) < 2 * min(sizes)


@pytest.mark.parametrize("run_bytes", [1, 1 << 20], ids=["in two runs", "in one run"])
def test_equal_keys_that_must_not_be(tmp_path: Path, run_bytes: int) -> None:
    records = [(b"%03d" % number, b"x") for number in range(150)] + [(b"\x01\x02", b"a")] * 2

    def merge() -> None:
        runs = runs_of(tmp_path, records, run_bytes=run_bytes, keep=ERROR)
        list(Merge([run.path for run in runs], None, None, ERROR).tables())

    with pytest.raises(JobError, match="two records have the same key: 0x0102"):
        merge()


def test_a_round_is_bounded_however_many_runs_there_are(tmp_path: Path) -> None:
    records = [(b"%05d" % (number * 7919 % 6000), b"%d" % number) for number in range(6000)]
    runs = runs_of(tmp_path, records, run_bytes=1)
    assert {run.records for run in runs} == {100}
    tables = list(Merge([run.path for run in runs], None, None, LAST, round_batches=2).tables())
    assert max(len(table) for table in tables) <= 2 * 100
    found = [
        pair for table in tables for pair in zip(*(table[name].to_pylist() for name in ("key", "value")), strict=True)
    ]
    assert found == sorted(records)


@pytest.mark.parametrize("most", [2, 7, 59])
@pytest.mark.parametrize("keep", [FIRST, LAST])
def test_more_runs_than_are_open_at_once(tmp_path: Path, most: int, keep: str) -> None:
    records = [(b"%05d" % (number * 7919 % 3000), b"%d" % number) for number in range(6000)]
    runs = runs_of(tmp_path, records, run_bytes=1)
    assert len(runs) == 60
    before = sorted(tmp_path.iterdir())
    merge = Merge([run.path for run in runs], b"00100", b"02900", keep, most_runs=most)
    found = [
        pair for table in merge.tables() for pair in zip(*map(_listed, (table["key"], table["value"])), strict=True)
    ]
    expected = dict(records) if keep == LAST else dict(reversed(records))
    assert found == sorted((key, value) for key, value in expected.items() if b"00100" <= key < b"02900")
    assert merge.duplicates == 2800
    assert sorted(tmp_path.iterdir()) == before


def _listed(column: Any) -> list[bytes]:
    found: list[bytes] = column.to_pylist()
    return found
