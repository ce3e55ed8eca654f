"""Which test shows which worked example or scenario of the description of JE's behaviour.

A test names what it shows in its docstring (``T-33``, ``E-CKPT-4``); ``ALSO`` adds tests that name rules only.

    python -m tests.scenarios.table     prints the table
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
_NAME: Final = re.compile(r"\b(?:T-\d+|E-(?:CKPT|REC|RB|VLSN)-\d+)\b")
_RANGE: Final = re.compile(r"\b(T-|E-(?:CKPT|REC|RB|VLSN)-)(\d+) to \1(\d+)\b")


def _ids(prefix: str, *ranges: tuple[int, int]) -> list[str]:
    return [f"{prefix}{number}" for first, last in ranges for number in range(first, last + 1)]


REQUIRED: Final = [
    *_ids("E-CKPT-", (1, 6)),
    *_ids("E-REC-", (1, 3)),
    *_ids("E-RB-", (1, 4)),
    *_ids("E-VLSN-", (1, 5)),
    *_ids("T-", (1, 57), (60, 80), (82, 82), (88, 89)),
]

# Tests that show a scenario and name its rules only, and helpers of several tests.
ALSO: Final[dict[str, tuple[str, ...]]] = {
    "E-RB-4": (
        "txn/test_chain.py::test_whole_chain",
        "txn/test_chain.py::test_chain_with_the_matchpoint_inside",
    ),
    "T-55": (
        "log/test_reader_edges.py::test_any_window_gives_the_same_entries",
        "log/test_reader_edges.py::test_entries_larger_than_the_window",
    ),
    "T-57": ("log/test_resync.py::test_commits_behind_damage_are_counted",),
    "T-60": ("log/test_every_flip.py::test_every_flip_is_found_where_it_is",),
    "T-64": ("log/test_reader_edges.py::test_invisible_entries_are_read_and_listed",),
    "T-65": (
        "log/test_group_commit.py::test_during_an_fsync_entries_are_kept_back_and_can_be_read",
        "log/test_group_commit.py::test_a_full_queue_is_written_by_who_fills_it",
        "log/test_group_commit.py::test_without_a_queue_a_full_buffer_is_written_at_once",
        "log/test_group_commit.py::test_who_needs_the_bytes_in_the_file_gets_them_there",
        "log/test_writer.py::test_reads_find_what_is_still_in_the_buffer",
    ),
    "T-66": ("log/test_group_commit.py::test_a_leader_waits_until_its_group_is_complete",),
    "T-67": (
        "db/test_daemons.py::test_the_flusher_writes_out_and_syncs_what_has_committed",
        "db/test_daemons.py::test_what_the_flusher_has_synced_survives_a_crash",
        "db/test_daemons.py::test_parameters_in_je_properties",
    ),
    "T-70": (
        "log/test_log_files.py::test_hexadecimal_order_and_gaps",
        "log/test_reader_edges.py::test_shorter_than_a_header",
    ),
}


def table() -> dict[str, list[str]]:
    """Example or scenario → the tests that show it, in the order of the files."""
    found: dict[str, list[str]] = {name: [] for name in REQUIRED}
    for test, text in _tests():
        for name in sorted(_named(text)):
            if name in found:
                found[name].append(test)
    known = {test for test, _ in _tests()}
    for name, tests in ALSO.items():
        found[name] += [test for test in tests if test in known and test not in found[name]]
    return found


def lost() -> list[str]:
    """Entries of ``ALSO`` whose test there is not."""
    known = {test for test, _ in _tests()}
    return [test for tests in ALSO.values() for test in tests if test not in known]


def markdown() -> str:
    """The table."""
    lines = [
        "# Worked examples and scenarios",
        "",
        "The names are those of je-behaviour.md 4.6, 5.9, 6.6, 8 and 12 (engine/doc).",
        "A test fails when one of them has no test.",
        "",
        "| name | tests |",
        "| --- | --- |",
    ]
    for name, tests in table().items():
        by_file: dict[str, list[str]] = {}
        for test in tests:
            file, _, function = test.partition("::")
            by_file.setdefault(file, []).append(f"`{function.removeprefix('test_')}`")
        lines.append(f"| {name} | {'; '.join(f'{file}: ' + ', '.join(names) for file, names in by_file.items())} |")
    return "\n".join(lines) + "\n"


def _named(text: str) -> set[str]:
    names = set(_NAME.findall(text))
    for prefix, first, last in _RANGE.findall(text):
        names |= {f"{prefix}{number}" for number in range(int(first), int(last) + 1)}
    return names


def _tests() -> Iterator[tuple[str, str]]:
    """Every test function with what its docstring says."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(TESTS)}::{node.name}", ast.get_docstring(node) or ""


if __name__ == "__main__":
    sys.stdout.write(markdown())
