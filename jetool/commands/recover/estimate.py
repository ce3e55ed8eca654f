"""``jetool recover --estimate``: the bytes that recovery would read and write, and its expected time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import DurationMs, Int, Lsn, SizeBytes, Text, record
from engine.inspect.recovery_estimate import RecoveryEstimate, estimate_recovery
from engine.log.files import list_log_files
from engine.rescue.repair.settlement import as_before
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from jetool.frame.environments import config_of, warn_of_tail
from jetool.frame.kinds import require_je
from jetool.frame.options import Run


@record()
class EstimatedPhase(NamedTuple):
    """A phase of recovery and its expected time."""

    name: Annotated[Text, "the phase, as progress and the report of recovery name it"]
    from_lsn: Annotated[Lsn, "where it begins to read; null where it reads no log"]
    log_bytes: Annotated[SizeBytes, "bytes of the log that it reads"]
    expected_ms: Annotated[DurationMs, "how long it may take"]


@record("estimated")
class RecoveryEstimateRow(NamedTuple):
    """An estimate of recovery, from the end of the log and a sample."""

    environment: Annotated[Text, "its directory"]
    end_lsn: Annotated[Lsn, "the end of the log"]
    ckpt_end_lsn: Annotated[Lsn, "the last checkpoint; null without one"]
    first_active_lsn: Annotated[Lsn, "its firstActive, where recovery begins to read"]
    redo_lsn: Annotated[Lsn, "where redo starts"]
    entries: Annotated[Int, "entries to read, from the sample"]
    lns: Annotated[Int, "records among them, to be redone or undone"]
    expected_ms: Annotated[DurationMs, "how long all may take, with the closing checkpoint"]
    cache_bytes: Annotated[SizeBytes, "memory that nodes may take (--cache)"]
    checkpoint_least_bytes: Annotated[SizeBytes, "what the closing checkpoint writes when records lie close"]
    checkpoint_most_bytes: Annotated[SizeBytes, "what it writes when each changes a node of its own"]
    commits_at_risk: Annotated[Int, "committed transactions after a bad entry: recovery refuses (exit 3)"]
    sample_bytes: Annotated[SizeBytes, "bytes that were read and decoded to measure the rate"]
    sample_ms: Annotated[DurationMs, "how long that took"]
    phases: Annotated[Sequence[EstimatedPhase], "the phases, in order"]


def print_estimate(run: Run, env: str) -> int:
    """Print the estimate; returns the exit code of the refusal if recovery would refuse."""
    disk = DiskStorage(env)
    require_je(disk)
    seen = as_before(disk)
    found = estimate_recovery(seen, list_log_files(seen), run.listener)
    warn_of_tail(run, env, found.tail)
    run.out.document(_estimated(env, found, config_of(run).cache_bytes))
    return exits.REFUSED if found.tail.commits_at_risk else exits.DONE


def _estimated(env: str, found: RecoveryEstimate, cache_bytes: int) -> RecoveryEstimateRow:
    return RecoveryEstimateRow(
        environment=env,
        end_lsn=found.tail.end_lsn,
        ckpt_end_lsn=found.ckpt_end_lsn,
        first_active_lsn=found.first_active_lsn,
        redo_lsn=found.redo_lsn,
        entries=found.entries,
        lns=found.lns,
        expected_ms=found.expected_ms,
        cache_bytes=cache_bytes,
        checkpoint_least_bytes=found.checkpoint_least_bytes,
        checkpoint_most_bytes=found.checkpoint_most_bytes,
        commits_at_risk=found.tail.commits_at_risk,
        sample_bytes=found.sample_bytes,
        sample_ms=found.sample_ms,
        phases=[EstimatedPhase(**phase._asdict()) for phase in found.phases],
    )
