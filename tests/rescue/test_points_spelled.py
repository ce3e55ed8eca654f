"""Points as text."""

from __future__ import annotations

import pytest

from engine.rescue.points import parse_point, spell_point

POINTS = (
    "lsn:0x1f/0x2a3c", "vlsn:17", "time:2026-11-21T14:01:01.250000+00:00", "txn:-12", "commits:-3", "matchpoint",
)  # fmt: skip


@pytest.mark.parametrize("text", POINTS)
def test_a_point_is_spelled_as_it_is_parsed(text: str) -> None:
    assert spell_point(parse_point(text)) == text
    assert parse_point(spell_point(parse_point(text))) == parse_point(text)
