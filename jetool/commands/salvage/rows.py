"""Output records of ``salvage``, and the records of its side files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.diagnosis.record import LostName
from engine.fields import (
    ABSENT,
    Absent,
    Bool,
    Bytes,
    Choices,
    Expiration,
    FieldName,
    Int,
    Json,
    Like,
    Lsn,
    SizeBytes,
    Text,
    Time,
    Vlsn,
    record,
)
from jetool.frame.decode_option import DecodedFields
from jetool.output.verdicts import VerdictFields

FORMS: Final = ("env", "je", "csv", "ndjson", "ldif")


@record("database")
class SavedDatabase(NamedTuple):
    """A database of the result."""

    source: Annotated[Text, "the group, or the environment"]
    name: Annotated[Text, "the database"]
    duplicates: Annotated[Bool, "sorted duplicates"]
    records: Annotated[Int, "records that were saved"]
    lost: Annotated[Int, "keys whose newest version cannot be read"]
    in_: Annotated[
        Text | None,
        "where they were written, below the directory; null when there was nothing to write",
        FieldName("in"),
    ]


@record("node")
class ReadEnvironment(NamedTuple):
    """An environment that was read."""

    environment: Annotated[Text, "its directory"]
    source: Annotated[Text, "the group, or the environment"]
    from_: Annotated[
        Text,
        "its records are those of recovery, or collected from the log",
        Choices(("tree", "log")),
        FieldName("from"),
    ]
    problem: Annotated[Text | None, "why recovery was of no use; null when it was"]
    damages: Annotated[Int, "stretches of damage in its log, and files that cannot be read"]
    damaged_bytes: Annotated[SizeBytes, "their bytes"]
    missing_files: Annotated[
        Int, "log files that are not there: numbers between the first and the last, and files into which the trees lead"
    ]


@record("salvaged")
class SalvageResult(NamedTuple):
    """What was saved."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    to: Annotated[Text, "the directory"]
    as_: Annotated[Text, "how records were written", Choices(FORMS), FieldName("as")]
    dry_run: Annotated[Bool, "nothing was written"]
    records: Annotated[Int, "records saved"]
    lost: Annotated[Int, "keys whose newest version cannot be read: lost.ndjson names them"]
    lost_commits: Annotated[Int, "committed transactions with a record in damaged bytes; a group may have it elsewhere"]
    lost_names: Annotated[
        Sequence[LostName], "the lost keys by name, as their application has them; the first thousand"
    ]
    lost_nodes: Annotated[Int, "nodes of trees that cannot be read; the keys below them are unknown"]
    lost_below: Annotated[Int, "approximate number of records below them that were not saved"]
    lost_databases: Annotated[Sequence[Text], "databases that left nothing but their place in the mapping tree"]
    stood_in: Annotated[Int, "lost records for which an older version was saved"]
    unconfirmed: Annotated[Int, "records whose newer version or deletion damage may hide: provenance.ndjson names them"]
    in_doubt: Annotated[Int, "newer versions whose transaction has no end in the log: doubt.ndjson has them"]
    orphans: Annotated[Int, "records of databases that nothing names: orphans.ndjson has them"]
    deleted: Annotated[Int, "keys that were deleted"]
    expired: Annotated[Int, "records that have expired"]
    aborted: Annotated[Int, "versions skipped because their transaction aborted"]
    open: Annotated[Int, "versions skipped because their transaction has no end"]
    rolled_back: Annotated[Int, "versions skipped because they were rolled back"]
    removed: Annotated[Int, "records of databases that were removed"]
    extinct: Annotated[Int, "records that the application has discarded, a range at a time"]
    maybe_extinct: Annotated[Int, "records saved that a filter of the application may have discarded"]
    malformed: Annotated[Int, "records whose key and data cannot be separated"]
    databases: Annotated[Sequence[SavedDatabase], "databases of the result"]
    environments: Annotated[Sequence[ReadEnvironment], "environments that were read"]


@record()
class RecordKey(NamedTuple):
    """The place of a version of a record."""

    source: Annotated[Text, "the group, or the environment"]
    db: Annotated[Text, "the database"]
    key_hex: Annotated[Bytes, "the key"]
    environment: Annotated[Text, "the environment that it is about"]
    file: Annotated[Text, "the log file"]
    lsn: Annotated[Lsn, "where the version is, or was"]


@record("provenance")
class Provenance(NamedTuple):
    """The origin of a record."""

    source: Annotated[Text, Like(RecordKey)]
    db: Annotated[Text, Like(RecordKey)]
    key_hex: Annotated[Bytes, Like(RecordKey)]
    environment: Annotated[Text, Like(RecordKey)]
    file: Annotated[Text, Like(RecordKey)]
    lsn: Annotated[Lsn, Like(RecordKey)]
    from_: Annotated[
        Text,
        "tree: recovery; log: an LN; slot: its BIN had the data",
        Choices(("tree", "log", "slot")),
        FieldName("from"),
    ]
    vlsn: Annotated[Vlsn, "its VLSN"]
    txn: Annotated[Int | None, "its transaction; null without one, or when recovery gave it"]
    time: Annotated[Time | None, "when that committed"]
    stood_in: Annotated[Bool, "a newer version is lost"]
    confirmed: Annotated[
        Bool, "it is the newest; false: damage may hide a newer version, its deletion or the database's name"
    ]


@record("record")
class SavedRecord(NamedTuple):
    """A record."""

    source: Annotated[Text, Like(RecordKey)]
    db: Annotated[Text, Like(RecordKey)]
    key_hex: Annotated[Bytes, Like(RecordKey)]
    environment: Annotated[Text, Like(RecordKey)]
    file: Annotated[Text, Like(RecordKey)]
    lsn: Annotated[Lsn, Like(RecordKey)]
    data_hex: Annotated[Bytes, "the data"]
    from_: Annotated[Text, Like(Provenance), FieldName("from")]
    vlsn: Annotated[Vlsn, Like(Provenance)]
    txn: Annotated[Int | None, Like(Provenance)]
    time: Annotated[Time | None, Like(Provenance)]
    stood_in: Annotated[Bool, Like(Provenance)]
    confirmed: Annotated[Bool, Like(Provenance)]
    expiration: Annotated[Expiration | None, "when it expires; null for never"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record("lost")
class LostLine(NamedTuple):
    """A key whose newest version cannot be read."""

    source: Annotated[Text, Like(RecordKey)]
    db: Annotated[Text, Like(RecordKey)]
    key_hex: Annotated[Bytes, Like(RecordKey)]
    environment: Annotated[Text, Like(RecordKey)]
    file: Annotated[Text, Like(RecordKey)]
    lsn: Annotated[Lsn, Like(RecordKey)]
    stood_in: Annotated[Bool, "an older version was saved in its place"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record("doubt")
class DoubtLine(NamedTuple):
    """A version whose transaction has neither Commit nor Abort in the log; damage may have destroyed it."""

    source: Annotated[Text, Like(RecordKey)]
    db: Annotated[Text, Like(RecordKey)]
    key_hex: Annotated[Bytes, Like(RecordKey)]
    environment: Annotated[Text, Like(RecordKey)]
    file: Annotated[Text, Like(RecordKey)]
    lsn: Annotated[Lsn, Like(RecordKey)]
    txn: Annotated[Int, "its transaction"]
    data_hex: Annotated[Bytes | None, "null: a deletion"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record("skipped")
class SkippedStretch(NamedTuple):
    """A stretch of a log that could not be read."""

    environment: Annotated[Text, "the environment"]
    file: Annotated[Text, "the log file"]
    lsn: Annotated[Lsn, "where it begins"]
    bytes: Annotated[SizeBytes, "its length; 0: a broken link, or a whole file"]
    reason: Annotated[Text, "what is wrong there"]
    found: Annotated[Text, "how reading went on"]
