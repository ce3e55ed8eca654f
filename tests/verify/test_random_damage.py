"""Twenty thousand random injuries to real environments: no level of ``verify`` is silent on what its page promises.

An injury is what disks and operators do to one file: a flipped bit or byte, a cut at any place, a sector of zeros, a
sector that holds what belongs into the one before it. What each level finds stands in ``man/jetool-verify.1.extra``;
``GUARANTEES`` has the same levels, and says for an injury whether the level has to speak.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, JetoolError
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import DURABLE_ENTRIES, ERASED
from engine.format.header import HEADER_BYTES
from engine.format.lsn import file_of, is_null, make_lsn, offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN, DELETED
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import ERROR, Finding
from engine.verify.trees import walk_trees
from tests.support import corpus
from tests.support.samples import SHARE

pytestmark = pytest.mark.exhaustive

PAGE = Path(__file__).resolve().parents[2] / "man" / "jetool-verify.1.extra"
SECTOR = 512
# Of every environment: injuries that the default levels are held against, and for each of the others.
INJURIES = 500
DEEP = 12
Files = dict[str, bytes]

# Small environments of all releases that nothing is wrong with: closed, crashed, cleaned, replicated, rolled back.
NAMES = (
    "je/je-3.3.98/cleaned", "je/je-3.3.98/dups", "je/je-3.3.98/empty", "je/je-3.3.98/torn-base",
    "je/je-3.3.98/txn-crash", "je/je-7.3.8/cleaned", "je/je-7.3.8/txn-crash", "je/je-7.5.11/ha-group/node1",
    "je/je-7.5.11/ha-rollback/node1", "je/je-7.5.11/ha-rollback/node3", "je/je-7.5.11/schema-crash",
    "je/je-7.5.11/torn-base", "je/je-7.5.11/ttl", "je/je-7.5.11/xa-prepared", "je/je-18.3.20/backup-mark",
    "je/je-18.3.20/cleaned-closed", "je/je-18.3.20/dups", "je/je-18.3.20/empty", "je/je-18.3.20/extinct",
    "je/je-18.3.20/ha-group/node1", "je/je-18.3.20/ha-rollback/node2", "je/je-18.3.20/rollback-before-ckpt",
    "je/je-18.3.20/rollback-straddle", "je/je-18.3.20/torn-base", "je/je-18.3.20/ttl", "je/je-18.3.20/txn-ckpt-open",
    "je/je-18.3.20/txn-closed", "je/je-18.3.20/upgraded", "je/je-18.3.20/xa-prepared", "je/je-25.3.17/empty",
    "je/je-25.3.17/ha-rollback/node1", "je/je-25.3.17/torn-base", "je/je-25.3.17/ttl", "je/je-25.3.17/txn-crash",
    "je-healthy/churn-closed", "je-healthy/comparators", "je-healthy/deferred-halted", "je-healthy/dups",
    "je-healthy/halted-twice", "je-healthy/names-one-txn", "je-healthy/rename-halted", "je-healthy/ttl-nodes",
)  # fmt: skip


class Span(NamedTuple):
    """One entry of a file: from its first byte to the one after its last."""

    start: int
    end: int
    type_number: int


class Injury(NamedTuple):
    """One change of one file.

    Attributes:
        first, after: the bytes that changed lie from ``first`` to before ``after``.
    """

    kind: str
    name: str
    first: int
    after: int
    data: bytes

    def hits(self, start: int, end: int) -> bool:
        """Whether bytes of a range changed or are gone."""
        return self.first < end and start < self.after


class Subject:
    """An environment, what verify says of it unhurt, and what is where."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.storage = MemoryStorage(files)
        self.log_files = list_log_files(self.storage)
        self.end_file = self.log_files.end_file()
        self.end_name = next(file.path for file in self.log_files.files if file.number == self.end_file)
        self.spans: dict[str, list[Span]] = {}
        for file in self.log_files.files:
            with FileReader(self.storage, file, is_last=file.number >= self.end_file) as reader:
                items = list(reader.entries())
            assert all(isinstance(item, LogEntry) for item in items)
            starts = [offset_of(item.lsn) for item in items]
            ends = [*starts[1:], file.size_bytes]
            types = [item.type_number for item in items]
            self.spans[file.path] = [Span(*span) for span in zip(starts, ends, types, strict=True)]
        self.known: dict[str, set[Finding]] = {}

    def fresh(self, files: Files, level: str) -> list[Finding]:
        """What a level says of the files besides what it says of the unhurt ones."""
        if level not in self.known:
            self.known[level] = set(verify_environment(self.storage, self.log_files, (level,)).findings)
        storage = MemoryStorage(files)
        report = verify_environment(storage, list_log_files(storage), (level,))
        return [finding for finding in report.findings if finding not in self.known[level]]

    def hit(self, injury: Injury) -> list[Span]:
        """The entries that an injury changes."""
        return [span for span in self.spans[injury.name] if injury.hits(span.start, span.end)]

    def is_clean_cut(self, injury: Injury) -> bool:
        """Whether the log simply ends earlier: nothing in it shows that it once went on."""
        starts = (span.start for span in self.spans[injury.name])
        return injury.kind == "cut" and injury.name == self.end_name and injury.first in starts

    @cached_property
    def records(self) -> list[tuple[str, list[tuple[bytes, bytes]]]]:
        """All records, by the engine's own way of reading."""
        return records_of(self.files)

    @cached_property
    def walked(self) -> Walked:
        """What the trees are made of and lead to."""
        walked = Walked()
        walk_trees(self.storage, self.log_files, walked)
        return walked


class Walked:
    """Notes where nodes and records lie."""

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self.records: set[int] = set()

    def begin(self, db: DatabaseState) -> None:
        """Nothing to note."""

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Note the node's versions, and the records of a bottom node that are not in the node itself."""
        self.nodes.update(lsn for lsn in (node.full_lsn, getattr(node, "delta_lsn", node.full_lsn)) if not is_null(lsn))
        if isinstance(node, BIN) and not db.duplicates:
            self.records.update(
                lsn
                for lsn, state in zip(node.lsns, node.states, strict=True)
                if not is_null(lsn) and not state & (DELETED | SLOT_EMBEDDED)
            )


def records_of(files: Files) -> list[tuple[str, list[tuple[bytes, bytes]]]]:
    """All records by database."""
    found = []
    with Environment(MemoryStorage(files), EnvironmentConfig(read_only=True)) as env:
        for name in env.database_names():
            with env.open_database(name) as db:
                found.append((name, list(db)))
    return found


@cache
def subject(name: str) -> Subject:
    directory = corpus.path() / name / "env"
    return Subject({path.name: path.read_bytes() for path in sorted(directory.glob("*.jdb"))})


def injuries(of: Subject, seed: str) -> Iterator[Injury]:
    """Random injuries, each of which changes something."""
    chance = random.Random(seed)
    names = sorted(name for name, data in of.files.items() if data)
    while True:
        name, kind = chance.choice(names), chance.choice(("flip", "cut", "zeros", "double"))
        old = of.files[name]
        at = chance.randrange(len(old))
        length, new = 1, bytearray(old)
        if kind == "flip":
            new[at] ^= chance.choice((1 << chance.randrange(8), chance.randrange(1, 256)))
        elif kind == "cut":
            # As often exactly between two entries as anywhere.
            at = chance.choice((at, chance.choice(of.spans[name]).start))
            del new[at:]
        else:
            at = at // SECTOR * SECTOR
            length = len(old[at : at + SECTOR])
            before = old[max(at - SECTOR, 0) :][:length] if at else old[SECTOR:][:length]
            new[at : at + length] = bytes(length) if kind == "zeros" else before.ljust(length, b"\0")
        changed = [at] if kind == "cut" else [place for place in range(at, at + length) if new[place] != old[place]]
        if changed:
            after = len(old) if kind == "cut" else changed[-1] + 1
            yield Injury(kind, name, changed[0], after, bytes(new))


def log_speaks(of: Subject, injury: Injury) -> bool:
    """Every byte of every entry, but an end that is simply missing and what an erased entry has for a checksum."""
    return not of.is_clean_cut(injury) and any(span.type_number != ERASED for span in of.hit(injury))


def tail_speaks(of: Subject, injury: Injury) -> bool:
    """The same of the last file."""
    return injury.name == of.end_name and log_speaks(of, injury)


def tree_speaks(of: Subject, injury: Injury) -> bool:
    """Nodes before the last file. In it recovery may do without what is damaged."""
    return injury.name != of.end_name and any(_lsn(injury, span) in of.walked.nodes for span in of.hit(injury))


def refs_speaks(of: Subject, injury: Injury) -> bool:
    """As ``tree``; and that the entry of a record is gone."""
    if tree_speaks(of, injury):
        return True
    gone = [
        span
        for span in of.hit(injury)
        if not any(injury.data[span.start : span.end])
        or (injury.kind == "cut" and injury.first <= span.start + HEADER_BYTES)
    ]
    return injury.name != of.end_name and any(_lsn(injury, span) in of.walked.records for span in gone)


def data_speaks(of: Subject, injury: Injury) -> bool:
    """Whenever records before the last file cannot be read, or are others than they were."""
    if injury.name == of.end_name:
        return False
    if any(_lsn(injury, span) in of.walked.records for span in of.hit(injury)):
        return True
    try:
        return records_of({**of.files, injury.name: injury.data}) != of.records
    except JetoolError:
        return True


def _lsn(injury: Injury, span: Span) -> int:
    return make_lsn(int(injury.name[:8], 16), span.start)


# ``space`` includes ``tree``, and finds no other damage; ``rep`` has its own test.
GUARANTEES: dict[str, Callable[[Subject, Injury], bool]] = {
    "log": log_speaks,
    "tail": tail_speaks,
    "tree": tree_speaks,
    "refs": refs_speaks,
    "data": data_speaks,
    "space": tree_speaks,
}


def test_there_are_twenty_thousand() -> None:
    assert len(NAMES) * INJURIES > 20_000
    assert set(GUARANTEES) == set(LEVELS)


def test_the_page_has_a_row_for_each_level() -> None:
    rows = re.findall(r"^`--([a-z]+)`\n: ", PAGE.read_text(), re.MULTILINE)
    # The level tail is the option --end.
    assert {"tail" if row == "end" else row for row in rows} == {*GUARANTEES, "rep"}


@pytest.mark.parametrize("name", NAMES)
def test_the_default_levels(name: str) -> None:
    """``log`` includes ``tail``. Outside the last file, and at what was durable in it, a finding is no mere note."""
    of = subject(name)
    durable = max((span.start for span in of.spans[of.end_name] if span.type_number in DURABLE_ENTRIES), default=-1)
    for injury, _ in zip(injuries(of, name), range(INJURIES // SHARE), strict=False):
        files = {**of.files, injury.name: injury.data}
        what = (injury.kind, injury.name, hex(injury.first), hex(injury.after))
        found = of.fresh(files, "log")
        if not log_speaks(of, injury):
            continue
        assert found, what
        is_error = any(finding.severity == ERROR for finding in found)
        hit = of.hit(injury)
        if injury.name != of.end_name or (injury.kind != "cut" and hit[-1].start < durable):
            assert is_error, (what, found)
        places = [file_of(f.lsn) for f in found if not is_null(f.lsn)]
        assert injury.name in {f.file for f in found} or int(injury.name[:8], 16) in places, (what, found)


@pytest.mark.parametrize("level", [level for level in GUARANTEES if level != "log"])
@pytest.mark.parametrize("name", NAMES)
def test_the_other_levels(name: str, level: str) -> None:
    """Never a traceback; and where the page says that a level finds it, a finding."""
    of = subject(name)
    for injury, _ in zip(injuries(of, f"{name} {level}"), range(DEEP // SHARE), strict=False):
        files = {**of.files, injury.name: injury.data}
        found = of.fresh(files, level)
        if GUARANTEES[level](of, injury):
            what = (injury.kind, injury.name, hex(injury.first), hex(injury.after))
            # The tail of a log is torn by every crash: what is found there may be a note.
            assert any(finding.severity == ERROR or level == "tail" for finding in found), what


@pytest.mark.parametrize("name", ["je-healthy/names-one-txn", "je/je-18.3.20/backup-mark", "je/je-7.5.11/torn-base"])
def test_recovery_refuses_a_file_that_lost_its_last_entries(name: str) -> None:
    """Every entry that is left is right; the header of the file after it names a later one."""
    of = subject(name)
    before = sorted(path for path in of.files if path < of.end_name)[-1]
    files = {**of.files, before: of.files[before][: of.spans[before][-1].start]}
    assert [f.code for f in of.fresh(files, "log")] == ["JE-LOG-009"]
    with pytest.raises(DamageError, match="a log file has lost entries at its end"):
        records_of(files)


def test_a_damaged_header_is_no_version_of_the_future() -> None:
    of = subject("je/je-7.3.8/cleaned")
    before = sorted(path for path in of.files if path < of.end_name)[-1]
    found = of.fresh({**of.files, before: bytes(64) + of.files[before][64:]}, "tree")
    assert [(f.code, "the header of a log file is damaged" in f.message) for f in found] == [("JE-TREE-001", True)]
