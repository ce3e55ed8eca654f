"""What ``salvage`` prints, and the records of its side files."""

from __future__ import annotations

from typing import Final

from jetool.app.decoding import DECODED_FIELDS
from jetool.output.shape import Field, Shape

FORMS: Final = ("env", "je", "csv", "ndjson", "ldif")
_DATABASE: Final = (
    Field("source", "text", "the group, or the environment"),
    Field("name", "text", "the database"),
    Field("duplicates", "bool", "sorted duplicates"),
    Field("records", "int", "records that were saved"),
    Field("lost", "int", "keys whose newest version cannot be read"),
    Field(
        "in", "text", "where they were written, below the directory; null when there was nothing to write", null=True
    ),
)
_NODE: Final = (
    Field("environment", "text", "its directory"),
    Field("source", "text", "the group, or the environment"),
    Field("from", "text", "its records are those of recovery, or put together from the log", choices=("tree", "log")),
    Field("problem", "text", "why recovery was of no use; null when it was", null=True),
    Field("damages", "int", "stretches of damage in its log, and files that cannot be read"),
    Field("damaged_bytes", "size_bytes", "their bytes"),
    Field(
        "missing_files",
        "int",
        "log files that are not there: numbers between the first and the last, and files into which the trees lead",
    ),
)
DATABASE: Final = Shape("database", "A database of the result.", _DATABASE)
NODE: Final = Shape("node", "An environment that was read.", _NODE)
SALVAGED: Final = Shape(
    "salvaged",
    "What was saved.",
    (
        Field("to", "text", "the directory"),
        Field("as", "text", "how records were written", choices=FORMS),
        Field("dry_run", "bool", "nothing was written"),
        Field("records", "int", "records saved"),
        Field("lost", "int", "keys whose newest version cannot be read: lost.ndjson names them"),
        Field("lost_nodes", "int", "nodes of trees that cannot be read; which keys stood below them is not known"),
        Field("lost_below", "int", "records that stood below them and were not saved, about"),
        Field("lost_databases", "texts", "databases of which nothing is left but their place in the mapping tree"),
        Field("stood_in", "int", "those of them for which an older version was saved"),
        Field("in_doubt", "int", "newer versions whose transaction has no end in the log: doubt.ndjson has them"),
        Field("orphans", "int", "records of databases that nothing names: orphans.ndjson has them"),
        Field("deleted", "int", "keys that were deleted"),
        Field("expired", "int", "records that have expired"),
        Field("aborted", "int", "versions passed over since their transaction aborted"),
        Field("open", "int", "versions passed over since their transaction has no end"),
        Field("rolled_back", "int", "versions passed over since a rollback took them back"),
        Field("removed", "int", "records of databases that were removed"),
        Field("extinct", "int", "records that the application has discarded, a range at a time"),
        Field("maybe_extinct", "int", "records saved that a filter of the application may have discarded"),
        Field("malformed", "int", "records whose key and data cannot be told apart"),
        Field("databases", "records", "databases of the result", fields=_DATABASE),
        Field("environments", "records", "environments that were read", fields=_NODE),
    ),
)
_KEY: Final = (
    Field("source", "text", "the group, or the environment"),
    Field("db", "text", "the database"),
    Field("key_hex", "bytes", "the key"),
    Field("environment", "text", "the environment that it is about"),
    Field("file", "text", "the log file"),
    Field("lsn", "lsn", "where the version stands, or stood"),
)
_PROVENANCE: Final = (
    Field("from", "text", "tree: recovery; log: an LN; slot: its BIN had the data", choices=("tree", "log", "slot")),
    Field("vlsn", "vlsn", "its VLSN"),
    Field("txn", "int", "its transaction; null without one, or when recovery gave it", null=True),
    Field("time", "time", "when that committed", null=True),
    Field("stood_in", "bool", "a newer version is lost"),
)
PROVENANCE: Final = Shape("provenance", "Where a record comes from.", (*_KEY, *_PROVENANCE))
RECORD: Final = Shape(
    "record", "A record.", (*_KEY, Field("data_hex", "bytes", "the data"), *_PROVENANCE,
    Field("expiration", "expiration", "when it expires; null for never", null=True)),
)  # fmt: skip
DECODED_RECORD: Final = RECORD._replace(fields=(*RECORD.fields, *DECODED_FIELDS))
LOST: Final = Shape(
    "lost", "A key whose newest version cannot be read.",
    (*_KEY, Field("stood_in", "bool", "an older version was saved in its place")),
)  # fmt: skip
DOUBT: Final = Shape(
    "doubt", "A version whose transaction has neither Commit nor Abort in the log: damage may have taken it.",
    (*_KEY, Field("txn", "int", "its transaction"), Field("data_hex", "bytes", "null: a deletion", null=True)),
)  # fmt: skip
SKIPPED: Final = Shape(
    "skipped",
    "A stretch of a log that could not be read.",
    (
        Field("environment", "text", "the environment"),
        Field("file", "text", "the log file"),
        Field("lsn", "lsn", "where it begins"),
        Field("bytes", "size_bytes", "how long it is; 0: a broken link, or a whole file"),
        Field("reason", "text", "what is wrong there"),
        Field("found", "text", "how reading went on"),
    ),
)
