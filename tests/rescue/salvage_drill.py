"""``salvage`` of damaged environments of real JE beside the truth, and beside JE's own ``DbDump -r``.

Environments of the corpus and of ``tests/golden``, log versions 6 to 26, are damaged in one of three ways: a bit is
flipped, a stretch is zeroed, a file is removed. The truth is what recovery finds in the whole environment. A record is
*right* when the truth has it; else it is

* *misnamed*: right, and its database has lost its name in the log (``database N``);
* *own*: a record of one of JE's own databases that has lost its name in the log;
* *returned*: the truth has no such key; its deletion stood in the damage;
* *older*: the truth has other data; the newer version stood in the damage.

``returned`` and ``older`` records that the result does not confirm are told apart from those that it confirms: of these
there must be none. What recovery gives is told apart (``recovered``): a log that only seems to end earlier shows
nothing. So a last file is not removed here.

The fourth kind takes one to three nodes of a real group and damages each in one of these ways, or leaves it whole. The
truth is what any node has. A record that all nodes have is *missing* when a node is whole and the union lacks it.

    python -m tests.rescue.salvage_drill 1 600 flip
    python -m tests.rescue.salvage_drill 1 400 group
    python -m tests.rescue.salvage_drill 1 100 flip --je /path/to/classes
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.results import SalvagedRecord
from engine.rescue.salvage.scan import survey_log
from engine.rescue.salvage.sources import look_at, sources_of
from jetool.commands.load.dump_reader import DumpReader
from tests.support.damage.mutations import files_of, sources
from tests.support.logs.log_writer import Files

KINDS: Final = ("flip", "zero", "file")
GROUP: Final = "group"
Record = tuple[str, bytes, bytes]


class Wrong(NamedTuple):
    """A record that the truth has not: how it is wrong, whether the result leaves it unconfirmed."""

    how: str
    marked: bool
    database: str
    key: bytes


def damaged(seed: int, kind: str) -> tuple[str, Files, str]:
    """The environment of a seed, its files after the damage, and what was done."""
    rng = random.Random(seed)
    while True:
        name = rng.choice(sorted(sources()))
        if truth(name) is None:
            continue
        files = dict(files_of(name))
        what = damage(rng, files, kind)
        if what:
            return name, files, what


def damage(rng: random.Random, files: Files, kind: str) -> str:
    """Damage one file, and say how; an empty text when these files cannot be damaged so."""
    if kind == "file" and len(files) < 2:
        return ""
    path = rng.choice(sorted(files)[: -1 if kind == "file" else None])
    data = bytearray(files[path])
    if not data:
        return ""
    if kind == "file":
        del files[path]
        return f"{path} removed"
    at = rng.randrange(len(data))
    if kind == "flip":
        data[at] ^= 1 << rng.randrange(8)
    else:
        data[at : at + 512] = bytes(min(512, len(data) - at))
    files[path] = bytes(data)
    return f"{path} at 0x{at:x}"


def damaged_group(seed: int) -> list[tuple[str, Files, str]]:
    """Nodes of a group: the name of each, its files and its damage (an empty text: it is whole)."""
    rng = random.Random(seed)
    nodes_of: dict[str, list[str]] = {}
    for name in sorted(sources()):
        group, _, node = name.rpartition("/")
        if node.startswith("node") and truth(name) is not None:
            nodes_of.setdefault(group, []).append(name)
    nodes = nodes_of[rng.choice(sorted(nodes_of))]
    made = []
    for name in rng.sample(nodes, rng.randint(1, len(nodes))):
        files = dict(files_of(name))
        made.append((name, files, damage(rng, files, rng.choice(KINDS)) if rng.random() < 0.75 else ""))
    return made


@cache
def truth(name: str) -> frozenset[Record] | None:
    """Records of the whole environment; None where it does not recover or an order of keys is not known."""
    try:
        with (
            tempfile.TemporaryDirectory() as room,
            Environment(str(written(Path(room), files_of(name))), EnvironmentConfig(read_only=True)) as env,
        ):
            survey = survey_log(f"{room}/env")
            if any(not damage.is_tail for damage in survey.damages) or env.engine.recovery.fate.prepared:
                # Recovery itself may stand before some of it; trees hold what prepared transactions wrote.
                return None
            found = set()
            for db_name in env.database_names():
                with env.open_database(db_name) as db:
                    found |= {(db_name, key, data) for key, data in db.items()}
            return frozenset(found) or None
    except JetoolError:
        return None


@cache
def own(name: str) -> frozenset[str]:
    """JE's own databases of the whole environment, as they are called without their names."""
    with tempfile.TemporaryDirectory() as room:
        survey = survey_log(str(written(Path(room), files_of(name))))
    return frozenset(f"database {db_id}" for db_id in survey.internal)


def written(place: Path, files: Files) -> Path:
    """A directory with the files."""
    env = place / "env"
    shutil.rmtree(env, ignore_errors=True)
    for name, data in files.items():
        file = env / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return env


def salvaged(*envs: Path) -> Iterator[tuple[Record, SalvagedRecord]]:
    """What ``salvage`` gives as records, with the databases that nothing names."""
    done = Salvage(sources_of([look_at(str(env)) for env in envs]))
    for one in done.rows():
        if isinstance(one, SalvagedRecord):
            yield (done.databases[one.database].db.name, one.key, one.data), one


def judged(names: list[str], *envs: Path) -> tuple[Counter[str], list[Wrong], set[Record]]:
    """Records of a salvage by how they stand to the truth; those that were found."""
    whole = frozenset[Record]().union(*(truth(name) or () for name in names))
    internal = frozenset[str]().union(*(own(name) for name in names))
    data_of = {(db, key): data for db, key, data in whole}
    bare = {(key, data) for _, key, data in whole}
    counts: Counter[str] = Counter()
    wrong = []
    found = set()
    for record, one in salvaged(*envs):
        found.add(record)
        if record in whole:
            counts["right" if one.confirmed else "right marked"] += 1
            continue
        if record[0] in internal:
            how = "own"
        elif record[1:] in bare and record[0] not in {db for db, _, _ in whole}:
            how = "misnamed"
        else:
            how = "older" if record[:2] in data_of else "returned"
        marked = not one.confirmed or one.origin == "tree"
        counts[f"{how} recovered" if one.origin == "tree" else f"{how} marked" if marked else how] += 1
        wrong.append(Wrong(how, marked, record[0], record[1]))
    return counts, wrong, found


def judged_group(seed: int, room: Path) -> tuple[str, Counter[str], list[Wrong]]:
    """What was done to the nodes of a seed, and the records of their union."""
    nodes = damaged_group(seed)
    names = [name for name, _, _ in nodes]
    envs = [written(room / str(number), files) for number, (_, files, _) in enumerate(nodes)]
    counts, wrong, found = judged(names, *envs)
    if any(not what for _, _, what in nodes):
        everywhere = frozenset.intersection(*(truth(name) or frozenset() for name in names))
        wrong += [Wrong("missing", False, db, key) for db, key, _ in everywhere - found]
        counts["missing"] += len(everywhere - found)
    return f"{len(nodes)} nodes " + "; ".join(f"{name} {what}" for name, _, what in nodes), counts, wrong


def of_je(env: Path, classes: str) -> frozenset[Record]:
    """What ``DbDump -r`` of JE saves."""
    out = env.with_name("dumped")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = ["java", "-cp", classes, "com.sleepycat.je.util.DbDump", "-r", "-h", str(env), "-d", str(out)]
    subprocess.run(words, capture_output=True, check=False, timeout=120)
    found: set[Any] = set()
    for file in out.rglob("*.dump"):
        with file.open("rb") as lines:
            found |= {(file.stem, key, data) for key, data in DumpReader(lines, str(file), plain=False).records()}
    return frozenset(found)


def main(words: list[str]) -> int:
    """Print what is wrong without a mark, and the sums; 1 when something is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("kind", choices=(*KINDS, GROUP))
    parser.add_argument("--je")
    options = parser.parse_args(words)
    sums: Counter[str] = Counter()
    unmarked = 0
    with tempfile.TemporaryDirectory(prefix="jetool-salvage-") as room:
        for seed in range(options.first, options.last + 1):
            if options.kind == GROUP:
                name, counts, wrong = judged_group(seed, Path(room))
                what = ""
            else:
                name, files, what = damaged(seed, options.kind)
                env = written(Path(room), files)
                counts, wrong, _ = judged([name], env)
            if options.je and options.kind != GROUP:
                whole, theirs = truth(name) or frozenset(), of_je(env, options.je)
                counts += Counter({"JE right": len(theirs & whole), "JE wrong": len(theirs - whole)})
            sums += counts
            bad = [one for one in wrong if not one.marked and one.how != "misnamed"]
            unmarked += len(bad)
            if wrong:
                print(seed, name, what, dict(counts), bad[:2], flush=True)
    print(dict(sums))
    return 1 if unmarked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
