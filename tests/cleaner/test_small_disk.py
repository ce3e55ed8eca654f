"""A short day: writes, kills and the cleaner, and a directory that stays small (``small_disk`` has the long one)."""

from __future__ import annotations

from pathlib import Path

from engine.db.database import Database
from engine.db.environment import Environment
from tests.cleaner import small_disk


def test_a_short_day(tmp_path: Path) -> None:
    outcome = small_disk.run(tmp_path / "env", 6_000, kill_every=2_000)
    assert outcome.problems == []
    assert outcome.kills > 0
    assert outcome.most_bytes < 30_000_000


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    home = str(tmp_path / "env")
    small_disk.write(home, 2_000)
    assert list(small_disk.check(home, 2_000)) == []
    assert "2001 was acknowledged" in " ".join(small_disk.check(home, 2_001))
    with Environment(home) as env:
        data: Database = env.open_database("data")
        key = next(key for key, _ in data.items())
        data.delete(key)
        env.open_database("0").delete(small_disk.key_of(7))
    problems = list(small_disk.check(home, 2_000))
    assert any(key.hex() in one for one in problems)
    assert any("the journals hold" in one for one in problems)
