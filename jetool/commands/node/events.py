"""Options of ``jetool node run``, and its reports while the node runs."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Final, NamedTuple, Protocol

from engine.errors import JetoolError
from engine.fields import Row, Text, Time, Vlsn, record
from engine.rep.status import NodeStatus, Role
from jetool.frame.options import Run
from jetool.output.shape import Style, to_text


@record("event")
class RoleChange(NamedTuple):
    """The role of a node, its master, or the reason why it has no master has changed."""

    time: Annotated[Time, "when"]
    node: Annotated[Text, "its name"]
    role: Annotated[Text, "master, replica, or unknown while it looks for the master"]
    master: Annotated[Text | None, "address of the master; null while it is not known"]
    last_vlsn: Annotated[Vlsn | None, "the end of its part of the stream; of an arbiter the last acknowledged commit"]
    problem: Annotated[Text | None, "why it has no master; null otherwise"]


@record("summary")
class StoppedNode(NamedTuple):
    """The node was stopped."""

    node: Annotated[Text, "its name"]
    last_vlsn: Annotated[Vlsn | None, "the end of its part of the stream; of an arbiter the last acknowledged commit"]


_POLL_S: Final = 0.2


class NodeLike(Protocol):
    """A member with a log, or an arbiter."""

    @property
    def role(self) -> Role:
        """Its role in the group."""

    @property
    def failure(self) -> Exception | None:
        """The error that stopped it, or None."""

    @property
    def problem(self) -> JetoolError | None:
        """Why it has no master now, or None."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End; the files are closed."""

    def status(self) -> NodeStatus:
        """Its state."""

    def await_end(self, timeout_s: float) -> bool:
        """Wait until it has failed; False after the timeout."""


def event_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """An event in words, because on a narrow terminal columns would drop the reason why there is no master."""
    values = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    words = {"master": "master ", "last_vlsn": "VLSN "}
    return "  ".join(words.get(name, "") + value for name, value in values.items())


def _why(problem: JetoolError) -> str:
    return f"{problem}; {problem.hint}" if problem.hint else str(problem)


def report(run: Run, running: NodeLike, stopping: threading.Event) -> None:
    """Print changes of the role, and of the reason for having no master, until the node ends."""
    said: tuple[Role, str, str | None] | None = None
    with run.out.stream(RoleChange, line=event_line) as events:
        while not stopping.is_set() and running.failure is None:
            status = running.status()
            problem = running.problem if running.role is not Role.REPLICA else None
            now = (running.role, status.master, _why(problem) if problem is not None else None)
            # The end of the stream changes constantly; only a change of role is an event.
            if now != said:
                said = now
                events.row(
                    RoleChange(
                        time=int(time.time() * 1000),
                        node=status.node,
                        role=status.role,
                        master=status.master or None,
                        last_vlsn=status.last_vlsn,
                        problem=now[2],
                    )
                )
                # Flush: a reader of the pipe must see a new master at once.
                events.flush()
            running.await_end(_POLL_S)
        status = running.status()
        events.end(StoppedNode(node=status.node, last_vlsn=status.last_vlsn))
