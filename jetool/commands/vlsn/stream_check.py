"""Checking the replicated side of an environment, for ``vlsn check``, ``verify --rep`` and ``vlsn rebuild``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.db.parts import EnvironmentParts
from engine.db.vlsn_index.store import StoredIndex
from engine.db.vlsn_index.view import IndexView, read_index
from engine.errors import DamageError, FormatError
from engine.format.lsn import NULL_LSN, file_of, parse_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.files import log_file_name
from engine.rep.group import DATABASE_NAME as GROUP_DATABASE
from engine.verify.rep import IndexState, check_group, check_index, check_stream
from engine.verify.rep_rules import UNREADABLE
from engine.verify.report import Finding, finding
from engine.vlsn.memory_index import records_of
from jetool.frame.environments import open_to_read
from jetool.frame.node_stream import StreamNode
from jetool.frame.options import Run


class ReplicationCheck(NamedTuple):
    """What a check found.

    Attributes:
        findings: findings about the stream, the index and the group.
        view: the index that was checked; without records if it cannot be read.
        unread: the reason why index or group cannot be read (also a finding); None if they were read.
    """

    findings: list[Finding]
    node: StreamNode
    view: IndexView
    unread: DamageError | None = None


def check_replication(run: Run, env: str) -> ReplicationCheck:
    """Recover an environment in memory, and check its stream, index and group.

    Raises:
        JetoolError: as ``Environment``, and as ``read_stream``.
    """
    node = StreamNode(run, env)
    with open_to_read(run, env) as opened:
        return check_recovered(node, opened.engine.parts)


def check_recovered(node: StreamNode, parts: EnvironmentParts) -> ReplicationCheck:
    """Check stream, index and group of an already recovered environment."""
    unread: DamageError | None = None
    try:
        view = read_index(parts)
    except (DamageError, FormatError) as error:
        unread = _as_damage(error)
        view = IndexView(None, None, unread, parts.recovery.ckpt_start_lsn)
    begins = NULL_VLSN if view.merged is None else view.merged.range.first
    opened = [period.start_lsn for period in parts.recovery.periods if period.is_open]
    findings = list(check_stream(node.facts, opened, begins))
    if unread is None:
        state = IndexState(view.records, view.merged, view.refused)
        findings += check_index(parts.ctx.access, node.facts, state)
        try:
            findings += _group_findings(node, parts)
        except (DamageError, FormatError) as error:
            unread = _as_damage(error)
    if unread is not None:
        findings.append(_unread_finding(unread))
    paths = {file.number: file.path for file in parts.ctx.access.files()}
    return ReplicationCheck([_with_file(one, paths) for one in findings], node, view, unread)


def _with_file(one: Finding, paths: Mapping[int, str]) -> Finding:
    """A finding with the path of its LSN's file, as in findings of the log levels."""
    if one.file or one.lsn == NULL_LSN:
        return one
    number = file_of(one.lsn)
    return one._replace(file=paths.get(number, log_file_name(number)))


def _group_findings(node: StreamNode, parts: EnvironmentParts) -> list[Finding]:
    # A stand-alone environment has no group to check.
    if not node.is_replicated:
        return []
    with parts.ctx.latch:
        group = parts.catalog.by_name(GROUP_DATABASE)
    return list(check_group({} if group is None else records_of(StoredIndex(parts, group)), node.facts))


def _as_damage(error: DamageError | FormatError) -> DamageError:
    return error if isinstance(error, DamageError) else DamageError(str(error))


def _unread_finding(error: DamageError) -> Finding:
    lsn = NULL_LSN if error.lsn is None else parse_lsn(error.lsn)
    return finding(UNREADABLE, error.what, lsn=lsn)
