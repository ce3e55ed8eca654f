"""Every kind of damage that a tree can have is found, and named; sound trees have none (R-UTIL-2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.db.environment import Environment
from engine.format.entry.ln_content import NameLN
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.keys import LearnedOrder, UnknownOrderError
from engine.tree.tree import bins, find_bin
from engine.verify import record_rules, space_rules, tree_rules
from engine.verify.environment import verify_environment
from tests.support.damage.spoiled_slots import branch_to_record, redirect
from tests.support.damage.spoiled_trees import (
    CONFIG,
    RECORDS,
    codes,
    found,
    leaf,
    report,
    rewrite,
    soil,
    sound,
    spoiled,
    state_of,
    upper,
)


def test_a_sound_environment_has_no_findings() -> None:
    said = report(sound())
    assert said.findings == ()
    assert said.not_checked == ()
    assert said.databases == 10
    # Four databases of ours; the rest are names, MapLNs and FileSummaryLNs.
    assert said.records > 4 * RECORDS
    assert said.nodes > 4 * RECORDS // 6


def unordered(env: Environment) -> None:
    node = leaf(env)
    node.keys[1], node.keys[2] = node.keys[2], node.keys[1]
    soil(node)


def doubled(env: Environment) -> None:
    node = leaf(env)
    node.keys[2] = node.keys[1]
    soil(node)


def out_of_range(env: Environment) -> None:
    node = leaf(env)
    node.keys[-1] = b"common/9999"
    soil(node)


def lost_identifier(env: Environment) -> None:
    node = leaf(env)
    node.ident = node.keys[0] + b"!"
    soil(node)


def empty_upper(env: Environment) -> None:
    node = upper(env)
    node.keys, node.lsns, node.kids = [], [], []
    soil(node)


def same_id(env: Environment) -> None:
    leaf(env).node_id = leaf(env, number=5).node_id
    soil(leaf(env))


def id_ahead(env: Environment) -> None:
    leaf(env).node_id = 100_000
    soil(leaf(env))


def nowhere(env: Environment) -> None:
    node = leaf(env)
    node.lsns[1] = NULL_LSN
    soil(node)


def branch_to_other_database(env: Environment) -> None:
    redirect(env, leaf(env, "prefixed").lsn())


def branch_to_upper_node(env: Environment) -> None:
    node = upper(env)
    assert node.parent is not None
    redirect(env, node.parent.lsns[0])


def branch_past_the_end(env: Environment) -> None:
    assert env.engine.writer is not None
    redirect(env, env.engine.writer.next_lsn + 100_000)


def branch_into_missing_file(env: Environment) -> None:
    redirect(env, 77 << 32 | 100)


def no_branch(env: Environment) -> None:
    redirect(env, NULL_LSN)


TREE_CASES: list[tuple[Any, set[str], int]] = [
    (unordered, {"JE-TREE-006"}, 1),
    (doubled, {"JE-TREE-006"}, 1),
    (out_of_range, {"JE-TREE-007"}, 1),
    (lost_identifier, {"JE-TREE-009"}, 1),
    (empty_upper, {"JE-TREE-011"}, 1),
    (same_id, {"JE-TREE-014"}, 1),
    (id_ahead, {"JE-TREE-015"}, 3),
    (nowhere, {"JE-TREE-017"}, 1),
    (branch_to_record, {"JE-TREE-003"}, 1),
    (branch_to_other_database, {"JE-TREE-004"}, 1),
    (branch_to_upper_node, {"JE-TREE-005"}, 1),
    (branch_past_the_end, {"JE-TREE-002"}, 1),
    (branch_into_missing_file, {"JE-TREE-002"}, 1),
    (no_branch, {"JE-TREE-017"}, 1),
]


@pytest.mark.parametrize(("spoil", "expected", "checkpoints"), TREE_CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_damage_in_a_tree(spoil: Any, expected: set[str], checkpoints: int) -> None:
    storage = spoiled(spoil, checkpoints=checkpoints)
    assert codes(storage, ("tree",)) == expected
    for finding in found(storage, ("tree",)):
        assert finding.db == "large"
        assert finding.lsn != NULL_LSN
        assert finding.message.startswith(next(r.title for r in tree_rules.RULES if r.code == finding.code))


def _nodes(storage: MemoryStorage, name: str) -> list[int]:
    """LSNs of the bottom nodes of a database."""
    with Environment(storage, CONFIG) as env:
        return [node.lsn() for node in _bins(env, name)]


def _bins(env: Environment, name: str) -> list[BIN]:
    return list(bins(env.engine.ctx, state_of(env, name)))


def change_node(name: str, **changes: Any) -> set[str]:
    """Rewrite a bottom node in the log and verify."""
    storage = sound()
    lsn = _nodes(storage, name)[4]
    rewrite(storage, lsn, lambda record: record._replace(**changes))
    return codes(storage, ("tree",))


def test_identifier_of_another_branch() -> None:
    assert change_node("large", identifier_key=b"common/0199") == {"JE-TREE-008"}


def test_more_slots_than_room() -> None:
    assert change_node("large", max_entries=2) == {"JE-TREE-010"}


def test_root_flag_on_a_bottom_node() -> None:
    assert change_node("large", flags=0x05) == {"JE-TREE-013"}


def test_prefix_without_prefixing_is_a_note() -> None:
    storage = sound()
    with Environment(storage, CONFIG) as env:
        state = state_of(env, "prefixed")
        state.impl = state.impl._replace(flags=state.impl.flags & ~0x10)
        state.dirty = True
        env.checkpoint(force=True)
    assert {(f.code, f.severity) for f in found(storage)} == {("JE-TREE-012", "note")}


def _root(storage: MemoryStorage, name: str) -> int:
    with Environment(storage, CONFIG) as env:
        return state_of(env, name).root_lsn


def test_root_without_its_flag_and_provisional_root() -> None:
    storage = sound()
    lsn = _root(storage, "large")
    rewrite(storage, lsn, lambda record: record._replace(flags=0))
    assert codes(storage, ("tree",)) == {"JE-TREE-013"}
    storage = sound()
    rewrite(storage, _root(storage, "large"), lambda record: record, flags=0x80)
    assert codes(storage, ("tree",)) == {"JE-TREE-018"}


def test_a_bottom_node_as_root() -> None:
    storage = sound()
    with Environment(storage, CONFIG) as env:
        state = state_of(env, "small")
        leaf_lsn = leaf(env, "small", 0).lsn()
        state.root, state.root_lsn, state.dirty = None, leaf_lsn, True
        env.checkpoint(force=True)
    assert codes(storage, ("tree",)) >= {"JE-TREE-019", "JE-TREE-013"}


def test_a_delta_of_another_node() -> None:
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env, env.create_database("d") as db:
        for i in range(60):
            db.put(b"%04d" % i, b"-" * 30)
        env.checkpoint(force=True, minimize=True)
    config = replace(CONFIG, bin_delta_percent=75)
    with Environment(storage, config) as env, env.open_database("d") as db:
        db.put(b"0030", b"+" * 30)
        env.checkpoint(force=True)
        node = find_bin(env.engine.ctx, state_of(env, "d"), b"0030")
        assert node is not None
        delta, other = node.delta_lsn, leaf(env, "d", 0).full_lsn
    assert delta != NULL_LSN
    assert codes(storage) == set()
    rewrite(storage, delta, lambda record: record._replace(prev_full_lsn=other))
    assert codes(storage, ("tree",)) == {"JE-TREE-016"}


def test_a_node_that_cannot_be_read_hides_only_what_is_below() -> None:
    storage = sound()
    whole = report(storage, ("tree",))
    lsn = _nodes(storage, "large")[4]
    file = storage.open_rw(f"{file_of(lsn):08x}.jdb")
    # Recovery does not look at files before its range.
    at = offset_of(lsn) + 40
    file.write(at, bytes((file.read(at, 1)[0] ^ 1,)))
    said = report(storage, ("tree",))
    if not said.recovered:
        pytest.fail(str(said.findings))
    assert [f.code for f in said.findings] == ["JE-TREE-002"]
    assert said.findings[0].lsn == lsn
    assert said.nodes == whole.nodes - 1


def no_map_ln(env: Environment) -> None:
    key = b"%d" % state_of(env, "small").id
    node = find_bin(env.engine.ctx, env.engine.catalog.mapping, key)
    assert node is not None
    node.set_known_deleted(node.find(key)[0])
    soil(node)


def test_a_name_without_a_database() -> None:
    assert codes(spoiled(no_map_ln), ("tree",)) == {"JE-DB-001"}


def catalogue(storage: MemoryStorage) -> dict[str, tuple[int, int, int]]:
    """LSN of the NameLN, LSN of the MapLN, and id, of each database."""
    found = {}
    with Environment(storage, CONFIG) as env:
        for name in env.database_names():
            db_id = state_of(env, name).id
            named = _slot(env, env.engine.catalog.naming, name.encode())
            found[name] = (named, _slot(env, env.engine.catalog.mapping, b"%d" % db_id), db_id)
    return found


def _slot(env: Environment, tree: DatabaseState, key: bytes) -> int:
    node = find_bin(env.engine.ctx, tree, key)
    assert node is not None
    return node.lsns[node.find(key)[0]]


def test_names_and_map_lns_must_agree() -> None:
    storage = sound()
    said = catalogue(storage)
    (name_lsn, map_lsn, _), (_, _, other) = said["large"], said["small"]
    rewrite(storage, map_lsn, _map_ln(name="elgra"))
    assert codes(storage, ("tree",)) == {"JE-DB-003"}
    rewrite(storage, map_lsn, _map_ln(name="large"))
    assert codes(storage, ("tree",)) == set()
    rewrite(storage, name_lsn, _name_ln(other))
    assert codes(storage, ("tree",)) == {"JE-DB-002", "JE-DB-006"}

    storage = sound()
    rewrite(storage, map_lsn, _map_ln(db_id=other))
    assert "JE-DB-004" in codes(storage, ("tree",))


def _map_ln(**changes: Any) -> Any:
    def change(record: Any) -> Any:
        return record._replace(content=record.content._replace(database=record.content.database._replace(**changes)))

    return change


def _name_ln(db_id: int) -> Any:
    return lambda record: record._replace(content=NameLN(db_id, 0))


def test_an_unreadable_name_is_a_finding() -> None:
    storage = sound()
    lsn = catalogue(storage)["large"][0]
    file = storage.open_rw(f"{file_of(lsn):08x}.jdb")
    at = offset_of(lsn) + 16
    file.write(at, bytes((file.read(at, 1)[0] ^ 1,)))
    said = report(storage)
    assert "JE-DB-007" in {f.code for f in said.findings}
    assert said.databases == 10


def test_recovery_that_fails_is_a_finding() -> None:
    storage = sound()
    last = sorted(name for name in storage.contents() if name.endswith(".jdb"))[-1]
    storage.remove(last)
    storage.open_rw(last, create=True).write(0, sound().contents()["00000000.jdb"][:100])
    said = report(storage)
    assert not said.recovered
    assert [f.code for f in said.findings] == ["JE-TREE-001"]


def test_codes_are_unique_and_numbered() -> None:
    every = [rule.code for rule in (*tree_rules.RULES, *record_rules.RULES, *space_rules.RULES)]
    assert len(every) == len(set(every))
    for kind in ("JE-TREE", "JE-DB", "JE-REF", "JE-DATA", "JE-SPACE"):
        numbers = [int(code[-3:]) for code in every if code.startswith(kind)]
        assert numbers == list(range(1, len(numbers) + 1)), kind


def test_trees_whose_order_nobody_knows_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unordered:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self) -> None:
            learned = LearnedOrder("org.example.ByTail")
            learned.database = "people"
            raise UnknownOrderError(learned)

    monkeypatch.setattr("engine.verify.trees.Recovery", Unordered)
    storage = sound()
    said = report(storage)
    assert (said.recovered, said.findings) == (False, ())
    whole = verify_environment(storage, list_log_files(storage), ("log", "tree"))
    assert whole.checked == ("log", "tail")
    assert whole.nodes is None
    assert (
        "trees (the database 'people' is in the order of a Java class that is not known here: org.example.ByTail)"
        in whole.not_checked
    )
