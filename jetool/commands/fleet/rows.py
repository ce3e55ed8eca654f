"""What ``jetool fleet`` prints, as rows: profiles of environments, nodes of groups, each two nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.contents.operations import PRODUCTS
from engine.pipeline.fleet.groups import NodePair, RankedNode
from engine.pipeline.fleet.profile import STATES, Profile, ProfilePeriod
from engine.vlsn.compare import AHEAD, APART, BEHIND, DIVERGED, IDENTICAL, IN_STEP, PARTED
from jetool.output.shape import Field, Row, Shape, row_of
from jetool.rows.stream_rows import MATCHPOINT_FIELDS, SURPLUS_FIELDS, matchpoint_row, surplus_row

_TYPE: Final = Shape(
    "type",
    "Entries of one type.",
    (
        Field("type", "text", "name of the type"),
        Field("entries", "int", "how many"),
        Field("bytes", "size_bytes", "their bytes, headers included"),
    ),
)
_CHECKPOINT: Final = Shape(
    "checkpoint",
    "One checkpoint.",
    (
        Field("id", "int", "its number"),
        Field("invoker", "text", "who asked for it"),
        Field("time", "time", "when it ended"),
        Field("ckpt_start_lsn", "lsn", "CkptStart"),
        Field("ckpt_end_lsn", "lsn", "CkptEnd"),
        Field("first_active_lsn", "lsn", "where undo ends"),
    ),
)
_PERIOD: Final = Shape(
    "period",
    "One rollback period.",
    (
        Field("matchpoint_vlsn", "vlsn", "where it goes back to"),
        Field("matchpoint_lsn", "lsn", "the same as an LSN"),
        Field("rollback_start_lsn", "lsn", "RollbackStart"),
        Field("rollback_end_lsn", "lsn", "RollbackEnd; null: not finished"),
        Field("time", "time", "when it began"),
        Field("depth", "int", "how many periods it lies in"),
        Field("txns", "ints", "transactions that were rolled back"),
    ),
)
_DAMAGE: Final = Shape(
    "damage",
    "A stretch of damage.",
    (
        Field("path", "text", "the file"),
        Field("lsn", "lsn", "where it begins"),
        Field("skipped", "int", "bytes"),
        Field("reason", "text", "what is wrong"),
    ),
)

_JOURNALS: Final = (
    Field("product", "text", "whose frontend it is", null=True, choices=tuple(PRODUCTS)),
    Field("first", "int", "the first id", null=True),
    Field("last", "int", "the last id", null=True),
    Field("journals", "int", "how many there are"),
    Field("missing", "int", "ids that are missing"),
    Field("epoch", "int", "the highest mastership that the node has seen"),
)
JOURNALS: Final = Shape(
    "journals",
    "The journals of a frontend.",
    (Field("environment", "text", "its directory"), *_JOURNALS),
)
PROFILE: Final = Shape(
    "environment",
    "One environment.",
    (
        Field("environment", "text", "its directory"),
        Field("name", "text", "what the inventory calls it, else its directory"),
        Field("state", "text", "in a word", choices=STATES),
        Field("problem", "text", "why something could not be read", null=True),
        Field("group", "text", "name of its replication group", null=True),
        Field("group_uuid", "text", "UUID of the group, hex", null=True),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "bytes in them"),
        Field("entries", "int", "good entries"),
        Field("obsolete_bytes", "size_bytes", "garbage, by the utilization records of the log"),
        Field("obsolete_share", "float", "its share of the files with such records, in per cent", null=True),
        Field("reserved_files", "int", "files that the cleaner has given up and that are still there"),
        Field("reserved_bytes", "size_bytes", "bytes in them; all of it is garbage"),
        Field("checkpoint_count", "int", "complete checkpoints"),
        Field("recovery_bytes", "size_bytes", "what recovery has to read"),
        Field("recovery_entries", "int", "the same in entries"),
        Field("commits", "int", "transactions committed"),
        Field("aborts", "int", "transactions aborted"),
        Field("open_txns", "ints", "transactions that recovery undoes"),
        Field("prepared_txns", "ints", "transactions prepared and not decided"),
        Field("rolled_back_txns", "int", "transactions that rollback periods name"),
        Field("rollback_count", "int", "rollback periods"),
        Field("open_rollbacks", "int", "those that are not finished"),
        Field("first_vlsn", "vlsn", "first VLSN of the log"),
        Field("last_vlsn", "vlsn", "last VLSN, rollbacks taken into account"),
        Field("dtvlsn", "vlsn", "durable VLSN that the node knows of", null=True),
        Field("invisible", "int", "entries that rollbacks hid"),
        Field("last_commit_lsn", "lsn", "the last Commit", null=True),
        Field("last_commit_vlsn", "vlsn", "its VLSN", null=True),
        Field("last_commit_time", "time", "its time", null=True),
        Field("end_of_log", "lsn", "where the next entry would go"),
        Field("damage_count", "int", "stretches of damage and missing files, the torn tail not counted"),
        Field("damage_bytes", "int", "bytes of the stretches"),
        Field("torn_tail", "int", "bytes after the end of the log with nothing durable in them"),
        Field("missing_files", "ints", "numbers of files that are not there and that recovery or the trees need"),
        Field("lost_records", "int", "records that lie in missing files"),
        Field("lost_nodes", "int", "nodes of trees that lie in missing files"),
        Field("lock_holder", "int", "pid of the process that has it open for writing; 0 unknown", null=True),
        Field("journals", "record", "the journals of a Doris or StarRocks frontend; null for others", null=True,
              fields=_JOURNALS),
        Field("types", "records", "entries by type, by bytes", fields=_TYPE.fields),
        Field("checkpoints", "records", "the checkpoints", fields=_CHECKPOINT.fields),
        Field("rollbacks", "records", "the rollback periods", fields=_PERIOD.fields),
        Field("damages", "records", "missing files, and the first thousand stretches of damage", fields=_DAMAGE.fields),
    ),
)  # fmt: skip
# What a terminal has room for.
BRIEF: Final = (
    "environment", "state", "bytes", "entries", "obsolete_share", "recovery_bytes", "open_txns", "rollback_count",
    "last_vlsn", "damage_count",
)  # fmt: skip
FLEET_SUMMARY: Final = Shape(
    "summary",
    "The whole fleet.",
    (
        Field("environments", "int", "environments read"),
        Field("unreadable", "int", "those that could not be read, or not in full"),
        Field("damaged", "int", "those with damage or missing files"),
        Field("rolling_back", "int", "those with a rollback that is not finished"),
        Field("bytes", "size_bytes", "bytes of log"),
        Field("entries", "int", "good entries"),
        Field("complete", "bool", "all was read"),
    ),
)
TYPES: Final = Shape("type", "Entries of one type over all environments.", _TYPE.fields)

NODE: Final = Shape(
    "node",
    "One node.",
    (
        Field("rank", "int", "its place in its group, 1 for the newest; null: not replicated", null=True),
        Field("group", "text", "its replication group", null=True),
        Field("environment", "text", "its directory"),
        Field("first_vlsn", "vlsn", "first VLSN of the log"),
        Field("last_vlsn", "vlsn", "last VLSN, rollbacks taken into account"),
        Field("last_sync", "vlsn", "last Commit, Abort or Matchpoint"),
        Field("dtvlsn", "vlsn", "durable VLSN that the node knows of", null=True),
        Field("last_commit_vlsn", "vlsn", "VLSN of the last Commit", null=True),
        Field("last_commit_time", "time", "its time, by the clock of the master", null=True),
        Field("rollbacks", "int", "how often it rolled back"),
        Field("damages", "int", "stretches of damage stepped over"),
        Field("problem", "text", "why something could not be read", null=True),
    ),
)
PAIR: Final = Shape(
    "pair",
    "Two nodes of a group.",
    (
        Field("environment", "text", "the first node"),
        Field("other", "text", "the second node"),
        Field(
            "relation", "text", "of the first to the second",
            choices=(IDENTICAL, IN_STEP, AHEAD, BEHIND, DIVERGED, PARTED, APART),
        ),
        Field("matchpoint_vlsn", "vlsn", "the last sync point that both have"),
        Field("surplus_entries", "int", "VLSNs that the first has after it"),
        Field("surplus_commits", "int", "commits among them"),
        Field("other_surplus_entries", "int", "VLSNs that the second has after it"),
        Field("other_surplus_commits", "int", "commits among them"),
        Field("matchpoint", "record", "the sync point", null=True, optional=True, fields=MATCHPOINT_FIELDS),
        Field("surplus", "record", "what the first has after it", optional=True, fields=SURPLUS_FIELDS),
        Field("other_surplus", "record", "what the second has after it", optional=True, fields=SURPLUS_FIELDS),
    ),
)  # fmt: skip
COMPARISON: Final = Shape(
    "comparison",
    "The nodes of the groups, the newest first, and each two of a group.",
    (
        Field("nodes", "records", "the nodes", fields=NODE.fields),
        Field("pairs", "records", "each two nodes of a group", fields=PAIR.fields),
    ),
)


def profile_row(found: Profile) -> Row:
    """An environment in full."""
    commit = found.last_commit
    share = found.obsolete_share
    values: list[Any] = [
        found.member.env, found.member.name, found.state, found.problem or None, found.group or None,
        found.group_uuid or None, len(found.files), found.log_bytes, found.entries, found.obsolete_bytes,
        None if share is None else round(100 * share, 1), len(found.reserved),
        sum(file.size_bytes for file in found.reserved), len(found.checkpoints), found.recovery_bytes,
        found.recovery_entries, found.commits, found.aborts, list(found.open_txns), list(found.prepared_txns),
        found.rolled_back_txns, len(found.periods), found.open_periods, found.first_vlsn, found.last_vlsn,
        found.dtvlsn or None, found.invisible,
        commit.lsn if commit is not None else None, commit.vlsn if commit is not None else None,
        commit.time_ms if commit is not None else None, found.end_lsn, found.damage_count, found.damage_bytes,
        found.torn_tail, [file.number for file in found.missing],
        sum(file.records for file in found.missing), sum(file.nodes for file in found.missing), found.lock_holder,
        None if found.journals is None else row_of(_JOURNALS, found.journals),
        [_TYPE.row(share) for share in found.types],
        [_checkpoint(lsn, record) for lsn, record in found.checkpoints],
        [_period(period) for period in found.periods],
        [_DAMAGE.row((place.path, place.lsn, place.length, place.reason)) for place in found.damages],
    ]  # fmt: skip
    return PROFILE.row(values)


def brief_row(found: Profile, name: str) -> Row:
    """An environment as far as a terminal has room: a short name, the number of open transactions, not their ids."""
    row = {name: (name, kind, value) for name, kind, value in profile_row(found)}
    row["open_txns"] = ("open_txns", "int", len(found.open_txns) + len(found.prepared_txns))
    row["environment"] = ("environment", "text", name)
    return [row[name] for name in BRIEF]


def brief_shape() -> Shape:
    """The shape of ``brief_row``."""
    fields = {field.name: field for field in PROFILE.fields}
    fields["open_txns"] = fields["open_txns"]._replace(kind="int")
    return Shape(PROFILE.rec, PROFILE.help, tuple(fields[name] for name in BRIEF))


def journal_rows(profiles: Sequence[Profile], names: Mapping[str, str]) -> list[Row]:
    """The journals of each frontend among the environments."""
    return [
        JOURNALS.row((names[found.member.env], *found.journals)) for found in profiles if found.journals is not None
    ]


def type_rows(profiles: Sequence[Profile]) -> list[Row]:
    """Entries by type over all environments, by bytes."""
    totals: dict[str, tuple[int, int]] = {}
    for share in (share for profile in profiles for share in profile.types):
        entries, size = totals.get(share.name, (0, 0))
        totals[share.name] = (entries + share.entries, size + share.bytes)
    ordered = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    return [TYPES.row((name, *counted)) for name, counted in ordered]


def node_row(found: RankedNode, name: str) -> Row:
    """One node with its rank; ``name`` is its directory, or what stands for it in text."""
    node = found.node
    commit = node.last_commit
    return NODE.row(
        (
            found.rank or None, node.group or None, name, node.first_vlsn, node.last_vlsn, node.last_sync,
            node.dtvlsn or None, commit.vlsn if commit is not None else None,
            commit.time if commit is not None else None, node.rollbacks, node.damages, node.problem or None,
        )
    )  # fmt: skip


def pair_row(pair: NodePair, names: tuple[str, str], *, full: bool) -> Row:
    """Two nodes by the names that stand for them; ``full`` adds nested records."""
    found = pair.comparison
    match = found.matchpoint
    values = [
        *names, found.relation, match.vlsn if match is not None else -1, found.surplus.entries,
        found.surplus.commits, found.other_surplus.entries, found.other_surplus.commits,
    ]  # fmt: skip
    # Not strict: the nested records at the end are added below.
    row = [(field.name, field.kind, value) for field, value in zip(PAIR.fields, values, strict=False)]
    if full:
        row.append(("matchpoint", "record", matchpoint_row(found.matchpoint, found.other_matchpoint)))
        row.append(("surplus", "record", surplus_row(found.surplus)))
        row.append(("other_surplus", "record", surplus_row(found.other_surplus)))
    return row


def _checkpoint(lsn: int, record: Any) -> Row:
    return _CHECKPOINT.row(
        (record.id, record.invoker, record.time, record.ckpt_start_lsn, lsn, record.first_active_lsn)
    )


def _period(period: ProfilePeriod) -> Row:
    found = period.rollback
    return _PERIOD.row(
        (
            found.matchpoint_vlsn, found.matchpoint_lsn, found.start_lsn, found.end_lsn, found.time_ms, period.depth,
            list(found.txns),
        )
    )  # fmt: skip
