"""Samples of a running group: recorded nodes of JE, and nodes that stop."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from engine.errors import JetoolError
from engine.format.vlsn import NULL_VLSN
from engine.monitor.group import GroupMeter
from engine.rep.client.connection import SocketNetwork
from tests.support.groups.networks import RecordedNetwork
from tests.support.groups.nodes import group_of_two
from tests.support.waiting import eventually

ADDRESS = ("localhost", 15071)


def meter_of(network: Any, *addresses: tuple[str, int]) -> GroupMeter:
    seconds = count()
    return GroupMeter(network, addresses or (ADDRESS,), None, 5, clock=lambda: 1000, timer=lambda: float(next(seconds)))


def test_recorded_nodes() -> None:
    meter = meter_of(RecordedNetwork("services"))
    meter.check()
    first = {one.node: one for one in meter.sample()}
    assert list(first) == ["n1", "n2", "n3"]
    assert (first["n1"].state, first["n1"].lag, first["n1"].je_version) == ("MASTER", 0, "18.3.20")
    assert (first["n2"].state, first["n2"].master, first["n2"].place) == ("UNKNOWN", "n1", "localhost:15071")
    assert {one.group for one in first.values()} == {"WIREGRP"}
    # A node of a group has no figures of a log.
    assert (first["n1"].commits, first["n1"].log_bytes, first["n1"].disk_left) == (None, None, None)
    assert (first["n3"].state, first["n3"].vlsn) == (None, NULL_VLSN)
    assert first["n3"].problem
    second = {one.node: one for one in meter.sample()}
    assert (first["n1"].vlsn_rate, second["n1"].vlsn_rate) == (None, 0.0)


def test_a_group_that_is_gone_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    network = RecordedNetwork("services")
    meter = meter_of(network)
    assert [one.node for one in meter.sample()] == ["n1", "n2", "n3"]
    inner = network.connect
    monkeypatch.setattr(network, "connect", lambda _, deadline: inner(("localhost", 1), deadline))
    samples = meter.sample()
    assert [(one.node, one.state, one.vlsn) for one in samples] == [
        (name, None, NULL_VLSN) for name in ("n1", "n2", "n3")
    ]
    assert all("no node answers" in (one.problem or "") for one in samples)
    assert {one.time for one in samples} == {1000}
    # It shows when they are back.
    monkeypatch.setattr(network, "connect", inner)
    assert [one.state for one in meter.sample()][:2] == ["MASTER", "UNKNOWN"]


def test_nothing_answers_at_first() -> None:
    meter = meter_of(RecordedNetwork("services"), ("localhost", 1), ("localhost", 2))
    with pytest.raises(JetoolError, match="no node answers"):
        meter.check()
    assert [(one.node, one.state, one.group) for one in meter.sample()] == [
        ("localhost:1", None, None), ("localhost:2", None, None),
    ]  # fmt: skip


def test_the_named_node_stops() -> None:
    """The others are asked then, at the addresses that were found."""
    with group_of_two() as (master, replica):
        address = replica.config.listen
        meter = meter_of(SocketNetwork(), address)
        eventually(lambda: {one.state for one in meter.sample()}, {"MASTER", "REPLICA"})
        replica.stop()
        samples = {one.node: one for one in meter.sample()}
        assert samples["node1"].state == "MASTER", (master, samples)
        assert samples["node2"].state is None
        assert samples["node2"].problem
