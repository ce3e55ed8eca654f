"""``python -m tests.tree.orders_beside_je --je /path/to/classes``: every writing command on orders only JE knows.

JE writes environments (``JeOrders.java``) with a database in each of twelve orders of keys and each of four states:
closed, halted at a checkpoint, halted after updates, halted after insertions and deletions. Each writing command runs
on a copy, without the order, with it where ``--comparator`` has it, and with a wrong one. Then JE opens the copy:
every record has to be there, in order, and the trees sound. A copy on which a command was refused has to be as before.
A line for each kind of result, and for each failure; 1 when there is one.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.support.harness import run

_JAVA: Final = Path(__file__).with_name("JeOrders.java")
STATES: Final = ("closed", "checkpointed", "updated", "changed")
# The order of ``--comparator`` for a class; None where there is no such order.
ORDERS: Final[dict[str, str | None]] = {
    "Decimal": "decimal", "Signed": "signed-bytes", "FromLast": "from-last", "IgnoreCase": "ignore-case",
    "Descending": "descending", "ShortestFirst": "shortest-first", "LongestFirst": "longest-first",
    "LittleEndian": "from-last", "Absolute": None, "SecondField": None, "Hashed": None, "EvenFirst": None,
}  # fmt: skip
COMMANDS: Final = {
    "recover": ("recover",),
    "checkpoint": ("checkpoint", "--yes"),
    "clean": ("clean", "--target", "90", "--yes"),
    "put": ("put", "--db", "plain", "zz", "v"),
    "delete": ("delete", "--db", "plain", "p1"),
    "load": ("load", "{dump}", "--db", "plain", "--yes"),
    "create": ("load", "{dump}", "--db", "fresh", "--create", "--yes"),
    "with the order": ("recover", "--comparator", "odd={order}"),
    "clean with it": ("clean", "--target", "90", "--yes", "--comparator", "odd={order}"),
    "wrong order": ("recover", "--comparator", "odd={wrong}"),
}
_DUMP: Final = "VERSION=3\nformat=bytevalue\ntype=btree\ndupsort=0\nHEADER=END\n 6e6577\n 01\nDATA=END\n"


def files_of(env: Path) -> dict[str, bytes]:
    """The log files of an environment."""
    return {path.name: path.read_bytes() for path in sorted(env.glob("*.jdb"))}


def called(command: str, order: str, dump: Path) -> tuple[str, ...] | None:
    """The words of a command for a class; None where it needs an order that there is not."""
    name = ORDERS[order]
    if name is None and any("{order}" in word for word in COMMANDS[command]):
        return None
    wrong = "shortest-first" if name == "longest-first" else "longest-first"
    return tuple(word.format(dump=dump, order=name, wrong=wrong) for word in COMMANDS[command])


def main(classes: str, seed: int) -> int:
    """Run the drill; the exit code."""
    failures: list[str] = []
    tally: Counter[tuple[str, str, int, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        subprocess.run(["javac", "-cp", classes, "-d", name, str(_JAVA)], check=True)
        java = ("java", "-cp", f"{classes}:{name}", "JeOrders")
        dump = root / "new.dump"
        dump.write_text(_DUMP)
        for order in ORDERS:
            done: dict[str, tuple[str, str, int]] = {}
            models: list[str] = []
            for state in STATES:
                env = root / f"{order}-{state}"
                subprocess.run([*java, "make", str(env), order, state, str(seed)], check=True)
                before = files_of(env)
                for command in COMMANDS:
                    words = called(command, order, dump)
                    if words is None:
                        continue
                    copy = root / f"{order}-{state}-{command.replace(' ', '-')}"
                    shutil.copytree(env, copy)
                    result = run(words[0], copy, *words[1:], "--backup-dir", "none")
                    done[str(copy)] = (command, state, result.code)
                    models += [str(copy), f"{env}.model"]
                    if result.code not in (0, 1) and files_of(copy) != before:
                        failures.append(f"{copy.name}: ended with {result.code}, and its files have changed")
            judged = subprocess.run([*java, "judge", *models], check=True, capture_output=True, text=True)
            for line in judged.stdout.splitlines():
                path, _, said = line.partition("\t")
                tally[(*done[path], "good" if said == "good" else "bad")] += 1
                if said != "good":
                    failures.append(f"{Path(path).name}: {said}")
            for path in done:
                shutil.rmtree(path)
    for kind, count in sorted(tally.items()):
        print(*kind, count, sep="\t")
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--je", required=True, help="the classes of JE")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(main(options.je, options.seed))
