"""``python -m tests.cleaner.beside_je --je 17=/path/to/classes --je 26=... --je 15=...``: both ways with JE.

Environments live varied lives by a seed: plain records, duplicates, records that expire, databases removed and
truncated, aborts, crashes, caches too small; stand-alone ones and groups of one node. Of each kind so many are written
here, with the cleaner at work, and so many by JE (``JeLives.java``), which has cleaned some of the files when it ends.
All of them are then cleaned by ``jetool clean`` as far as it goes; JE goes on with them, writing and cleaning; and at
last they are cleaned here once more. After each step JE has to find nothing wrong (DbVerifyLog, DbVerify with records
and obsolete records), neither have we, the dumps of all databases are the same here and there and, over cleaning, as
before. Once the log ends with a checkpoint, so is the utilization of every file (DbSpace). One line for each
environment; 1 when one fails.

A log of version 15 is read and cleaned here, and gone on with by JE 18, as it is in version 17 then.
"""

from __future__ import annotations

import argparse
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.cleaner.selection import percent
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.rep.group import lead_alone
from engine.storage.disk import DiskStorage
from engine.txn.txn import Durability
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.support.harness import run

_JAVA: Final = Path(__file__).with_name("JeLives.java")
_ROW: Final = re.compile(r"^([0-9a-f]{8})\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)\s*$", re.MULTILINE)
_OLDEST_GOING_ON: Final = 17
_NAMES: Final = ("plain", "dups", "ttl", "dupttl", "pre", "cut", "gone")
_DAY_S: Final = 86_400


class Kind(NamedTuple):
    """Log version, whether it is a group of one, and who writes it first."""

    version: int
    group: bool
    theirs: bool

    def __str__(self) -> str:
        return f"v{self.version}{' group' if self.group else ''} by {'JE' if self.theirs else 'jetool'}"


class Je:
    """A process of JE that does what it is told.

    Arguments:
        classpath: where its classes are.
    """

    def __init__(self, classpath: str, log: Path) -> None:
        self._stderr = log.open("w")
        self._process = subprocess.Popen(
            ["java", "-Xmx300m", "-cp", classpath, str(_JAVA)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
        )  # fmt: skip

    def ask(self, *words: object) -> str:
        """What is wrong; "" when nothing is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        return "" if answer == "ok" else f"{words[0]}: {answer[:300] or 'JE has ended'}"

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._stderr.close()


def utilization(home: Path) -> dict[int, int]:
    """Per cent by live file, as they are: an opening would write, and what it writes makes nodes obsolete."""
    rows = [row for row in run("space", home, "--format", "ndjson").lines() if row.get("state") == "live"]
    return {
        int(row["file"][:8], 16): percent(row["counted"] - (row["live_min"] + row["live_max"]) // 2, row["counted"])
        for row in rows
    }


def errors(home: Path) -> list[str]:
    """What our checks find."""
    storage = DiskStorage(home)
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    return [f"{one.code} {one.message}" for one in report.findings if one.severity != NOTE]


class Life:
    """One environment.

    Arguments:
        home: where it is.
        kind, seed: what it lives through.
        jes: processes of JE by log version.
        port: where a group of one node may listen.
    """

    def __init__(self, home: Path, kind: Kind, seed: int, jes: dict[int, Je], port: int) -> None:
        self._home = home
        self._kind = kind
        self._seed = seed
        self._first = jes[kind.version]
        self._je = jes[max(kind.version, _OLDEST_GOING_ON)]
        self._group: int | str = port if kind.group else "-"
        self.wrong: list[str] = []
        self.cleaned = self.freed = 0

    def live(self) -> None:
        """All of it; what is wrong is in ``wrong``."""
        if self._kind.theirs:
            self._expect(self._first.ask("fill", self._home, self._seed, self._group))
        else:
            self._write()
        before = self._dumps(self._first)
        if self._kind.version >= _OLDEST_GOING_ON:
            self._check("at first")
        self._clean()
        self._check("cleaned")
        self._check_space("cleaned")
        self._same(before, "after cleaning")
        self._expect(self._je.ask("go", self._home, self._seed, self._group))
        self._check("gone on with")
        self._check_space("gone on with")
        before = self._dumps(self._je)
        self._clean()
        self._check("cleaned again")
        self._check_space("cleaned again")
        self._same(before, "after cleaning again")

    def _expect(self, answer: str) -> None:
        if answer:
            self.wrong.append(answer)

    def _check(self, when: str) -> None:
        self._expect(self._je.ask("check", self._home))
        self.wrong += [f"{when}: {found}" for found in errors(self._home)]

    def _check_space(self, when: str) -> None:
        rows = self._home / "space.txt"
        self._expect(self._je.ask("space", self._home, rows))
        there = {int(number, 16): int(average) for number, average, _, _ in _ROW.findall(rows.read_text())}
        here = utilization(self._home)
        # The newest file grows with every open, and an average may round otherwise (R-CLN-4).
        newest = max(here, default=0)
        far = {
            number: (here.get(number), there.get(number))
            for number in here.keys() | there.keys()
            if number < newest and abs(here.get(number, -9) - there.get(number, -9)) > 1
        }
        if far:
            self.wrong.append(f"{when}: utilization here and by DbSpace: {far}")

    def _dumps(self, je: Je) -> dict[str, bytes]:
        """All databases, as both dump them."""
        listed = run("dbs", self._home, "--json").json()["records"]
        found = {}
        for name in sorted(one["name"] for one in listed if not one["internal"]):
            file = self._home / "dump.txt"
            self._expect(je.ask("dump", self._home, name, file))
            found[name] = run("dump", self._home, "--db", name).out
            if found[name] != file.read_bytes():
                self.wrong.append(f"the dumps of {name} differ")
        return found

    def _same(self, before: dict[str, bytes], when: str) -> None:
        after = self._dumps(self._je)
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if changed:
            self.wrong.append(f"{when} {', '.join(changed)} are others")

    def _clean(self) -> None:
        target = random.Random(self._seed).choice(("60%", "80%", "90%"))
        done = run("clean", self._home, "--target", target, "--backup-dir", "none", "--json")
        if done.code:
            self.wrong.append(done.err)
            return
        self.cleaned += done.json()["files_cleaned"]
        self.freed += done.json()["freed_bytes"]

    def _write(self) -> None:
        """The life of ``JeLives.fill``, here."""
        chosen = random.Random(self._seed)
        if self._kind.group or self._kind.version != _OLDEST_GOING_ON:
            # A group needs its first records, and a later version its first file, from JE.
            self._expect(self._first.ask("make", self._home, self._group))
        config = EnvironmentConfig(
            create=True, file_max_bytes=1_000_000, cache_bytes=chosen.randint(4, 64) << 20, cleaner_bytes=200_000,
            checkpoint_bytes=chosen.choice((1_000_000, 20_000_000)), node_max_entries=chosen.choice((16, 64, 128)),
        )  # fmt: skip
        if chosen.random() < 0.5:
            config = replace(config, run_cleaner=True)
        if self._kind.group:
            config = replace(config, replicated=True)
        env = Environment(self._home, config)
        if self._kind.group:
            lead_alone(env.engine)
        for name in _NAMES:
            options = DatabaseOptions(duplicates=name.startswith("dup"), key_prefixing=name.startswith(("pre", "dup")))
            env.create_database(name, options).close()
        records, keys = chosen.randint(1000, 4000), chosen.randint(200, 2200)
        for _ in range(3):
            for name in _NAMES:
                _fill(env, name, chosen, records, keys)
        env.remove_database("gone")
        env.truncate_database("cut")
        assert env.engine.cleaner is not None
        for _ in range(chosen.randrange(4)):
            choice = env.engine.cleaner.select(anything=True).choice
            if choice is not None:
                env.engine.cleaner.clean_file(choice)
        env.engine.sync()
        if chosen.random() < 0.3:
            env.engine.crash()
        else:
            env.close()


def _fill(env: Environment, name: str, chosen: random.Random, records: int, keys: int) -> None:
    size, today = chosen.choice((5, 40, 150)), int(time.time()) // _DAY_S
    with env.open_database(name) as db:
        for _ in range(0, records, 50):
            txn = env.begin(durability=Durability.NO_SYNC)
            for _ in range(50):
                key = b"common/%010d" % chosen.randrange(keys)
                if chosen.random() < 0.12:
                    db.delete(key, txn)
                    continue
                expires = name.endswith("ttl") and chosen.random() < 0.7
                day = today + chosen.choice((-4, -2, 2, 5))
                expiration = chosen.choice((day, -24 * day - 7)) if expires else 0
                db.put(key, chosen.randbytes(size), txn, expiration=expiration, update_expiration=expires)
            if chosen.random() < 0.1:
                txn.abort()
            else:
                txn.commit()


def kinds(versions: Sequence[int]) -> Iterator[Kind]:
    """What there is, in turn; of version 15 nothing is written here."""
    while True:
        for version in versions:
            for theirs in (False, True):
                for group in (False, False, True):
                    if theirs or version >= _OLDEST_GOING_ON:
                        yield Kind(version, group, theirs)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def main(words: Sequence[str] | None = None) -> int:
    """Try so many environments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--je", action="append", required=True, metavar="VERSION=CLASSES")
    options = parser.parse_args(words)
    paths = {int(version): path for version, _, path in (one.partition("=") for one in options.je)}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="jetool-beside-") as scratch:
        jes = {version: Je(path, Path(scratch, f"je-{version}.log")) for version, path in paths.items()}
        order = kinds(sorted(paths))
        for seed in range(options.first, options.first + options.environments):
            with tempfile.TemporaryDirectory(dir=scratch) as directory:
                kind = next(order)
                life = Life(Path(directory, "env"), kind, seed, jes, _free_port())
                life.live()
            failed += bool(life.wrong)
            said = "; ".join(life.wrong) or "sound"
            sys.stdout.write(f"{seed} {kind}: {life.cleaned} files cleaned, {life.freed} bytes freed: {said}\n")
            sys.stdout.flush()
        for je in jes.values():
            je.close()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
