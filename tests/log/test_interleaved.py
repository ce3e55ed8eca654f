"""Two writers in one log: pieces of two chains, against damage of other kinds."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.log.interleaved import InterleavedChains, find_interleaved
from engine.storage.memory import MemoryStorage
from tests.support.damage.two_writers import CONFIG, NAME, both, two_continuations
from tests.support.harness import run


def found(data: bytes) -> InterleavedChains | None:
    storage = MemoryStorage({NAME: data})
    return find_interleaved(storage, list_log_files(storage).files[0], is_last=True)


def test_pieces_of_two_chains() -> None:
    hits = [seed for seed in range(60) if (seen := found(both(seed))) is not None and seen.named < seen.lsn]
    # A piece that begins and ends between two entries, or is shorter than one, leaves nothing to be seen.
    assert len(hits) >= 55


@pytest.mark.parametrize("kind", ["flip", "zeros", "garbage"])
def test_other_damage_is_not_taken_for_a_second_writer(kind: str) -> None:
    _, whole, _ = two_continuations()
    assert found(whole) is None
    for seed in range(80):
        chance, data = random.Random(f"{kind} {seed}"), bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            at, length = chance.randrange(100, len(data)), chance.choice([1, 4, 64, 512, 4096])
            length = min(length, len(data) - at)
            if kind == "flip":
                data[at] ^= 1 << chance.randrange(8)
            else:
                data[at : at + length] = bytes(length) if kind == "zeros" else chance.randbytes(length)
        assert found(bytes(data)) is None, seed


def test_verify_and_recover_tell(tmp_path: Path) -> None:
    """The damage lies before the last checkpoint: recovery does not read it, and is no longer silent about it."""
    storage = MemoryStorage({NAME: both(1)})
    data = storage.contents()[NAME]
    # Files after it, with a checkpoint of their own.
    whole = MemoryStorage({NAME: two_continuations()[1]})
    with Environment(whole, replace(CONFIG, file_max_bytes=20_000)) as env, env.open_database("d") as db:
        for i in range(2000):
            db.put(b"more %04d" % i, b"x" * 40)
    env_path = tmp_path / "env"
    env_path.mkdir()
    for name, content in whole.contents().items():
        if name.endswith(".jdb"):
            (env_path / name).write_bytes(content)
    assert len(list(env_path.glob("*.jdb"))) > 2
    for words in (("-n",), ("-n", "--json"), ()):
        sound = run("recover", env_path, *words)
        assert (sound.code, "damage" in sound.err) == (0, False)
    grown_data = bytearray((env_path / NAME).read_bytes())
    grown_data[: len(data)] = data
    (env_path / NAME).write_bytes(grown_data)
    for words in (("-n",), ()):
        done = run("recover", env_path, *words)
        assert done.code == 0
        assert done.err.count("damage before the last checkpoint") == 1
        assert "two processes seem to have written the log at once" in done.err
        assert NAME in done.err
        assert "0x0/0x" in done.err
    checked = run("verify", env_path, "--json")
    assert checked.code == 1
    codes = [finding["code"] for finding in checked.json()["findings"]]
    assert codes.count("JE-LOG-031") == 1
