"""The benchmark of Spark compares places, and says where their results are not the same."""

from __future__ import annotations

from pathlib import Path

from tests.support.tools import needs

needs("Spark")

from tests.bench import spark
from tests.bench.builds import PURE, builds
from tests.bench.spark import CLUSTER, LOCAL, SPARK, Bench, Row


def test_rows_of_the_local_engine(tmp_path: Path) -> None:
    """One load and one merge, with half of the keys in common; every job is listed, those of a log with JE only."""
    options = spark.parser().parse_args(["--records", "3000", "--merged", "1000", "--je-classpath", ""])
    bench = Bench(tmp_path, builds((PURE,), tmp_path / "build")[0].environ, "spark://nowhere:1")
    jobs = spark.jobs(bench, tmp_path, options)
    assert len(jobs) == 6
    (loaded,), (merged,) = jobs[0](), jobs[3]()
    assert (loaded.what, loaded.where, merged.what, merged.where) == ("load", LOCAL, "merge", LOCAL)
    assert 0 < loaded.start_s < loaded.wall_s
    assert loaded.result != merged.result
    # A line for the key and one for the data of each record.
    assert sum(line.startswith(" ") for line in bench.dumped(tmp_path / "env").splitlines()) == 2 * 1500
    # The files of the first round serve the next one.
    before = (tmp_path / "data.parquet").stat().st_mtime_ns
    assert len(spark.jobs(bench, tmp_path, options)) == 6
    assert (tmp_path / "data.parquet").stat().st_mtime_ns == before


def test_results_that_differ_are_shown() -> None:
    rows = [Row("load", LOCAL, 3.0, 0.5, "a"), Row("load", SPARK, 7.0, 2.0, "a"), Row("load", CLUSTER, 9.0, 4.0, "b")]
    assert spark.disagreements(rows) == {"load"}
    assert spark.disagreements(rows[:2]) == set()
    lines = spark.table(rows[:2])
    assert lines[2].split() == ["load", "local", "mode", "7.00", "2.00", "5.00"]
    assert all(line.endswith("DIFFERS") for line in spark.table(rows)[1:])


def test_the_median_of_several_runs() -> None:
    runs = [[Row("load", LOCAL, seconds, 0.1, "a")] for seconds in (5.0, 3.0, 4.0)]
    assert [row.wall_s for row in spark.medians(runs)] == [4.0]
