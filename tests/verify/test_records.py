"""What slots lead to: wrong references and damaged records are found, each by its code; expired and embedded ones are
sound."""

from __future__ import annotations

from typing import Any

import pytest

from engine.db.environment import Environment
from engine.format.entry.ln import LN
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.storage.memory import MemoryStorage
from engine.tree.tree import find_bin
from engine.verify import record_rules
from tests.support.damage.spoiled_slots import INDEX, missing_file, point_to
from tests.support.damage.spoiled_trees import (
    CONFIG,
    codes,
    found,
    leaf,
    report,
    rewrite,
    soil,
    sound,
    spoiled,
    state_of,
)

REFS = ("refs",)


def past_the_end(env: Environment) -> None:
    assert env.engine.writer is not None
    point_to(env, env.engine.writer.next_lsn + 50_000)


def between_entries(env: Environment) -> None:
    point_to(env, leaf(env).lsns[INDEX] + 3)


def at_a_node(env: Environment) -> None:
    point_to(env, leaf(env).lsn())


def at_a_map_ln(env: Environment) -> None:
    key = b"%d" % state_of(env, "large").id
    node = find_bin(env.engine.ctx, env.engine.catalog.mapping, key)
    assert node is not None
    point_to(env, node.lsns[node.find(key)[0]])


def in_other_database(env: Environment) -> None:
    point_to(env, leaf(env, "prefixed").lsns[INDEX])


def at_the_neighbour(env: Environment) -> None:
    point_to(env, leaf(env).lsns[INDEX + 1])


def at_a_deletion(env: Environment) -> None:
    with env.open_database("large") as db:
        db.put(b"common/9000", b"x" * 40)
        db.delete(b"common/9000")
    assert env.engine.writer is not None
    # The deletion is the entry before the Commit.
    state = state_of(env, "large")
    node = find_bin(env.engine.ctx, state, b"common/9000")
    assert node is not None
    deleted = node.lsns[node.find(b"common/9000")[0]]
    env.compress()
    point_to(env, deleted, size=0)


def wrong_size(env: Environment) -> None:
    node = leaf(env)
    node.sizes[INDEX] += 1
    soil(node)


def obsolete_record(env: Environment) -> None:
    lsn = leaf(env).lsns[INDEX]
    env.engine.utilization.obsolete_ln(lsn, 60)


def obsolete_node(env: Environment) -> None:
    env.engine.utilization.obsolete_node(leaf(env).lsn(), is_delta=False)


def other_data(env: Environment) -> None:
    node = leaf(env, "small")
    assert node.states[INDEX] & SLOT_EMBEDDED
    node.values[INDEX] = b"zzzz"
    soil(node)


def other_expiration(env: Environment) -> None:
    node = leaf(env)
    node.expirations[INDEX] = 30_000
    soil(node)


def other_key_of_a_duplicate(env: Environment) -> None:
    node = leaf(env, "dups")
    node.lsns[INDEX] = node.lsns[INDEX + 1]
    soil(node)


def copy_in_other_database(env: Environment) -> None:
    node = leaf(env, "small")
    node.lsns[INDEX] = leaf(env).lsns[INDEX]
    soil(node)


CASES: list[tuple[Any, set[str], set[str]]] = [
    (missing_file, {"JE-REF-001"}, {"JE-REF-001"}),
    (past_the_end, {"JE-REF-002"}, {"JE-REF-002"}),
    (at_a_node, {"JE-REF-003"}, {"JE-REF-003"}),
    (at_a_map_ln, {"JE-REF-003"}, {"JE-REF-003"}),
    (in_other_database, {"JE-REF-004"}, {"JE-REF-004"}),
    (wrong_size, {"JE-REF-005"}, {"JE-REF-005"}),
    (obsolete_record, {"JE-REF-007"}, {"JE-REF-007"}),
    (obsolete_node, {"JE-REF-008"}, {"JE-REF-008"}),
    (at_the_neighbour, set(), {"JE-DATA-002"}),
    (at_a_deletion, set(), {"JE-DATA-003"}),
    (other_data, set(), {"JE-DATA-004"}),
    (other_expiration, set(), {"JE-DATA-005"}),
    (other_key_of_a_duplicate, set(), {"JE-DATA-002"}),
    (copy_in_other_database, set(), {"JE-REF-004"}),
]


@pytest.mark.parametrize(("spoil", "refs", "data"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_a_slot_that_leads_astray(spoil: Any, refs: set[str], data: set[str]) -> None:
    storage = spoiled(spoil)
    assert codes(storage, REFS) == refs
    assert codes(storage, ("data",)) == data
    for finding in found(storage, ("data",)):
        assert finding.db in ("large", "small", "dups")
        assert finding.lsn != NULL_LSN
        assert finding.key is not None or finding.code == "JE-REF-008"
        assert finding.message.startswith(next(r.title for r in record_rules.RULES if r.code == finding.code))


def test_a_slot_between_entries() -> None:
    # What stands there may by chance look like an entry, but never like the record.
    said = codes(spoiled(between_entries))
    assert said
    assert said <= {"JE-REF-002", "JE-REF-003", "JE-REF-004", "JE-REF-005", "JE-DATA-001"}


def _record(storage: MemoryStorage) -> int:
    """The LSN of a record of the first file that is not embedded."""
    with Environment(storage, CONFIG) as env:
        lsn = leaf(env, number=1).lsns[INDEX]
    assert file_of(lsn) == 0
    return lsn


def _flip(storage: MemoryStorage, lsn: int, at: int) -> None:
    file = storage.open_rw(f"{file_of(lsn):08x}.jdb")
    place = offset_of(lsn) + at
    file.write(place, bytes((file.read(place, 1)[0] ^ 1,)))


def test_a_flipped_bit_in_a_record() -> None:
    storage = sound()
    lsn = _record(storage)
    _flip(storage, lsn, 40)
    assert codes(storage, REFS) == set()
    said = found(storage)
    assert [(f.code, f.lsn, f.db, f.file) for f in said] == [("JE-DATA-001", lsn, "large", "00000000.jdb")]
    assert said[0].key is not None
    assert said[0].key.startswith(b"common/")


def test_an_invisible_record() -> None:
    storage = sound()
    lsn = _record(storage)
    rewrite(storage, lsn, lambda record: record, flags=0x10)
    assert codes(storage, REFS) == {"JE-REF-006"}


def test_a_provisional_record() -> None:
    storage = sound()
    lsn = _record(storage)
    rewrite(storage, lsn, lambda record: record, flags=0x80)
    assert codes(storage, REFS) == {"JE-REF-009"}


def test_a_record_with_another_key() -> None:
    storage = sound()
    lsn = _record(storage)

    def longer(record: Any) -> Any:
        assert isinstance(record, LN)
        assert record.data is not None
        return record._replace(data=record.data[:-1], key=record.key + b"x")

    rewrite(storage, lsn, longer)
    assert codes(storage) == {"JE-DATA-002"}


def test_expiring_records_are_sound() -> None:
    storage = sound()
    with Environment(storage, CONFIG) as env, env.open_database("large") as db:
        for number, expiration in enumerate((20_000, -480_000, 21_000, 1)):
            db.put(b"common/%04d" % number, b"+" * 40, expiration=expiration)
    assert found(storage) == ()


def test_findings_of_one_kind_are_bounded() -> None:
    storage = sound()

    def all_gone(env: Environment) -> None:
        for number in range(35):
            node = leaf(env, number=number)
            for index in range(len(node)):
                node.lsns[index] = 77 << 32 | 100
            soil(node)

    with Environment(storage, CONFIG) as env:
        all_gone(env)
        env.checkpoint(force=True, minimize=True)
        count = sum(len(leaf(env, number=number)) for number in range(35))
    said = report(storage).findings
    assert {f.code for f in said} == {"JE-REF-001"}
    assert len(said) == 101
    assert said[-1].message.endswith(f"{count - 100} more of this kind")
