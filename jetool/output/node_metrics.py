"""The metrics of nodes, for the exporter of ``jetool watch``: a page of a sample of every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from engine.format.vlsn import NULL_VLSN
from engine.monitor.sample import NodeSample
from jetool.output.metrics import COUNTER, GAUGE, metric_lines


class NodeMetric(NamedTuple):
    """A metric of nodes; ``value`` gives None for a node that has none."""

    name: str
    kind: str
    about: str
    value: Callable[[NodeSample], float | None]


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


NODE_METRICS: Final = (
    NodeMetric("jetool_node_up", GAUGE, "1 when the node answers or the environment can be read.",
               lambda one: int(one.state is not None)),
    NodeMetric("jetool_node_vlsn", GAUGE, "VLSN of the last Commit or Abort, or of the last entry of an environment.",
               lambda one: None if one.vlsn == NULL_VLSN else one.vlsn),
    NodeMetric("jetool_node_lag_vlsns", GAUGE, "VLSNs by which the node is before the master.", lambda one: one.lag),
    NodeMetric("jetool_node_load", GAUGE, "Load of the machine of the node.", lambda one: one.load),
    NodeMetric("jetool_commits_total", COUNTER, "Transactions committed since the exporter started.",
               lambda one: one.commits),
    NodeMetric("jetool_log_appended_bytes_total", COUNTER, "Bytes appended to the log since the exporter started.",
               lambda one: one.appended_bytes),
    NodeMetric("jetool_log_files", GAUGE, "Log files.", lambda one: one.log_files),
    NodeMetric("jetool_log_bytes", GAUGE, "Bytes in the log files.", lambda one: one.log_bytes),
    NodeMetric("jetool_log_utilization_percent", GAUGE, "Part of the log in use, at the last checkpoint.",
               lambda one: one.utilization),
    NodeMetric("jetool_cleaner_backlog_files", GAUGE, "Files that the cleaner would clean to reach its target.",
               lambda one: one.cleaner_backlog),
    NodeMetric("jetool_reserved_bytes", GAUGE, "Bytes of files that are cleaned and still kept.",
               lambda one: one.reserved_bytes),
    NodeMetric("jetool_cache_bytes", GAUGE, "Memory of JE's cache, from its statistics.", lambda one: one.cache_bytes),
    NodeMetric("jetool_cache_limit_bytes", GAUGE, "Memory that JE's cache may take.", lambda one: one.cache_limit),
    NodeMetric("jetool_last_commit_timestamp_seconds", GAUGE, "Time of the last Commit or Abort in the log.",
               lambda one: _seconds(one.last_commit)),
    NodeMetric("jetool_checkpoint_timestamp_seconds", GAUGE, "When the last checkpoint ended.",
               lambda one: _seconds(one.checkpoint)),
    NodeMetric("jetool_recovery_bytes", GAUGE, "Bytes of log that a recovery would read.",
               lambda one: one.recovery_bytes),
    NodeMetric("jetool_disk_free_bytes", GAUGE, "Bytes free on the disk.", lambda one: one.disk_free),
    NodeMetric("jetool_disk_left_bytes", GAUGE, "Bytes until je.freeDisk or je.maxDisk stops writing.",
               lambda one: one.disk_left),
    NodeMetric("jetool_sample_timestamp_seconds", GAUGE, "When the node was looked at.",
               lambda one: _seconds(one.time)),
)  # fmt: skip


def node_metrics(samples: Sequence[NodeSample]) -> bytes:
    """The page of a sample of every node."""
    # A node that was named twice has one series: Prometheus refuses a page with two of the same labels.
    samples = list({(one.group, one.node, one.place): one for one in samples}.values())
    labels = [_labels(one) for one in samples]
    lines: list[str] = []
    for metric in NODE_METRICS:
        values = [(label, metric.value(one)) for label, one in zip(labels, samples, strict=True)]
        known = [(label, value) for label, value in values if value is not None]
        if known:
            lines += metric_lines(metric.name, metric.about, known, metric.kind)
    states = [({**label, "state": one.state}, 1) for label, one in zip(labels, samples, strict=True) if one.state]
    lines += metric_lines("jetool_node_state", "1 for the state that the node is in.", states)
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _labels(one: NodeSample) -> dict[str, str]:
    known = {"group": one.group, "node": one.node, "place": one.place}
    return {name: text for name, text in known.items() if text is not None}
