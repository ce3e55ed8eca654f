"""``python -m tests.bench``: time jetool, beside JE and other stores where they are at hand.

Two tables: the log commands beside JE's tools (``cases``), and the engine beside JE, sqlite3, ZODB and lmdb
(``stores``). Both are made for the native build, as ``pip install .`` makes it where there is a C compiler, and for the
pure code. Each row of ours that has a bound says whether it is kept. With everything at hand, some 20 minutes:

    python -m tests.bench --je-classpath /path/to/je/classes

Without ``--env`` a log is generated in a temporary directory and removed afterwards. JE's tools run when
``--je-classpath`` (or JE_CLASSPATH) names jars or directories with JE's classes; DbPrintLog opens the environment
read-only, which may create a ``je.lck`` in it. Command lines of one case run in turn (ours, theirs, ours, theirs ...),
so that a busy moment meets all of them. The log is read once beforehand: figures are those of a log in the page cache.

With ``--commands`` other command lines are timed, as a user types them: see ``tests.bench.commands``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench import commands, report, stores
from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.bench.cases import CASES, Case, our_words, their_words
from tests.bench.generate import generate
from tests.bench.measure import Run, peak_bytes, run
from tests.bench.report import Figures, Log, Machine

_GOOD_CODES = (0,)
_COMMANDS = "--commands"


def main(args: Sequence[str] | None = None) -> int:
    """Run the whole of it; returns the exit code: 1 when a bound is not kept."""
    words = sys.argv[1:] if args is None else list(args)
    if _COMMANDS in words:
        return commands.main([word for word in words if word != _COMMANDS])
    options = _parser().parse_args(words)
    cases = [case for case in CASES if not options.only or case.name in options.only]
    lines = [name for name in stores.NAMES if not options.only or name in options.only]
    if options.one_core:
        cases = []
        # Whatever is started from here on inherits it.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        made = Path(directory)
        found = builds((options.build,) if options.build else (NATIVE, PURE), made / "build")
        if options.env is None and cases:
            log = generate(made, options.megabytes, replicated=options.replicated)
            print(f"generated {log.size_bytes / 1e6:.1f} MB, {log.transactions:,} transactions", file=sys.stderr)
        return _bench(options, options.env or made, cases, lines, found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--env", type=Path, metavar="DIR", help="environment to read instead of a generated one")
    parser.add_argument("--megabytes", type=float, default=320, help="size of the generated log  [default: 320]")
    parser.add_argument("--replicated", action="store_true", help="generate a log with VLSNs")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command line  [default: 5]")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the stores  [default: 1000000]")
    parser.add_argument("--store-runs", type=int, default=3, help="runs of each line of the stores  [default: 3]")
    parser.add_argument("--build", choices=(NATIVE, PURE), help="only this build  [default: both]")
    names = [*(case.name for case in CASES), *stores.NAMES]
    parser.add_argument("--only", action="append", choices=names, help="only this case or line; repeat for more")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    parser.add_argument("--one-core", action="store_true", help="the stores only, all of them on one core (Linux)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(_COMMANDS, action="store_true", help="time command lines with their defaults instead")
    return parser


def _bench(
    options: argparse.Namespace, env: Path, cases: Sequence[Case], lines: Sequence[str], found: Sequence[Build]
) -> int:
    before = report.load()
    log = _log(env, found[0]) if cases else None
    figures = [
        figure for case in cases for figure in _measure(case, str(env), options.runs, options.je_classpath, found)
    ]
    taking_part = stores.contenders(found, options.je_classpath)
    rated = (
        stores.measure(taking_part, lines, options.records, options.store_runs, one_core=options.one_core)
        if lines
        else []
    )
    java = report.java_version() if options.je_classpath else ""
    machine = Machine(
        os.cpu_count() or 1, report.cpu_model(), platform.python_version(), java, before, report.load()
    )  # fmt: skip
    table = report.rows(figures, log) if log is not None else []
    print((report.as_json if options.json else report.as_text)(machine, log, table, rated))
    # What pip installs here has to keep the bounds; the pure code beside it shows what it reaches.
    installed = (found[0].name, stores.label(found[0].name))
    judged = [row for row in [*table, *rated] if row.get("build", row.get("store")) in installed]
    return int(any(row["within"] is False for row in judged))


def _log(env: Path, build: Build) -> Log:
    """The size of a log by ``verify``, which reads every byte of it and so warms the page cache."""
    words = [sys.executable, "-m", "jetool", "verify", str(env), "--log", "--json"]
    done = subprocess.run(words, env={**os.environ, **build.environ}, capture_output=True, text=True, check=False)
    if done.returncode not in _GOOD_CODES:
        raise SystemExit(f"{env} is no clean log:\n{done.stdout}{done.stderr}")
    summary = json.loads(done.stdout)["summary"]
    return Log(str(env), summary["files"], summary["bytes"], summary["entries"])


class _Line(NamedTuple):
    """One command line to be run: what the table calls it, and whose it is."""

    name: str
    build: str
    words: list[str]
    bound: float | None
    theirs: bool
    environ: Mapping[str, str]


def _measure(case: Case, env: str, runs: int, class_path: str, found: Sequence[Build]) -> list[Figures]:
    lines = [
        _Line(variant.name, build.name, our_words(variant, env), variant.bound, False, build.environ)
        for build in found
        for variant in case.ours
    ]
    if class_path and case.theirs:
        shown = " ".join(word.rpartition(".")[2] for word in case.theirs if word not in ("-h", "ENV"))
        lines.append(_Line(shown, "", their_words(case, env, class_path), None, True, {}))
    done: list[list[Run]] = [[] for _ in lines]
    for _ in range(runs):
        for line, list_of_runs in zip(lines, done, strict=True):
            one = run(line.words, line.environ)
            if one.code not in _GOOD_CODES:
                raise SystemExit(f"{line.name} ended with {one.code}: {' '.join(line.words)}")
            list_of_runs.append(one)
    return [
        Figures(
            case.name, line.name, line.build, line.theirs, tuple(made), peak_bytes(line.words, line.environ),
            line.bound, case.reads_log,
        )
        for line, made in zip(lines, done, strict=True)
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
