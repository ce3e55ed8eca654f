"""One workload on one store, in a process of its own: ``python store.py STORE LINE DIRECTORY RECORDS``.

Prints JSON: seconds of wall and of CPU time for the line itself (opening and closing apart, unless that is the line),
how many records it touched, and the largest resident size of the process. Keys have 16 bytes, values 100; the order of
the random lines is the same for every store. Nothing is synced but at the end, outside the measured time.

==============  ==========================================================================
put sequential  one transaction per record, ascending keys
put random      one transaction per record, keys in random order
put bulk        all records in one transaction, random order
checkpoint      a forced checkpoint after ``put bulk``, which left everything dirty
get             random keys, in what ``put random`` left
scan            all records in key order
crash           prepares ``recover``: as ``put random``, without checkpoints, then a crash
recover         opens what ``crash`` left, until a record can be read
small cache     as ``put random`` with a cache of 64 MiB; its figure is the memory
small recovery  as ``recover`` with a cache of 64 MiB; likewise
==============  ==========================================================================
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

VALUE: Final = bytes(range(100))
_CACHE_BYTES: Final = 1 << 30
SMALL_CACHE_BYTES: Final = 64 << 20
RECOVERIES: Final = ("recover", "small recovery")
SMALL: Final = ("small cache", "small recovery")
_GETS: Final = 200_000
# A store that commits a few thousand times a second is not made to do it a million times.
_MOST_SLOW: Final = 50_000


class Clock:
    """What a line has taken; ``records`` are those that it touched."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0
        self.records = 0

    @contextmanager
    def measured(self, records: int) -> Iterator[None]:
        """Add the time of a block."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall_s += time.perf_counter() - wall
        self.cpu_s += time.process_time() - cpu
        self.records += records


def keys(records: int, order: str) -> list[bytes]:
    """The keys of a line."""
    made = [b"%016d" % number for number in range(records)]
    if order == "random":
        random.Random(1).shuffle(made)
    return made


def some_keys(records: int) -> list[bytes]:
    """Keys to get."""
    return random.Random(2).sample(keys(records, "sequential"), min(records, _GETS))


def jetool_line(line: str, directory: Path, records: int, clock: Clock) -> None:
    """Our engine."""
    from engine.db.config import EnvironmentConfig
    from engine.db.environment import Environment
    from engine.txn.txn import Durability

    crash = line in ("crash", *RECOVERIES)
    config = EnvironmentConfig(
        create=line not in ("get", "scan", *RECOVERIES),
        cache_bytes=SMALL_CACHE_BYTES if line in SMALL else _CACHE_BYTES,
        checkpoint_bytes=0 if crash or line == "checkpoint" else 20_000_000,
    )

    def put_each(env: Environment, order: str) -> None:
        with env.create_database("bench") as db:
            for key in keys_now:
                txn = env.begin(durability=Durability.NO_SYNC)
                db.put(key, VALUE, txn)
                txn.commit()

    keys_now = keys(records, "sequential" if line == "put sequential" else "random")
    if line in RECOVERIES:
        with clock.measured(records):
            env = Environment(directory, config)
            with env.open_database("bench") as db:
                assert db.get(keys_now[0]) == VALUE
        env.engine.crash()
        return
    env = Environment(directory, config)
    if line in ("put sequential", "put random", "small cache"):
        with clock.measured(records):
            put_each(env, line)
    elif line == "crash":
        env.checkpoint(force=True)
        put_each(env, line)
        env.sync()
        env.engine.crash()
        return
    elif line in ("put bulk", "checkpoint"):
        _jetool_bulk(env, line, keys_now, clock)
    elif line == "get":
        wanted = some_keys(records)
        with env.open_database("bench") as db, clock.measured(len(wanted)):
            assert all(db.get(key) == VALUE for key in wanted)
    else:
        with env.open_database("bench") as db, clock.measured(records):
            assert sum(1 for _ in db.items()) == records
    env.close()


def _jetool_bulk(env: Any, line: str, keys_now: list[bytes], clock: Clock) -> None:
    from engine.txn.txn import Durability

    bulk = Clock()
    with env.create_database("bench") as db, bulk.measured(len(keys_now)):
        txn = env.begin(durability=Durability.NO_SYNC)
        for key in keys_now:
            db.put(key, VALUE, txn)
        txn.commit()
    if line == "put bulk":
        clock.__dict__.update(bulk.__dict__)
        return
    with clock.measured(len(keys_now)):
        env.checkpoint(force=True)


def sqlite_line(line: str, directory: Path, records: int, clock: Clock) -> None:
    """sqlite3, write-ahead log, no sync. Its recovery and checkpoints are of another kind: no lines for them."""
    import sqlite3

    store = sqlite3.connect(directory / "bench.sqlite", isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=OFF")
    store.execute(f"PRAGMA cache_size={-_CACHE_BYTES // 1024}")
    insert = "INSERT INTO bench VALUES (?, ?)"
    if line.startswith("put"):
        store.execute("CREATE TABLE bench (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        keys_now = keys(records, "sequential" if line == "put sequential" else "random")
        with clock.measured(records):
            if line == "put bulk":
                store.execute("BEGIN")
                store.executemany(insert, ((key, VALUE) for key in keys_now))
                store.execute("COMMIT")
            else:
                for key in keys_now:
                    store.execute("BEGIN")
                    store.execute(insert, (key, VALUE))
                    store.execute("COMMIT")
    elif line == "get":
        wanted = some_keys(records)
        with clock.measured(len(wanted)):
            for key in wanted:
                assert store.execute("SELECT value FROM bench WHERE key = ?", (key,)).fetchone() == (VALUE,)
    else:
        with clock.measured(records):
            assert sum(1 for _ in store.execute("SELECT key, value FROM bench ORDER BY key")) == records
    store.close()


def zodb_line(line: str, directory: Path, records: int, clock: Clock) -> None:
    """ZODB: an OOBTree in a FileStorage, without its sync. ``recover`` reads a file that has lost its index."""
    import transaction
    import ZODB
    import ZODB.FileStorage
    from BTrees.OOBTree import OOBTree

    sys.modules["ZODB.FileStorage.FileStorage"].fsync = None  # type: ignore[attr-defined]
    path = directory / "bench.fs"
    if line == "recover":
        Path(f"{path}.index").unlink(missing_ok=True)
        with clock.measured(min(records, _MOST_SLOW)):
            storage = ZODB.FileStorage.FileStorage(str(path))
            tree = ZODB.DB(storage).open().root()["bench"]
            assert tree[keys(records, "random")[0]] == VALUE
        return
    store = ZODB.DB(ZODB.FileStorage.FileStorage(str(path)), cache_size=10_000_000, cache_size_bytes=_CACHE_BYTES)
    root = store.open().root()
    if line.startswith("put") or line == "crash":
        tree = root["bench"] = OOBTree()
        transaction.commit()
        keys_now = keys(records, "sequential" if line == "put sequential" else "random")
        each = line != "put bulk"
        timed = keys_now[:_MOST_SLOW] if each else keys_now
        with clock.measured(len(timed)):
            for key in timed:
                tree[key] = VALUE
                if each:
                    transaction.commit()
            transaction.commit()
        # What is read later is whole; what is recovered is a log of transactions of one record.
        if line != "crash":
            tree.update([(key, VALUE) for key in keys_now[len(timed) :]])
            transaction.commit()
    elif line == "get":
        tree = root["bench"]
        wanted = some_keys(records)
        with clock.measured(len(wanted)):
            assert all(tree[key] == VALUE for key in wanted)
    else:
        with clock.measured(records):
            assert sum(1 for _ in root["bench"].items()) == records
    store.close()


def lmdb_line(line: str, directory: Path, records: int, clock: Clock) -> None:
    """lmdb, no sync. It has no log to recover or to checkpoint: no lines for these."""
    import lmdb

    store = lmdb.open(str(directory), map_size=1 << 34, sync=False, metasync=False)
    if line.startswith("put"):
        keys_now = keys(records, "sequential" if line == "put sequential" else "random")
        with clock.measured(records):
            if line == "put bulk":
                with store.begin(write=True) as txn:
                    for key in keys_now:
                        txn.put(key, VALUE)
            else:
                for key in keys_now:
                    with store.begin(write=True) as txn:
                        txn.put(key, VALUE)
    elif line == "get":
        wanted = some_keys(records)
        with clock.measured(len(wanted)), store.begin() as txn:
            assert all(txn.get(key) == VALUE for key in wanted)
    else:
        with clock.measured(records), store.begin() as txn:
            assert sum(1 for _ in txn.cursor()) == records
    store.close()


STORES: Final[dict[str, Callable[[str, Path, int, Clock], None]]] = {
    "jetool": jetool_line,
    "sqlite3": sqlite_line,
    "ZODB": zodb_line,
    "lmdb": lmdb_line,
}


def _peak_bytes() -> int:
    """The most memory that this process held; not ``ru_maxrss``, which begins at that of the parent."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(store: str, line: str, directory: str, records: str) -> None:
    """Run a line and print what it took."""
    # As the command line does (``jetool.__main__``): cycles are rare, and looking for them among a million records
    # takes its time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    clock = Clock()
    STORES[store](line, Path(directory), int(records), clock)
    peak = _peak_bytes()
    sys.stdout.write(
        json.dumps({"wall_s": clock.wall_s, "cpu_s": clock.cpu_s, "records": clock.records, "peak_bytes": peak}) + "\n"
    )
    sys.stdout.flush()
    # What ends in a crash must not be closed by anybody.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
