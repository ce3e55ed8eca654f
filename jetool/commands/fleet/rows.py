"""Output records of ``jetool fleet``: profiles of environments, nodes of groups, pairs of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from engine.contents.operations import PRODUCTS
from engine.fields import ABSENT, Absent, Bool, Choices, Float, Int, Like, Lsn, SizeBytes, Text, Time, Vlsn, record
from engine.format.entry.checkpoint import CkptEnd
from engine.format.vlsn import NULL_VLSN
from engine.journals.summary import JournalSummary
from engine.pipeline.fleet.groups import NodePair, RankedNode
from engine.pipeline.fleet.profile import STATES, Profile, ProfilePeriod
from engine.vlsn.compare import AHEAD, APART, BEHIND, DIVERGED, IDENTICAL, IN_STEP, PARTED
from jetool.commands.diff.stream_rows import CommonMatchpoint, StreamSurplus, matchpoint_of, surplus_of


@record("type")
class EntryTypeRow(NamedTuple):
    """Entries of one type over all environments."""

    type: Annotated[Text, "name of the type"]
    entries: Annotated[Int, "how many"]
    bytes: Annotated[SizeBytes, "their bytes, headers included"]


@record("checkpoint")
class ProfiledCheckpoint(NamedTuple):
    """One checkpoint."""

    id: Annotated[Int, "its number"]
    invoker: Annotated[Text, "who asked for it"]
    time: Annotated[Time, "when it ended"]
    ckpt_start_lsn: Annotated[Lsn, "CkptStart"]
    ckpt_end_lsn: Annotated[Lsn, "CkptEnd"]
    first_active_lsn: Annotated[Lsn, "where undo ends"]


@record("period")
class ProfiledRollback(NamedTuple):
    """One rollback period."""

    matchpoint_vlsn: Annotated[Vlsn, "where it goes back to"]
    matchpoint_lsn: Annotated[Lsn, "the same as an LSN"]
    rollback_start_lsn: Annotated[Lsn, "RollbackStart"]
    rollback_end_lsn: Annotated[Lsn, "RollbackEnd; null: not finished"]
    time: Annotated[Time, "when it began"]
    depth: Annotated[Int, "how many periods it lies in"]
    txns: Annotated[Sequence[Int], "transactions that were rolled back"]


@record("damage")
class ProfiledDamage(NamedTuple):
    """A stretch of damage."""

    path: Annotated[Text, "the file"]
    lsn: Annotated[Lsn, "where it begins"]
    skipped: Annotated[Int, "bytes"]
    reason: Annotated[Text, "what is wrong"]
    code: Annotated[Text, "code of the finding, as jetool verify has it"]
    commits_after: Annotated[Int, "Commits after it in the last file, which JE gives up; 0 in any other file"]


@record()
class JournalSpan(NamedTuple):
    """The journals of a frontend in numbers."""

    product: Annotated[Text | None, "whose frontend it is", Choices(tuple(PRODUCTS))]
    first: Annotated[Int | None, "the first id"]
    last: Annotated[Int | None, "the last id"]
    journals: Annotated[Int, "how many there are"]
    missing: Annotated[Int, "ids that are missing"]
    epoch: Annotated[Int, "the highest mastership that the node has seen"]


@record("journals")
class FrontendJournals(NamedTuple):
    """The journals of a frontend."""

    environment: Annotated[Text, "its directory"]
    product: Annotated[Text | None, Like(JournalSpan)]
    first: Annotated[Int | None, Like(JournalSpan)]
    last: Annotated[Int | None, Like(JournalSpan)]
    journals: Annotated[Int, Like(JournalSpan)]
    missing: Annotated[Int, Like(JournalSpan)]
    epoch: Annotated[Int, Like(JournalSpan)]


@record("environment")
class EnvironmentProfile(NamedTuple):
    """One environment."""

    environment: Annotated[Text, "its directory"]
    name: Annotated[Text, "what the inventory calls it, else its directory"]
    state: Annotated[Text, "in a word", Choices(STATES)]
    problem: Annotated[Text | None, "why something could not be read"]
    group: Annotated[Text | None, "name of its replication group"]
    group_uuid: Annotated[Text | None, "UUID of the group, hex"]
    files: Annotated[Int, "log files"]
    bytes: Annotated[SizeBytes, "bytes in them"]
    entries: Annotated[Int, "good entries"]
    obsolete_bytes: Annotated[SizeBytes, "garbage, by the utilization records of the log"]
    obsolete_share: Annotated[Float | None, "its share of the files with such records, in per cent"]
    reserved_files: Annotated[Int, "files that the cleaner has released and that still exist"]
    reserved_bytes: Annotated[SizeBytes, "bytes in them; all of it is garbage"]
    checkpoint_count: Annotated[Int, "complete checkpoints"]
    recovery_bytes: Annotated[SizeBytes, "what recovery has to read"]
    recovery_entries: Annotated[Int, "the same in entries"]
    commits: Annotated[Int, "transactions committed"]
    aborts: Annotated[Int, "transactions aborted"]
    open_txns: Annotated[Sequence[Int], "transactions that recovery undoes"]
    prepared_txns: Annotated[Sequence[Int], "transactions prepared and not decided"]
    rolled_back_txns: Annotated[Int, "transactions that rollback periods name"]
    rollback_count: Annotated[Int, "rollback periods"]
    open_rollbacks: Annotated[Int, "those that are not finished"]
    first_vlsn: Annotated[Vlsn, "first VLSN of the log"]
    last_vlsn: Annotated[Vlsn, "last VLSN, rollbacks taken into account"]
    dtvlsn: Annotated[Vlsn | None, "durable VLSN that the node knows of"]
    invisible: Annotated[Int, "entries that rollbacks hid"]
    last_commit_lsn: Annotated[Lsn | None, "the last Commit"]
    last_commit_vlsn: Annotated[Vlsn | None, "its VLSN"]
    last_commit_time: Annotated[Time | None, "its time"]
    end_of_log: Annotated[Lsn, "where the next entry would go"]
    damage_count: Annotated[Int, "stretches of damage and missing files, the torn tail not counted"]
    damage_bytes: Annotated[Int, "bytes of the stretches"]
    commits_after_damage: Annotated[Int, "Commits after damage in the last file, which JE gives up when it opens it"]
    torn_tail: Annotated[Int, "bytes after the end of the log with nothing durable in them"]
    missing_files: Annotated[Sequence[Int], "numbers of files that are not there and that recovery or the trees need"]
    lost_records: Annotated[Int, "records in missing files"]
    lost_nodes: Annotated[Int, "nodes of trees in missing files"]
    lock_holder: Annotated[Int | None, "pid of the process that has it open for writing; 0 unknown"]
    journals: Annotated[JournalSpan | None, "the journals of a Doris or StarRocks frontend; null for others"]
    types: Annotated[Sequence[EntryTypeRow], "entries by type, by bytes"]
    checkpoints: Annotated[Sequence[ProfiledCheckpoint], "the checkpoints"]
    rollbacks: Annotated[Sequence[ProfiledRollback], "the rollback periods"]
    damages: Annotated[Sequence[ProfiledDamage], "missing files, and the first thousand stretches of damage"]


@record("environment")
class BriefProfile(NamedTuple):
    """One environment."""

    # Only the fields that fit a terminal.
    environment: Annotated[Text, Like(EnvironmentProfile)]
    state: Annotated[Text, Like(EnvironmentProfile)]
    bytes: Annotated[SizeBytes, Like(EnvironmentProfile)]
    entries: Annotated[Int, Like(EnvironmentProfile)]
    obsolete_share: Annotated[Float | None, Like(EnvironmentProfile)]
    recovery_bytes: Annotated[SizeBytes, Like(EnvironmentProfile)]
    open_txns: Annotated[Int, "transactions that recovery undoes, or that are prepared"]
    rollback_count: Annotated[Int, Like(EnvironmentProfile)]
    last_vlsn: Annotated[Vlsn, Like(EnvironmentProfile)]
    damage_count: Annotated[Int, Like(EnvironmentProfile)]


@record("summary")
class FleetSummary(NamedTuple):
    """The whole fleet."""

    environments: Annotated[Int, "environments read"]
    unreadable: Annotated[Int, "those that could not be read, or not in full"]
    damaged: Annotated[Int, "those with damage or missing files"]
    marked: Annotated[Int, "those with a restore marker and nothing else wrong; JE refuses to open them"]
    rolling_back: Annotated[Int, "those with a rollback that is not finished"]
    bytes: Annotated[SizeBytes, "bytes of log"]
    entries: Annotated[Int, "good entries"]
    complete: Annotated[Bool, "all was read"]


@record("node")
class RankedNodeRow(NamedTuple):
    """One node."""

    rank: Annotated[Int | None, "its place in its group, 1 for the newest; null: not replicated"]
    group: Annotated[Text | None, "its replication group"]
    environment: Annotated[Text, "its directory"]
    first_vlsn: Annotated[Vlsn, "first VLSN of the log"]
    last_vlsn: Annotated[Vlsn, "last VLSN, rollbacks taken into account"]
    last_sync: Annotated[Vlsn, "last Commit, Abort or Matchpoint"]
    dtvlsn: Annotated[Vlsn | None, "durable VLSN that the node knows of"]
    last_commit_vlsn: Annotated[Vlsn | None, "VLSN of the last Commit"]
    last_commit_time: Annotated[Time | None, "its time, by the clock of the master"]
    rollbacks: Annotated[Int, "how often it rolled back"]
    damages: Annotated[Int, "stretches of damage that were skipped"]
    problem: Annotated[Text | None, "why something could not be read"]


@record("pair")
class NodePairRow(NamedTuple):
    """Two nodes of a group."""

    environment: Annotated[Text, "the first node"]
    other: Annotated[Text, "the second node"]
    relation: Annotated[
        Text, "of the first to the second", Choices((IDENTICAL, IN_STEP, AHEAD, BEHIND, DIVERGED, PARTED, APART))
    ]
    matchpoint_vlsn: Annotated[Vlsn, "the last sync point that both have"]
    surplus_entries: Annotated[Int, "VLSNs that the first has after it"]
    surplus_commits: Annotated[Int, "commits among them"]
    other_surplus_entries: Annotated[Int, "VLSNs that the second has after it"]
    other_surplus_commits: Annotated[Int, "commits among them"]
    matchpoint: Annotated[CommonMatchpoint | Absent | None, "the sync point"] = ABSENT
    surplus: Annotated[StreamSurplus | Absent, "what the first has after it"] = ABSENT
    other_surplus: Annotated[StreamSurplus | Absent, "what the second has after it"] = ABSENT


@record("comparison")
class FleetComparison(NamedTuple):
    """The nodes of the groups, newest first, and all pairs of nodes of a group."""

    nodes: Annotated[Sequence[RankedNodeRow], "the nodes"]
    pairs: Annotated[Sequence[NodePairRow], "each two nodes of a group"]


def profile_of(found: Profile) -> EnvironmentProfile:
    """An environment in full."""
    commit = found.last_commit
    share = found.obsolete_share
    return EnvironmentProfile(
        environment=found.member.env,
        name=found.member.name,
        state=found.state,
        problem=found.problem or None,
        group=found.group or None,
        group_uuid=found.group_uuid or None,
        files=len(found.files),
        bytes=found.log_bytes,
        entries=found.entries,
        obsolete_bytes=found.obsolete_bytes,
        obsolete_share=None if share is None else round(100 * share, 1),
        reserved_files=len(found.reserved),
        reserved_bytes=sum(file.size_bytes for file in found.reserved),
        checkpoint_count=len(found.checkpoints),
        recovery_bytes=found.recovery_bytes,
        recovery_entries=found.recovery_entries,
        commits=found.commits,
        aborts=found.aborts,
        open_txns=list(found.open_txns),
        prepared_txns=list(found.prepared_txns),
        rolled_back_txns=found.rolled_back_txns,
        rollback_count=len(found.periods),
        open_rollbacks=found.open_periods,
        first_vlsn=found.first_vlsn,
        last_vlsn=found.last_vlsn,
        dtvlsn=found.dtvlsn or None,
        invisible=found.invisible,
        last_commit_lsn=commit.lsn if commit is not None else None,
        last_commit_vlsn=commit.vlsn if commit is not None else None,
        last_commit_time=commit.time_ms if commit is not None else None,
        end_of_log=found.end_lsn,
        damage_count=found.damage_count,
        damage_bytes=found.damage_bytes,
        commits_after_damage=found.commits_after_damage,
        torn_tail=found.torn_tail,
        missing_files=[file.number for file in found.missing],
        lost_records=sum(file.records for file in found.missing),
        lost_nodes=sum(file.nodes for file in found.missing),
        lock_holder=found.lock_holder,
        journals=None if found.journals is None else _span(found.journals),
        types=[EntryTypeRow(type=one.name, entries=one.entries, bytes=one.bytes) for one in found.types],
        checkpoints=[_checkpoint(lsn, one) for lsn, one in found.checkpoints],
        rollbacks=[_period(period) for period in found.periods],
        damages=[
            ProfiledDamage(
                path=one.path,
                lsn=one.lsn,
                skipped=one.length,
                reason=one.reason,
                code=one.rule.code,
                commits_after=one.commits_after,
            )
            for one in found.damages
        ],
    )


def brief_profile(found: Profile, name: str) -> BriefProfile:
    """The columns of an environment that fit a terminal, with a short name."""
    whole = profile_of(found)
    return BriefProfile(
        environment=name,
        state=whole.state,
        bytes=whole.bytes,
        entries=whole.entries,
        obsolete_share=whole.obsolete_share,
        recovery_bytes=whole.recovery_bytes,
        open_txns=len(found.open_txns) + len(found.prepared_txns),
        rollback_count=whole.rollback_count,
        last_vlsn=whole.last_vlsn,
        damage_count=whole.damage_count,
    )


def frontend_journals(profiles: Sequence[Profile], names: Mapping[str, str]) -> list[FrontendJournals]:
    """The journals of each frontend among the environments."""
    return [
        FrontendJournals(environment=names[found.member.env], **_span(found.journals)._asdict())
        for found in profiles
        if found.journals is not None
    ]


def _span(found: JournalSummary) -> JournalSpan:
    return JournalSpan(
        product=found.product,
        first=found.first,
        last=found.last,
        journals=found.journals,
        missing=found.missing,
        epoch=found.epoch,
    )


def entry_types(profiles: Sequence[Profile]) -> list[EntryTypeRow]:
    """Entries by type over all environments, sorted by bytes."""
    totals: dict[str, tuple[int, int]] = {}
    for share in (share for profile in profiles for share in profile.types):
        entries, size = totals.get(share.name, (0, 0))
        totals[share.name] = (entries + share.entries, size + share.bytes)
    ordered = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    return [EntryTypeRow(type=name, entries=entries, bytes=size) for name, (entries, size) in ordered]


def ranked_node(found: RankedNode, name: str) -> RankedNodeRow:
    """One node with its rank; ``name`` is its directory, or a short name in text."""
    node = found.node
    commit = node.last_commit
    return RankedNodeRow(
        rank=found.rank or None,
        group=node.group or None,
        environment=name,
        first_vlsn=node.first_vlsn,
        last_vlsn=node.last_vlsn,
        last_sync=node.last_sync,
        dtvlsn=node.dtvlsn or None,
        last_commit_vlsn=commit.vlsn if commit is not None else None,
        last_commit_time=commit.time if commit is not None else None,
        rollbacks=node.rollbacks,
        damages=node.damages,
        problem=node.problem or None,
    )


def node_pair(pair: NodePair, names: tuple[str, str], *, full: bool) -> NodePairRow:
    """A pair of nodes with their names; ``full`` adds nested records."""
    found = pair.comparison
    match = found.matchpoint
    return NodePairRow(
        environment=names[0],
        other=names[1],
        relation=found.relation,
        matchpoint_vlsn=match.vlsn if match is not None else NULL_VLSN,
        surplus_entries=found.surplus.entries,
        surplus_commits=found.surplus.commits,
        other_surplus_entries=found.other_surplus.entries,
        other_surplus_commits=found.other_surplus.commits,
        matchpoint=matchpoint_of(found.matchpoint, found.other_matchpoint) if full else ABSENT,
        surplus=surplus_of(found.surplus) if full else ABSENT,
        other_surplus=surplus_of(found.other_surplus) if full else ABSENT,
    )


def _checkpoint(lsn: int, found: CkptEnd) -> ProfiledCheckpoint:
    return ProfiledCheckpoint(
        id=found.id,
        invoker=found.invoker,
        time=found.time,
        ckpt_start_lsn=found.ckpt_start_lsn,
        ckpt_end_lsn=lsn,
        first_active_lsn=found.first_active_lsn,
    )


def _period(period: ProfilePeriod) -> ProfiledRollback:
    found = period.rollback
    return ProfiledRollback(
        matchpoint_vlsn=found.matchpoint_vlsn,
        matchpoint_lsn=found.matchpoint_lsn,
        rollback_start_lsn=found.start_lsn,
        rollback_end_lsn=found.end_lsn,
        time=found.time_ms,
        depth=period.depth,
        txns=list(found.txns),
    )
