"""jetool-spark(7) is true: its programs run, its commands end well, and it has every option."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.pipeline.session import Session
from tests.pipeline.test_sources import source
from tests.support.harness import run
from tests.support.manuals import MAN, calls_in

PAGE = MAN / "jetool-spark.7.md"


@pytest.fixture
def data(golden_dir: Path, tmp_path: Path) -> Path:
    """The directory that the page calls /data."""
    for node in ("node1", "node2"):
        shutil.copytree(golden_dir / "je-17/txn-crash", tmp_path / node)
    return tmp_path


def test_the_programs_run(session: Session, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.replace("/data/", f"{data}/"), names)
    entries = run("dump-log", data / "node1", "--format", "ndjson", "--fields", "lsn").lines()[:-1]
    records = run("scan", data / "node1", "--db", "accounts", "--format", "ndjson").lines()[:-1]
    printed = capsys.readouterr().out
    assert re.search(r"\| +environment\| +type\|count\|", printed)
    assert int(printed.splitlines()[-1]) == len(records) > 100
    assert session.spark.read.parquet(f"{data}/table").count() == len(entries) > 1000


def test_its_commands(data: Path) -> None:
    (call,) = (one for one in calls_in(PAGE) if one.in_block)
    place = call.words.index("--master")
    words = [word.replace("/data/*/je", f"{data}/*") for word in call.words[:place]]
    assert (words[:2], run(*words).code) == (["fleet", "verify"], 0)


@pytest.mark.parametrize("name", ["jelog", "jerecords", "jegroup"])
def test_it_has_every_option(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        source(name, none="")
    known = str(caught.value.found).removeprefix("its options are ").split(", ")
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = {
        option
        for _, options, of, *_ in rows
        if name in of or of.strip() == "all"
        for option in re.findall(r"`(\w+)`", options)
    }
    assert documented == set(known)
