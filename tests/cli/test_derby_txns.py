"""``txns`` on real Derby databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.derby_databases import FIVE, NAMES, damage, damage_cases, extract, manifest, recorded, state_of
from tests.support.harness import assert_valid, run


@pytest.mark.parametrize("name", NAMES)
def test_fates_are_those_of_the_records(name: str, tmp_path: Path) -> None:
    database = extract(name, tmp_path)
    before = state_of(database)
    result = run("txns", database, "--format", "ndjson")
    assert result.code == 0
    assert_valid("txns", result.out, "ndjson")
    *found, summary = result.lines()
    mine = [one for one in recorded(name) if one["xid"] is not None]
    assert summary["entries"] == len(recorded(name))
    assert sum(one["records"] for one in found) == len(mine)
    assert sum(one["bytes"] for one in found) == sum(one["length"] + 16 for one in mine)
    assert sum(one["clrs"] for one in found) == sum("undo_instant" in one for one in mine)
    unended = {
        str(one["transaction"]): one["fate"] == "prepared" for one in found if one["fate"] in ("open", "prepared")
    }
    assert unended == {number: one["prepared"] for number, one in manifest(name)["open_at_end"].items()}
    commits = sum("LAST" in one["group"] and "COMMIT" in one["group"] for one in mine)
    aborts = sum("LAST" in one["group"] and "ABORT" in one["group"] for one in mine)
    assert (summary["committed"], summary["aborted"]) == (commits, aborts)
    assert summary["printed"] == len(found)
    assert summary["after_end"] == summary["bad"] == 0
    assert state_of(database) == before


def test_filters(tmp_path: Path) -> None:
    database = extract("crash-xa-prepared", tmp_path)

    def numbers(*options: str) -> list[int]:
        return [one["transaction"] for one in run("txns", database, "--format", "ndjson", *options).lines()[:-1]]

    assert numbers("--fate", "prepared") == [186, 194]
    assert numbers("--fate", "prepared", "--fate", "open", "--limit", "3") == [186, 194, 198]
    assert numbers("--txn", "202") == [202]
    assert numbers("--txn", "99999") == []
    text = run("txns", database, "--fate", "prepared").text
    assert "4711:6774782d6f6e65:6272616e636830" in text
    assert run("txns", database, "--fate", "lost").code == 2


def test_order_and_number(tmp_path: Path) -> None:
    database = extract("crash-xa-prepared", tmp_path)

    def numbers(*options: str) -> list[int]:
        return [one["transaction"] for one in run("txns", database, "--format", "ndjson", *options).lines()[:-1]]

    every = numbers()
    assert len(every) > 4
    assert numbers("--reverse") == every[::-1]
    assert numbers("--reverse", "--limit", "2") == every[:-3:-1]
    assert numbers("--limit", "2") == every[:2]
    assert numbers("--tail", "2") == every[-2:]
    assert numbers("--tail", "2", "--reverse") == every[:-3:-1]
    assert numbers("--tail", "1", "--fate", "prepared") == [194]
    assert run("txns", database, "--tail", "3", "--limit", "2").code == 2


def test_commits_behind_the_end_are_marked(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    damage(database, next(case for case in damage_cases() if case["damage"].startswith("one byte changed")))
    result = run("txns", database, "--json")
    assert result.code == 1
    assert_valid("txns", result.out)
    found = {one["transaction"]: one for one in result.json()["records"]}
    assert [number for number, one in found.items() if one["after_end"] and one["fate"] == "committed"] == [194, 200]
    assert result.json()["summary"]["bad"] == 2


def test_every_damage_ends_as_declared(tmp_path: Path) -> None:
    for number, case in enumerate(damage_cases()):
        database = extract(FIVE, tmp_path / str(number))
        damage(database, case)
        result = run("txns", database, "--json")
        assert result.code in (0, 1, 5), case["damage"]


def test_times_mean_nothing(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    for option in ("--since", "--until"):
        assert run("txns", database, option, "2026-01-01").code == 2
