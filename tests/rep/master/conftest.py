"""Masters of the tests do not wait a second for anything."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_long_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.rep.member.node._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("engine.rep.master.feeder.HEARTBEAT_S", 0.05)
    monkeypatch.setattr("engine.rep.master.term.HEARTBEAT_S", 0.05)
