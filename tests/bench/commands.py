"""``python -m tests.bench --commands``: command lines with their defaults, as a user types them.

No option is given that the command does not have by default, but what names the work (a key, a database, a source).
Logs are written by the engine or, with ``--writer JE``, by JE (``tests.bench.logs``): random transactions of one
record, once left as a crash leaves them (no checkpoint), once with a checkpoint at the end. Beside each command runs
JE's tool for the same job where there is one (``--je-classpath``): ``recover`` stands beside DbRunAction, which opens
the environment and takes a checkpoint, ``recover -n`` beside DbDump -l, which opens it to read. Commands that write get
a fresh copy before each run. A command whose peer JE does not have is measured alone. ``fleet verify`` runs where
pyspark is installed.

Generated logs go when the bench ends, unless ``--logs`` (or JETOOL_BENCH_LOGS) names a place to keep them.

With several sizes the last column says how the time grows: wall time per megabyte, against the next smaller log. A line
is run ``--runs`` times, and fewer where that takes longer than ``--seconds``; the table says how often it was.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tabulate import tabulate

from tests.bench import report
from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.bench.logs import DB, JE, JETOOL, Logs, logs_at, make
from tests.bench.measure import Run, peak_bytes, run_and_watch

_UTIL: Final = "com.sleepycat.je.util"
# Ended well, or with what a command finds: diff, dump-log after a crash.
_GOOD_CODES: Final = (0, 1)


class CommandLine(NamedTuple):
    """One line of the table.

    Attributes:
        name: what the table calls it.
        words: after ``jetool``; LOG, CRASHED, OTHER, COPY1, COPY2, CRASHED_COPY, NEW, KEY, DUMP stand for paths and
            values. Command lines apart by ``;`` run one after the other, and their times are added.
        theirs: JE's class and options for the same job, as ``words``; empty when there is none.
    """

    name: str
    words: str
    theirs: str = ""


LINES: Final = (
    CommandLine("recover (crashed)", "recover CRASHED_COPY", "DbRunAction -h CRASHED_COPY -a checkpoint"),
    CommandLine("recover -n (crashed)", "recover -n CRASHED", "DbDump -h CRASHED -l"),
    CommandLine("verify", "verify LOG", "DbVerifyLog -h LOG"),
    CommandLine("verify --full", "verify --full LOG", "DbVerify -q -h LOG ; DbVerifyLog -h LOG"),
    CommandLine("verify --full (crashed)", "verify --full CRASHED"),
    CommandLine("history", f"history LOG KEY --db {DB}"),
    CommandLine("get", f"get LOG KEY --db {DB}"),
    CommandLine("missing", "missing LOG"),
    CommandLine("rollbacks", "rollbacks LOG"),
    CommandLine("txns", "txns LOG"),
    CommandLine("dump-log", "dump-log LOG", "DbPrintLog -h LOG"),
    CommandLine("dump-log --format ndjson", "dump-log LOG --format ndjson"),
    CommandLine("dump-log --key", "dump-log LOG --key KEY"),
    CommandLine("diff (one record differs)", "diff LOG OTHER"),
    CommandLine("dbs --count", "dbs --count LOG", f"DbStat -h LOG -s {DB}"),
    CommandLine("vlsn range", "vlsn range LOG"),
    CommandLine("vlsn map", "vlsn map LOG", "DbPrintLog -h LOG -vd"),
    CommandLine("info", "info LOG"),
    CommandLine("info --quick", "info --quick LOG"),
    CommandLine("info (crashed)", "info CRASHED"),
    CommandLine("space", "space LOG", "DbSpace -h LOG"),
    CommandLine("space (crashed)", "space CRASHED"),
    CommandLine("doctor (crashed)", "doctor CRASHED"),
    CommandLine("scan", f"scan LOG --db {DB}", f"DbDump -h LOG -s {DB}"),
    CommandLine("load (a dump)", f"load NEW DUMP --db {DB} --create", f"DbLoad -h NEW -s {DB} -f DUMP"),
    CommandLine("fleet verify (four copies)", "fleet verify LOG OTHER COPY1 COPY2"),
    CommandLine("fleet verify (four, on Spark)", "fleet verify LOG OTHER COPY1 COPY2 --engine spark"),
    CommandLine("verify (four copies in turn)", "verify LOG ; verify OTHER ; verify COPY1 ; verify COPY2"),
)


def main(args: Sequence[str] | None = None) -> int:
    """Run the whole of it."""
    parser = _parser()
    options = parser.parse_args(args)
    if options.make:
        directory, records, class_path = options.make
        make(Path(directory), int(records), class_path)
        return 0
    if options.writer == JE and not options.je_classpath:
        parser.error("--writer JE: name JE's classes with --je-classpath")
    before = report.load()
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        found = builds((options.build,) if options.build else (NATIVE, PURE), Path(directory) / "build")
        table: list[dict[str, Any]] = []
        for megabytes in sorted(options.sizes):
            kept = Path(options.logs or directory) / f"{megabytes:g}{'-je' if options.writer == JE else ''}"
            made = logs_at(kept, megabytes, options.writer, found[0], options.je_classpath)
            logs = Logs(made=made, log=options.env or made / "log", scratch=Path(directory) / "copies")
            measured = [one for one in found if one.name == NATIVE or megabytes <= (options.pure_mb or megabytes)]
            with_je = bool(options.je_classpath) and (options.je_mb is None or megabytes <= options.je_mb)
            table += _rows(options, logs, measured, with_je=with_je)
            if not options.logs:
                shutil.rmtree(made)
    java = report.java_version() if options.je_classpath else ""
    machine = {
        "cores": os.cpu_count() or 1, "cpu": report.cpu_model(), "java": java, "load_before": round(before, 1),
        "load_after": round(report.load(), 1),
    }  # fmt: skip
    _grow(table)
    print(json.dumps({"machine": machine, "lines": table}, indent=2) if options.json else as_text(machine, table))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench --commands", description=__doc__)
    parser.add_argument("--env", type=Path, metavar="DIR", help="log to read instead of a generated one")
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[300.0], metavar="MB", help="sizes of the logs  [default: 300]"
    )
    parser.add_argument("--writer", choices=(JETOOL, JE), default=JETOOL, help="who writes the logs  [default: jetool]")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command line  [default: 5]")
    parser.add_argument(
        "--seconds", type=float, default=600.0, metavar="S", help="no more runs of a line after that  [default: 600]"
    )
    parser.add_argument("--pure-mb", type=float, metavar="MB", help="the pure build on logs up to that size only")
    parser.add_argument("--je-mb", type=float, metavar="MB", help="JE's tools on logs up to that size only")
    parser.add_argument(
        "--logs",
        type=Path,
        default=os.environ.get("JETOOL_BENCH_LOGS"),
        metavar="DIR",
        help="keep logs there, each size in a directory of its own, and take those that are there",
    )
    parser.add_argument("--build", choices=(NATIVE, PURE), help="only this build  [default: both]")
    names = [line.name for line in LINES]
    parser.add_argument("--only", action="append", choices=names, help="only this line; repeat for more")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--make", nargs=3, metavar=("DIR", "RECORDS", "PATH"), help=argparse.SUPPRESS)
    return parser


class _Contender(NamedTuple):
    build: str
    lines: list[list[str]]
    environ: Mapping[str, str]


def _rows(
    options: argparse.Namespace, logs: Logs, found: Sequence[Build], *, with_je: bool
) -> Iterator[dict[str, Any]]:
    for line in LINES:
        if options.only and line.name not in options.only:
            continue
        if line.words.startswith("fleet") and importlib.util.find_spec("pyspark") is None:
            continue
        ours = [[sys.executable, "-m", "jetool", *logs.placed(words)] for words in line.words.split(";")]
        contenders = [_Contender(build.name, ours, build.environ) for build in found]
        if with_je and line.theirs:
            tools = [logs.placed(words) for words in line.theirs.split(";")]
            theirs = [["java", "-cp", options.je_classpath, f"{_UTIL}.{tool}", *rest] for tool, *rest in tools]
            contenders.append(_Contender(JE, theirs, {}))
        # Of a large log without a native build there may be none.
        if contenders:
            yield from _measured(line, logs, contenders, options.runs, options.seconds)


def _measured(
    line: CommandLine, logs: Logs, contenders: Sequence[_Contender], runs: int, seconds: float
) -> Iterator[dict[str, Any]]:
    done: list[list[Run]] = [[] for _ in contenders]
    peaks: list[list[int | None]] = [[] for _ in contenders]
    began = time.perf_counter()
    # In turn, so that a busy moment meets all of them.
    while len(done[0]) < runs and (not done[0] or time.perf_counter() - began < seconds):
        for contender, made, seen in zip(contenders, done, peaks, strict=True):
            logs.prepare(line.words, theirs=contender.build == JE)
            each = [run_and_watch(words, contender.environ) for words in contender.lines]
            for words, (one, _) in zip(contender.lines, each, strict=True):
                if one.code not in _GOOD_CODES:
                    raise SystemExit(f"{line.name} ended with {one.code}: {' '.join(words)}")
            made.append(Run(sum(one.wall_s for one, _ in each), sum(one.cpu_s for one, _ in each), each[-1][0].code))
            seen += [peak for _, peak in each]
    theirs = statistics.median(one.wall_s for one in done[-1]) if contenders[-1].build == JE else None
    for contender, made, seen in zip(contenders, done, peaks, strict=True):
        known = [peak for peak in seen if peak is not None]
        if not known:
            logs.prepare(line.words, theirs=contender.build == JE)
            known = [peak_bytes(words, contender.environ) for words in contender.lines]
        wall = statistics.median(one.wall_s for one in made)
        yield {
            "line": line.name,
            "build": contender.build,
            "megabytes": round(logs.size_bytes / 1e6, 1),
            "wall_s": round(wall, 2),
            "cpu_s": round(statistics.median(one.cpu_s for one in made), 2),
            "peak_mb": round(max(known) / 1e6),
            "runs": len(made),
            "of_je": None if theirs is None or contender.build == JE else round(wall / theirs, 2),
        }


def _grow(table: list[dict[str, Any]]) -> None:
    """Add how wall time per megabyte grows against the next smaller log."""
    smaller: dict[tuple[str, str], float] = {}
    for row in table:
        rate, name = row["wall_s"] / row["megabytes"], (row["line"], row["build"])
        row["growth"] = round(rate / smaller.get(name, rate), 2) if rate and smaller.get(name, rate) else None
        smaller[name] = rate


def as_text(machine: Mapping[str, Any], table: Sequence[Mapping[str, Any]]) -> str:
    """The figures of all builds and sizes as a table."""
    head = [
        f"{machine['cores']} cores, {machine['cpu']}; {machine['java'] or 'no Java'}",
        f"load {machine['load_before']} before, {machine['load_after']} after; medians",
    ]
    columns = {
        "line": "command", "build": "build", "megabytes": "MB", "wall_s": "wall s", "cpu_s": "CPU s",
        "peak_mb": "peak MB", "runs": "runs", "of_je": "of JE",
        "growth": "growth",
    }  # fmt: skip
    rows = [[row[name] for name in columns] for row in table]
    return "\n".join([*head, "", tabulate(rows, list(columns.values()), tablefmt="plain")])


def as_markdown(table: Sequence[Mapping[str, Any]]) -> str:
    """What the README shows: the native build beside JE's tools, on the largest log that they were measured on."""
    most = max((row["megabytes"] for row in table if row["build"] == JE), default=0)
    found = {(row["line"], row["build"]): row for row in table if row["megabytes"] == most}
    rows = []
    for name in dict.fromkeys(row["line"] for row in table):
        ours, theirs = found.get((name, NATIVE)), found.get((name, JE))
        if ours is not None and theirs is not None:
            seconds = (f"{value:.1f}" for value in (ours["wall_s"], theirs["wall_s"], ours["cpu_s"], theirs["cpu_s"]))
            rows.append([f"`{name}`", *seconds, ours["peak_mb"], theirs["peak_mb"]])
    caption = (
        f"Command lines with their defaults on a log of {most:.0f} MB, native build, beside JE's tool for the same job,"
        " in one run ([all figures](engine/doc/performance.md)):"
    )
    columns = ["command", "s", "JE, s", "CPU s", "JE, CPU s", "peak MB", "JE, peak MB"]
    return f"{caption}\n\n{tabulate(rows, columns, tablefmt='github', disable_numparse=True)}"
