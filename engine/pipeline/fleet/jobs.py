"""Reports and comparisons of a fleet. A task takes parts of environments and returns facts.

On Spark every job is an RDD of parts: no row of a log passes through the JVM. Tasks use module-level functions of this
package, so Spark sends the names of these functions, not their code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from engine.events import SILENT, Listener
from engine.pipeline.failures import explained
from engine.pipeline.fleet.backends import UNCHANGED, FleetBackend, SparkFleet
from engine.pipeline.fleet.collect_facts import collect_part
from engine.pipeline.fleet.groups import FleetNode, NodePair, compare_group, node_of
from engine.pipeline.fleet.log_facts import Facts
from engine.pipeline.fleet.node_streams import NodeStream, collect_stream, joined
from engine.pipeline.fleet.profile import Profile, make_profile, unreadable
from engine.pipeline.inventory import EnvironmentListing, LogPart, pack, parts_of
from engine.pipeline.python_side import settle_worker

if TYPE_CHECKING:
    from pyspark import RDD

    from engine.pipeline.job_run import Tally


class GroupComparison(NamedTuple):
    """Nodes, and each pair of nodes of a group."""

    nodes: list[FleetNode]
    pairs: list[NodePair]


def report_fleet(
    backend: FleetBackend, fleet: Sequence[EnvironmentListing], listener: Listener = SILENT
) -> list[Profile]:
    """Profiles of all environments, in the order of naming.

    Raises:
        JobError: Spark gave up.
    """
    with explained("the fleet report failed", consequence=UNCHANGED):
        found = backend.results(_collect_task, _parts(fleet, backend), "read logs", listener)
    facts: dict[str, Facts] = {}
    # Parts come in any order; facts are joined in log order.
    for env, _, part in sorted(found, key=lambda one: (one[0], one[1])):
        facts.setdefault(env, Facts()).join(part)
    profiles = []
    for listed in fleet:
        if listed.files is None:
            profiles.append(unreadable(listed.member, str(listed.error)))
        else:
            profiles.append(make_profile(listed.member, listed.files, facts.get(listed.member.env, Facts())))
    return profiles


def compare_fleet(
    backend: FleetBackend, fleet: Sequence[EnvironmentListing], listener: Listener = SILENT
) -> GroupComparison:
    """All nodes, and each pair of nodes of every group.

    Raises:
        JobError: Spark gave up.
    """
    named = {listed.member.env: listed.member.group for listed in fleet}
    parts = _parts(fleet, backend)
    with explained("the comparison failed", consequence=UNCHANGED):
        if isinstance(backend, SparkFleet):
            nodes, pairs = _compared_on_spark(backend, parts, named, listener)
        else:
            nodes, pairs = _compared_here(backend, parts, named, listener)
    order = {env: index for index, env in enumerate(named)}
    nodes.sort(key=lambda node: order[node.env])
    pairs.sort(key=lambda pair: (order[pair.env], order[pair.other]))
    return GroupComparison(nodes, pairs)


def _compared_on_spark(
    backend: SparkFleet, tasks: Sequence[list[LogPart]], named: Mapping[str, str], listener: Listener
) -> GroupComparison:
    """Nodes and pairs; the streams stay on the executors, only results are returned."""
    session = backend.session
    tally = session.tally()
    parts: RDD[tuple[str, NodeStream]] = session.context.parallelize(tasks, max(1, len(tasks))).flatMap(
        partial(_stream_task, tally)
    )
    # Keep the streams in memory for both jobs, which is cheaper than to read the logs twice.
    streams = parts.groupByKey().mapValues(_join_streams).cache()
    try:
        nodes: list[FleetNode] = session.run(streams.map(partial(_node, named)).collect, "read logs", listener)
        keys = {node.env: node.group_key for node in nodes if node.is_replicated}
        grouped = streams.flatMap(partial(_by_group, keys)).groupByKey()
        pairs: list[NodePair] = session.run(grouped.flatMap(_compare_task).collect, "compare nodes", listener)
    finally:
        streams.unpersist()
    return GroupComparison(nodes, pairs)


def _compared_here(
    backend: FleetBackend, tasks: Sequence[list[LogPart]], named: Mapping[str, str], listener: Listener
) -> GroupComparison:
    """Nodes and pairs; the streams are joined and compared in this process."""
    parts: dict[str, list[NodeStream]] = {}
    for env, part in backend.results(_stream_task, tasks, "read logs", listener):
        parts.setdefault(env, []).append(part)
    streams = {env: joined(found) for env, found in parts.items()}
    nodes = [node_of(env, stream, named[env]) for env, stream in streams.items()]
    groups: dict[str, dict[str, NodeStream]] = {}
    for node in nodes:
        if node.is_replicated:
            groups.setdefault(node.group_key, {})[node.env] = streams[node.env]
    return GroupComparison(nodes, [pair for group in groups.values() for pair in compare_group(group)])


def _parts(fleet: Iterable[EnvironmentListing], backend: FleetBackend) -> list[list[LogPart]]:
    listed = [one for one in fleet if one.files is not None]
    return pack([parts_of(one.member.env, one.files) for one in listed if one.files is not None], backend.task_bytes)


def _collect_task(tally: Tally, parts: list[LogPart]) -> Iterator[tuple[str, int, Facts]]:
    settle_worker()
    for part in parts:
        facts = collect_part(part)
        tally.add(sum(file.entries for file in facts.files))
        yield part.env, part.files[0].number, facts


def _stream_task(_: Tally, parts: list[LogPart]) -> Iterator[tuple[str, NodeStream]]:
    settle_worker()
    for part in parts:
        yield part.env, collect_stream(part)


def _join_streams(parts: Iterable[NodeStream]) -> NodeStream:
    return joined(list(parts))


def _node(named: Mapping[str, str], found: tuple[str, NodeStream]) -> FleetNode:
    env, stream = found
    return node_of(env, stream, named[env])


def _by_group(keys: Mapping[str, str], found: tuple[str, NodeStream]) -> Iterator[tuple[str, tuple[str, NodeStream]]]:
    if found[0] in keys:
        yield keys[found[0]], found


def _compare_task(found: tuple[str, Iterable[tuple[str, NodeStream]]]) -> list[NodePair]:
    return list(compare_group(dict(found[1])))
