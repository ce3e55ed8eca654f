"""Secondaries in a replication group: the master maintains them, and its stream carries their entries."""

from __future__ import annotations

import random

import pytest

from engine.db.secondary import UniqueConstraintError
from engine.db.secondary_cursor import SecondaryRecord
from engine.errors import RefusedError
from engine.rep.acks import AckPolicy
from tests.support.environments.people import People
from tests.support.groups.nodes import group_of_two
from tests.support.waiting import PATIENCE_S


def test_a_replica_finds_records_by_the_same_keys() -> None:
    chosen = random.Random(11)
    with group_of_two(AckPolicy.ALL) as nodes:
        people = People(nodes[0].environment)
        refused = 0
        for number in range(60):
            mail = b"m%d" % chosen.randrange(20) if number % 2 else b""
            try:
                people.db.put(b"%02d" % chosen.randrange(25), chosen.choice((b"Oslo|%s|a", b"Rome|%s|a,b")) % mail)
            except UniqueConstraintError:
                refused += 1
        people.by_tag.delete(b"b")
        people.db.put(b"99", b"Bern|last|")
        assert refused > 0
        assert nodes[1].await_vlsn(nodes[0].status().last_vlsn, PATIENCE_S)
        # Not empty here, and nothing that a replica could fill.
        there = People(nodes[1].environment)
        assert there.disagreements() == people.disagreements() == []
        assert list(there.db) == list(people.db)
        assert there.by_mail.get(b"last") == SecondaryRecord(b"last", b"99", b"Bern|last|")
        with pytest.raises(RefusedError, match="group"):
            there.by_city.delete(b"Oslo")
        for handles in (people, there):
            handles.close()
