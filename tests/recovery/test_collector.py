"""The garbage collector belongs to the process: recovery leaves it alone, the command line sets that of its own."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.storage.memory import MemoryStorage
from jetool.__main__ import GC_THRESHOLDS

SHOW = (
    "import gc; from jetool import __main__; from jetool.frame import cli; "
    "cli.main = lambda: print(gc.isenabled(), *gc.get_threshold(), gc.get_freeze_count() > 1000); __main__.main()"
)


class Watch:
    """Notes the state of the collector at every step of recovery; raises at one of them if asked to."""

    def __init__(self, failing: str = "") -> None:
        self.seen: dict[str, tuple[bool, tuple[int, ...], int]] = {}
        self._failing = failing

    def step(self, name: str, _done: int, _total: int) -> None:
        """A step of recovery; the first of each name, since counting what is frozen takes long."""
        if name not in self.seen:
            self.seen[name] = state()
        if name == self._failing:
            raise ValueError(name)


def state() -> tuple[bool, tuple[int, ...], int]:
    """Whether the collector runs, how often, and what it was told to pass over."""
    return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()


@pytest.fixture(params=[True, False])
def collector(request: pytest.FixtureRequest) -> Iterator[bool]:
    """The collector of a program that has it on, or off."""
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield bool(request.param)
    (gc.enable if was else gc.disable)()


def crashed() -> MemoryStorage:
    """An environment that has something to recover."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True))
    with env.create_database("db") as db:
        for number in range(50):
            db.put(b"%d" % number, b"data")
    env.sync()
    env.engine.crash()
    return storage


@pytest.mark.parametrize("failing", ["", "UNDO_DATA_RECORDS"])
def test_recovery_leaves_the_collector_alone(collector: bool, failing: str) -> None:
    """Also while it runs, since other threads of the process would feel it, and also when it fails."""
    storage, before, watch = crashed(), state(), Watch(failing)
    assert before[0] is collector
    if failing:
        with pytest.raises(DamageError, match="contradicts"):
            Environment(storage, listener=watch)
    else:
        Environment(storage, listener=watch).close()
    assert {"FIND_LAST_CKPT", "UNDO_DATA_RECORDS"} <= set(watch.seen)
    for enabled, thresholds, frozen in (*watch.seen.values(), state()):
        assert (enabled, thresholds) == before[:2]
        # What was frozen before may go; recovery freezes nothing.
        assert frozen <= before[2]


def test_the_command_line_sets_its_own() -> None:
    """Its process is for one command: fewer collections, none of what was imported."""
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", *map(str, GC_THRESHOLDS), "True"]
