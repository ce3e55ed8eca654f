"""Our engine beside JE, sqlite3, ZODB and lmdb: the lines of ``store``, run in turn by every store that is at hand.

Rates are records per second of the median run. A bound is the least share of another store's rate that ours must reach:
half of JE's for reading, two fifths for transactional puts, all of it for recovery; and more than ZODB's on every line.
On one core JE's compiler and its collector take their time from the workload, as they do on a machine that has other
work: there the bound is all of JE's rate.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.builds import Build
from tests.bench.store import RECOVERIES, SMALL, SMALL_CACHE_BYTES

_HERE: Final = Path(__file__).parent
OURS: Final = "jetool"
JE: Final = "JE"
# What the process of an interpreter takes before it opens anything, and what a cache may take beyond its size.
_MEMORY_BOUND: Final = 1.3


class Line(NamedTuple):
    """A line.

    Attributes:
        name: as ``store`` has it.
        reads: the line whose environment it works on; its own when empty.
        stores: who has it.
        of_je: the least share of JE's rate; None for none.
    """

    name: str
    reads: str
    stores: tuple[str, ...]
    of_je: float | None


# Beside JE and sqlite3, those that are installed.
_INSTALLED: Final = ("ZODB", "lmdb")
_ALL: Final = (OURS, JE, "sqlite3", *_INSTALLED)
LINES: Final = (
    Line("put sequential", "", _ALL, 0.4),
    Line("put random", "", _ALL, 0.4),
    Line("put bulk", "", _ALL, None),
    Line("checkpoint", "", (OURS, JE), None),
    Line("get", "put random", _ALL, 0.5),
    Line("scan", "put random", _ALL, 0.5),
    Line("crash", "", (OURS, JE, "ZODB"), None),
    Line("recover", "crash", (OURS, JE, "ZODB"), 1.0),
    Line("small cache", "", (OURS,), None),
    Line("small recovery", "crash", (OURS,), None),
)
NAMES: Final = tuple(line.name for line in LINES if line.name != "crash")


class Contender(NamedTuple):
    """A store that is at hand: its name in the table, its name for ``store``, its command and environment."""

    label: str
    store: str
    words: tuple[str, ...]
    environ: Mapping[str, str]


def label(build: str) -> str:
    """What the table calls a build of ours."""
    return f"{OURS} ({build})"


def contenders(builds: Sequence[Build], class_path: str) -> list[Contender]:
    """Everybody who can take part."""
    script = (sys.executable, str(_HERE / "store.py"))
    found = [Contender(label(build.name), OURS, (*script, OURS), build.environ) for build in builds]
    if class_path:
        found.append(Contender(JE, JE, ("java", "-cp", class_path, str(_HERE / "JeStore.java")), {}))
    found.append(Contender("sqlite3", "sqlite3", (*script, "sqlite3"), {}))
    for name in _INSTALLED:
        if importlib.util.find_spec(name) is not None:
            found.append(Contender(name, name, (*script, name), {}))
    return found


def measure(
    taking_part: Sequence[Contender], names: Sequence[str], records: int, runs: int, *, one_core: bool = False
) -> list[dict[str, Any]]:
    """Run the lines; the result has one row per line and store.

    Arguments:
        one_core: the whole process is bound to one, and so is whatever it starts.
    """
    wanted = [line for line in LINES if line.name in names or any(line.name == _line(n).reads for n in names)]
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="jetool-stores-") as top:
        for _ in range(runs):
            for line in wanted:
                for one in taking_part:
                    if one.store in line.stores:
                        took = _run(one, line, Path(top), records)
                        sys.stderr.write(f"{line.name}, {one.label}: {took['wall_s']:.2f} s\n")
                        results.setdefault((line.name, one.label), []).append(took)
    rows = [
        _row(name, label, made) for (name, label), made in results.items() if name in names
    ]  # fmt: skip
    return [{**row, **judged(row, rows, one_core=one_core)} for row in rows]


def _line(name: str) -> Line:
    return next(line for line in LINES if line.name == name)


def _run(one: Contender, line: Line, top: Path, records: int) -> dict[str, float]:
    directory = top / f"{one.label}-{line.reads or line.name}".replace(" ", "_")
    if not line.reads:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
    where = directory
    if line.name in RECOVERIES:
        # Each run recovers the same log: on a copy.
        where = directory.with_name(directory.name + ".copy")
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(directory, where)
    words = [*one.words, line.name, str(where), str(records)]
    done = subprocess.run(words, env={**os.environ, **one.environ}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{one.label}, {line.name}: ended with {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if line.name != "crash" or one.store == "ZODB" else _nothing()


def _nothing() -> dict[str, float]:
    return {"wall_s": 0.0, "cpu_s": 0.0, "records": 0, "peak_bytes": 0}


def _row(name: str, label: str, runs: list[dict[str, float]]) -> dict[str, Any]:
    median = statistics.median(run["wall_s"] for run in runs)
    return {
        "line": name,
        "store": label,
        "median_s": round(median, 3),
        "cpu_s": round(min(run["cpu_s"] for run in runs), 3),
        "records": int(runs[0]["records"]),
        "per_s": round(runs[0]["records"] / median) if median else 0,
        "per_cpu_s": round(runs[0]["records"] / max(min(run["cpu_s"] for run in runs), 1e-9)),
        "peak_mb": round(max(run["peak_bytes"] for run in runs) / 1e6, 1),
    }


def judged(row: dict[str, Any], rows: list[dict[str, Any]], *, one_core: bool = False) -> dict[str, Any]:
    """Ratios to the others of the line, and whether the bounds are kept."""
    if not row["store"].startswith(OURS):
        return {"of_je": None, "least": None, "of_zodb": None, "within": None}
    peers = {peer["store"]: peer["per_s"] for peer in rows if peer["line"] == row["line"]}
    of_je = round(row["per_s"] / peers[JE], 2) if JE in peers else None
    of_zodb = round(row["per_s"] / peers["ZODB"], 2) if "ZODB" in peers else None
    bound = 1.0 if one_core and JE in _line(row["line"]).stores else _line(row["line"]).of_je
    verdicts = []
    if bound is not None and of_je is not None:
        verdicts.append(of_je >= bound)
    if of_zodb is not None:
        verdicts.append(of_zodb >= 1)
    if row["line"] in SMALL:
        verdicts.append(row["peak_mb"] * 1e6 <= SMALL_CACHE_BYTES * _MEMORY_BOUND)
    return {"of_je": of_je, "least": bound, "of_zodb": of_zodb, "within": all(verdicts) if verdicts else None}


def as_text(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    lines = [
        "",
        f"{'line':<16} {'store':<18} {'median s':>9} {'CPU s':>8} {'records/s':>11} {'peak MB':>8}"
        f" {'of JE':>6} {'least':>6} {'of ZODB':>8}",
    ]
    for row in rows:
        verdict = {None: "", True: "kept", False: "MISSED"}[row["within"]]
        lines.append(
            f"{row['line']:<16} {row['store']:<18} {row['median_s']:>9.3f} {row['cpu_s']:>8.3f} {row['per_s']:>11,}"
            f" {row['peak_mb'] or '':>8} {_shown(row['of_je']):>6} {_shown(row['least']):>6}"
            f" {_shown(row['of_zodb']):>8}"
            f"  {verdict}".rstrip()
        )
    return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
