"""``je.properties`` and values of parameters: whatever stands there, an answer; never an internal error or a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.db.config import PARAMETERS, EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import UsageError
from engine.storage.memory import MemoryStorage
from tests.support.harness import run

# What is no number, and numbers beyond all bounds.
BAD = [
    "inf", "-inf", "nan", "inf s", "nan s", "-inf h", "1e400 s", "1e308 h", "-1", "-1 ms", "1 parsec", "9" * 30,
    "9" * 5000, f"{'9' * 5000} s", "", "\x00", "true " * 1000,
]  # fmt: skip
NUMBERS = [name for name, known in PARAMETERS.items() if known.kind not in ("bool", "text")]


@pytest.mark.parametrize("name", [name for name, known in PARAMETERS.items() if known.kind != "text"])
def test_a_value_that_is_none(name: str) -> None:
    for text in BAD:
        with pytest.raises(UsageError, match=name) as raised:
            EnvironmentConfig().with_params({name: text})
        assert len(str(raised.value)) < 300


@pytest.mark.parametrize("name", NUMBERS)
def test_the_smallest_and_the_largest_value(name: str) -> None:
    """An environment works with both, whatever they mean for its speed."""
    known = PARAMETERS[name]
    unit = " ms" if known.kind == "ms" else ""
    for value in (known.least, known.most):
        storage = MemoryStorage({"je.properties": f"{name} = {value}{unit}\n".encode()})
        with Environment(storage, EnvironmentConfig(create=True)) as env:
            # The size of the cache depends on the machine where a parameter leaves it open.
            assert known.field == "cache_bytes" or getattr(env.config, known.field) == value
            with env.create_database("db") as db:
                for number in range(50):
                    db.put(b"%04d" % number, b"v" * 100)
                env.checkpoint(force=True)
        with Environment(storage, EnvironmentConfig()) as env, env.open_database("db") as db:
            assert len(list(db.items())) == 50


def test_a_file_that_is_too_long_is_refused() -> None:
    storage = MemoryStorage({"je.properties": b"#" * (2 << 20)})
    with pytest.raises(UsageError, match="too long"):
        Environment(storage, EnvironmentConfig(create=True))


@pytest.mark.parametrize("line", ["je.lock.timeout=inf s", "je.txn.timeout=1e308 h", "je.maxMemory=-1"])
def test_commands_say_what_is_wrong(line: str, tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("create", env).code == 0
    (env / "je.properties").write_text(f"{line}\n")
    for words in (("scan", env, "--db", "db"), ("put", env, "k", "v", "--db", "db"), ("recover", env)):
        result = run(*words)
        assert result.code == 2, result.err
        assert line.partition("=")[0] in result.err
