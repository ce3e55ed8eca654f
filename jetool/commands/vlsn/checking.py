"""The replicated side of an environment, checked: what ``vlsn check``, ``verify --rep`` and ``vlsn rebuild`` share."""

from __future__ import annotations

from typing import NamedTuple

from engine.db.parts import EnvironmentParts
from engine.db.vlsn_store import StoredIndex
from engine.db.vlsn_view import IndexView, read_index
from engine.format.vlsn import NULL_VLSN
from engine.rep.group import DATABASE_NAME as GROUP_DATABASE
from engine.verify.rep import IndexState, check_group, check_index, check_stream
from engine.verify.report import Finding
from engine.vlsn.memory_index import records_of
from jetool.app.node_stream import StreamNode
from jetool.app.opening import open_to_read
from jetool.app.options import Run


class ReplicationCheck(NamedTuple):
    """What a check found.

    Attributes:
        findings: about the stream, the index, the group.
        view: the index that was checked.
        code: exit code of reading the environment, without the findings.
    """

    findings: list[Finding]
    node: StreamNode
    view: IndexView


def check_replication(run: Run, env: str) -> ReplicationCheck:
    """Check stream, index and group of an environment, which is recovered in memory.

    Raises:
        JetoolError: as ``Environment``, and as ``read_stream``.
    """
    node = StreamNode(run, env)
    with open_to_read(run, env) as opened:
        return check_recovered(node, opened.engine.parts)


def check_recovered(node: StreamNode, parts: EnvironmentParts) -> ReplicationCheck:
    """The same of an environment that was recovered already."""
    view = read_index(parts)
    begins = NULL_VLSN if view.merged is None else view.merged.range.first
    opened = [period.start_lsn for period in parts.recovery.periods if period.is_open]
    findings = list(check_stream(node.facts, opened, begins))
    state = IndexState(view.records, view.merged, view.refused)
    findings += check_index(parts.ctx.access, node.facts, state)
    # A stand-alone environment has no group to check.
    if node.is_replicated:
        with parts.ctx.latch:
            group = parts.catalog.by_name(GROUP_DATABASE)
        findings += check_group({} if group is None else records_of(StoredIndex(parts, group)), node.facts)
    return ReplicationCheck(findings, node, view)
