"""Kinds of contents: found by name, recognised by databases, added by other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.contents import registry
from engine.contents.base import DecodedRecord, Source
from engine.contents.journals import FRONTENDS
from engine.db.environment import Environment
from engine.errors import UsageError
from engine.inspect.contents import EnvironmentSource
from tests.support.environments.frontends import rolled, write_frontend


class Orders:
    """A kind of contents as another package would write it."""

    name = "orders"
    title = "orders of a shop"

    def recognises(self, source: Source) -> bool:
        return "orders" in source.names

    def decoder(self, source: Source) -> Orders:
        return self

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        return DecodedRecord(key.decode(), int(data), True)


class Point(NamedTuple):
    name: str
    target: object

    def load(self) -> object:
        if isinstance(self.target, Exception):
            raise self.target
        return self.target


class Names(NamedTuple):
    """A source of which only the names of databases are known."""

    names: Sequence[str]

    def records(self, name: str, limit: int, *, last: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def comparators(self) -> Mapping[str, str]:
        return {}


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Point]]:
    """Entry points that other packages would have."""
    found: list[Point] = []

    def entry_points(*, group: str, name: str | None = None) -> list[Point]:
        assert group == "jetool.contents"
        return [point for point in found if name in (None, point.name)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    registry.others.cache_clear()
    yield found
    registry.others.cache_clear()


def test_another_package_adds_a_kind(points: list[Point]) -> None:
    points.append(Point("orders", Orders()))
    assert "orders" in registry.names()
    kind = registry.recognise(Names(["orders"]))
    assert kind is not None
    assert kind.title == "orders of a shop"
    decoder = registry.find("orders").decoder(Names([]))
    assert registry.decode(decoder, "orders", b"a", b"7") == ("a", 7, True)
    assert registry.decode(decoder, "orders", b"a", b"x") == ({"hex": "61"}, {"hex": "78"}, False)


def test_one_that_cannot_be_loaded(points: list[Point]) -> None:
    """Named, it is an error that says why; asked about an environment, it knows none."""
    points.append(Point("broken", ImportError("no module of that name")))
    assert registry.recognise(Names(["orders"])) is None
    with pytest.raises(UsageError, match="'broken' cannot be loaded: ImportError: no module of that name"):
        registry.find("broken")


def test_ours_cannot_be_replaced(points: list[Point]) -> None:
    points.append(Point("doris", Orders()))
    assert registry.find("doris") is FRONTENDS[0]
    assert registry.names().count("doris") == 1


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="no decoder 'mysql'"):
        registry.find("mysql")


@pytest.mark.parametrize(("doris", "expected"), [(True, "doris"), (False, "starrocks")])
def test_the_product_is_told_by_its_operations(tmp_path: Path, doris: bool, expected: str) -> None:
    write_frontend(tmp_path, rolled(1, 60, 30, doris=doris))
    with Environment(tmp_path) as env:
        kind = registry.recognise(EnvironmentSource(env))
    assert kind is not None
    assert kind.name == expected


def test_an_environment_that_nobody_knows(tmp_path: Path) -> None:
    write_frontend(tmp_path, {"orders": {1: b"x"}})
    with Environment(tmp_path) as env:
        assert registry.recognise(EnvironmentSource(env)) is None


def test_common_operations_alone_tell_no_product() -> None:
    assert registry.recognise(Names(["1", "epochDB"])) is FRONTENDS[2]
    assert registry.recognise(Names(["1", "starmgr_1", "epochDB"])) is FRONTENDS[1]
