"""The environments that command lines are timed on: random transactions of one record, by the engine or by JE.

Below a directory, for each size::

    crashed   as a crash leaves it, without a checkpoint
    log       the same, with a checkpoint at the end
    other     log, and one record more
    copy1, copy2   log by other names (hard links: nobody writes to them)
    dump      as many records as DbDump prints them, of random keys
    key       one key of them

The engine writes new keys (64 random bits), so that redo inserts; JE draws from as many keys as there are transactions,
so that more than a third of them are updates. Log ``crashed`` of JE is written by a program of its own, since its log
cannot be copied while it writes; both draw the same numbers.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.builds import REPOSITORY, Build

DB: Final = "t"
JETOOL: Final = "jetool"
JE: Final = "JE"
_VALUE_BYTES: Final = 100
_SEED: Final = 1
# Bytes of log that one transaction leaves.
_TRANSACTION_BYTES: Final = 235
# Of cache for each record: nothing is evicted, so that a log of any size has the same mixture of entries.
_CACHE_BYTES_PER_RECORD: Final = 800
_CACHE_FLOOR_BYTES: Final = 1 << 30
_COPIES: Final = ("copy1", "copy2")
_JE_LOG: Final = Path(__file__).with_name("JeLog.java")


class Logs(NamedTuple):
    """The environments of one size.

    Attributes:
        made: where they are.
        log: the one with a checkpoint, or another that was asked for.
        scratch: where copies and new environments go.
    """

    made: Path
    log: Path
    scratch: Path

    @property
    def size_bytes(self) -> int:
        """Bytes of the log with a checkpoint."""
        return sum(path.stat().st_size for path in self.log.glob("*.jdb"))

    def prepare(self, words: str, *, theirs: bool) -> None:
        """Fresh copies for a command line that writes; JE's tools make an environment by themselves."""
        if not writes(words):
            return
        shutil.rmtree(self.scratch, ignore_errors=True)
        (self.scratch / "new").mkdir(parents=True)
        if "CRASHED_COPY" in words:
            shutil.copytree(self.made / "crashed", self.scratch / "copy")
        elif not theirs:
            made = [sys.executable, "-m", "jetool", "create", str(self.scratch / "new")]
            subprocess.run(made, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)

    def placed(self, words: str) -> list[str]:
        """A command line with paths and values in it."""
        places = {
            "LOG": self.log, "CRASHED": self.made / "crashed", "OTHER": self.made / "other",
            "DUMP": self.made / "dump", "KEY": (self.made / "key").read_text().strip(),
            "CRASHED_COPY": self.scratch / "copy", "NEW": self.scratch / "new", "COPY1": self.made / _COPIES[0],
            "COPY2": self.made / _COPIES[1],
        }  # fmt: skip
        return [str(places.get(word, word)) for word in words.split()]


def writes(words: str) -> bool:
    """Whether a run of a command line changes what the next one would see."""
    return any(word in words.split() for word in ("CRASHED_COPY", "NEW"))


def logs_at(made: Path, megabytes: float, writer: str, build: Build, class_path: str) -> Path:
    """The environments of one size, made if they are not there; under their name only when they are whole."""
    if not made.exists():
        begun = made.with_name(f"{made.name}.new")
        shutil.rmtree(begun, ignore_errors=True)
        # The engine of the build that is measured first, and after it the bench of this checkout.
        path = f"{build.environ['PYTHONPATH']}{os.pathsep}{REPOSITORY}"
        environ = {**os.environ, **build.environ, "PYTHONPATH": path}
        records = str(int(megabytes * 1e6 / _TRANSACTION_BYTES))
        words = ["--commands", "--make", str(begun), records, class_path if writer == JE else ""]
        subprocess.run([sys.executable, "-m", "tests.bench", *words], env=environ, check=True)
        begun.rename(made)
    return made


def make(directory: Path, records: int, class_path: str) -> None:
    """Write the environments of one size below a directory: by JE where its classes are named."""
    from engine.db.config import EnvironmentConfig
    from engine.db.environment import Environment
    from engine.storage.disk import DiskStorage

    key = _by_je(directory, records, class_path) if class_path else _by_the_engine(directory, records)
    (directory / "key").write_text(f"{key}\n")
    log, config = directory / "log", EnvironmentConfig()
    shutil.copytree(log, directory / "other", ignore=shutil.ignore_patterns("je.*"))
    with Environment(DiskStorage(str(directory / "other")), config) as other, other.open_database(DB) as changed:
        changed.put(b"one more", b"record")
    for name in _COPIES:
        shutil.copytree(log, directory / name, ignore=shutil.ignore_patterns("je.*"), copy_function=os.link)
    rng = random.Random(_SEED)
    with (directory / "dump").open("wb") as out:
        out.write(b"VERSION=3\nformat=bytevalue\ntype=btree\ndupsort=0\nHEADER=END\n")
        for _ in range(records):
            out.write(b" %s\n %s\n" % ((b"%016x" % rng.getrandbits(64)).hex().encode(), b"61" * _VALUE_BYTES))
        out.write(b"DATA=END\n")


def _by_the_engine(directory: Path, records: int) -> str:
    from engine.catalog.name_operations import DatabaseOptions
    from engine.db.config import EnvironmentConfig
    from engine.db.environment import Environment
    from engine.storage.disk import DiskStorage
    from engine.txn.txn import Durability

    cache_bytes = max(_CACHE_FLOOR_BYTES, records * _CACHE_BYTES_PER_RECORD)
    config = EnvironmentConfig(create=True, cache_bytes=cache_bytes, checkpoint_bytes=1 << 60)
    rng = random.Random(_SEED)
    log = directory / "log"
    log.mkdir(parents=True)
    env = Environment(DiskStorage(str(log)), config)
    db = env.create_database(DB, DatabaseOptions())
    for _ in range(records):
        key = b"%016x" % rng.getrandbits(64)
        with env.begin(durability=Durability.NO_SYNC) as txn:
            db.put(key, rng.randbytes(_VALUE_BYTES), txn)
    env.sync()
    # As a crash leaves it: the log so far, and nobody who closes it.
    shutil.copytree(log, directory / "crashed", ignore=shutil.ignore_patterns("je.*"))
    env.checkpoint(force=True)
    db.close()
    env.close()
    return key.decode()


def _by_je(directory: Path, records: int, class_path: str) -> str:
    for name, end in (("crashed", "crash"), ("log", "checkpoint")):
        key = je_log(directory / name, records, end, class_path)
    return key


def je_log(directory: Path, records: int, end: str, class_path: str) -> str:
    """Random transactions by JE in a new directory; returns one of its keys.

    Arguments:
        records: how many transactions, and different keys.
        end: ``checkpoint``, or ``crash`` for none.
        class_path: JE's classes.
    """
    directory.mkdir(parents=True)
    words = ["java", "-cp", class_path, str(_JE_LOG), str(directory), str(records), str(records), end]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    for path in directory.glob("je.*"):
        path.unlink()
    return done.stdout.strip()
