"""``python -m tests.bench.rescue [--records N]``: the commands of the rescue kit on a log of small records.

Seconds are of CPU, the start of the process included. DbSpace takes part where JE_CLASSPATH names JE's classes.

The environment is written here: inserts, every second transaction with an update, every twentieth with a deletion. The
damaged one has a flipped bit at a third of its last file, so that salvage puts its records together from the log. A
bound is a rate, or the time of ``verify --refs`` in the same run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.txn.txn import Durability
from tests.bench import measure
from tests.bench.builds import NATIVE, PURE, builds

_RECENT: Final = 5_000
_LOG_LINES: Final = 20_000
# What it costs to start and to open an environment, however small.
_SPACE_START_S: Final = 0.2
_MB_PER_GB: Final = 1000


class Line(NamedTuple):
    """One command line.

    Attributes:
        words: after ``jetool``; ENV, BAD and TEXT stand for the environment, the damaged one, and a log of messages.
        least_rate: MB of log that it has to read in a second of CPU; None without such a bound.
        most_refs: most times the CPU seconds of ``verify --refs``.
        most_s: most seconds of CPU.
        s_per_gb: so many seconds more for each GB of log.
        beside: the tool of JE that may not be faster.
    """

    words: str
    least_rate: float | None = None
    most_refs: float | None = None
    most_s: float | None = None
    s_per_gb: float = 0.0
    beside: str = ""


LINES: Final = (
    Line("verify --refs ENV"),
    Line("salvage BAD --out OUT -n", least_rate=40),
    Line("salvage BAD --out OUT --as je", least_rate=40),
    Line("salvage BAD --out OUT", least_rate=40),
    Line("missing ENV", most_refs=1.5),
    Line("dbs ENV --as-of commits:-100", most_refs=1.5),
    Line("space ENV", most_s=_SPACE_START_S, s_per_gb=0.3),
    Line("space ENV --recalc", beside="DbSpace"),
    Line("explain TEXT", most_s=0.2),
)


def make(home: Path, records: int, seed: int = 1) -> None:
    """Write the environment."""
    source = random.Random(seed)
    text = source.randbytes(1 << 20)

    def data() -> bytes:
        at = source.randrange(len(text) - 200)
        return text[at : at + source.randint(100, 200)]

    home.mkdir()
    with Environment(home, EnvironmentConfig(create=True)) as env, env.create_database("journal") as db:
        for number in range(records):
            with env.begin(durability=Durability.NO_SYNC) as txn:
                db.put(number.to_bytes(16, "big"), data(), txn)
                recent = source.randrange(max(0, number - _RECENT), number + 1).to_bytes(16, "big")
                if number % 2:
                    db.put(recent, data(), txn)
                if number % 20 == 19:
                    db.delete(recent, txn)


def damage(home: Path, to: Path) -> None:
    """A copy with a flipped bit."""
    shutil.copytree(home, to)
    last = max(to.glob("*.jdb"))
    data = bytearray(last.read_bytes())
    data[len(data) // 3] ^= 4
    last.write_bytes(data)


def run(options: argparse.Namespace, room: Path) -> None:
    """Measure and print."""
    places = {"ENV": room / "env", "BAD": room / "bad", "TEXT": room / "je.info.0", "OUT": room / "out"}
    make(places["ENV"], options.records)
    damage(places["ENV"], places["BAD"])
    line = "2026-11-22 12:00:00 UTC INFO [node1] Replica-feeder node2: VLSN:1 heartbeat sent\n"
    places["TEXT"].write_text(line * _LOG_LINES + "EnvironmentFailureException: (JE 18.3.20) LOG_CHECKSUM: bad\n")
    megabytes = sum(path.stat().st_size for path in places["ENV"].glob("*.jdb")) / 1e6
    print(f"{megabytes:.1f} MB of log, {options.records} transactions")
    print(f"{'command':<44} {'CPU s':>7} {'MB/s':>7}  bound")
    class_path, je_s = os.environ.get("JE_CLASSPATH", ""), {}
    if class_path:
        words = ["java", "-cp", class_path, "com.sleepycat.je.util.DbSpace", "-h", str(places["ENV"]), "-r"]
        je_s["DbSpace"] = measure.run(words).cpu_s
        print(f"{'DbSpace -r':<44} {je_s['DbSpace']:7.3f} {megabytes / je_s['DbSpace']:7.1f}")
    for build in builds((options.build,) if options.build else (NATIVE, PURE), room / "build"):
        refs = 0.0
        for one in LINES:
            words = [sys.executable, "-m", "jetool", *(str(places.get(word, word)) for word in one.words.split())]
            cpu = float("inf")
            for _ in range(options.runs):
                shutil.rmtree(places["OUT"], ignore_errors=True)
                cpu = min(cpu, measure.run(words, build.environ).cpu_s)
            refs = refs or cpu
            rate = megabytes / cpu
            bounded = one._replace(most_s=je_s[one.beside]) if one.beside in je_s else one
            verdict = _verdict(bounded, cpu, megabytes, refs)
            print(f"{one.words} ({build.name}):".ljust(44), f"{cpu:7.3f} {rate:7.1f}  {verdict}".rstrip())


def _verdict(line: Line, cpu: float, megabytes: float, refs: float) -> str:
    if line.least_rate is not None:
        return f"at least {line.least_rate:.0f} MB/s: {'kept' if megabytes / cpu >= line.least_rate else 'MISSED'}"
    most = line.most_refs * refs if line.most_refs is not None else line.most_s
    if most is None:
        return ""
    most += line.s_per_gb * megabytes / _MB_PER_GB
    return f"at most {most:.2f} s: {'kept' if cpu <= most else 'MISSED'}"


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=int, default=160_000, help="transactions  [default: 160000]")
    parser.add_argument("--build", choices=(NATIVE, PURE), help="only this build  [default: both]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command, the best counts  [default: 3]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as room:
        run(options, Path(room))


if __name__ == "__main__":
    main()
