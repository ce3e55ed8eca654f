"""``jetool diff``: compare two nodes of a group, two environments, two points of one, or one with a running node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import click

from engine.errors import UsageError, plural
from engine.fields import Bool, Choices, Int, Like, Lsn, Text, Vlsn, record
from engine.inspect.stream_diff import StreamDiff, diff_streams, lsn_of
from engine.vlsn.compare import IDENTICAL, IN_STEP, Comparison, compare
from jetool.commands.diff.records import at_point, print_node_diff, print_record_diff, whole
from jetool.commands.diff.rows import RecordComparison
from jetool.commands.diff.stream_rows import (
    CommonMatchpoint,
    StreamEndRow,
    StreamSurplus,
    matchpoint_of,
    stream_end,
    surplus_of,
)
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option
from jetool.frame.environments import as_of_option
from jetool.frame.networks import address_of, refuse_tls
from jetool.frame.node_stream import StreamNode, require_one_group
from jetool.frame.options import Run
from jetool.frame.param_types.places import Address
from jetool.output.verdicts import VerdictFields

if TYPE_CHECKING:
    from engine.rescue.points import Point

DIFFERING: Final = "differing"
_TIMEOUT_S: Final = 10.0


@record("difference")
class FirstDifference(NamedTuple):
    """The first VLSN at which the nodes differ."""

    vlsn: Annotated[Vlsn, "the VLSN"]
    what: Annotated[Text, "the part of the entry that differs, or the node that lacks it"]
    type: Annotated[Text | None, "type of the first node's entry; null when it lacks the VLSN"]
    other_type: Annotated[Text | None, "type of the second node's entry"]
    lsn: Annotated[Lsn, "where the first node has it"]
    other_lsn: Annotated[Lsn, "where the second node has it"]


@record("diff")
class StreamComparison(NamedTuple):
    """A comparison of two nodes of a group."""

    verdict: Annotated[Text, Like(VerdictFields)]
    why: Annotated[Text, Like(VerdictFields)]
    environment: Annotated[Text, "the first node"]
    other: Annotated[Text, "the second node"]
    relation: Annotated[
        Text,
        "of the first to the second node, by their sync points; differing: these are the same, but other entries "
        "are not",
        Choices((IDENTICAL, DIFFERING, "in-step", "ahead", "behind", "diverged", "parted", "apart")),
    ]
    same: Annotated[Bool, "nothing differs"]
    compared_from: Annotated[Vlsn, "first VLSN that both nodes should have; null for none"]
    compared_to: Annotated[Vlsn, "last one"]
    equal_entries: Annotated[Int, "entries that were compared and are the same, from the first on"]
    not_compared: Annotated[Int, "VLSNs in between that neither has: cleaned away, or in files not copied"]
    stream: Annotated[StreamEndRow, "VLSNs of the first node"]
    other_stream: Annotated[StreamEndRow, "VLSNs of the second node"]
    matchpoint: Annotated[CommonMatchpoint | None, "the last sync point that both have"]
    surplus: Annotated[StreamSurplus, "what the first node has after it"]
    other_surplus: Annotated[StreamSurplus, "what the second node has after it"]
    first_difference: Annotated[FirstDifference | None, "the first VLSN at which they are not the same"]


@command(
    "diff",
    outputs=lambda: Outputs("document", (StreamComparison, RecordComparison)),
    features=("fields", "progress", "times", "keys", "jobs", "cache", "order", "tls"),
    examples=(
        ("Do two nodes hold the same", "jetool diff /data/node1 /data/node2"),
        ("For a script: who is ahead", "jetool diff /data/node1 /data/node2 --json --fields relation,surplus"),
        ("The records of an environment and of its backup", "jetool diff /data/env /backup/env --key-format utf8"),
        ("A copy of a node with the running group", "jetool diff /backup/node1 db1.example.org:5001"),
        ("What has changed since the last checkpoint", "jetool diff /data/env --from ckpt"),
    ),
    exits={
        exits.DONE: "the two are equal",
        exits.FINDINGS: "they differ, or damage was found",
        exits.REFUSED: (
            "the environment has a restore marker and must not be opened; or the two are nodes of different "
            "replication groups; or the node at HOST:PORT cannot be reached, or refuses"
        ),
        exits.NOT_FOUND: "no environment, or none existed yet at the point of --from",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: (
            "damage that recovery has to read, or a file that cannot be read; or the two are equal, and the node does "
            "not serve one of the databases"
        ),
    },
)
@environment
@click.argument(
    "env2",
    metavar="[ENV2|HOST:PORT]",
    required=False,
    type=params.DIRECTORY,
    help="The other environment, or where a running node listens; omit it with --from.",
)
@click.option("--records", is_flag=True, help="For nodes of a group: compare records instead of streams.")
@click.option(
    "--from", "first", type=params.LSN, help="Compare with the same environment as if its log ended before LSN."
)
@click.option("--to", "last", type=params.LSN, help="With --from: end of the later log.  [default: the end of the log]")
@click.option("--limit", type=click.IntRange(0), default=20, metavar="N", help="Print N records.  [default: 20]")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=_TIMEOUT_S,
    metavar="S",
    help="Longest wait for a connection and for each answer, in seconds.  [default: 10]",
)
@as_of_option
@decode_option
def diff(
    run: Run,
    env: str,
    env2: str | None,
    records: bool,
    first: Address | None,
    last: Address | None,
    limit: int,
    timeout: float,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Compare two nodes of a replication group by their streams, or records of environments by database and key.

    Nodes of a group: the matchpoint is the last Commit, Abort or Matchpoint that both nodes have. A node that became
    the other's replica would roll back everything after it. Every entry that both should have is compared: type,
    transaction, database, key, data. LSNs differ between nodes and are not compared. Nodes of different groups, by the
    UUID in the group's record, are refused: their streams have nothing in common.

    Other environments, and two points of one environment: the records that recovery would leave are compared, and the
    logs byte by byte. For two copies of one environment this names the first entry that differs.

    With --as-of the records of ENV as they were at a point are compared with those of ENV2, or of ENV itself now.

    HOST:PORT: the records of ENV are compared with those of a running node, of JE or of jetool, by JE's LDiff service:
    blocks of 8192 records by digests, which do not cover the border between key and data, and the records of blocks
    that differ. Records that are written meanwhile may appear as differences. The service does not name databases that
    only the node has, and a node of JE does not serve databases with sorted duplicates.

    Nothing is created or changed.
    """
    node = address_of(env2) if env2 is not None else None
    if node is None:
        refuse_tls("two environments in directories")
        run = replace(run, environments=2)
    if as_of is not None and (first is not None or last is not None):
        raise UsageError("--as-of does not go with --from and --to", hint="give one or the other")
    if node is not None and first is last is None:
        return print_node_diff(run, whole(run, env, as_of), node, limit, decode, timeout)
    if as_of is not None:
        return print_record_diff(run, whole(run, env, as_of), whole(run, env2 or env), limit, decode)
    if (env2 is None) == (first is None) or (last is not None and first is None):
        raise UsageError(
            "diff takes two environments, or one and a place in its log",
            hint=f"jetool diff {env} ENV2, or jetool diff {env} --from LSN",
        )
    if first is not None:
        # ``end`` is the LSN of the last entry; a log that is cut before it would lack the entry, so use the whole log.
        later = at_point(run, env, last) if last is not None and last.symbol != "end" else whole(run, env)
        return print_record_diff(run, at_point(run, env, first), later, limit, decode)
    assert env2 is not None
    if not records:
        one, other = StreamNode(run, env), StreamNode(run, env2)
        # Comparing streams gives more than comparing records, but both sides need a stream.
        if one.is_replicated and other.is_replicated:
            if decode is not None:
                raise UsageError("--decode is for records", hint="add --records")
            require_one_group(one, other)
            return _diff_nodes(run, one, other)
    return print_record_diff(run, whole(run, env), whole(run, env2), limit, decode)


def _diff_nodes(run: Run, one: StreamNode, other: StreamNode) -> int:
    compared = compare(one.facts, other.facts)
    found = diff_streams(one.side, other.side, run.listener)
    same = (
        compared.relation in (IDENTICAL, IN_STEP)
        and found.difference is None
        # IN_STEP does not mean equal: one of the nodes may have further uncommitted entries.
        and one.facts.last == other.facts.last
    )
    if found.gaps:
        run.messages.warning(
            f"{plural(found.gaps, 'VLSN')} that neither node has {'was' if found.gaps == 1 else 'were'} not compared",
            consequence="cleaned away, or in files that were not copied",
            hint=f"jetool diff --records {one.env} {other.env}",
        )
    run.out.document(_side_by_side(one, other, compared, found, same))
    return exits.FINDINGS if not same or one.damaged or other.damaged else exits.DONE


def _side_by_side(
    one: StreamNode, other: StreamNode, compared: Comparison, found: StreamDiff, same: bool
) -> StreamComparison:
    different = None
    if found.difference is not None:
        vlsn, what, here, there = found.difference
        different = FirstDifference(
            vlsn=vlsn,
            what=what,
            type=here.type_name if here is not None else None,
            other_type=there.type_name if there is not None else None,
            lsn=lsn_of(here),
            other_lsn=lsn_of(there),
        )
    damaged = [node.env for node in (one, other) if node.damaged]
    problem = f"the log of {' and '.join(damaged)} is damaged" if damaged else ""
    # Sync points do not show whether the entries between them are the same.
    relation = DIFFERING if compared.relation == IDENTICAL and not same else compared.relation
    why = _why(relation, compared, found, different, same=same)
    verdict = exits.comparison_verdict(why, same=same, problem=problem)
    return StreamComparison(
        verdict=verdict.word,
        why=verdict.why,
        environment=one.env,
        other=other.env,
        relation=relation,
        same=same,
        compared_from=found.first,
        compared_to=found.last,
        equal_entries=found.same,
        not_compared=found.gaps,
        stream=stream_end(one.facts),
        other_stream=stream_end(other.facts),
        matchpoint=matchpoint_of(compared.matchpoint, compared.other_matchpoint),
        surplus=surplus_of(compared.surplus),
        other_surplus=surplus_of(compared.other_surplus),
        first_difference=different,
    )


def _why(
    relation: str, compared: Comparison, found: StreamDiff, different: FirstDifference | None, *, same: bool
) -> str:
    """The verdict in words: where the streams part, or which node has more."""
    ahead = [
        f"{plural(surplus.entries, 'entry', 'entries')} with {plural(surplus.commits, 'commit')} of the {which}"
        for surplus, which in ((compared.surplus, "first"), (compared.other_surplus, "second"))
        if surplus.entries
    ]
    after = f"; after the matchpoint come {' and '.join(ahead)}" if ahead else ""
    if different is not None:
        return f"{relation}: VLSN {different.vlsn} is the first that differs ({different.what}){after}"
    alike = plural(found.same, "entry is the same", "entries are the same")
    return alike if same else f"{relation}: {alike}{after}"
