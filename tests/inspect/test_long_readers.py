"""What reads whole databases tells how much it has read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from engine.db.environment import Environment
from engine.events import heard
from engine.inspect import ldap_backend
from engine.inspect.ldap_backend import BackendCheck, backend_entries
from tests.support.environments.ldap_backends import BASE, write_backend


class Steps:
    """Keeps the names of the steps that it hears."""

    def __init__(self) -> None:
        self.heard: set[str] = set()

    def step(self, name: str, done: int, total: int) -> None:
        assert done >= total == 0
        self.heard.add(name)


def test_a_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_backend, "heard", partial(heard, every=1))
    exported, checked = Steps(), Steps()
    with Environment(write_backend(tmp_path / "env", with_dn=False)) as env:
        assert len(list(backend_entries(env, BASE, exported))) == 6
        assert list(BackendCheck(env, BASE, checked).findings()) == []
    assert exported.heard == {"id2entry", "dn2id"}
    assert checked.heard == {"id2entry", "dn2id", "id2childrencount"}
