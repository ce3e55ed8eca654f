"""Verdicts beside what JE itself did: it opened these environments, or refused them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.diagnosis.directory import diagnose
from engine.diagnosis.record import NO, YES, DiagnosisOptions
from tests.support import corpus

JE = corpus.path() / "je"
CASES = sorted(path.parent for path in JE.rglob("manifest.json"))
HEALTHY = sorted(path.parent / "env" for path in (corpus.path() / "je-healthy").rglob("manifest.json"))
GOLDEN = Path(__file__).parents[1] / "golden"
# What is not of the log: a class that JE did not find, and so failed with a NullPointerException.
NOT_OF_THE_LOG = "schema-crash"


def manifest(case: Path) -> dict[str, Any]:
    return dict(json.loads((case / "manifest.json").read_text()))


@pytest.mark.parametrize("release", sorted({case.relative_to(JE).parts[0] for case in CASES}))
def test_it_says_no_where_je_refuses_and_yes_where_je_opens(release: str) -> None:
    wrong = {}
    for case in CASES:
        if case.relative_to(JE).parts[0] != release:
            continue
        on_open = manifest(case).get("onOpen", {}).get("forWriting")
        refused = isinstance(on_open, dict) and "exception" in on_open
        found = diagnose(str(case / "env"))
        if found.can_start != (NO if refused else YES):
            wrong[str(case)] = found.verdict
    assert wrong == {}


def test_releases_that_refuse_a_log() -> None:
    """``--je``: what later and earlier releases made of copies."""
    wrong = {}
    for case in CASES:
        told = case / "expected" / "opened-by.json"
        if not told.exists() or NOT_OF_THE_LOG in case.name:
            continue
        for release, how in json.loads(told.read_text()).items():
            options = DiagnosisOptions(je_release=tuple(map(int, release.split("."))))
            found = diagnose(str(case / "env"), options)
            if (found.can_start == YES) != how["opened"]:
                wrong[f"{case.name} by {release}"] = found.verdict
    assert wrong == {}


def test_healthy_environments_are_clean() -> None:
    assert {str(env): found.verdict for env in HEALTHY if not (found := diagnose(str(env))).is_clean} == {}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("je-17/corrupt-middle", "yes, losing 3 commits"),
        ("je-17/restore-required", "no: restore marker 7fffffff.jdb, set for NETWORK_RESTORE"),
        ("je-17/torn-cut-mid", "yes"),
        ("je-17/ha-rollback", "yes"),
        ("je-6/dups", "yes"),
        ("je-26/txn-crash", "yes"),
    ],
)
def test_golden_environments(name: str, verdict: str) -> None:
    assert diagnose(str(GOLDEN / name)).verdict == verdict


def test_damage_that_opening_does_not_meet() -> None:
    found = diagnose(str(JE / "je-18.3.20/corrupt-before-range/env"))
    assert (found.can_start, found.is_clean) == (YES, False)
    assert found.verdict == "yes, but checksum mismatch in 00000000.jdb"
