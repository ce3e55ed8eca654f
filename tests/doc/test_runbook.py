"""``jetool-runbook(7)``: every command line is run on an environment with the problem, and does what the page says."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.lsn import make_lsn
from tests.support import corpus
from tests.support.children import child
from tests.support.damage import spoiled_index, spoiled_trees, two_writers
from tests.support.environments.frontends import damage_tail, journals, write_frontend, write_images
from tests.support.groups.nodes import free_ports, group_of_two
from tests.support.harness import REPOSITORY, run, spawn
from tests.support.manuals import MAN, calls_in

GOLDEN: Final = REPOSITORY / "tests" / "golden" / "je-17"
PAGE: Final = MAN / "jetool-runbook.7.md"
# A line that runs until it is stopped.
ROUNDS: Final = {"--follow": ("--rounds", "1")}

Names = Mapping[str, str]
Prepare = Callable[[Path, ExitStack], Names]

HOLD: Final = """
import fcntl, sys
handle = open(sys.argv[1], "a+b")
fcntl.lockf(handle, fcntl.LOCK_EX, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def _lines() -> dict[str, list[str]]:
    """By section, the command lines in its blocks."""
    found: dict[str, list[str]] = {}
    heading, fenced = "", False
    for line in PAGE.read_text().splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            found.setdefault(heading, []).append(line)
    return found


LINES: Final = _lines()


def golden(name: str, *nodes: str, **words: str) -> Prepare:
    """Copies of an environment that JE wrote."""

    def prepare(root: Path, stack: ExitStack) -> Names:
        for node in nodes or ("env",):
            shutil.copytree(GOLDEN / name, root / "data" / node)
        return words

    return prepare


def first(root: Path, stack: ExitStack) -> Names:
    golden("corrupt-middle")(root, stack)
    text = "com.sleepycat.je.EnvironmentFailureException: LOG_CHECKSUM: wrong at 0x5/0x80e\n"
    (root / "data/env/je.info.0").write_text(text)
    return {}


def overwrite(env: Path, file: str) -> None:
    with (env / file).open("r+b") as damaged:
        damaged.seek(3000)
        damaged.write(b"\xff\xfe\xff")


def damaged_file(root: Path, stack: ExitStack) -> Names:
    """Damage that recovery has to read; and two nodes of a group, one of them damaged."""
    golden("torn-cut-mid")(root, stack)
    golden("ha-rollback", "node1", "node2")(root, stack)
    overwrite(root / "data/env", "00000003.jdb")
    overwrite(root / "data/node1", "00000000.jdb")
    return {}


def missing_file(root: Path, stack: ExitStack) -> Names:
    golden("torn-cut-mid")(root, stack)
    (root / "data/env/00000003.jdb").unlink()
    return {}


def interleaved(root: Path, stack: ExitStack) -> Names:
    """Two processes wrote; a backup has what the first wrote alone."""
    _, one, _ = two_writers.two_continuations()
    for name, data in (("env", two_writers.both(1)), ("restored", one)):
        (root / "data" / name).mkdir(parents=True)
        (root / "data" / name / two_writers.NAME).write_bytes(data)
    return {}


def locked(root: Path, stack: ExitStack) -> Names:
    golden("txn-crash")(root, stack)
    words = [sys.executable, "-c", HOLD, f"{root}/data/env/je.lck"]
    holder = stack.enter_context(child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    return {"holder": str(holder.pid)}


def frontends(root: Path, stack: ExitStack) -> Names:
    """Two frontends; a bit of the first flipped before its last ten journals, which the second has."""
    for name, last in (("fe", 40), ("fe2", 51)):
        bdb = root / "data" / name / "meta/bdb"
        bdb.mkdir(parents=True)
        write_frontend(bdb, {"1": journals(1, 200), "201": journals(201, last)})
        write_images(bdb.parent, (200,))
    damage_tail(root / "data/fe/meta/bdb", "journal")
    return {}


def mostly_obsolete(root: Path, stack: ExitStack) -> Names:
    """Seven files, of which the records of the last two are in use."""
    (root / "data/env").mkdir(parents=True)
    config = EnvironmentConfig(create=True, file_max_bytes=100_000)
    with Environment(root / "data/env", config) as env, env.create_database("orders") as db:
        for number in range(6):
            for key in range(300):
                db.put(b"order%04d" % key, bytes([number]) * 300)
    return {}


def wrong_index(root: Path, stack: ExitStack) -> Names:
    """A whole log, whose VLSN index leads to a wrong place."""
    env = root / "data/env"
    env.mkdir(parents=True)
    spoiled_index.make_master(env, 60)
    spoiled_index.spoil(env, spoiled_index.point(21, make_lsn(0, 0x500)))
    return {}


def parted(root: Path, stack: ExitStack) -> Names:
    """A node with nine commits that the present master does not have."""
    for name, number in (("old", 2), ("new", 1)):
        corpus.copy(corpus.path() / f"je/je-18.3.20/ha-rollback-begun/node{number}/env", root / "data" / name)
    return {}


def of_different_ends(root: Path, stack: ExitStack) -> Names:
    """Three nodes, the first three commits behind; and two frontends."""
    frontends(root, stack)
    golden("ha-rollback", "node1", "node2", "node3")(root, stack)
    assert run("truncate", root / "data/node1", "--to", "commits:-3", "--yes").code == 6
    return {}


def without_third(root: Path, stack: ExitStack) -> Names:
    """Two nodes that run, and an address that no node answers."""
    master, replica = stack.enter_context(group_of_two())
    addresses = (master.config.listen, replica.config.listen, *free_ports(1))
    found = {f"db{number}:5001": f"{host}:{port}" for number, (host, port) in enumerate(addresses, 1)}
    return {**found, "n2": "node2"}


def unordered_tree(root: Path, stack: ExitStack) -> Names:
    """A tree with two keys in the wrong order, and an empty environment."""

    def unorder(env: Environment) -> None:
        node = spoiled_trees.leaf(env)
        node.keys[1], node.keys[2] = node.keys[2], node.keys[1]
        spoiled_trees.soil(node)

    (root / "data/env").mkdir(parents=True)
    for path, data in spoiled_trees.spoiled(unorder).contents().items():
        (root / "data/env" / path).write_bytes(data)
    assert run("create", root / "data/new").code == 0
    return {"orders": "large", "orders.dump": f"{root}/orders.dump"}


def repaired(root: Path, stack: ExitStack) -> Names:
    golden("torn-cut-mid")(root, stack)
    assert run("recover", root / "data/env").code == 0
    return {}


def derby(root: Path, stack: ExitStack) -> Names:
    (root / "data").mkdir()
    assert run("create", root / "data/derby", "--store", "derby", "--db", "users").code == 0
    assert run("put", root / "data/derby", "k", "v", "--db", "users").code == 0
    return {}


class Walk(NamedTuple):
    """A section of the page.

    Attributes:
        prepare: makes the environments of the page below a directory that stands for ``/``; the words that stand for
            other words of the page.
        expected: for each line the exit code, and a text that it prints.
    """

    prepare: Prepare
    expected: list[tuple[int, str]]


RECORD: Final = {"user0001": "0x00000aa9", "users": "accounts", "utf8": "hex", "4711": "12"}
WALKS: Final = {
    "First": Walk(
        first,
        [
            (1, "can start: yes, losing 3 commits"),
            (1, "not intact: no good entry begins at 0x5/0x80e"),
            (1, "LOG_CHECKSUM"),
            (1, "open for writing by"),
            (1, "JE-TAIL-002"),
        ],
    ),
    "After a crash or a loss of power": Walk(golden("torn-cut-mid"), [(0, "commits lost  0\n")]),
    "Committed work after damage": Walk(
        golden("corrupt-middle"),
        [
            (1, "JE-TAIL-002 00000005.jdb 0x5/0x80e"),
            (1, "0x5/0xb6d         Commit/17"),
            (1, "after end    4\n"),
            (6, "records         339\n"),
            (6, "recovery loses 3 committed transactions"),
            (0, "command      recover\n"),
        ],
    ),
    "Damage before the last file": Walk(
        damaged_file,
        [
            (1, "JE-LOG-001 00000003.jdb"),
            (7, "the log is damaged before its last file"),
            (6, "dry run         yes\n"),
            (6, "the newest version of 1 key is lost"),
            (6, "lost            0\n"),
        ],
    ),
    "A log file is missing": Walk(
        missing_file,
        [
            (1, "1 file is missing; lost with them: 36 records"),
            (1, "JE-LOG-010"),
            (6, "lost with them: 36 records"),
            (0, "sound: no error"),
        ],
    ),
    "Two processes wrote": Walk(
        interleaved,
        [(1, "JE-LOG-031"), (1, "after end    "), (6, "records saved"), (1, "records only in the second: d")],
    ),
    "The restore marker": Walk(
        golden("restore-required"),
        [(0, "restore required  NETWORK_RESTORE\n"), (0, "RestoreRequired/17"), (1, "JE-LOG-018")],
    ),
    "The environment is locked": Walk(locked, [(0, "open for writing by  {holder}\n")]),
    "A damaged frontend": Walk(
        frontends,
        [
            (1, "journals: 241-251\n"),
            (1, "destroyed           241  "),
            (1, "  1 CREATE_DB  "),
            (1, "start      {root}/data/fe2/meta/bdb\n"),
            (6, "251 records saved"),
            (6, "recovery loses 11 committed transactions"),
            (0, "sound: 240 journals read"),
        ],
    ),
    "Opening takes very long": Walk(
        golden("txn-crash"), [(0, "entries        629\n"), (0, "FIND_END_OF_LOG"), (0, "ckpt end lsn")]
    ),
    "A record is missing, or wrong": Walk(
        golden("txn-crash", **RECORD), [(0, "0x00000aa9"), (0, "committed"), (0, "0x0/0xb34")]
    ),
    "The disk fills up": Walk(
        mostly_obsolete,
        [
            (0, "utilization max  16\n"),
            (0, "orders                 300 records"),
            (0, "percent"),
            (0, "checked: tail, tree, space"),
            (0, "files deleted       5\n"),
            (0, "files deleted       5\n"),
            (0, "command      clean\n"),
        ],
    ),
    "A replica does not start": Walk(
        wrong_index,
        [
            (1, "JE-REP-003"),
            (0, "first vlsn  last vlsn"),
            (0, "dry run      yes\n"),
            (0, "dry run      no\n"),
            (0, "sound: index and log agree"),
        ],
    ),
    "A replica refuses to roll back": Walk(
        parted,
        [
            (0, "hard-recovery"),
            (1, "8 durable commits are more than the limit 7"),
            (1, "with 9 commits of the first"),
            (0, "committed    "),
        ],
    ),
    "Which node first?": Walk(
        of_different_ends,
        [
            (0, "start from {root}/data/node2\n"),
            (0, "last txn end  211\n"),
            (1, "relation       behind\n"),
            (1, "start      {root}/data/fe2/meta/bdb\n"),
        ],
    ),
    "The majority is lost for good": Walk(
        golden("ha-rollback"),
        [(0, "JOURNAL_GROUP"), (0, "sound: no error"), (0, "dry run      yes\n"), (0, "saved bytes  ")],
    ),
    "A group has no master": Walk(without_third, [(1, "GROUP"), (0, "node     node2\n")]),
    "Moving records into a new environment": Walk(
        unordered_tree,
        [
            (1, "JE-TREE-"),
            (6, "800 records saved"),
            (0, "sound: no error"),
            (0, "large  "),
            (0, "VERSION=3\n"),
            (0, "records       200\n"),
        ],
    ),
    "Back to before a mistake": Walk(
        golden("txn-crash", **{"txn:4711": "txn:280"}),
        [
            (0, "     280  committed"),
            (6, "dry run               yes\n"),
            (6, "dry run               no\n"),
            (0, "truncate"),
        ],
    ),
    "Backups, and going back to a point": Walk(
        golden("txn-crash"),
        [
            (0, "directory      {root}/backup/env\n"),
            (0, "604"),
            (0, "{root}/data/env"),
            (0, "kept         1\n"),
            (0, "lag bytes     0 B\n"),
            (0, "dry run           yes\n"),
            (0, "dry run           no\n"),
            (0, "sound: no error"),
        ],
    ),
    "It was the wrong repair": Walk(repaired, [(0, "dry run      yes\n"), (0, "dry run      no\n")]),
    "Derby databases": Walk(
        derby,
        [(0, "store                derby\n"), (0, "no damage seen"), (0, "was clean"), (0, "textbook")],
    ),
}


def words_of(line: str, root: Path, names: Names) -> list[str]:
    """The words of a call, those of the page replaced."""
    words = shlex.split(line)
    assert words.pop(0) == "jetool"
    places = ("/data/", "/tmp/", "/backup/")
    found = [names.get(word, f"{root}{word}" if word.startswith(places) else word) for word in words]
    return [*found, *(more for word in found for more in ROUNDS.get(word, ()))]


def called(line: str, root: Path, names: Names) -> tuple[int, str]:
    """Run a line: the exit code of its last command, and what it printed or wrote to --output."""
    calls = [words_of(one.strip(), root, names) for one in line.split(" | ")]
    if len(calls) == 1:
        words = calls[0]
        result = run(*words)
        written = Path(words[words.index("--output") + 1]).read_text() if "--output" in words else ""
        return result.code, result.text + result.err + written
    dumped = spawn(*calls[0])
    assert dumped.returncode == 0, dumped.stderr
    loaded = spawn(*calls[1], input=dumped.stdout)
    return loaded.returncode, (loaded.stdout + loaded.stderr).decode()


@pytest.mark.parametrize("heading", WALKS)
def test_a_section_is_true(heading: str, tmp_path: Path) -> None:
    walk = WALKS[heading]
    for name in ("tmp", "backup"):
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        names = walk.prepare(tmp_path, stack)
        for line, (code, shown) in zip(LINES[heading], walk.expected, strict=True):
            found, text = called(line, tmp_path, names)
            assert found == code, f"{line}\n{text}"
            assert shown.format(root=tmp_path, **names) in text, f"{line}\n{text}"


def test_every_section_is_walked() -> None:
    assert set(LINES) == set(WALKS)


def test_lines_stand_in_blocks() -> None:
    """A command line with a place in a sentence would not be run."""
    inline = [one.words for one in calls_in(PAGE) if not one.in_block]
    assert inline
    assert [words for words in inline if any("/" in word for word in words)] == []


def test_damage_that_recovery_does_not_read(tmp_path: Path) -> None:
    """As the page says: then the preview ends with 0."""
    damaged_env = shutil.copytree(GOLDEN / "torn-cut-mid", tmp_path / "data/env")
    overwrite(damaged_env, "00000000.jdb")
    looking = [words_of(line, tmp_path, {}) for line in LINES["Damage before the last file"][:2]]
    assert [run(*words).code for words in looking] == [1, 0]
