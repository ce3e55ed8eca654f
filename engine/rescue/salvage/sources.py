"""Finds logs that belong together, and those that recovery can still read completely.

Nodes of one replication group have the same records in their replicated databases, whose ids are negative: they are one
*source*. A log that has lost the record of its group is assigned to nodes with the same stream (``streams``).
Every other environment is a source of its own. If a node recovers and every record can be read, it is the *base* of its
source, and recovery gives its records; with several such nodes, it is the one with the longest stream. Changes of other
nodes after its last VLSN are added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.extinction import DATABASE_NAME as EXTINCTIONS
from engine.errors import JetoolError, UsageError, plural
from engine.events import SILENT, Listener, heard
from engine.format.vlsn import NULL_VLSN
from engine.log.damage import is_harmless
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_file
from engine.log.tail import Tail, find_end
from engine.rescue.salvage import scan
from engine.rescue.salvage.extinct import ExtinctRange, range_of
from engine.rescue.salvage.streams import sample_stream
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

# A salvage uses the same memory limits on all machines.
CACHE_BYTES: Final = 64 << 20
READER: Final = EnvironmentConfig(read_only=True, cache_bytes=CACHE_BYTES, cache_is_fixed=True)


_GROUP: Final = "group "


class SalvageNode(NamedTuple):
    """One environment.

    Attributes:
        env: its directory.
        files: its log files.
        survey: the survey of the log.
        problem: why recovery does not give all records; empty if it does.
        recovered_vlsn: the last VLSN in the records of recovery; NULL_VLSN without a stream, or with a problem. The log
            may continue after it: after damage in its last file, or with records that recovery rolls back.
    """

    env: str
    files: LogFiles
    survey: scan.LogSurvey
    problem: str
    recovered_vlsn: int = NULL_VLSN


class SalvageSource(NamedTuple):
    """Environments whose records belong together.

    Attributes:
        name: name of the group, or of the directory.
        nodes: the nodes of the source, in the given order.
        base: index of the base node; None if the source has no base node.
    """

    name: str
    nodes: tuple[SalvageNode, ...]
    base: int | None

    @property
    def floor(self) -> int:
        """The VLSN up to which the base is complete; NULL_VLSN without a stream."""
        return NULL_VLSN if self.base is None else self.nodes[self.base].recovered_vlsn


def look_at(env: str, listener: Listener = SILENT) -> SalvageNode:
    """Survey a log, and test whether recovery can read every record.

    Raises:
        NotFoundError: no environment. StorageError: the directory cannot be read.
    """
    listener.step("look", 0, 1)
    files = list_log_files(DiskStorage(env))
    survey = scan.survey_log(env)
    listener.step("look", 1, 1)
    try:
        problem, vlsn = recover_whole(env, files, survey, listener)
    except JetoolError as error:
        problem, vlsn = str(error), NULL_VLSN
    return SalvageNode(env, files, survey, problem, vlsn)


def recover_whole(env: str, files: LogFiles, survey: scan.LogSurvey, listener: Listener) -> tuple[str, int]:
    """Recover and read every record; return why some are missing, or else the last VLSN that recovery gives.

    Raises:
        JetoolError: the environment does not recover, or a record cannot be read.
    """
    storage = DiskStorage(env)
    if survey.hidden:
        # Recovery skips them.
        entries = plural(len(survey.hidden), "invisible entry stands", "invisible entries stand")
        return f"{entries} outside every rollback period", NULL_VLSN
    # Tested before recovery, which would find the same more slowly.
    tail = find_end(storage, files)
    if tail.commits_at_risk:
        stand = plural(tail.commits_at_risk, "committed transaction stands", "committed transactions stand")
        return f"{stand} after damage in the last file", NULL_VLSN
    if tail.damage is not None and _is_cut_off(storage, tail):
        return "records without transactions, or a checkpoint, stand after damage in the last file", NULL_VLSN
    with Environment(env, READER, listener) as opened:
        recovery = opened.engine.recovery
        prepared = len(recovery.fate.prepared)
        if prepared:
            # The changes of prepared transactions are in doubt, which only the log shows.
            return plural(prepared, "transaction is", "transactions are") + " prepared and not decided", NULL_VLSN
        unfinished_tasks(opened)
        for name in opened.database_names():
            with opened.open_database(name) as db:
                # Reads every record, so damage below any node is found.
                deque(heard(db.items(), listener, "read records"), maxlen=0)
    if not recovery.rolled_back and all(one.lsn < recovery.end_lsn for one in survey.damages):
        return "", survey.last_vlsn
    return "", scan.last_vlsn_before(env, files, recovery.end_lsn, frozenset(recovery.rolled_back))


def unfinished_tasks(env: Environment) -> list[ExtinctRange]:
    """Ranges of committed tasks that are not finished.

    Raises:
        JetoolError: the records of tasks cannot be read; other internal records of JE do not matter here.
    """
    engine = env.engine
    with engine.latch:
        names = engine.catalog.names(internal=True)
        if all(name != EXTINCTIONS for name, _ in names):
            return []
    with env.open_database(EXTINCTIONS) as db:
        found = [range_of(data, env.end_lsn, None) for _, data in db.items()]
    return [one for one in found if one is not None]


def _is_cut_off(storage: Storage, tail: Tail) -> bool:
    """Whether something durable follows the end of the log; recovery, like JE, checks only for Commits (D-5)."""
    check = scan_file(storage, tail.last_file, is_last=True).check(with_sizes=False)
    return not all(is_harmless(seen, tail.last_file.number) for seen in check.damages)


def sources_of(nodes: Sequence[SalvageNode]) -> list[SalvageSource]:
    """Nodes grouped by source.

    Raises:
        UsageError: the same environment is named twice.
    """
    if len({node.env for node in nodes}) < len(nodes):
        raise UsageError("an environment is named twice", hint="name each once")
    found, names = [], set()
    for members in _groups(nodes):
        group = next((node.survey.group for node in members if node.survey.group is not None), None)
        name = (group.name if group is not None else "") or members[0].env.rstrip("/").rpartition("/")[2] or "env"
        # A directory gets this name, so the name must not be a path to another place.
        name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).lstrip(".")[:100]
        name = name or "env"
        while name in names:
            name += "_"
        names.add(name)
        whole = [at for at, node in enumerate(members) if not node.problem]
        base = max(whole, key=lambda at: (members[at].recovered_vlsn, -at), default=None)
        found.append(SalvageSource(name, tuple(_with_databases_of_others(members)), base))
    return found


def _with_databases_of_others(members: list[SalvageNode]) -> list[SalvageNode]:
    """Nodes of a group, each with the replicated databases known to others, since ids are the same on all nodes."""
    if len(members) == 1:
        return members
    found = []
    for node in members:
        own = node.survey
        dbs, removed, internal = dict(own.dbs), set(own.removed), set(own.internal)
        for other in members:
            internal |= {db_id for db_id in other.survey.internal if db_id < 0}
            # A removal is replicated too: a node without the removal has lost it, or lags behind.
            for db_id, db in other.survey.dbs.items():
                if db_id < 0 and db_id not in removed and (db_id not in dbs or db_id in own.nameless):
                    dbs[db_id] = db
        dbs = {db_id: db for db_id, db in dbs.items() if db_id not in internal}
        found.append(node._replace(survey=own._replace(dbs=dbs, internal=frozenset(internal))))
    return found


def _groups(nodes: Sequence[SalvageNode]) -> list[list[SalvageNode]]:
    """Nodes by group, in the given order."""
    groups: dict[str, list[SalvageNode]] = {}
    for node in nodes:
        group = node.survey.group
        groups.setdefault(_GROUP + group.uuid if group is not None else f"env {node.env}", []).append(node)
    nameless = [node for node in nodes if node.survey.group is None and node.survey.last_vlsn != NULL_VLSN]
    if nameless and len(nodes) > 1:
        replicated = [node for node in nodes if node.survey.last_vlsn != NULL_VLSN]
        samples = {node.env: sample_stream(DiskStorage(node.env), node.files) for node in replicated}
        for node in nameless:
            sample = samples[node.env]
            own = _key_of(node, groups)
            others = [
                key
                for key, members in groups.items()
                if key != own and any(one.env in samples and sample.is_of(samples[one.env]) for one in members)
            ]
            named = [key for key in (own, *others) if key.startswith(_GROUP)]
            # A log that matches groups with different names is not assigned.
            if others and len(named) <= 1:
                target = named[0] if named else own
                for key in {own, *others} - {target}:
                    groups[target] += groups.pop(key)
    order = {node.env: at for at, node in enumerate(nodes)}
    for members in groups.values():
        members.sort(key=lambda node: order[node.env])
    return sorted(groups.values(), key=lambda members: order[members[0].env])


def _key_of(node: SalvageNode, groups: dict[str, list[SalvageNode]]) -> str:
    return next(key for key, members in groups.items() if node in members)
