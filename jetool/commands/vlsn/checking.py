"""The replicated side of an environment, checked: what ``vlsn check``, ``verify --rep`` and ``vlsn rebuild`` share."""

from __future__ import annotations

from typing import NamedTuple

from engine.db.engine import Engine
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
        view = read_index(opened.engine)
        begins = NULL_VLSN if view.merged is None else view.merged.range.first
        findings = list(check_stream(node.facts, _open_rollbacks(opened.engine), begins))
        state = IndexState(view.records, view.merged, view.refused)
        findings += check_index(opened.engine.access, node.facts, state)
        # A stand-alone environment has no group to check.
        if node.is_replicated:
            findings += check_group(_group_records(opened.engine), node.facts)
    return ReplicationCheck(findings, node, view)


def _open_rollbacks(engine: Engine) -> list[int]:
    return [period.start_lsn for period in engine.rollback_periods if period.is_open]


def _group_records(engine: Engine) -> dict[bytes, bytes]:
    state = engine.database(GROUP_DATABASE)
    return {} if state is None else records_of(StoredIndex(engine.parts, state))
