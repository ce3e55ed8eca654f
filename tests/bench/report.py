"""The figures of a run, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import stores
from tests.bench.measure import Run


class Machine(NamedTuple):
    """Where it ran."""

    cores: int
    cpu: str
    python: str
    java: str
    load_before: float
    load_after: float


class Log(NamedTuple):
    """What was read."""

    path: str
    files: int
    size_bytes: int
    entries: int


class Figures(NamedTuple):
    """One command line.

    Attributes:
        case, name: which one; ``name`` of JE's tools is their class and options.
        build: of jetool; "" for JE's tools.
        theirs: it is JE's.
        runs: in order.
        peak_bytes: memory of the process tree.
        bound: of the case; None when there is none.
        reads_log: rates say something.
    """

    case: str
    name: str
    build: str
    theirs: bool
    runs: tuple[Run, ...]
    peak_bytes: int
    bound: float | None
    reads_log: bool

    @property
    def best_s(self) -> float:
        """Least wall time."""
        return min(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        """Least CPU time."""
        return min(run.cpu_s for run in self.runs)


def rows(figures: Sequence[Figures], log: Log) -> list[dict[str, Any]]:
    """The figures as plain values; ratios are to JE's tool of the same case, by wall and by CPU time."""
    peers = {figure.case: figure for figure in figures if figure.theirs}
    return [_row(figure, peers.get(figure.case), log) for figure in figures]


def _row(figure: Figures, peer: Figures | None, log: Log) -> dict[str, Any]:
    best = figure.best_s
    compared = peer if not figure.theirs else None
    ratio = best / compared.best_s if compared is not None else None
    return {
        "case": figure.case,
        "command": figure.name,
        "build": figure.build,
        "peer": figure.theirs,
        "best_s": round(best, 3),
        "median_s": round(statistics.median(run.wall_s for run in figure.runs), 3),
        "cpu_s": round(figure.cpu_s, 3),
        "peak_mb": round(figure.peak_bytes / 1e6, 1),
        "mb_per_s": round(log.size_bytes / 1e6 / best, 1) if figure.reads_log else None,
        "entries_per_s": round(log.entries / best) if figure.reads_log else None,
        "wall_ratio": None if ratio is None else round(ratio, 2),
        "cpu_ratio": round(figure.cpu_s / compared.cpu_s, 2) if compared is not None else None,
        "bound": figure.bound,
        "within": _within(figure, ratio),
        "runs": [[round(run.wall_s, 3), round(run.cpu_s, 3)] for run in figure.runs],
    }


def _within(figure: Figures, ratio: float | None) -> bool | None:
    """Whether the bound is kept; a bound in seconds belongs to what has no peer at all."""
    if figure.bound is None:
        return None
    if ratio is not None:
        return ratio <= figure.bound
    return None if figure.reads_log else figure.best_s <= figure.bound


def as_json(machine: Machine, log: Log | None, table: list[dict[str, Any]], rated: list[dict[str, Any]]) -> str:
    """One JSON value."""
    about = log._asdict() if log is not None else None
    return json.dumps({"machine": machine._asdict(), "log": about, "figures": table, "stores": rated}, indent=2)


def as_text(machine: Machine, log: Log | None, table: list[dict[str, Any]], rated: list[dict[str, Any]]) -> str:
    """Tables for people."""
    head = [
        f"{machine.cores} cores, {machine.cpu}; Python {machine.python}; {machine.java or 'no Java'}",
        f"load {machine.load_before:.1f} before, {machine.load_after:.1f} after",
    ]
    parts = [*head]
    if log is not None:
        parts.append(_commands(log, table))
    if rated:
        parts.append(stores.as_text(rated))
    return "\n".join(parts)


def _commands(log: Log, table: list[dict[str, Any]]) -> str:
    lines = [
        f"{log.path}: {log.size_bytes / 1e6:.1f} MB, {log.files} files, {log.entries:,} entries",
        "",
        f"{'command':<46} {'best s':>7} {'median':>7} {'CPU s':>7} {'peak MB':>8} {'MB/s':>7} {'entries/s':>11}"
        f" {'of JE':>6} {'by CPU':>7}  {'at most':<8}",
    ]
    for row in table:
        name = f"  {row['command']}" if row["peer"] else f"{row['command']} ({row['build']})"
        verdict = {None: "", True: "kept", False: "MISSED"}[row["within"]]
        lines.append(
            f"{name:<46} {row['best_s']:>7.3f} {row['median_s']:>7.3f} {row['cpu_s']:>7.3f} {row['peak_mb']:>8.1f}"
            f" {_shown(row['mb_per_s']):>7} {_shown(row['entries_per_s']):>11} {_shown(row['wall_ratio']):>6}"
            f" {_shown(row['cpu_ratio']):>7}  {_shown(row['bound'])} {verdict}".rstrip()
        )
    return "\n".join(lines)


def _shown(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def load() -> float:
    """Processes that ran or waited to run, average of the last minute."""
    return os.getloadavg()[0]


def cpu_model() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def java_version() -> str:
    """What ``java -version`` says first."""
    try:
        found = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stderr.partition("\n")[0].strip()
