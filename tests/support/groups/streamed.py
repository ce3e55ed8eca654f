"""``jetool stream`` on a group that is played."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.rep.changes.subscriber import SubscriberSettings
from jetool.commands.stream import command
from tests.support.groups.group_double import GroupDouble
from tests.support.groups.subscribers import group_of, operations, with_null_commit
from tests.support.harness import Result, run


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupDouble:
    """One node with all operations on databases."""
    group = group_of(with_null_commit(operations()))
    monkeypatch.setattr(command, "network_of", lambda _: group)
    monkeypatch.setattr(command, "SubscriberSettings", partial(SubscriberSettings, first_pause_s=0.001))
    return group


def stream(*words: str | Path) -> Result:
    return run("stream", "localhost:7001", *words)


def rows_of(text: str | bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
