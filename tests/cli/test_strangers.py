"""``jetool diff`` and ``jetool rollbacks --against`` on nodes of different groups: refused, as JE's handshake does."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.inspect.group_record import UNKNOWN_UUID, GroupName, are_strangers
from engine.inspect.log_stream import read_stream
from engine.log.files import list_log_files
from engine.rep.group import form_group
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.support.environments.oracle import named
from tests.support.harness import run

GROUPS = ("ha-group", "ha-rollback", "ha-rollback-ckpt", "ha-rollback-thrice")


def node(group: str, number: int) -> Path:
    return named(f"je-18.3.20/{group}/node{number}").path / "env"


def group_of(env: Path) -> GroupName | None:
    storage = DiskStorage(env)
    return read_stream(storage, list_log_files(storage)).group


def made(env: Path, group: str) -> Path:
    env.mkdir()
    with Environment(env, EnvironmentConfig(create=True, replicated=True)) as opened:
        form_group(opened, group, "node1", "localhost", 5001)
        with opened.create_database("orders") as db:
            for number in range(20):
                db.put(b"%d" % number, b"x")
    return env


@pytest.mark.parametrize("commands", [("diff",), ("rollbacks", "--against")])
@pytest.mark.parametrize("name", ["store", "another"])
def test_other_groups_are_refused(tmp_path: Path, name: str, commands: tuple[str, ...]) -> None:
    one, other = made(tmp_path / "a", "store"), made(tmp_path / "b", name)
    verb, *option = commands
    result = run(verb, one, *option, other, "--json")
    assert result.code == exits.REFUSED
    error = result.error()
    assert "do not belong to the same replication group" in error["what"]
    assert f"group {name!r}" in error["found"]
    assert "matchpoint" not in result.text
    assert run("diff", "--records", one, other).code in (exits.DONE, exits.FINDINGS)


def test_groups_of_je_with_one_name_are_strangers() -> None:
    found = {name: group_of(node(name, 1)) for name in GROUPS}
    assert len({one.name for one in found.values() if one is not None}) == 1
    for one, other in itertools.combinations(GROUPS, 2):
        assert are_strangers(found[one], found[other])
        assert run("diff", node(one, 1), node(other, 1)).code == exits.REFUSED
        assert run("rollbacks", node(one, 1), "--against", node(other, 2)).code == exits.REFUSED


@pytest.mark.parametrize("group", GROUPS)
def test_nodes_of_one_group_are_none(group: str) -> None:
    found = {group_of(node(group, number)) for number in (1, 2, 3)}
    assert len(found) == 1
    assert None not in found


def test_a_group_that_is_not_known_is_no_stranger() -> None:
    one, other = GroupName("store", "1" * 32), GroupName("store", UNKNOWN_UUID)
    assert not are_strangers(one, None)
    assert not are_strangers(other, one)
    assert are_strangers(one, GroupName("store", "2" * 32))
    assert are_strangers(one, GroupName("shop", "1" * 32))
