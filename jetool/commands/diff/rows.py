"""What ``jetool diff`` prints of records: two environments, or two points of one."""

from __future__ import annotations

from typing import Final

from engine.inspect.common_log import RELATIONS, CommonLog
from engine.inspect.contents import Decoding
from engine.inspect.record_diff import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME, RecordDiff, RecordDifference
from jetool.app.decoding import DECODED_FIELDS, decoded
from jetool.output.shape import Field, Row, Shape, row_of

_LOG: Final = Shape(
    "log",
    "What the logs have in common, byte for byte.",
    (
        Field("relation", "text", "unrelated: not two copies of one environment", choices=RELATIONS),
        Field("first_difference", "lsn", "the first entry that is not the same in both, or that only one has"),
        Field("equal_bytes", "int", "bytes that are the same"),
    ),
)
_DATABASE: Final = Shape(
    "database",
    "A database of either environment.",
    (
        Field("db", "text", "its name"),
        Field("relation", "text", "whether it differs", choices=(SAME, CHANGED, ONLY_FIRST, ONLY_SECOND)),
        Field("records", "int", "records of the first environment"),
        Field("other_records", "int", "records of the second"),
        Field("same", "int", "records that are the same"),
        Field("changed", "int", "keys with other data"),
        Field("only_first", "int", "records that only the first has"),
        Field("only_second", "int", "records that only the second has"),
    ),
)
_RECORD: Final = Shape(
    "difference",
    "A record that is not the same.",
    (
        Field("db", "text", "its database"),
        Field("what", "text", "how it differs", choices=(CHANGED, ONLY_FIRST, ONLY_SECOND)),
        Field("key", "key", "the key, as --key-format says"),
        Field("data", "data", "data in the first environment; null where it is not", null=True),
        Field("other_data", "data", "data in the second", null=True),
        *DECODED_FIELDS,
        Field("decoded_other", "json", "with --decode: the data in the second", null=True, optional=True),
    ),
)
# Those that a difference has without --decode.
_PLAIN_FIELDS: Final = 5
RECORD_DIFF: Final = Shape(
    "record_diff",
    "The records of two environments, or of two points of one, side by side.",
    (
        Field("environment", "text", "the first environment"),
        Field("other", "text", "the second; with --from the same one"),
        Field("from", "lsn", "where the log of the first was taken to end; null: where it does"),
        Field("to", "lsn", "where that of the second was"),
        Field("same", "bool", "all records are the same"),
        Field("complete", "bool", "false when records of either may be missing"),
        Field("reason", "text", "why it is not complete; null when it is", null=True),
        Field("log", "record", "what the logs have in common", fields=_LOG.fields),
        Field("databases", "records", "each database", fields=_DATABASE.fields),
        Field("differences", "records", "the first records that differ, by --limit", fields=_RECORD.fields),
    ),
)


def record_diff_row(
    envs: tuple[str, str],
    ends: tuple[int, int],
    unseen: str | None,
    log: CommonLog,
    found: RecordDiff,
    decoding: Decoding | None,
) -> Row:
    """The document.

    Arguments:
        envs: both directories.
        ends: where the logs were taken to end; NULL_LSN for where they do.
        unseen: what of a log was not seen, for which records may be missing.
        decoding: how records are decoded; None: they are not.
    """
    differences = [_record(difference, decoding) for difference in found.differences]
    databases = [_DATABASE.row(database) for database in found.databases]
    return RECORD_DIFF.row((*envs, *ends, found.is_same, unseen is None, unseen, _LOG.row(log), databases, differences))


def _record(found: RecordDifference, decoding: Decoding | None) -> Row:
    row = row_of(_RECORD.fields[:_PLAIN_FIELDS], (found.database, found.what, found.key, found.data, found.other_data))
    if decoding is None:
        return row
    one = decoding.record(found.database, found.key, found.data)
    other = decoding.record(found.database, found.key, found.other_data)
    known = one.known and other.known
    return [*row, *decoded(one._replace(known=known)), ("decoded_other", "json", other.data)]
