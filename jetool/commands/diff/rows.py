"""Output records of ``jetool diff`` for comparing records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from engine.errors import plural
from engine.fields import ABSENT, Absent, Bool, Choices, Data, FieldName, Int, Json, Key, Like, Lsn, Text, record
from engine.format.lsn import NULL_LSN
from engine.inspect.common_log import IDENTICAL, RELATIONS, CommonLog
from engine.inspect.contents import DecodingPlan
from engine.inspect.record_diff import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME, RecordDiff, RecordDifference
from engine.rep.node_diff import NodeDiff
from engine.verdict import CheckVerdict
from jetool.frame import exits
from jetool.frame.decode_option import DecodedFields, decoded
from jetool.output.verdicts import VerdictFields

_MOST_NAMED: Final = 5


@record("log")
class CommonLogPart(NamedTuple):
    """The common part of the logs, byte for byte."""

    relation: Annotated[Text, "unrelated: not two copies of one environment", Choices(RELATIONS)]
    first_difference: Annotated[Lsn, "the first entry that is not the same in both, or that only one has"]
    equal_bytes: Annotated[Int, "bytes that are the same"]


@record("database")
class ComparedDatabase(NamedTuple):
    """A database of either environment."""

    db: Annotated[Text, "its name"]
    relation: Annotated[Text, "whether it differs", Choices((SAME, CHANGED, ONLY_FIRST, ONLY_SECOND))]
    records: Annotated[Int, "records of the first environment"]
    other_records: Annotated[Int, "records of the second"]
    same: Annotated[Int, "records that are the same"]
    changed: Annotated[Int, "keys with other data"]
    only_first: Annotated[Int, "records that only the first has"]
    only_second: Annotated[Int, "records that only the second has"]


@record("difference")
class DifferentRecord(NamedTuple):
    """A record that differs."""

    db: Annotated[Text, "its database"]
    what: Annotated[Text, "how it differs", Choices((CHANGED, ONLY_FIRST, ONLY_SECOND))]
    key: Annotated[Key, "the key, in the format of --key-format"]
    data: Annotated[Data | None, "data in the first environment; null where it is not"]
    other_data: Annotated[Data | None, "data in the second"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT
    decoded_other: Annotated[Json | Absent | None, "with --decode: the data in the second"] = ABSENT


@record("record_diff")
class RecordComparison(NamedTuple):
    """A comparison of the records of two environments, or of two points of one."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "the first environment"]
    other: Annotated[Text, "the second; with --from the same one"]
    from_: Annotated[Lsn, "where the log of the first was taken to end; null: where it does", FieldName("from")]
    to: Annotated[Lsn, "where that of the second was"]
    same: Annotated[Bool, "all records are the same"]
    complete: Annotated[Bool, "false when records of either may be missing"]
    reason: Annotated[Text | None, "why it is not complete; null when it is"]
    log: Annotated[CommonLogPart | None, "what the logs have in common; null for a running node"]
    databases: Annotated[Sequence[ComparedDatabase], "each database"]
    differences: Annotated[Sequence[DifferentRecord], "the first records that differ, by --limit"]
    unnamed: Annotated[
        Int | Absent, "for a running node: databases that only the node has; its protocol does not name them"
    ] = ABSENT


def record_comparison(
    envs: tuple[str, str],
    ends: tuple[int, int],
    unseen: str | None,
    log: CommonLog,
    found: RecordDiff,
    decoding: DecodingPlan | None,
) -> RecordComparison:
    """The document for two environments.

    Arguments:
        envs: both directories.
        ends: the assumed ends of the logs; NULL_LSN for the real end.
        unseen: the part of a log that was not read, so that records may be missing.
        decoding: how records are decoded; None for no decoding.
    """
    copies = "the logs too" if log.relation == IDENTICAL else f"the logs are {log.relation}"
    common = CommonLogPart(relation=log.relation, first_difference=log.first_difference, equal_bytes=log.equal_bytes)
    verdict = exits.comparison_verdict(_why(found, copies), same=found.is_same, problem=unseen or "")
    return _document(envs, ends, unseen, verdict, found, decoding)._replace(log=common)


def node_comparison(
    envs: tuple[str, str], end: int, unseen: str | None, found: NodeDiff, decoding: DecodingPlan | None
) -> RecordComparison:
    """The document for an environment and a running node.

    Arguments:
        envs: the directory, and the address of the node.
        end: the assumed end of the log; NULL_LSN for the real end.
        unseen: the part of the log that was not read.
    """
    skipped = "; ".join(f"database {one.name!r} was not compared: {one.why}" for one in found.skipped)
    why = _why(found.records, f"compared in blocks with the node at {envs[1]}")
    if found.unnamed:
        only = f"{plural(found.unnamed, 'database')} only in the second"
        why = only if found.records.is_same else f"{why}; {only}"
    verdict = exits.comparison_verdict(why, same=found.is_same, problem=unseen or "", skipped=skipped)
    reason = "; ".join(part for part in (unseen, skipped) if part) or None
    document = _document(envs, (end, NULL_LSN), reason, verdict, found.records, decoding)
    return document._replace(same=found.is_same, unnamed=found.unnamed)


def _document(
    envs: tuple[str, str],
    ends: tuple[int, int],
    reason: str | None,
    verdict: CheckVerdict,
    found: RecordDiff,
    decoding: DecodingPlan | None,
) -> RecordComparison:
    return RecordComparison(
        verdict=verdict.word,
        why=verdict.why,
        environment=envs[0],
        other=envs[1],
        from_=ends[0],
        to=ends[1],
        same=found.is_same,
        complete=reason is None,
        reason=reason,
        log=None,
        databases=[
            ComparedDatabase(
                db=one.name,
                relation=one.relation,
                records=one.records,
                other_records=one.other_records,
                same=one.same,
                changed=one.changed,
                only_first=one.only_first,
                only_second=one.only_second,
            )
            for one in found.databases
        ],
        differences=[_different(one, decoding) for one in found.differences],
    )


def _why(found: RecordDiff, about_logs: str) -> str:
    """The verdict in words: the numbers of records that differ, or for equal records also what else was compared."""
    if found.is_same:
        records = sum(one.records for one in found.databases)
        return f"{plural(len(found.databases), 'database')} with {plural(records, 'record')}; {about_logs}"
    parts = []
    changed, first, second = (
        sum(getattr(one, name) for one in found.databases) for name in ("changed", "only_first", "only_second")
    )
    for count, what in ((changed, "changed"), (first, "only in the first"), (second, "only in the second")):
        if count:
            parts.append(f"{plural(count, 'record')} {what}")
    names = [one.name for one in found.databases if one.relation != SAME]
    shown = ", ".join(names[:_MOST_NAMED]) + (
        f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    )
    return f"{', '.join(parts) or 'other databases'}: {shown}"


def _different(found: RecordDifference, decoding: DecodingPlan | None) -> DifferentRecord:
    plain = DifferentRecord(
        db=found.database, what=found.what, key=found.key, data=found.data, other_data=found.other_data
    )
    if decoding is None:
        return plain
    one = decoding.record(found.database, found.key, found.data)
    other = decoding.record(found.database, found.key, found.other_data)
    means = decoded(one._replace(known=one.known and other.known))
    return plain._replace(**means._asdict(), decoded_other=other.data)
