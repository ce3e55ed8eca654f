"""One sample of one node: a row of the screen, a line of NDJSON, the metrics of a scrape.

A node of a running group has no figures of its log, and an environment none of its group: these fields are null.
Rates are averages since the sample before; the first sample of a node has none.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from engine.fields import Choices, Float, Int, Lsn, SizeBytes, Text, Time, Vlsn, record
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rep.wire.node_state import STATES

OPEN: Final = "open"
CLOSED: Final = "closed"


@record("sample")
class NodeSample(NamedTuple):
    """A node, or an environment, at a moment."""

    time: Annotated[Time, "when it was looked at"]
    node: Annotated[Text, "name of the node; for an environment its directory"]
    place: Annotated[Text, "address of the node, or directory of the environment"]
    group: Annotated[Text | None, "name of the group; null for an environment"]
    state: Annotated[
        Text | None,
        "the state that the node reports; of an environment, whether a process has it open for writing; null when the "
        "node does not answer",
        Choices((*STATES, OPEN, CLOSED)),
    ] = None
    writer: Annotated[Int | None, "process that has the environment open for writing, 0 when not named; else null"] = (
        None
    )
    master: Annotated[Text | None, "the master that the node knows"] = None
    vlsn: Annotated[Vlsn, "VLSN of the last Commit or Abort of a node; of an environment, of its last entry"] = (
        NULL_VLSN
    )
    vlsn_rate: Annotated[Float | None, "VLSNs per second"] = None
    lag: Annotated[Int | None, "by how many VLSNs the node is before the master; null when unknown"] = None
    commits: Annotated[Int | None, "transactions committed in the log since the first sample"] = None
    commit_rate: Annotated[Float | None, "commits per second"] = None
    last_commit: Annotated[Time | None, "time of the last Commit or Abort in the log; null when none was read"] = None
    end_of_log: Annotated[Lsn, "where the next entry would go"] = NULL_LSN
    log_files: Annotated[Int | None, "log files"] = None
    log_bytes: Annotated[SizeBytes | None, "bytes in them"] = None
    appended_bytes: Annotated[SizeBytes | None, "bytes appended to the log since the first sample"] = None
    append_rate: Annotated[Float | None, "bytes appended per second"] = None
    utilization: Annotated[Int | None, "per cent of the log in use, by the counters of the last checkpoint"] = None
    cleaner_backlog: Annotated[Int | None, "files that the cleaner would clean now to reach its target"] = None
    reserved_bytes: Annotated[SizeBytes | None, "bytes of files that are cleaned, and kept for replicas"] = None
    cache_bytes: Annotated[SizeBytes | None, "memory of JE's cache, from the last row of je.stat.csv"] = None
    cache_limit: Annotated[SizeBytes | None, "how much it may take, by je.config.csv; null when not known"] = None
    cache_time: Annotated[Time | None, "time of that row"] = None
    checkpoint: Annotated[Time | None, "when the last checkpoint ended"] = None
    checkpoint_age: Annotated[Float | None, "seconds since then"] = None
    recovery_bytes: Annotated[SizeBytes | None, "bytes of log that a recovery would read"] = None
    disk_free: Annotated[SizeBytes | None, "bytes free on the disk"] = None
    disk_left: Annotated[
        SizeBytes | None,
        "bytes that may still be written before je.freeDisk or je.maxDisk stops it; negative: it is stopped",
    ] = None
    je_version: Annotated[Text | None, "release of JE that the node runs"] = None
    load: Annotated[Float | None, "load of its machine; null when it is not known"] = None
    problem: Annotated[Text | None, "why there is no answer, or what cannot be read; null otherwise"] = None


def rate(now: int | None, before: int | None, seconds: float) -> float | None:
    """An average per second, with three digits; None if one of the values is missing."""
    if now is None or before is None or seconds <= 0:
        return None
    return round((now - before) / seconds, 3)
