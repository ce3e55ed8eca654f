"""A log cut between two entries: what the log alone can tell of it (JE-TAIL-011)."""

from __future__ import annotations

import pytest

from engine.format.entry.checkpoint import CkptStart
from engine.format.entry_types import CKPT_END, CKPT_START
from tests.support import corpus
from tests.support.logs.golden_logs import entries, read
from tests.support.logs.log_writer import report
from tests.support.samples import part

pytestmark = pytest.mark.exhaustive

# Closed, by real JE.
CLOSED = ("je/je-18.3.20/cleaned-closed", "je/je-18.3.20/plain-load", "je/je-25.3.17/plain-load")


@pytest.mark.parametrize("name", CLOSED)
def test_every_place_between_two_entries(name: str) -> None:
    files = {path.name: path.read_bytes() for path in (corpus.path() / name / "env").glob("*.jdb")}
    last = max(files)
    found, told = entries(read(files[last])), 0
    for number in part(range(1, len(found))):
        entry = found[number]
        cut = entry.lsn & 0xFFFFFFFF
        before = [one for one in found[:number] if one.type_number in (CKPT_START, CKPT_END)]
        record = before[-1].record() if before else None
        inside = isinstance(record, CkptStart) and record.invoker == "close"
        codes = [one.code for one in report({**files, last: files[last][:cut]}, ("tail",)).findings]
        assert ("JE-TAIL-011" in codes) == inside, cut
        told += inside
    assert told
    assert report(files, ("tail",)).findings == ()
