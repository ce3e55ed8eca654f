"""The survey of an environment, for ``jetool info``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from engine.errors import plural
from engine.fields import ABSENT, Absent, Bool, Int, Like, Lsn, SizeBytes, Text, Time, Vlsn, record
from engine.format.entry.checkpoint import CLEANED_FILES_TO_DELETE
from engine.format.lsn import file_of
from engine.format.versions import JE_RELEASES
from engine.inspect.checkpoint_interval import RecoveryWork
from engine.inspect.survey import Survey
from engine.log.files import log_file_name
from engine.verdict import CheckVerdict
from jetool.output.verdicts import VerdictFields

if TYPE_CHECKING:
    from engine.verify.tree_stats import TreeProfile


@record()
class VersionRun(NamedTuple):
    """A run of files of one log version."""

    version: Annotated[Int, "log version"]
    je_release: Annotated[Text, "first JE release that wrote it"]
    first_file: Annotated[Text, "first file of the version"]
    last_file: Annotated[Text, "last file of the version"]


@record()
class CheckpointRow(NamedTuple):
    """The checkpoint that recovery starts from."""

    id: Annotated[Int, "number of the checkpoint"]
    invoker: Annotated[Text, "who asked for it"]
    time: Annotated[Time, "when it ended"]
    ckpt_start_lsn: Annotated[Lsn, "CkptStart"]
    ckpt_end_lsn: Annotated[Lsn, "CkptEnd"]
    first_active_lsn: Annotated[Lsn, "where undo ends"]
    root_lsn: Annotated[Lsn, "the DbTree that it names"]
    last_local_txn_id: Annotated[Int, "highest local transaction id"]
    last_local_db_id: Annotated[Int, "highest local database id"]
    last_local_node_id: Annotated[Int, "highest local node id"]
    lets_files_go: Annotated[Bool, "files that the cleaner had cleaned were no longer needed after it"]


@record()
class WorkAhead(NamedTuple):
    """What recovery has to do."""

    from_lsn: Annotated[Lsn, "where recovery begins to read; null: at the start of the log"]
    entries: Annotated[Int, "entries to read"]
    bytes: Annotated[SizeBytes, "bytes to read"]
    lns: Annotated[Int, "LNs among them"]
    nodes: Annotated[Int, "INs, BINs and deltas among them"]
    commits: Annotated[Int, "transactions committed there"]
    aborts: Annotated[Int, "transactions aborted there"]
    open_txns: Annotated[Sequence[Int], "transactions without an end: they will be undone, or resurrected on a replica"]
    prepared_txns: Annotated[Sequence[Int], "prepared transactions (XA), which stay open"]


@record()
class OpenRollbackRow(NamedTuple):
    """A RollbackStart without a RollbackEnd."""

    rollback_start_lsn: Annotated[Lsn, "RollbackStart"]
    matchpoint_lsn: Annotated[Lsn, "where it goes back to"]
    matchpoint_vlsn: Annotated[Vlsn, "the same as a VLSN"]
    active_txns: Annotated[Sequence[Int], "transactions that are rolled back"]


@record()
class TreeStatistics(NamedTuple):
    """The tree of one database."""

    name: Annotated[Text, "the database"]
    id: Annotated[Int, "its id"]
    depth: Annotated[Int, "levels of its tree; 0 when it was never written to"]
    bins: Annotated[Int, "bottom nodes"]
    ins: Annotated[Int, "upper nodes"]
    records: Annotated[Int, "records; expired ones too"]
    deleted: Annotated[Int, "slots of deleted records that are not compressed yet"]
    embedded: Annotated[Int, "records whose data are in their slots"]
    nodes_by_level: Annotated[Sequence[Int], "nodes of level 1 (bottom), 2 and so on"]
    bins_by_fill: Annotated[
        Sequence[Int], "bottom nodes that are 0 to 9 % full, 10 to 19 %, and so on up to 90 to 100 %"
    ]


# The most characters of the map, which is printed on one line of an 80-column terminal.
_MAP_WIDTH: Final = 50


@record("info")
class EnvironmentInfo(NamedTuple):
    """The control data of an environment."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "the directory"]
    belongs_to: Annotated[
        Text | Absent,
        "the application whose records it holds, by the names of its databases as of the "
        "last checkpoint; left out when no decoder recognises them, and with --quick",
    ]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "bytes in them"]
    first_file: Annotated[Text, "first log file"]
    last_file: Annotated[Text, "last log file"]
    missing_files: Annotated[
        Int,
        "numbers between them that no file has, and files that recovery or the trees "
        "need; with --quick not all of these",
    ]
    log_map: Annotated[
        Text,
        "a character for each file number: = a file, . none, ! damage met, > the last file; "
        f"of more than {_MAP_WIDTH} numbers each stands for several, and the worst of them counts",
    ]
    data_directories: Annotated[Int, "data sub-directories, 0 when files are in the environment itself"]
    reserved_files: Annotated[
        Int | None,
        "files that the cleaner has released and that still exist, for replicas or a reader; null with --quick",
    ]
    reserved_bytes: Annotated[SizeBytes | None, "bytes in them"]
    set_aside: Annotated[Int, "files with the suffixes .del, .bad, .bup, .tmp"]
    first_lsn: Annotated[Lsn, "first entry"]
    last_lsn: Annotated[Lsn, "last good entry"]
    end_of_log: Annotated[Lsn, "where the next entry would go"]
    last_time: Annotated[Time | None, "newest time in the last file"]
    torn_tail_bytes: Annotated[SizeBytes, "bytes after the end of the log"]
    closed_cleanly: Annotated[Bool, "the log ends with the checkpoint of a close"]
    replicated: Annotated[Bool, "the root marks the environment as replicated"]
    first_vlsn: Annotated[Vlsn, "first VLSN of a visible entry"]
    last_vlsn: Annotated[Vlsn, "last VLSN of a visible entry"]
    partial_checkpoint: Annotated[Lsn, "CkptStart that no CkptEnd follows"]
    root_lsn: Annotated[Lsn, "newest DbTree"]
    initial_log_version: Annotated[Int | None, "log version when the environment was made"]
    open_for_writing_by: Annotated[Int | None, "pid of the process that has it open, 0 when not named"]
    interrupted_repair: Annotated[Text | None, "the repair that was interrupted, or its undo; see jetool undo"]
    restore_required: Annotated[Text | None, "why JE refuses to open it (marker 7fffffff.jdb)"]
    log_versions: Annotated[Sequence[VersionRun], "runs of files by log version"]
    last_checkpoint: Annotated[CheckpointRow | None, "the CkptEnd that recovery starts from"]
    recovery: Annotated[WorkAhead | None, "what recovery would have to do; null with --quick"]
    open_rollbacks: Annotated[Sequence[OpenRollbackRow], "RollbackStarts without a RollbackEnd"]
    trees: Annotated[Sequence[TreeStatistics] | Absent, "the trees of the databases, with --stats"] = ABSENT


def info_of(
    env: str,
    verdict: CheckVerdict,
    found: Survey,
    repair: str | None,
    trees: Sequence[TreeProfile] | None,
    belongs_to: str = "",
    needed: Collection[int] = (),
) -> EnvironmentInfo:
    """The survey as it is printed.

    Arguments:
        trees: counts of the trees; None if they were not requested.
        needed: missing log files that recovery or the trees need.
    """
    files = found.files.files
    root = found.root
    return EnvironmentInfo(
        verdict=verdict.word,
        why=verdict.why,
        environment=env,
        belongs_to=belongs_to or ABSENT,
        files=len(files),
        bytes=sum(file.size_bytes for file in files),
        first_file=files[0].path if files else "-",
        last_file=files[-1].path if files else "-",
        missing_files=len({*found.files.missing(), *needed}),
        log_map=log_map(found),
        data_directories=found.files.data_directories,
        reserved_files=None if found.work is None else len(found.reserved),
        reserved_bytes=None if found.work is None else sum(file.size_bytes for file in found.reserved),
        set_aside=len(found.files.set_aside),
        first_lsn=found.first_lsn,
        last_lsn=found.last_lsn,
        end_of_log=found.end_of_log,
        last_time=found.last_time or None,
        torn_tail_bytes=found.tail.length if found.tail else 0,
        closed_cleanly=found.closed_cleanly,
        replicated=found.replicated,
        first_vlsn=found.first_vlsn,
        last_vlsn=found.last_vlsn,
        partial_checkpoint=found.partial_checkpoint,
        root_lsn=found.root_lsn,
        initial_log_version=root.initial_log_version if root is not None else None,
        open_for_writing_by=found.lock_holder,
        interrupted_repair=repair,
        restore_required=found.marker.failure_type if found.marker else None,
        log_versions=_version_runs(found),
        last_checkpoint=_checkpoint(found),
        recovery=_work(found.work) if found.work is not None else None,
        open_rollbacks=_open_rollbacks(found),
        trees=ABSENT if trees is None else [_tree(one) for one in trees],
    )


def log_map(found: Survey) -> str:
    """The files of a log as a line of characters, by number."""
    files = found.files.files
    if not files:
        return "-"
    there = {file.number for file in files}
    damaged = {file_of(damage.lsn) for damage in found.damages if not damage.is_tail}
    first, last = files[0].number, files[-1].number
    group = -(-(last - first + 1) // _MAP_WIDTH)
    shown = []
    for start in range(first, last + 1, group):
        numbers = range(start, min(start + group, last + 1))
        if any(number in damaged for number in numbers):
            shown.append("!")
        elif last in numbers:
            shown.append(">")
        else:
            shown.append("=" if all(number in there for number in numbers) else ".")
    return "".join(shown) if group == 1 else f"{''.join(shown)} ({plural(group, 'number')} each)"


def _version_runs(found: Survey) -> list[VersionRun]:
    return [
        VersionRun(
            version=one.version,
            je_release=JE_RELEASES[one.version],
            first_file=_name(one.first_file),
            last_file=_name(one.last_file),
        )
        for one in found.versions
    ]


def _open_rollbacks(found: Survey) -> list[OpenRollbackRow]:
    return [
        OpenRollbackRow(
            rollback_start_lsn=one.lsn,
            matchpoint_lsn=one.record.matchpoint_lsn,
            matchpoint_vlsn=one.record.matchpoint_vlsn,
            active_txns=one.record.active_txn_ids,
        )
        for one in found.open_rollbacks
    ]


def _checkpoint(found: Survey) -> CheckpointRow | None:
    if found.checkpoint is None:
        return None
    lsn, c = found.checkpoint
    return CheckpointRow(
        id=c.id,
        invoker=c.invoker,
        time=c.time,
        ckpt_start_lsn=c.ckpt_start_lsn,
        ckpt_end_lsn=lsn,
        first_active_lsn=c.first_active_lsn,
        root_lsn=c.root_lsn,
        last_local_txn_id=c.last_local_txn_id,
        last_local_db_id=c.last_local_db_id,
        last_local_node_id=c.last_local_node_id,
        lets_files_go=bool(c.flags & CLEANED_FILES_TO_DELETE),
    )


def _work(work: RecoveryWork) -> WorkAhead:
    return WorkAhead(
        from_lsn=work.from_lsn,
        entries=work.entries,
        bytes=work.log_bytes,
        lns=work.lns,
        nodes=work.nodes,
        commits=work.commits,
        aborts=work.aborts,
        open_txns=work.open_txns,
        prepared_txns=work.prepared_txns,
    )


def _tree(one: TreeProfile) -> TreeStatistics:
    return TreeStatistics(
        name=one.name,
        id=one.db_id,
        depth=one.depth,
        bins=one.bins,
        ins=one.ins,
        records=one.records,
        deleted=one.deleted,
        embedded=one.embedded,
        nodes_by_level=one.nodes_by_level,
        bins_by_fill=one.bins_by_fill,
    )


def _name(number: int) -> str:
    return log_file_name(number)
