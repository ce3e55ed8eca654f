"""CHANGELOG.md: newest first, one line an entry, kinds of Keep a Changelog."""

from __future__ import annotations

import re

from tests.support.harness import REPOSITORY

LINES = (REPOSITORY / "CHANGELOG.md").read_text().splitlines()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_newest_first() -> None:
    days = [line.removeprefix("## ") for line in LINES if line.startswith("## ")]
    assert len(days) > 1
    assert days == sorted(set(days), reverse=True)


def test_an_entry_is_one_line() -> None:
    body = LINES[next(at for at, line in enumerate(LINES) if line.startswith("## ")) :]
    assert [line for line in body if line and not re.match(r"#{2,3} |- ", line)] == []
    assert [line for line in body if len(line) > 120] == []


def test_kinds_are_those_of_keep_a_changelog() -> None:
    assert {line.removeprefix("### ") for line in LINES if line.startswith("### ")} <= KINDS
