"""What JE needs or would refuse, said by ``info``, ``verify`` and ``recover -n``, against what JE 18.3.20 did."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.harness import run

# Of the corpus: those that JE 18.3.20 refuses with "JE 4.1 duplicate DB entries were found in the recovery interval".
# Of ``schema-crash`` it misses the class of a comparator before it comes to that.
REFUSED = (
    "je/je-3.3.98/schema-crash",
    "je/je-3.3.98/cleaned", "je/je-3.3.98/corrupt-middle", "je/je-3.3.98/dups", "je/je-3.3.98/torn-base",
    "je/je-3.3.98/torn-cut-mid", "je/je-3.3.98/txn-crash", "je-healthy/old-halted",
)  # fmt: skip
OLD = sorted(
    str(path.parent.relative_to(corpus.path()))
    for path in (*corpus.path().glob("je/je-3.3.98/*/env"), *corpus.path().glob("je-healthy/*old*/env"))
)


def notes(env: Path, *levels: str) -> dict[str, str]:
    found = run("verify", env, *levels, "--json").json()["findings"]
    return {row["code"]: row["message"] for row in found if row["code"].startswith("JE-OPEN")}


@pytest.mark.parametrize("name", OLD)
def test_duplicates_of_je_3_in_the_recovery_interval(name: str) -> None:
    env = corpus.path() / name / "env"
    assert ("JE-OPEN-001" in notes(env, "--quick")) == (name in REFUSED)
    said = "JE 5 and later refuse"
    assert (said in run("info", env).err) == (name in REFUSED)
    assert (said in run("recover", env, "-n").err) == (name in REFUSED and "corrupt" not in name)


def test_classes_of_comparators() -> None:
    env = corpus.path() / "je-healthy/comparators-backwards/env"
    found = notes(env)
    assert list(found) == ["JE-OPEN-003"]
    assert "back by Life$Backwards" in found["JE-OPEN-003"]
    assert run("verify", env, "--strict").code == 0
    for words in (("info", env), ("recover", env, "-n")):
        assert "Life$Backwards" in run(*words).err


@pytest.mark.parametrize(
    ("free", "said", "is_low"),
    [(4 << 30, None, True), (6 << 30, None, False), (4 << 30, "1000", False), (999, "1000", True), (1, "0", False)],
)
def test_disk_below_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: str | None, is_low: bool
) -> None:
    env = corpus.copy(corpus.path() / "je/je-18.3.20/txn-crash/env", tmp_path / "env")
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: free)
    if said is not None:
        (env / "je.properties").write_text(f"je.freeDisk={said}\n")
    found = run("verify", env, "--quick")
    assert found.code == 0
    assert ("JE-OPEN-002" in found.text) == is_low
    assert ("je.freeDisk" in run("info", env).err) == is_low
    assert ("je.freeDisk" in run("recover", env, "-n").err) == is_low


def test_a_release_without_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: 0)
    assert notes(corpus.path() / "je/je-7.5.11/txn-crash/env", "--quick") == {}
