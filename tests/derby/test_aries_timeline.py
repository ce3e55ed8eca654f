"""Transactions beside the checkpoint and the crash, and how they are drawn."""

from __future__ import annotations

import itertools

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.log import DerbyLogFiles
from engine.derby.timeline import TimelineScale, timeline
from engine.storage.memory import MemoryStorage
from jetool.commands.recover.derby_timeline_rows import drawing
from tests.derby.derby_fixtures import NAMES, files_of, storage_of

FIVE = "crash-five-transactions"
DRAWN = """\
u  (1,40674)         undoLWM: recovery reads from here, period A ends
r  (1,41652)         redoLWM: redo starts here, period B ends
^  (1,41725)         the record of the last checkpoint
e  (1,42645)         the end of the log: the crash

             u            r^           e  transaction  like
|------------:-------|    ::           :          193     1  committed
             |------------::------|    :          194     2  committed
             : |-------|  ::           :          195     3  committed
             :   |--------::----------->          196     4  open
             :            :|-|         :          198     5  checkpoint
             :            ::        |-|:          200     5  committed

15 transactions ended in front of undoLWM: not read"""


def test_the_five_transactions_of_the_diagram() -> None:
    """Section C of the behaviour document."""
    storage = storage_of(FIVE)
    found = timeline(DerbyDatabase(storage))
    marks = (found.undo_lwm, found.redo_lwm, found.checkpoint, found.end)
    assert [instant.show(at) for at in marks] == ["(1,40674)", "(1,41652)", "(1,41725)", "(1,42645)"]
    five = [(one.fate.number, one.like, one.begins, one.ends) for one in found.entries if one.fate.number < 200]
    assert five == [(193, 1, "A", "B"), (194, 2, "B", "C"), (195, 3, "B", "B"), (196, 4, "B", None), (198, 5, "C", "C")]
    assert [one.fate.number for one in found.entries if one.checkpoint] == [198]
    assert found.not_read == 15
    assert storage.contents() == files_of(FIVE)


def test_the_drawing() -> None:
    database = DerbyDatabase(storage_of(FIVE))
    assert "\n".join(drawing(DerbyLogFiles(database), timeline(database), 80)) == DRAWN


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [80, 200])
def test_drawings_fit(name: str, width: int) -> None:
    database = DerbyDatabase(storage_of(name))
    found = timeline(database)
    lines = list(drawing(DerbyLogFiles(database), found, width))
    assert max(len(line) for line in lines) <= width
    assert sum(line.endswith("open") for line in lines) == sum(one.fate.outcome == "open" for one in found.entries)


def test_prepared_transactions_stay() -> None:
    entries = timeline(DerbyDatabase(storage_of("crash-xa-prepared"))).entries
    assert [(one.fate.number, one.like) for one in entries if "prepared" in one.recovery] == [(186, 4), (194, 4)]


def test_columns_follow_the_log_over_several_files() -> None:
    """Later is never further left, and only a mark stands in its column."""
    log = DerbyLogFiles(DerbyDatabase(storage_of("crash-log-files")))
    found = timeline(log.database)
    marks = [found.undo_lwm, found.redo_lwm, found.end]
    scale = TimelineScale(log, marks, 60)
    places = sorted({one.fate.first for one in found.entries} | {one.fate.last for one in found.entries} | set(marks))
    columns = [scale.column(at) for at in places]
    assert all(left <= right for left, right in itertools.pairwise(columns))
    assert len(set(columns)) > 30
    at_marks = {scale.column(at) for at in marks}
    assert not at_marks & {scale.column(at) for at in places if at not in marks}


def test_a_begin_that_is_not_in_the_log_any_more() -> None:
    """T1 without the log in front of undoLWM: drawn from the edge."""
    files = dict(files_of(FIVE))
    log = bytearray(files["log/log1.dat"])
    log[40512:40600] = bytes(88)
    files["log/log1.dat"] = bytes(log)
    database = DerbyDatabase(MemoryStorage(files))
    found = timeline(database)
    (first,) = [one for one in found.entries if one.fate.number == 193]
    assert (first.fate.first, first.like) == (instant.NONE, 1)
    (line,) = [line for line in drawing(DerbyLogFiles(database), found, 80) if "  193  " in line]
    assert line[0] in "<:"
