"""LNs and databases as elements of ``dump-log --format xml``."""

from __future__ import annotations

from struct import Struct
from typing import Final

from engine.format.entry import db_tree
from engine.format.entry import ln as ln_module
from engine.format.entry import ln_content as lc
from engine.format.entry.ln import LN
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from jetool.commands.dump_log.xml_values import (
    attributes,
    db_lsn,
    decimal,
    element,
    escape,
    expires,
    lsn_text,
    single,
    state_attributes,
    time_text,
    truth,
)

_SUMMARY_KEY: Final = Struct(">II")
_MAX_SEQUENCE: Final = 0x7FFFFFFF
_CONTENT_TAGS: Final[dict[type, str]] = {
    type(None): "ln",
    lc.MapLN: "mapLN",
    lc.NameLN: "nameLN",
    lc.FileSummaryLN: "fileSummaryLN",
    lc.DupCountLN: "dupCountLN",
}
_INTERNAL_NAMES: Final = {db_tree.MAPPING_DB_ID: "_jeIdMap", db_tree.NAMING_DB_ID: "_jeNameMap"}
_FLAGS2: Final = (
    ("tombstone", ln_module.TOMBSTONE),
    ("abortTombstone", ln_module.ABORT_TOMBSTONE),
    ("blindDeletion", ln_module.BLIND_DELETION),
    ("beforeImage", ln_module.BEFORE_IMAGE),
)
_UTILIZATION_NAMES: Final = (
    "totalINCount",
    "totalINSize",
    "totalLNCount",
    "totalLNSize",
    "obsoleteINCount",
    "obsoleteLNCount",
    "obsoleteLNSize",
    "obsoleteLNSizeCounted",
)
_SUMMARY_NAMES: Final = (
    "totalCount", "totalSize", *_UTILIZATION_NAMES[:4], "maxLNSize", *_UTILIZATION_NAMES[4:], "getObsoleteSize",
    "getObsoleteINSize", "getObsoleteLNSize", "getMaxObsoleteSize", "getMaxObsoleteLNSize",
    "getAvgObsoleteLNSizeNotCounted",
)  # fmt: skip


def ln_element(ln: LN) -> str:
    """An LN of any type."""
    content = ln.content
    tag = _CONTENT_TAGS[type(content)]
    key = element("key", ln.key)
    if isinstance(content, lc.FileSummaryLN) and len(ln.key) == _SUMMARY_KEY.size:
        file, reversed_sequence = _SUMMARY_KEY.unpack(ln.key)
        # Sequences are stored from the top down, so that the newest record of a file sorts first.
        sequence = _MAX_SEQUENCE - reversed_sequence
        key = f'<fileSummaryLNKey fileNumber="0x{file:x}" sequence="0x{sequence & 0xFFFFFFFF:x}"/>{key}'
    data = "" if ln.data is None else f"<data>{decimal(ln.data)}</data>"
    inner = "" if content is None else _content(content)
    return (
        f'<dbId id="{ln.db_id}"/>{key}<{tag}>{data}{inner}</{tag}><embeddedLN val="{truth(ln.embedded)}"/>'
        f"{_ln_times(ln)}{_prior(ln)}{_txn(ln)}{_tail(ln)}"
    )


def _ln_times(ln: LN) -> str:
    """Expiration, and fields of v19 and later."""
    text = f'<expires val="{expires(ln.expiration)}"/>' if ln.flags & ln_module.HAS_EXPIRATION else ""
    if ln.creation_time:
        text += f'<creationTime val="{time_text(ln.creation_time)}"/>'
    if ln.modification_time:
        text += f'<modTime val="{time_text(ln.modification_time)}"/>'
    for tag, bit in _FLAGS2:
        if ln.flags2 & bit:
            text += f'<{tag} val="true"/>'
    return text


def _prior(ln: LN) -> str:
    # JE prints one element with size and file, even if the entry holds only one of them.
    if not ln.flags2 & (ln_module.HAS_PRIOR_SIZE | ln_module.HAS_PRIOR_FILE):
        return ""
    return f'<prior size="{ln.prior_size}" file="{ln.prior_file & 0xFFFFFFFF}"/>'


def _txn(ln: LN) -> str:
    """Transaction, and the previous version of the record."""
    if ln.txn_id is None:
        return ""
    text = (
        f'<txn id="{ln.txn_id}">{db_lsn(ln.last_lsn)}</txn><abortLSN val="{lsn_text(ln.abort_lsn)}"/>'
        f'<abortKD val="{truth(ln.abort_known_deleted)}"/>'
    )
    if ln.abort_key is not None:
        text += element("abortKey", ln.abort_key)
    if ln.abort_data is not None:
        text += element("abortData", ln.abort_data)
    if ln.abort_vlsn != NULL_VLSN:
        text += f'<abortVLSN v="{ln.abort_vlsn}"/>'
    if ln.abort_expiration:
        text += f'<abortExpires val="{expires(ln.abort_expiration)}"/>'
    if ln.abort_modification_time:
        text += f'<abortModTime val="{time_text(ln.abort_modification_time)}"/>'
    if ln.abort_creation_time:
        text += f'<abortCreationTime val="{time_text(ln.abort_creation_time)}"/>'
    return text


def _content(content: ln_module.Content) -> str:
    """Fields of internal trees after the data."""
    if isinstance(content, lc.MapLN):
        # JE prints utilization by file only for the two databases of the root.
        return _database(content.database, with_files=False)
    if isinstance(content, lc.NameLN):
        return f'<dbId id="{content.db_id}"/>'
    if isinstance(content, lc.DupCountLN):
        return f'<count v="{content.dup_count}"/>'
    text = "" if content.summary is None else _summary(content.summary) + _offsets(content.offsets)
    return text if content.anchor_lsn == NULL_LSN else f"{text}<anchor>{db_lsn(content.anchor_lsn)}</anchor>"


def _summary(summary: lc.FileSummary) -> str:
    numbers: tuple[object, ...] = (
        *summary,
        summary.estimated_obsolete_size,
        summary.estimated_obsolete_in_size,
        summary.estimated_obsolete_ln_size,
        summary.most_obsolete_size,
        summary.most_obsolete_ln_size,
        single(summary.average_uncounted_ln_size),
    )
    return f"<summary {attributes(_SUMMARY_NAMES, numbers)}/>"


def _offsets(offsets: tuple[int, ...]) -> str:
    if not offsets:
        return '<offsets size="0"/>'
    return f'<offsets size="{len(offsets)}">{"".join(f"0x{offset:x} " for offset in offsets)}</offsets>'


def _tail(ln: LN) -> str:
    tail = ln.tail
    if tail is None:
        return ""
    if isinstance(tail, bytes):
        return element("key", tail)
    if isinstance(tail, int):
        return f'<beforeImageExpires val="{expires(tail)}"/>' if tail else ""
    text = f'<DbOp val="{lc.OPERATIONS[tail.operation].upper()}"/>'
    if tail.config is not None:
        config = tail.config
        text += (
            f'<config{_database_flags(config.flags)} btcmpSet="{truth(config.btree_comparator)}" '
            f'dupcmpSet="{truth(config.duplicate_comparator)}">{_triggers(config.triggers)}</config>'
        )
    return text if tail.truncated_db_id is None else f'{text}<dbId id="{tail.truncated_db_id}"/>'


def _database(database: db_tree.DatabaseImpl, *, with_files: bool) -> str:
    name = _INTERNAL_NAMES.get(database.db_id, "null") if database.name is None else database.name
    comparators = (database.btree_comparator, database.duplicate_comparator)
    btree, duplicate = (f"byteLen: {len(comparator)}" if comparator else "" for comparator in comparators)
    root = ""
    if database.root_exists:
        inner = element("key", database.root_key) + db_lsn(database.root_lsn)
        root = f"<ref{state_attributes(database.root_state)}>{inner}</ref>"
    files = "".join(map(_utilization, database.utilization)) if with_files else ""
    return (
        f'<database name="{escape(name)}"{_database_flags(database.flags)} btcmp="{btree}" dupcmp="{duplicate}">'
        f'<dbId id="{database.db_id}"/><root>{root}</root>{files}{_triggers(database.triggers)}</database>'
    )


def _database_flags(flags: int) -> str:
    return (
        f' dupsort="{truth(flags & db_tree.DUPLICATES)}" replicated="{truth(flags & db_tree.DB_REPLICATED)}" '
        f'temp="{truth(flags & db_tree.TEMPORARY)}"'
    )


def _utilization(share: db_tree.FileUtilization) -> str:
    return f'<file file="{share.file}"><summary {attributes(_UTILIZATION_NAMES, share[1:])}/></file>'


def _triggers(triggers: tuple[bytes, ...]) -> str:
    return "".join(f'<trigger name="?{number}" className="?"/>' for number in range(len(triggers)))


def db_tree_element(tree: db_tree.DbTree) -> str:
    """The root entry: the mapping and the naming database."""
    return (
        f'<dbtree lastLocalDbId="{tree.last_local_db_id}" lastReplicatedDbId="{tree.last_replicated_db_id}">'
        f"<idDb>{_database(tree.mapping_db, with_files=True)}</idDb>"
        f"<nameDb>{_database(tree.naming_db, with_files=True)}</nameDb></dbtree>"
    )
