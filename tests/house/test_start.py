"""A command imports what it needs: the number of modules decides how fast it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.modules import PACKAGES

# The most modules of jetool that each command may import for a small environment.
MOST = {
    ("--version",): 24,
    ("info", "--quick", "txn-crash"): 90,
    ("info", "txn-crash"): 148,
    ("space", "txn-crash"): 205,
    ("get", "txn-crash", "--db", "small", "00"): 172,
    ("verify", "txn-crash"): 200,
    ("vlsn", "range", "ha-rollback"): 206,
    ("rollbacks", "ha-rollback"): 140,
}
# Slow to import, and not for a command that prints a few lines.
SELDOM = ("asyncio", "concurrent.futures", "importlib.metadata", "pyarrow", "pyspark", "rich", "ssl", "unittest")
# What only an environment that is open for writing needs, or what few programs call.
OF_WRITERS = (
    "engine.cleaner.cleaner", "engine.db.extinction", "engine.db.read_write", "engine.db.secondary",
    "engine.db.sequence", "engine.vlsn.index", "tabulate",
)  # fmt: skip


def imported(*words: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jetool", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1, 4), run.stderr[-2000:]
    return {line.rsplit("|", 1)[1].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("words", MOST, ids=" ".join)
def test_few_modules(words: tuple[str, ...], golden_dir: Path) -> None:
    typed = [str(golden_dir / "je-17" / word) if (golden_dir / "je-17" / word).is_dir() else word for word in words]
    found = imported(*typed)
    assert sum(name.partition(".")[0] in PACKAGES for name in found) <= MOST[words]
    assert not found.intersection(SELDOM) - ({"importlib.metadata"} if words[0] == "info" else set())


@pytest.mark.parametrize(
    "words", [("get", "0x8000000000000008"), ("scan",), ("scan", "--json"), ("dbs", "--count")], ids=" ".join
)
def test_readers_load_no_writer(words: tuple[str, ...], golden_dir: Path) -> None:
    command, *others = words
    options = () if command == "dbs" else ("--db", "small")
    found = imported(command, str(golden_dir / "je-17" / "txn-crash"), *others, *options)
    assert "engine.db.database" in found
    assert not found.intersection((*SELDOM, *OF_WRITERS))
