"""``python -m tests.bench``: time jetool's log commands, beside JE's tools where they are at hand.

Without ``--env`` a log is generated in a temporary directory and removed afterwards. JE's tools run when
``--je-classpath`` (or JE_CLASSPATH) names jars or directories with JE's classes; DbPrintLog opens the environment
read-only, which may create a ``je.lck`` in it. Command lines of one case run in turn (ours, theirs, ours, theirs ...),
so that a busy moment meets all of them. The log is read once beforehand: figures are those of a log in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench import report
from tests.bench.cases import CASES, Case, our_words, their_words
from tests.bench.generate import generate
from tests.bench.measure import peak_bytes, run
from tests.bench.report import Figures, Log, Machine

_GOOD_CODES = (0,)


def main(args: Sequence[str] | None = None) -> int:
    """Run the whole of it; returns the exit code: 1 when a bound is not kept."""
    options = _parser().parse_args(args)
    cases = [case for case in CASES if not options.only or case.name in options.only]
    if options.env is not None:
        return _bench(options, options.env, cases)
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        made = generate(Path(directory), options.megabytes, replicated=options.replicated)
        print(f"generated {made.size_bytes / 1e6:.1f} MB, {made.transactions:,} transactions", file=sys.stderr)
        return _bench(options, Path(directory), cases)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--env", type=Path, metavar="DIR", help="environment to read instead of a generated one")
    parser.add_argument("--megabytes", type=float, default=320, help="size of the generated log  [default: 320]")
    parser.add_argument("--replicated", action="store_true", help="generate a log with VLSNs")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command line  [default: 5]")
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES], help="only this case")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _bench(options: argparse.Namespace, env: Path, cases: Sequence[Case]) -> int:
    log = _log(env)
    before = report.load()
    figures = [figure for case in cases for figure in _measure(case, str(env), options.runs, options.je_classpath)]
    java = report.java_version() if options.je_classpath else ""
    machine = Machine(
        os.cpu_count() or 1, report.cpu_model(), platform.python_version(), java, before, report.load()
    )  # fmt: skip
    table = report.rows(figures, log)
    print((report.as_json if options.json else report.as_text)(machine, log, table))
    return int(any(row["within"] is False for row in table))


def _log(env: Path) -> Log:
    """The size of a log by ``verify``, which reads every byte of it and so warms the page cache."""
    words = [sys.executable, "-m", "jetool", "verify", str(env), "--log", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in _GOOD_CODES:
        raise SystemExit(f"{env} is no clean log:\n{done.stdout}{done.stderr}")
    summary = json.loads(done.stdout)["summary"]
    return Log(str(env), summary["files"], summary["bytes"], summary["entries"])


def _measure(case: Case, env: str, runs: int, class_path: str) -> list[Figures]:
    lines = [(variant.name, our_words(variant, env), variant.bound, False) for variant in case.ours]
    if class_path and case.theirs:
        shown = " ".join(word.rpartition(".")[2] for word in case.theirs if word not in ("-h", "ENV"))
        lines.append((shown, their_words(case, env, class_path), None, True))
    done = [[] for _ in lines]  # type: ignore[var-annotated]
    for _ in range(runs):
        for (name, words, _, _), list_of_runs in zip(lines, done, strict=True):
            one = run(words)
            if one.code not in _GOOD_CODES:
                raise SystemExit(f"{name} ended with {one.code}: {' '.join(words)}")
            list_of_runs.append(one)
    return [
        Figures(case.name, name, theirs, tuple(made), peak_bytes(words), bound, case.reads_log)
        for (name, words, bound, theirs), made in zip(lines, done, strict=True)
    ]


if __name__ == "__main__":
    sys.exit(main())
