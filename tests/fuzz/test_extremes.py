"""Every number of every type of entry at its extremes: all commands that read, and ``recover -n``, within limits.

``tests.support.damage.extremes`` runs in processes of its own, with 2 GiB of address space and 30 s of CPU time for a
case. CI takes a sample; the whole run is slow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.format.header import entry_checksum
from jetool.frame import exits
from tests.support.damage.extremes import Case, cases, environments, write_case
from tests.support.harness import run
from tests.support.logs.golden_logs import GOLDEN, open_bytes

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 30
# Each environment of the sample, cases at most and seconds at most.
SAMPLE = ("je-6/empty", "je-15/ha-rollback", "je-17/ha-rollback", "je-17/empty", "je-26/blind", "je-26/empty")
SAMPLE_CASES, SAMPLE_S = 45, 6
SHARES = 4


def forged(name: str, *numbers: float) -> dict[str, Any]:
    """Run a share of the cases of an environment; what the worker says at its end."""
    words = [sys.executable, "-m", "tests.support.damage.extremes", name, *map(str, numbers)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [line for line in lines if "failed" in line and "end" not in line]
    assert not failed, failed[:3]
    # A worker that a limit has ended did not come to its last line; the case before that is to blame.
    assert lines, done.stderr[-2000:]
    assert "end" in lines[-1], (done.returncode, lines[-1], done.stderr[-2000:])
    return dict(lines[-1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample(name: str) -> None:
    assert forged(name, SEED, 0, 1, SAMPLE_CASES, SAMPLE_S)["ran"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", environments())
def test_the_whole(name: str, share: int) -> None:
    end = forged(name, SEED, share, SHARES, 0, 0)
    assert end["ran"] == len(range(share, end["of"], SHARES))


def test_cases_cover_every_number_of_a_log(tmp_path: Path) -> None:
    found = cases(GOLDEN / "je-17/ha-rollback")
    fields = {(case.type_name, case.field) for case in found}
    assert {
        ("CkptEnd", "first_active_lsn"), ("Commit", "last_lsn"), ("BIN", "max_entries"), ("BIN", "slots.0.lsn"),
        ("FileSummaryLN", "content.summary.total_size"), ("Commit", "vlsn"), ("DbTree", "naming_db.flags"),
    } <= fields  # fmt: skip
    assert {"data.VLSNRangeRecord.last", "data.VLSNBucketRecord.last_vlsn", "data.RepGroup.last_node_id"} <= {
        field for _, field in fields
    }
    assert all(entry_checksum(case.raw, case.version) == int.from_bytes(case.raw[:4], "little") for case in found)
    case: Case = next(case for case in found if case.appended and case.type_name == "Commit")
    env = tmp_path / "env"
    env.mkdir()
    (env / "00000000.jdb").write_bytes((GOLDEN / "je-17/ha-rollback/00000000.jdb").read_bytes())
    write_case(env, case)
    assert list(open_bytes((env / "00000000.jdb").read_bytes()).entries())[-1].type_number == case.raw[4]


# Environment, type and field, value, command: each ended in an internal error, or took all memory.
MENDED = (
    ("je-17/ha-rollback", "Commit", "vlsn", 1 << 40, ("verify", "--full")),
    ("je-17/ha-rollback", "Commit", "vlsn", (1 << 63) - 1, ("vlsn check",)),
    ("je-17/ha-rollback", "Commit", "vlsn", (1 << 63) - 1, ("vlsn buckets",)),
    ("je-17/empty", "IN", "max_entries", 0, ("recover", "-n")),
    ("je-17/empty", "IN", "max_entries", -(1 << 31), ("recover", "-n")),
    ("je-17/empty", "IN", "base_file", -(1 << 31), ("recover", "-n")),
    ("je-17/empty", "FileSummaryLN", "content.summary.total_size", (1 << 31) - 1, ("recover", "-n")),
    ("je-6/empty", "FileSummaryLN", "content.summary.obsolete_ln_count", (1 << 31) - 1, ("recover", "-n")),
    ("je-17/txn-crash", "UPD_LN_TX", "prior_size", (1 << 32) - 1, ("recover", "-n")),
    ("je-17/txn-crash", "FileSummaryLN", "content.summary.obsolete_in_count", -(1 << 31), ("space",)),
    ("je-17/empty", "DbTree", "naming_db.flags", 255, ("recover", "-n")),
    ("je-15/ha-rollback", "MapLN", "content.database.flags", 255, ("verify", "--full")),
    ("je-15/ha-rollback", "MapLN", "content.database.flags", 255, ("recover", "-n")),
    ("je-15/ha-rollback", "NameLN_TX", "content.db_id", (1 << 63) - 1, ("recover", "-n")),
    ("je-26/times", "NameLN_TX", "db_id", (1 << 63) - 1, ("txns",)),
)


@pytest.mark.parametrize(("name", "type_name", "field", "value", "command"), MENDED)
def test_what_ended_as_a_bug(
    name: str, type_name: str, field: str, value: int, command: tuple[str, ...], tmp_path: Path
) -> None:
    chosen = [
        case for case in cases(GOLDEN / name) if (case.type_name, case.field, case.value) == (type_name, field, value)
    ]
    assert chosen
    for number, case in enumerate(chosen):
        env = tmp_path / str(number)
        shutil.copytree(GOLDEN / name, env)
        write_case(env, case)
        done = run(*command[0].split(), env, *command[1:])
        assert done.code != exits.INTERNAL, (case, done.err)
