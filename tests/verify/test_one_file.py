"""A log of one file: ``--log`` and ``--tail`` each see the damage in it, which is damage in the last file."""

from __future__ import annotations

import random

import pytest

from engine.format.entry_types import DURABLE_ENTRIES
from engine.format.lsn import make_lsn
from engine.verify.environment import DEFAULT
from engine.verify.report import ERROR
from tests.support import corpus
from tests.support.harness import run
from tests.support.logs.golden_logs import offsets_and_sizes
from tests.support.logs.log_writer import Files, changed, golden, report

NAME = "00000000.jdb"
MUTATIONS = 300


@pytest.fixture(scope="module")
def log() -> Files:
    files = golden("je-17/txn-crash")
    assert list(files) == [NAME]
    return files


@pytest.fixture(scope="module")
def last_durable(log: Files) -> int:
    types = {at: log[NAME][at + 4] for at, _ in offsets_and_sizes(log[NAME], 17)}
    return max(at for at, number in types.items() if number in DURABLE_ENTRIES)


def mutated(log: Files, seed: int) -> tuple[Files, int]:
    """A flipped byte, a zeroed sector or a stretch that stands there twice, and where it begins."""
    random_ = random.Random(seed)
    data = log[NAME]
    at = random_.randrange(38, len(data) - 1)
    kind = random_.randrange(3)
    if kind == 0:
        return changed(log, NAME, at, bytes((data[at] ^ 1 << random_.randrange(8),))), at
    sector = max(at & ~0x1FF, 512)
    return changed(log, NAME, sector, bytes(512) if kind == 1 else data[sector - 512 : sector]), sector


@pytest.mark.parametrize("levels", [("log",), ("tail",), DEFAULT])
def test_every_level_that_reads_the_file_sees_the_damage(
    log: Files, last_durable: int, levels: tuple[str, ...]
) -> None:
    assert report(log, levels).findings == ()
    assert report(log, levels).entries > 100
    missed = []
    for seed in range(MUTATIONS):
        files, at = mutated(log, seed)
        if files == log:
            continue
        found = report(files, levels)
        durable_after = at < last_durable
        worst = found.count(ERROR) > 0
        if not found.findings or (durable_after and not worst):
            missed.append((seed, hex(at), [f.code for f in found.findings]))
    assert missed == []


def test_log_says_what_tail_says(log: Files) -> None:
    for seed in range(50):
        files, _ = mutated(log, seed)
        assert report(files, ("log",)) == report(files, DEFAULT)
        of_tail = [f for f in report(files, ("log",)).findings if f.code.startswith("JE-TAIL")]
        assert of_tail == [f for f in report(files, ("tail",)).findings if f.code.startswith("JE-TAIL")]


@pytest.mark.parametrize("level", ["--log", "--tail", "--quick"])
def test_a_real_environment_with_commits_after_the_damage(level: str) -> None:
    env = corpus.path() / "je" / "je-18.3.20" / "corrupt-middle" / "env"
    done = run("verify", env, level)
    assert done.code == 1
    assert "JE-TAIL-002" in done.text


def test_a_reference_to_a_place_in_the_file(log: Files) -> None:
    """The LSN of the finding is that of the entry which holds the flipped byte."""
    at, size = list(offsets_and_sizes(log[NAME], 17))[20]
    (found, *_) = report(changed(log, NAME, at + size - 1, b"\xa7"), ("log",)).findings
    assert found.lsn == make_lsn(0, at)
