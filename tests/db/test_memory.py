"""The share of the machine's memory that a cache takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.db import environment, memory
from engine.db.config import EnvironmentConfig
from engine.db.engine import Engine
from engine.db.environment import Environment
from engine.db.memory import LEAST_CACHE_BYTES, free_bytes
from tests.support.harness import run

GIB = 1 << 30


def machine(root: Path, available: int, **groups: str) -> str:
    """The files in which Linux says how much memory there is; names with ``__`` for a slash."""
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(
        f"MemTotal: 99999999 kB\nMemFree: 1 kB\nMemAvailable: {available >> 10} kB\n"
    )
    for name, text in groups.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_what_is_free(tmp_path: Path) -> None:
    assert free_bytes(machine(tmp_path / "bare", 20 * GIB)) == 20 * GIB
    unlimited = {"memory_dot_max": "max\n", "memory_dot_current": "5000\n"}
    assert free_bytes(machine(tmp_path / "unlimited", 20 * GIB, **unlimited)) == 20 * GIB
    second = {"memory_dot_max": f"{2 * GIB}\n", "memory_dot_current": f"{GIB // 2}\n"}
    assert free_bytes(machine(tmp_path / "second", 20 * GIB, **second)) == 3 * GIB // 2
    first = {"memory__memory_dot_limit_in_bytes": f"{GIB}\n", "memory__memory_dot_usage_in_bytes": f"{2 * GIB}\n"}
    assert free_bytes(machine(tmp_path / "first", 20 * GIB, **first)) == 0
    assert free_bytes(machine(tmp_path / "no limit", 20 * GIB, memory_dot_max="nonsense")) == 20 * GIB


@pytest.mark.parametrize(
    ("free", "cache"),
    [(20 * GIB, 20 * GIB // 50), (GIB, LEAST_CACHE_BYTES), (0, LEAST_CACHE_BYTES), (None, LEAST_CACHE_BYTES)],
)
def test_the_default_is_a_share(monkeypatch: pytest.MonkeyPatch, free: int | None, cache: int) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: free)
    assert EnvironmentConfig().cache_bytes == cache


def test_who_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 * GIB)
    plain = EnvironmentConfig()
    assert plain.with_params({"je.maxMemory": "123456789"}).cache_bytes == 123456789
    assert plain.with_params({"je.maxMemoryPercent": "20"}).cache_bytes == GIB // 2
    assert plain.with_params({"je.maxMemoryPercent": "60"}).cache_bytes == 3 * GIB // 2
    # JE takes the size where both are given, in whichever order; 0 is no size.
    assert plain.with_params({"je.maxMemory": "100000000", "je.maxMemoryPercent": "20"}).cache_bytes == 100_000_000
    assert plain.with_params({"je.maxMemoryPercent": "20", "je.maxMemory": "100000000"}).cache_bytes == 100_000_000
    assert plain.with_params({"je.maxMemoryPercent": "20", "je.maxMemory": "0"}).cache_bytes == GIB // 2
    fixed = replace(plain, cache_bytes=GIB, cache_is_fixed=True)
    assert fixed.with_params({"je.maxMemory": "100000000", "je.maxMemoryPercent": "20"}).cache_bytes == GIB


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The caches of environments that commands open, on a machine with 10 GiB; ``tmp_path`` is an environment."""
    with Environment(tmp_path, EnvironmentConfig(create=True)) as env:
        env.create_database("d").put(b"k", b"v")
    found: list[int] = []

    def noted(*words: Any) -> Engine:
        engine = Engine(*words)
        found.append(engine.config.cache_bytes)
        return engine

    monkeypatch.setattr(environment, "Engine", noted)
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 * GIB)
    return found


def test_two_that_are_open_at_the_same_time_share_the_default(tmp_path: Path, seen: list[int]) -> None:
    assert run("diff", tmp_path, tmp_path).code == 0
    assert seen == [10 * GIB // 100] * 2
    (tmp_path / "je.properties").write_text("je.maxMemory=100000000\n")
    assert run("diff", tmp_path, tmp_path).code == 0
    assert seen[2:] == [100_000_000] * 2


def test_the_command_line_wins(tmp_path: Path, seen: list[int]) -> None:
    (tmp_path / "je.properties").write_text("je.maxMemory=100000000\n")
    for words, cache in (((), 100_000_000), (("--cache", "70MiB"), 70 << 20), (("--cache", "10%"), GIB)):
        assert run("recover", tmp_path, *words).code == 0
        assert run("get", tmp_path, "k", "--db", "d", "--key-format", "utf8", *words).code == 0
        assert seen == [cache, cache]
        seen.clear()
    for text in ("0%", "91%", "x%", "-5", "much"):
        result = run("get", tmp_path, "k", "--db", "d", "--cache", text)
        assert (result.code, seen) == (2, []), text
