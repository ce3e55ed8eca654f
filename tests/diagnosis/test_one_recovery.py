"""The preview of recovery also tells the application: a log is recovered once, and the diagnosis is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.diagnosis import je_environment
from engine.diagnosis.directory import diagnose
from engine.diagnosis.record import DiagnosisOptions
from engine.errors import DamageError
from tests.support import corpus

CASES = sorted(path.parent for path in corpus.path().glob("je*/**/manifest.json") if (path.parent / "env").is_dir())
JE = corpus.path() / "je" / "je-18.3.20"


class Ends:
    """Counts the ends of a step."""

    def __init__(self, name: str) -> None:
        self.count = 0
        self._name = name

    def step(self, name: str, done: int, total: int) -> None:
        self.count += name == self._name and done == total


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("txn-crash", 1),
        ("plain-load", 1),
        # A replicated transaction is open, which a writer keeps and a reader undoes.
        ("ha-group/node1", 2),
    ],
)
def test_the_log_is_recovered_once(name: str, times: int) -> None:
    ends = Ends("READ_DBMAP_INFO")
    diagnose(str(JE / name / "env"), DiagnosisOptions(listener=ends))
    assert ends.count == times


def torn(env: Path, path: Path) -> Path:
    """A copy whose last file ends inside an entry."""
    copy = path / "env"
    copy.mkdir()
    for file in sorted(env.iterdir()):
        (copy / file.name).write_bytes(file.read_bytes())
    last = max(copy.glob("*.jdb"))
    last.write_bytes(last.read_bytes()[:-7])
    return copy


def test_a_torn_end_costs_no_second_recovery(tmp_path: Path) -> None:
    ends = Ends("READ_DBMAP_INFO")
    found = diagnose(str(torn(JE / "txn-crash" / "env", tmp_path)), DiagnosisOptions(listener=ends))
    assert (ends.count, found.loss.commits) == (1, 0)
    assert found.loss.cut_bytes > 0


def unread(*_: Any) -> Any:
    raise DamageError("not here")


@pytest.mark.parametrize("change", [lambda env, _: env, torn], ids=["whole", "torn"])
def test_a_second_recovery_says_the_same(
    change: Callable[[Path, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = []
    for number, case in enumerate(CASES[:: 3 if change is not torn else 6]):
        place = tmp_path / str(number)
        place.mkdir()
        if any((case / "env").glob("*.jdb")):
            environments.append(str(change(case / "env", place)))
    first = {env: diagnose(env) for env in environments}
    monkeypatch.setattr(je_environment, "application_of", unread)
    assert {env: diagnose(env) for env in environments} == first
    assert len(first) > 15
