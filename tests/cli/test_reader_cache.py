"""A command that walks over records keeps few nodes; a size that the user gives is kept."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.memory import LEAST_CACHE_BYTES, default_cache_bytes
from engine.storage.memory import MemoryStorage
from jetool.frame.environments import open_to_read
from jetool.frame.options import Run
from tests.support.environments.oracle import named
from tests.support.harness import run


@pytest.mark.parametrize(("name", "db"), [("je-18.3.20/txn-crash", "small"), ("je-18.3.20/vlsn-range", "journal")])
def test_nodes_that_recovery_leaves_and_a_little_more(name: str, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = named(name).path / "env"
    seen: list[tuple[int, int]] = []

    def opened(asked: Run, env: str, as_of: None) -> Environment:
        found = open_to_read(asked, env, as_of)
        seen.append((found.engine.evictor.budget_bytes, found.engine.ctx.used_bytes))
        return found

    monkeypatch.setattr("jetool.commands.scan.open_to_read", opened)
    monkeypatch.setattr("engine.db.config.default_cache_bytes", lambda: 1 << 30)
    walked = run("scan", env, "--db", db)
    given = run("scan", env, "--db", db, "--cache", "300MiB")
    assert (walked.out, walked.code) == (given.out, given.code)
    assert walked.code == 0
    (budget, used), (given_budget, _) = seen
    assert budget == used + LEAST_CACHE_BYTES < 1 << 30
    assert given_budget == 300 << 20


def test_the_limit_only_falls_and_a_walk_keeps_it() -> None:
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True)) as env, env.create_database("t") as db:
        for number in range(20_000):
            db.put(b"%06d" % number, bytes(50))
    with Environment(storage, EnvironmentConfig(read_only=True)) as env, env.open_database("t") as db:
        env.engine.evictor.limit_growth(100_000)
        limit = env.engine.evictor.budget_bytes
        env.engine.evictor.limit_growth(1 << 30)
        assert env.engine.evictor.budget_bytes == limit < 1 << 20
        assert sum(1 for _ in db.items()) == 20_000
        assert env.engine.ctx.used_bytes < 2 * limit
        assert env.engine.evictor.evicted > 0


def test_the_help_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.db.memory.free_bytes", lambda: 100 << 30)
    per_cent = default_cache_bytes() * 100 // (100 << 30)
    shown = " ".join(run("scan", "--help").out.decode().split())
    assert f"{per_cent}% of the free memory, 64MiB at least" in shown
    assert LEAST_CACHE_BYTES == 64 << 20
