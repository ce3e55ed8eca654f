"""The benchmark of bulk loads makes the same records in all formats, and judges by its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tools import needs

needs("Spark")

from tests.bench import load
from tests.bench.builds import PURE, builds
from tests.bench.load import Line
from tests.support.harness import run


@pytest.mark.parametrize("order", ["shuffled", "ascending"])
def test_all_formats_hold_the_same_records(tmp_path: Path, order: str) -> None:
    load.generate(tmp_path, 2000, order)
    dumps = []
    for name in ("data.dump", "data.csv", "data.parquet"):
        env = tmp_path / f"env-{name}"
        assert run("create", env).code == 0
        columns = ("--engine", "local", "--key", "key", "--value", "value") if name != "data.dump" else ()
        done = run("load", env, tmp_path / name, "--db", "d", "--create", *columns, "--json")
        assert (done.code, done.json()["records"]) == (0, 2000)
        dumps.append(run("dump", env, "--db", "d").out)
    assert dumps[0] == dumps[1] == dumps[2]
    lines = (tmp_path / "data.csv").read_text().splitlines()[1:]
    assert (lines == sorted(lines)) == (order == "ascending")
    assert {len(line) for line in lines} == {load.KEY_BYTES + 1 + load.VALUE_BYTES}


def test_a_load_is_taken_apart(tmp_path: Path) -> None:
    load.generate(tmp_path, 5000, "shuffled")
    line = load.load(tmp_path, "local", "csv", 5000, builds((PURE,), tmp_path / "build")[0])
    assert sum(line.parts.values()) == pytest.approx(line.wall_s)
    assert line.size > 5000 * 116
    assert line.peak > 10_000_000
    text = load.table([line], 5000, "shuffled", 0.1)[-1]
    assert text.split()[:2] == ["local,", "csv"]


def test_the_median_run_is_shown_with_the_most_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = iter([3.0, 9.0, 4.0])

    def one(directory: Path, engine: str, form: str, count: int, build: object) -> Line:
        return Line(f"{engine}, {form}", seconds := next(taken), {}, int(seconds * 1e6), 0)

    monkeypatch.setattr(load, "load", one)
    monkeypatch.setattr(load, "LINES", (("local", "csv"),))
    monkeypatch.setattr(load, "table", lambda lines, *_: [f"{line.who} {line.wall_s} {line.peak}" for line in lines])
    words = ["--records", "10", "--runs", "3", "--build", "pure", "--directory", str(tmp_path), "--je-classpath", ""]
    assert load.main(words) == 0
    assert capsys.readouterr().out == "local, csv 4.0 9000000\n"


def test_the_bounds() -> None:
    slow, fast = Line("DbLoad", 35.0, {}, 0, 0), Line("DbLoad", 10.0, {}, 0, 0)
    ours = Line("spark, csv", 11.0, {}, 0, 0)
    assert load.kept(ours, [slow, ours], 5_000_000)
    assert not load.kept(ours, [fast, ours], 5_000_000)
    assert not load.kept(ours._replace(wall_s=12.0), [ours], 5_000_000)
    assert load.table([slow, ours], 5_000_000, "shuffled", 1.0)[-1].endswith("  kept")
    assert load.table([fast, ours], 5_000_000, "shuffled", 1.0)[-1].endswith("  MISSED")
