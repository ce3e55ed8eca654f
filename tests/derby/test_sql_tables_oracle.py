"""Every SQL type as real Derby writes and reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.derby.database import DerbyDatabase
from engine.derby.sql.tables import SqlRow, SqlTables
from engine.storage.disk import DiskStorage
from tests.support.derby_java import java


def same(ours: Any, theirs: str | None) -> bool:
    """Whether a value is the one that Derby prints."""
    if ours is None or theirs is None or isinstance(ours, str):
        return bool(ours == theirs)
    return str(ours).lower() == theirs or (isinstance(ours, float) and ours == float(theirs))


def test_rows_are_those_that_derby_prints(classes: Path, tmp_path: Path) -> None:
    """The database was not closed, and two changes have no commit."""
    done = java(classes, "DerbyTypes", str(tmp_path / "db"))
    assert done.returncode == 0, done.stderr
    expected: dict[str, list[dict[str, str | None]]] = {}
    types: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        expected.setdefault(row["table"], []).append(row["values"])
        types[row["table"]] = row["types"]
    assert len(expected) == 4
    assert sum(map(len, expected.values())) == 21
    with SqlTables(DerbyDatabase(DiskStorage(tmp_path / "db"))) as found:
        assert found.problem is None
        tables = {one.full_name: one for one in found.tables() if not one.is_system}
        assert set(tables) == set(expected)
        for name, table in tables.items():
            names = [one.name for one in table.columns]
            assert names == list(types[name])
            assert [one.kind.name for one in table.columns if one.kind] == list(types[name].values())
            rows = list(found.rows(table))
            assert len(rows) == len(expected[name])
            for ours, theirs in zip(rows, expected[name], strict=True):
                assert isinstance(ours, SqlRow)
                assert ours.problems == {}
                wrong = [pair for pair in zip(names, ours.values, strict=True) if not same(pair[1], theirs[pair[0]])]
                assert wrong == []
