"""Naming environments, and sharing out their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import NotFoundError, UsageError
from engine.events import SILENT
from engine.log.files import LogFile
from engine.pipeline.inventory import LogPart, Member, expand, list_members, members, pack, short_names
from tests.support.tools import needs


def test_paths_globs_and_inventory(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    inventory = tmp_path / "fleet.txt"
    inventory.write_text('# the fleet\n\na\n{"env": "b", "name": "second", "group": "g"}\n')
    found = members([f"{tmp_path}/*", str(tmp_path / "c/")], str(inventory))
    assert found == [
        Member(f"{tmp_path}/a", f"{tmp_path}/a"),
        Member(f"{tmp_path}/b", "second", "g"),
        Member(f"{tmp_path}/c", f"{tmp_path}/c"),
    ]
    listed = list_members(found)
    assert [one.files for one in listed] == [None] * 3
    assert "no Berkeley DB JE environment" in str(listed[0].error)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{broken", UsageError, "line 1 of the inventory is no JSON"),
        ('{"name": "x"}', UsageError, "line 1 of the inventory is no environment"),
        ('{"env": "a", "port": "1"}', UsageError, "no environment"),
        ("none-*", NotFoundError, "no directory matches"),
        ("# nothing\n", UsageError, "no environment is named"),
    ],
)
def test_bad_inventories(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(error, match=words):
        members([], str(tmp_path / "f"))
    with pytest.raises(NotFoundError, match="no such inventory"):
        members([], str(tmp_path / "g"))


def test_packing_keeps_order_and_size() -> None:
    def part(env: str, *sizes: int) -> LogPart:
        return LogPart(env, tuple(LogFile(n, f"{n:08x}.jdb", size) for n, size in enumerate(sizes)), len(sizes) - 1)

    tasks = pack([part("a", 10, 10, 10, 70), part("b", 5), part("c"), part("d", 100, 1)], 20)
    assert [[(p.env, [f.number for f in p.files]) for p in task] for task in tasks] == [
        [("a", [0, 1])],
        [("a", [2, 3])],
        [("b", [0]), ("d", [0])],
        [("d", [1])],
    ]
    assert pack([], 20) == []


def test_short_names() -> None:
    def names(*envs: str) -> list[str]:
        return list(short_names([Member(env, env) for env in envs]).values())

    assert names("/data/a/x/env", "/data/b/x/env") == ["a", "b"]
    assert names("/data/a/env", "/data/b") == ["a/env", "b"]
    assert names("/data/env") == ["/data/env"]
    assert list(short_names([Member("/d/a", "fe1"), Member("/d/b", "/d/b")]).values()) == ["fe1", "/d/b"]


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors of a cluster begin elsewhere."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.txt").write_text("b\n")
    assert expand(["a", "?"]) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [member.env for member in members(["a"], "fleet.txt")] == [str(tmp_path / "a"), str(tmp_path / "b")]
    needs("Spark")
    from engine.pipeline.load.input import sources
    from engine.pipeline.load.spark_backend import SparkBackend

    (tmp_path / "a.csv").write_text("k,v\n1,2\n")
    layout = sources.layout_of(("a.csv",), None, None, header=True)
    opened = SparkBackend(lambda _: pytest.fail("started"), SILENT).open(layout)
    assert opened.files == (str(tmp_path / "a.csv"),)


def test_many_environments_are_listed_in_their_order(tmp_path: Path, golden_dir: Path) -> None:
    good = str(golden_dir / "je-17" / "txn-crash")
    fleet = [Member(good if number % 3 else str(tmp_path / f"none{number}"), f"n{number}") for number in range(40)]
    listed = list_members(fleet)
    assert [one.member for one in listed] == fleet
    assert [one.files is None for one in listed] == [number % 3 == 0 for number in range(40)]
    assert [one.error is None for one in listed] == [number % 3 != 0 for number in range(40)]
