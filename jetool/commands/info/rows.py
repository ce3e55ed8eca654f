"""The survey of an environment as a row for ``jetool info``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from engine.errors import plural
from engine.format.entry.checkpoint import CLEANED_FILES_TO_DELETE
from engine.format.lsn import file_of
from engine.format.versions import JE_RELEASES
from engine.inspect.survey import Survey
from jetool.output.shape import Field, Shape, row_of

if TYPE_CHECKING:
    from engine.verify.tree_stats import TreeStats

_VERSION_FIELDS: Final = (
    Field("version", "int", "log version"),
    Field("je_release", "text", "first JE release that wrote it"),
    Field("first_file", "text", "first file of the version"),
    Field("last_file", "text", "last file of the version"),
)
_CHECKPOINT_FIELDS: Final = (
    Field("id", "int", "number of the checkpoint"),
    Field("invoker", "text", "who asked for it"),
    Field("time", "time", "when it ended"),
    Field("ckpt_start_lsn", "lsn", "CkptStart"),
    Field("ckpt_end_lsn", "lsn", "CkptEnd"),
    Field("first_active_lsn", "lsn", "where undo ends"),
    Field("root_lsn", "lsn", "the DbTree that it names"),
    Field("last_local_txn_id", "int", "highest local transaction id"),
    Field("last_local_db_id", "int", "highest local database id"),
    Field("last_local_node_id", "int", "highest local node id"),
    Field("lets_files_go", "bool", "files that the cleaner had cleaned were no longer needed after it"),
)
_RECOVERY_FIELDS: Final = (
    Field("from_lsn", "lsn", "where recovery begins to read; null: at the start of the log"),
    Field("entries", "int", "entries to read"),
    Field("bytes", "size_bytes", "bytes to read"),
    Field("lns", "int", "LNs among them"),
    Field("nodes", "int", "INs, BINs and deltas among them"),
    Field("commits", "int", "transactions committed there"),
    Field("aborts", "int", "transactions aborted there"),
    Field("open_txns", "ints", "transactions without an end: they will be undone, or resurrected on a replica"),
    Field("prepared_txns", "ints", "prepared transactions (XA), which stay open"),
)
_ROLLBACK_FIELDS: Final = (
    Field("rollback_start_lsn", "lsn", "RollbackStart"),
    Field("matchpoint_lsn", "lsn", "where it goes back to"),
    Field("matchpoint_vlsn", "vlsn", "the same as a VLSN"),
    Field("active_txns", "ints", "transactions that are rolled back"),
)
_TREE_FIELDS: Final = (
    Field("name", "text", "the database"),
    Field("id", "int", "its id"),
    Field("depth", "int", "levels of its tree; 0 when it was never written to"),
    Field("bins", "int", "bottom nodes"),
    Field("ins", "int", "upper nodes"),
    Field("records", "int", "records; expired ones too"),
    Field("deleted", "int", "slots of deleted records that are not compressed yet"),
    Field("embedded", "int", "records whose data are in their slots"),
    Field("nodes_by_level", "ints", "nodes of level 1 (bottom), 2 and so on"),
    Field("bins_by_fill", "ints", "bottom nodes that are 0 to 9 % full, 10 to 19 %, and so on up to 90 to 100 %"),
)
# Characters of the map at most: it stands on one line of a terminal of 80 columns.
_MAP_WIDTH: Final = 50
INFO: Final = Shape(
    "info",
    "The control data of an environment.",
    (
        Field("environment", "text", "the directory"),
        Field("belongs_to", "text", "the application whose records it holds, by the names of its databases as of the "
              "last checkpoint; left out when nobody recognises them, and with --quick", optional=True),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "bytes in them"),
        Field("first_file", "text", "first log file"),
        Field("last_file", "text", "last log file"),
        Field("missing_files", "int", "numbers between them that no file has, and files that recovery or the trees "
              "need; with --quick not all of these"),
        Field("log_map", "text", "a character for each file number: = a file, . none, ! damage met, > the last file; "
              f"of more than {_MAP_WIDTH} numbers each stands for several, and the worst of them counts"),
        Field("data_directories", "int", "data sub-directories, 0 when files lie in the environment itself"),
        Field("reserved_files", "int", "files that the cleaner has given up and that are still there, for replicas "
              "or a reader; null with --quick", null=True),
        Field("reserved_bytes", "size_bytes", "bytes in them", null=True),
        Field("set_aside", "int", "files with the suffixes .del, .bad, .bup, .tmp"),
        Field("first_lsn", "lsn", "first entry"),
        Field("last_lsn", "lsn", "last good entry"),
        Field("end_of_log", "lsn", "where the next entry would go"),
        Field("last_time", "time", "newest time in the last file", null=True),
        Field("torn_tail_bytes", "size_bytes", "bytes after the end of the log"),
        Field("closed_cleanly", "bool", "the log ends with the checkpoint of a close"),
        Field("replicated", "bool", "the root says that the environment is replicated"),
        Field("first_vlsn", "vlsn", "first VLSN of a visible entry"),
        Field("last_vlsn", "vlsn", "last VLSN of a visible entry"),
        Field("partial_checkpoint", "lsn", "CkptStart that no CkptEnd follows"),
        Field("root_lsn", "lsn", "newest DbTree"),
        Field("initial_log_version", "int", "log version when the environment was made", null=True),
        Field("open_for_writing_by", "int", "pid of the process that has it open, 0 when not named", null=True),
        Field("interrupted_repair", "text", "the repair that was interrupted, or its undo; see jetool undo", null=True),
        Field("restore_required", "text", "why JE refuses to open it (marker 7fffffff.jdb)", null=True),
        Field("log_versions", "records", "runs of files by log version", fields=_VERSION_FIELDS),
        Field("last_checkpoint", "record", "the CkptEnd that recovery starts from", null=True,
              fields=_CHECKPOINT_FIELDS),
        Field("recovery", "record", "what recovery would have to do; null with --quick", null=True,
              fields=_RECOVERY_FIELDS),
        Field("open_rollbacks", "records", "RollbackStarts without a RollbackEnd", fields=_ROLLBACK_FIELDS),
        Field("trees", "records", "the trees of the databases, with --stats", optional=True, fields=_TREE_FIELDS),
    ),
)  # fmt: skip
_PLAIN: Final = INFO._replace(fields=tuple(field for field in INFO.fields if not field.optional))


def info_row(
    env: str,
    found: Survey,
    repair: str | None,
    trees: Sequence[TreeStats] | None,
    belongs_to: str = "",
    needed: Collection[int] = (),
) -> Any:
    """The survey as a row of the shape INFO.

    Arguments:
        trees: None when they were not asked for.
        needed: log files that are not there although recovery or the trees need them.
    """
    # Left out, not null: these fields are there only when there is something to say.
    row = {name: (name, kind, value) for name, kind, value in _PLAIN.row(_values(env, found, repair, needed))}
    if belongs_to:
        row["belongs_to"] = ("belongs_to", "text", belongs_to)
    if trees is not None:
        row["trees"] = ("trees", "records", [row_of(_TREE_FIELDS, tree) for tree in trees])
    return [row[field.name] for field in INFO.fields if field.name in row]


def _values(env: str, found: Survey, repair: str | None, needed: Collection[int]) -> tuple[Any, ...]:
    files = found.files.files
    root = found.root
    return (
        env,
        len(files),
        sum(file.size_bytes for file in files),
        files[0].path if files else "-",
        files[-1].path if files else "-",
        len({*found.files.missing(), *needed}),
        log_map(found),
        found.files.data_directories,
        None if found.work is None else len(found.reserved),
        None if found.work is None else sum(file.size_bytes for file in found.reserved),
        len(found.files.set_aside),
        found.first_lsn,
        found.last_lsn,
        found.end_of_log,
        found.last_time or None,
        found.tail.length if found.tail else 0,
        found.closed_cleanly,
        found.replicated,
        found.first_vlsn,
        found.last_vlsn,
        found.partial_checkpoint,
        found.root_lsn,
        root.initial_log_version if root is not None else None,
        found.lock_holder,
        repair,
        found.marker.failure_type if found.marker else None,
        [row_of(_VERSION_FIELDS, (v.version, JE_RELEASES[v.version], _name(v.first_file), _name(v.last_file)))
         for v in found.versions],
        _checkpoint(found),
        row_of(_RECOVERY_FIELDS, found.work) if found.work is not None else None,
        [row_of(_ROLLBACK_FIELDS, (r.lsn, r.record.matchpoint_lsn, r.record.matchpoint_vlsn, r.record.active_txn_ids))
         for r in found.open_rollbacks],
    )  # fmt: skip


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


def _checkpoint(found: Survey) -> Any:
    if found.checkpoint is None:
        return None
    lsn, c = found.checkpoint
    return row_of(
        _CHECKPOINT_FIELDS,
        (
            c.id, c.invoker, c.time, c.ckpt_start_lsn, lsn, c.first_active_lsn, c.root_lsn, c.last_local_txn_id,
            c.last_local_db_id, c.last_local_node_id, bool(c.flags & CLEANED_FILES_TO_DELETE),
        ),
    )  # fmt: skip


def _name(number: int) -> str:
    return f"{number:08x}.jdb"
