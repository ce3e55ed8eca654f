"""``engine/doc/performance.md``, written by the benches: ``python -m tests.bench.document [SECTION ...]``.

The document is prose with places for figures. A place is a pair of comments; what stands between them is the output of
one bench, as it printed it, with the command line, the day and the machine::

    <!-- bench: vlsn-index -->
    ...
    <!-- end of bench -->

Without a section all of them are measured, some an hour on a quiet machine. JE takes part where
``--je-classpath`` (or JE_CLASSPATH) names its classes; a section of logs that JE writes is skipped without them. A
section whose bench misses a bound is written all the same: it says MISSED.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.bench import commands
from tests.bench.logs import JE
from tests.bench.report import cpu_model, java_version

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = REPOSITORY / "engine" / "doc" / "performance.md"
README: Final = REPOSITORY / "README.md"
_COMMAND_LINES: Final = "command-lines"
# Lines of a crashed log, and of one that is read in key order: apart from the large logs, whose four copies take the
# memory that keeps files.
_OF_CRASHED: Final = (
    "recover -n (crashed)", "verify --full (crashed)", "space (crashed)", "doctor (crashed)", "scan",
)  # fmt: skip
# Section to the words after ``python -m``; JE_CLASSPATH travels in the environment.
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "commands": ("tests.bench", "--megabytes", "100", "--records", "200000", "--runs", "3", "--store-runs", "1"),
    "one-core": ("tests.bench", "--one-core", "--build", "native", "--records", "200000", "--store-runs", "3"),
    _COMMAND_LINES: (
        *("tests.bench", "--commands", "--writer", "JE", "--sizes", "300"),
        *("--seconds", "30"),
    ),
    "jetool-logs": (
        *("tests.bench", "--commands", "--sizes", "300"),
        *("--build", "native", "--seconds", "5", "--je-mb", "0"),
    ),
    "large-logs": (
        *("tests.bench", "--commands", "--writer", "JE", "--sizes", "300", "1000", "3000"),
        *("--build", "native", "--seconds", "60", "--je-mb", "0"),
    ),
    "crashed-logs": (
        *("tests.bench", "--commands", "--writer", "JE", "--sizes", "300", "1000", "3000"),
        *("--build", "native", "--seconds", "60", "--je-mb", "0"),
        *(word for name in _OF_CRASHED for word in ("--only", name)),
    ),
    "bulk-load": ("tests.bench.load", "--records", "1000000"),
    "bulk-load-ascending": ("tests.bench.load", "--records", "1000000", "--order", "ascending"),
    "spark": ("tests.bench.spark",),
    "vlsn-index": ("tests.bench.vlsn_index",),
    "journals": ("tests.bench.journals",),
    "backups": ("tests.bench.backups",),
    "rescue": ("tests.bench.rescue", "--build", "native"),
    "replication": ("tests.bench.replication",),
    "je-groups": ("tests.bench.je_groups",),
    "stream": ("tests.bench.stream",),
    "growth": ("tests.bench.cleaner",),
    "derby": ("tests.bench.derby", "--build", "native"),
    "memory": ("tests.bench.memory",),
}
# Ended well, or with a bound that was missed.
_MEASURED: Final = (0, 1)


def main(args: Sequence[str] | None = None) -> int:
    """Measure the sections that are asked for and write them; returns the exit code."""
    parser = argparse.ArgumentParser("python -m tests.bench.document", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}  [default: all]")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    options = parser.parse_args(args)
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}: there are {', '.join(SECTIONS)}")
    for name in options.sections or SECTIONS:
        words = SECTIONS[name]
        if JE in words and not options.je_classpath:
            sys.stderr.write(f"{name} is left as it is: JE writes its logs; name JE's classes with --je-classpath\n")
            continue
        environ = {**os.environ, "JE_CLASSPATH": options.je_classpath}
        done = subprocess.run(
            [sys.executable, "-m", *words, *(["--json"] if name == _COMMAND_LINES else [])],
            cwd=REPOSITORY,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in _MEASURED:
            sys.stderr.write(done.stderr)
            return done.returncode
        output = done.stdout
        if name == _COMMAND_LINES:
            # The README has a table of the same run.
            measured = json.loads(output)
            output = commands.as_text(measured["machine"], measured["lines"])
            README.write_text(replaced(README.read_text(), name, commands.as_markdown(measured["lines"])))
        DOCUMENT.write_text(replaced(DOCUMENT.read_text(), name, figures(words, output, options.je_classpath)))
    return 0


def figures(words: Sequence[str], output: str, class_path: str) -> str:
    """What stands in a section: the command line, where and when it ran, and what it printed."""
    java = f"; {java_version()}" if class_path else ""
    where = f"{os.cpu_count()} cores, {cpu_model()}; CPython {platform.python_version()}{java}"
    return f"`python -m {shlex.join(words)}`, {datetime.now(UTC):%Y-%m-%d}, {where}:\n\n```text\n{output.strip()}\n```"


def replaced(document: str, name: str, text: str) -> str:
    """The document with other figures in one section. KeyError when it has no place for them, or two."""
    place = re.compile(rf"(<!-- bench: {re.escape(name)} -->\n).*?(<!-- end of bench -->)", re.DOTALL)
    made, count = place.subn(lambda found: f"{found[1]}{text}\n{found[2]}", document)
    if count != 1:
        raise KeyError(name)
    return made


if __name__ == "__main__":
    sys.exit(main())
