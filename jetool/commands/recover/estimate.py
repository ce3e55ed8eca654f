"""``jetool recover --estimate``: what recovery would read, how long it may take, and what it would write."""

from __future__ import annotations

from typing import Final

from engine.inspect.recovery_estimate import RecoveryEstimate, estimate_recovery
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.app import exits
from jetool.app.interrupted import as_before
from jetool.app.kinds import require_je
from jetool.app.opening import config_of, warn_of_tail
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape, row_of

_PHASE: Final = (
    Field("name", "text", "the phase, as progress and the report of recovery name it"),
    Field("from_lsn", "lsn", "where it begins to read; null where it reads no log"),
    Field("log_bytes", "size_bytes", "bytes of the log that it reads"),
    Field("expected_ms", "duration_ms", "how long it may take"),
)
ESTIMATED: Final = Shape(
    "estimated",
    "What recovery would do, from the end of the log and a sample.",
    (
        Field("environment", "text", "its directory"),
        Field("end_lsn", "lsn", "the end of the log"),
        Field("ckpt_end_lsn", "lsn", "the last checkpoint; null when there is none"),
        Field("first_active_lsn", "lsn", "its firstActive, where recovery begins to read"),
        Field("redo_lsn", "lsn", "where redo starts"),
        Field("entries", "int", "entries to read, from the sample"),
        Field("lns", "int", "records among them, to be redone or undone"),
        Field("expected_ms", "duration_ms", "how long all may take, with the closing checkpoint"),
        Field("cache_bytes", "size_bytes", "memory that nodes may take (--cache)"),
        Field("checkpoint_least_bytes", "size_bytes", "what the closing checkpoint writes when records lie close"),
        Field("checkpoint_most_bytes", "size_bytes", "what it writes when each changes a node of its own"),
        Field("commits_at_risk", "int", "committed transactions after a bad entry: recovery refuses (exit 3)"),
        Field("sample_bytes", "size_bytes", "bytes that were read and decoded to measure the rate"),
        Field("sample_ms", "duration_ms", "how long that took"),
        Field("phases", "records", "the phases, in order", fields=_PHASE),
    ),
)


def print_estimate(run: Run, env: str) -> int:
    """Estimate and print; the code is that of the refusal where recovery would refuse."""
    disk = DiskStorage(env)
    require_je(disk)
    seen = as_before(disk)
    found = estimate_recovery(seen, list_log_files(seen), run.listener)
    warn_of_tail(run, env, found.tail)
    run.out.document(ESTIMATED, _row(env, found, config_of(run).cache_bytes))
    return exits.REFUSED if found.tail.commits_at_risk else exits.DONE


def _row(env: str, found: RecoveryEstimate, cache_bytes: int) -> Row:
    return ESTIMATED.row(
        (
            env, found.tail.end_lsn, found.ckpt_end_lsn, found.first_active_lsn, found.redo_lsn, found.entries,
            found.lns, found.expected_ms, cache_bytes, found.checkpoint_least_bytes, found.checkpoint_most_bytes,
            found.tail.commits_at_risk, found.sample_bytes, found.sample_ms,
            [row_of(_PHASE, phase) for phase in found.phases],
        )
    )  # fmt: skip
