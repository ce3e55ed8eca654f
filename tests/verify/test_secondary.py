"""``verify --secondary``: entries that lead to no record, entries that expire at another time, and sound ones."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.secondary import SecondaryConfig
from engine.errors import NotFoundError, UsageError
from engine.format.bytecursor import join_two_part_key
from engine.storage.memory import MemoryStorage
from engine.verify.secondary import check_secondary
from jetool.frame import exits
from tests.support.environments.directories import put
from tests.support.harness import assert_valid, assert_valid_error, run

HOUR = int(time.time() // 3600)
COUNT = 300


def made(*, unique: bool = False) -> Environment:
    """An environment with people, and a secondary by the first byte of their data or by all of it."""
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0))
    people = env.create_database("people")
    config = SecondaryConfig(create=True, duplicates=not unique, key_creator=lambda _, d: d if unique else d[:1])
    with env.open_secondary("a:b", people, config):
        for number in range(COUNT):
            # Some have expired, others will in days.
            hours = (-2, 100, 200)[number % 3] if number % 5 else -HOUR
            people.put(b"%04d" % number, b"%04d data" % (number * 7), expiration=-(HOUR + hours))
    return env


def codes(env: Environment) -> list[tuple[str, bytes | None]]:
    return [(finding.code, finding.key) for finding in check_secondary(env, "a:b", "people").findings]


@pytest.mark.parametrize("unique", [False, True])
def test_a_sound_secondary_has_no_findings(unique: bool) -> None:
    env = made(unique=unique)
    found = check_secondary(env, "a:b", "people")
    with env.open_database("a:b") as entries:
        assert (found.findings, found.entries) == ((), entries.count())
    assert found.entries >= COUNT // 2


@pytest.mark.parametrize("unique", [False, True])
def test_an_entry_without_a_record(unique: bool) -> None:
    env = made(unique=unique)
    with env.open_database("people") as people, env.open_database("a:b") as entries:
        assert people.delete(b"0005") == 1
        entries.put(b"x", b"9999")
    found = codes(env)
    assert [code for code, _ in found] == ["JE-SEC-001"] * 2
    assert found[1][1] == (b"x" if unique else join_two_part_key(b"x", b"9999"))


def test_an_entry_that_expires_at_another_time() -> None:
    env = made(unique=True)
    with env.open_database("people") as people:
        people.put(b"0005", b"0035 data", expiration=-(HOUR + 50), update_expiration=True)
    assert codes(env) == [("JE-SEC-002", b"0035 data")]


def test_a_database_that_is_no_secondary_of_the_other() -> None:
    """Of many findings of a kind the first hundred are told, and how many more there are."""
    env = made()
    env.create_database("other")
    found = check_secondary(env, "people", "other").findings
    assert {finding.code for finding in found} == {"JE-SEC-001"}
    assert len(found) == 101
    assert found[-1].message.endswith("more of this kind")


def test_what_cannot_be_checked() -> None:
    env = made()
    env.create_database("dups", DatabaseOptions(duplicates=True))
    with pytest.raises(NotFoundError, match="nothing"):
        check_secondary(env, "a:b", "nothing")
    with pytest.raises(UsageError, match="duplicates"):
        check_secondary(env, "a:b", "dups")


def test_on_the_command_line(tmp_path: Path) -> None:
    """Both ways: sound, and not; names with colons."""
    env = made()
    env.close()
    storage = env.engine.storage
    assert isinstance(storage, MemoryStorage)
    home = put(tmp_path / "env", {name: data for name, data in storage.contents().items() if name.endswith(".jdb")})
    sound = run("verify", home, "--secondary", "a:b:people", "--json")
    assert (sound.code, sound.json()["findings"]) == (exits.DONE, []), sound.err
    assert_valid("verify", sound.out)
    summary = sound.json()["summary"]
    assert (summary["checked"], summary["entries_of_secondaries"] > 100) == (["secondary"], True)
    # The other way round: people are no entries.
    wrong = run("verify", home, "--secondary", "people:a:b", "--json")
    assert (wrong.code, "duplicates" in wrong.err) == (exits.USAGE, True)
    assert_valid_error(wrong)
    with Environment(home) as again, again.open_database("people") as people:
        people.delete(b"0000")
    found = run("verify", home, "--secondary", "a:b:people", "--tail", "--json")
    assert (found.code, [one["code"] for one in found.json()["findings"]]) == (exits.FINDINGS, ["JE-SEC-001"])
    assert found.json()["summary"]["checked"] == ["tail", "secondary"]
    assert run("verify", home, "--secondary", "people", "--json").code == exits.USAGE
    assert run("verify", home, "--secondary", "people:nobody", "--json").code == exits.NOT_FOUND
