"""Samples of the nodes of a running group.

A sample is one look at the group, as ``jetool group show HOST:PORT`` takes it. A node that does not answer keeps its
place with the reason as its ``problem``, also when no node answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from engine.errors import JetoolError
from engine.format.vlsn import NULL_VLSN
from engine.monitor.sample import NodeSample, rate
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, NodeLook, answers, look
from engine.rep.peers import address_text


class GroupMeter:
    """Takes samples of one group.

    Arguments:
        network: how nodes are called.
        addresses: one or more nodes; the others are found from them.
        group: the name of the group; None to take it from the nodes.
        timeout_s: timeout of each step of each call.
        clock: gives milliseconds since 1970.
        timer: gives seconds, for rates.
    """

    def __init__(
        self,
        network: Network,
        addresses: Sequence[Address],
        group: str | None,
        timeout_s: float,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._addresses = tuple(addresses)
        self._group = group
        self._timeout_s = timeout_s
        self._clock = clock
        self._timer = timer
        self._first: GroupLook | None = None
        self._answered: tuple[Address, ...] = ()
        self._known: dict[str, NodeSample] = {}
        self._vlsns: dict[str, tuple[float, int]] = {}

    def check(self) -> None:
        """Look at the group once; the next sample uses this look.

        Raises:
            JetoolError: as ``look``.
        """
        self._first = self._look()

    def sample(self) -> list[NodeSample]:
        """The nodes, members by id. It raises nothing: what is wrong is the ``problem`` of a sample."""
        now, made = self._timer(), self._clock()
        try:
            found, self._first = self._first or self._look(), None
        except JetoolError as error:
            return [one._replace(time=made, problem=str(error)) for one in self._silent()]
        # A group is known by its nodes only until one has named it.
        self._group = found.group
        self._answered = tuple(node.address for node in found.nodes if node.said is not None) or self._answered
        samples = [self._node(found, node, now, made) for node in found.nodes]
        self._known = {
            one.node: NodeSample(time=made, node=one.node, place=one.place, group=found.group) for one in samples
        }
        return samples

    def _look(self) -> GroupLook:
        # Nodes that were found are asked too: the one that was named may be the one that has stopped.
        places = dict.fromkeys((*self._addresses, *self._answered))
        return look(self._network, tuple(places), self._group, self._timeout_s)

    def _silent(self) -> Sequence[NodeSample]:
        if self._known:
            return tuple(self._known.values())
        names = map(address_text, self._addresses)
        return [NodeSample(time=0, node=name, place=name, group=self._group) for name in names]

    def _node(self, found: GroupLook, node: NodeLook, now: float, made: int) -> NodeSample:
        sample = NodeSample(time=made, node=node.name, place=address_text(node.address), group=found.group)
        said = node.said
        if said is None:
            return sample._replace(problem=None if answers(node) else node.problem or "no answer")
        before = self._vlsns.get(node.name)
        self._vlsns[node.name] = now, said.commit_vlsn
        vlsn = said.commit_vlsn if said.commit_vlsn > 0 else NULL_VLSN
        return sample._replace(
            state=said.state,
            master=said.master or None,
            vlsn=vlsn,
            vlsn_rate=None if before is None else rate(said.commit_vlsn, before[1], now - before[0]),
            lag=found.lag(node),
            je_version=said.je_version,
            load=node.load,
        )
