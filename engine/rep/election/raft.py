"""The Raft library (pysyncobj), and nothing but the library: who votes, in which term, and who leads it.

Used with a transport of our own and ticked by our own thread, it opens no socket and no file. What it wants to send is
turned into the few messages of ``engine.rep.election.messages``, and what came is turned back:

* Its log has no entries but the one that a leader adds when it begins. That one is never sent: the stream of the
  environment is what is replicated. So every other log looks the same, and ``request_vote`` says of the candidate's log
  either "longer" or "shorter", as our ranking has decided.
* Nothing that it would unpickle can come in: messages are made here, of numbers.
* It keeps term and vote in memory. ``hear_term`` brings it to the term of the ballot after a restart, by a request that
  it has to refuse; the ballot itself is kept by the caller, before ``vote`` and ``request`` go out.
* It counts answers, not voters: an answer that comes twice is dropped here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final, Protocol

from engine.errors import UnsupportedError

_LONGER: Final = 1 << 60
_SHORTER: Final = -1
# Of the entry that every log begins with.
_FIRST_INDEX, _FIRST_TERM = 1, 0
_NEVER: Final = 1 << 60
# How often a leader beats, in parts of the election timeout; the library wants more than three.
BEATS: Final = 10


class Outlet(Protocol):
    """Where what the library wants to say goes. ``peer`` is one of those that it was made with."""

    def request(self, peer: str, term: int) -> None:
        """Ask for a vote."""

    def vote(self, peer: str, term: int) -> None:
        """Give it."""

    def beat(self, peer: str, term: int) -> None:
        """Say that the leader is there."""

    def answer_beat(self, peer: str, term: int) -> None:
        """Say that it was heard."""


def require_library() -> None:
    """Refuse to begin without the library.

    Raises:
        UnsupportedError: it is missing; says how to install it.
    """
    there = sys.modules["pysyncobj"] is not None if "pysyncobj" in sys.modules else find_spec("pysyncobj") is not None
    if not there:
        raise UnsupportedError(
            "elections need the Python package pysyncobj, which is not installed",
            consequence="the node was not started",
            hint="pip install 'jetool[elect]', or name the master by hand with --master",
        )


class Raft:
    """One voter; used by one thread.

    Arguments:
        name: of this voter.
        peers: the others, named differently.
        timeout_s: a leader that is silent for so long, and up to twice that, is given up; one that hears no majority
            for so long gives up.
        outlet: takes what is to be sent.
    """

    def __init__(self, name: str, peers: Sequence[str], timeout_s: float, outlet: Outlet) -> None:
        require_library()
        from pysyncobj import SyncObj, SyncObjConf
        from pysyncobj.node import Node

        conf = SyncObjConf(
            autoTick=False,
            raftMinTimeout=timeout_s,
            raftMaxTimeout=2 * timeout_s,
            appendEntriesPeriod=timeout_s / BEATS,
            leaderFallbackTimeout=timeout_s,
            connectionTimeout=2 * timeout_s,
            logCompactionMinEntries=_NEVER,
            logCompactionMinTime=_NEVER,
        )
        self._nodes = {peer: Node(peer) for peer in peers}
        self._self = Node(name)
        self._transport = _Transport(lambda: self.term, outlet)
        self._library = SyncObj(self._self, list(self._nodes.values()), conf, nodeClass=Node, transport=self._transport)
        self._voted: tuple[int, set[str]] = (0, set())

    @property
    def term(self) -> int:
        """The current one."""
        term: int = self._library.raftCurrentTerm
        return term

    @property
    def leads(self) -> bool:
        """Whether this voter is the leader."""
        return bool(self._library._isLeader())

    @property
    def leader(self) -> str | None:
        """The peer that leads, as far as is known."""
        leader = self._library._getLeader()
        return leader.id if leader is not None and leader.id in self._nodes else None

    def tick(self) -> None:
        """Stand when it is time; as the leader beat, and give up when no majority answers."""
        self._library.doTick()

    def close(self) -> None:
        """Give everything back."""
        self._library.destroy()

    def connected(self, peer: str, up: bool) -> None:
        """A peer can be reached, or no longer."""
        (self._transport.on_connected if up else self._transport.on_disconnected)(self._nodes[peer])

    def hear_term(self, term: int) -> None:
        """Somebody knows a term; when it is higher than ours, ours is over."""
        if term > self.term:
            self._request(self._self, term, _SHORTER)

    def hear_request(self, peer: str, term: int, *, newer: bool) -> None:
        """A candidate asks; its log is ``newer`` than ours or as new, or it gets no vote."""
        self._request(self._nodes[peer], term, _LONGER if newer else _SHORTER)

    def hear_vote(self, peer: str, term: int) -> None:
        """A peer votes for us."""
        counted = self._voted[1] if self._voted[0] == term else set()
        # The library counts answers, not voters.
        if term == self.term and peer not in counted:
            self._voted = term, counted | {peer}
            self._hear(self._nodes[peer], {"type": "response_vote", "term": term})

    def hear_beat(self, peer: str, term: int) -> None:
        """A leader is there."""
        first = {"prevLogIdx": _FIRST_INDEX, "prevLogTerm": _FIRST_TERM, "commit_index": _FIRST_INDEX, "entries": []}
        self._hear(self._nodes[peer], {"type": "append_entries", "term": term, **first})

    def hear_answer(self, peer: str, term: int) -> None:
        """A peer has heard our beat."""
        if term == self.term:
            # The entry after the only one: so the library never has an entry to send.
            done = {"next_node_idx": _FIRST_INDEX + 1, "reset": False, "success": True}
            self._hear(self._nodes[peer], {"type": "next_node_idx", **done})

    def hear_summons(self, peer: str, term: int) -> None:
        """The leader wants us to stand at once."""
        self._hear(self._nodes[peer], {"type": "timeout_now", "term": term})

    def _request(self, node: Any, term: int, log: int) -> None:
        self._hear(node, {"type": "request_vote", "term": term, "last_log_term": log, "last_log_index": log})

    def _hear(self, node: Any, message: dict[str, Any]) -> None:
        self._transport.on_message(node, message)


class _Transport:
    """What the library calls a transport: its callbacks, and ``send``. Names are the library's."""

    ready = True

    def __init__(self, term: Callable[[], int], outlet: Outlet) -> None:
        self._term = term
        self._outlet = outlet
        self.on_message: Callable[[Any, dict[str, Any]], None] = _ignore
        self.on_connected: Callable[[Any], None] = _ignore
        self.on_disconnected: Callable[[Any], None] = _ignore

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        """Take a message of the library; kinds that elections do not need are dropped."""
        kind = message["type"]
        if kind == "request_vote":
            self._outlet.request(node.id, message["term"])
        elif kind == "response_vote":
            self._outlet.vote(node.id, message["term"])
        elif kind == "append_entries":
            self._outlet.beat(node.id, message["term"])
        elif kind == "next_node_idx":
            self._outlet.answer_beat(node.id, self._term())
        return True

    def setOnMessageReceivedCallback(self, callback: Callable[[Any, dict[str, Any]], None]) -> None:  # noqa: N802
        """Keep it."""
        self.on_message = callback

    def setOnNodeConnectedCallback(self, callback: Callable[[Any], None]) -> None:  # noqa: N802
        """Keep it."""
        self.on_connected = callback

    def setOnNodeDisconnectedCallback(self, callback: Callable[[Any], None]) -> None:  # noqa: N802
        """Keep it."""
        self.on_disconnected = callback

    def setOnReadonlyNodeConnectedCallback(self, callback: object) -> None:  # noqa: N802
        """There are none."""

    setOnReadonlyNodeDisconnectedCallback = setOnReadonlyNodeConnectedCallback  # noqa: N815

    def setOnUtilityMessageCallback(self, message: str, callback: object) -> None:  # noqa: N802
        """None are let in."""

    def destroy(self) -> None:
        """There is nothing of its own."""


def _ignore(*_: object) -> None:
    return None
