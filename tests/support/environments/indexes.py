"""VLSN indexes as JE printed them."""

from __future__ import annotations

from pathlib import Path

from engine.format.lsn import parse_lsn


def index_lsns(environment: Path) -> dict[int, int]:
    """Every VLSN with the LSN of its visible entry, from JE."""
    lines = (environment / "expected/vlsn-lsn.csv").read_text().splitlines()[1:]
    return {int(vlsn): parse_lsn(lsn) for vlsn, lsn, *_ in (line.split(",") for line in lines)}
