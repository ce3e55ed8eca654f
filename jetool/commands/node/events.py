"""What ``jetool node run`` reads from its options, and reports while the node runs."""

from __future__ import annotations

import threading
import time
from typing import Final

from engine.errors import JetoolError
from engine.rep.joined.node import JoinedNode
from engine.rep.status import Role
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape, Style, to_text

EVENT: Final = Shape(
    "event",
    "A node has taken up a role, or has a new reason for having none.",
    (
        Field("time", "time", "when"),
        Field("node", "text", "its name"),
        Field("role", "text", "master, replica, or unknown while it looks for the master"),
        Field("master", "text", "address of the master; null while it is not known", null=True),
        Field("last_vlsn", "vlsn", "the end of its part of the stream", null=True),
        Field("problem", "text", "why it has no master; null otherwise", null=True),
    ),
)
STOPPED: Final = Shape(
    "summary",
    "The node was stopped.",
    (Field("node", "text", "its name"), Field("last_vlsn", "vlsn", "the end of its part of the stream", null=True)),
)
_POLL_S: Final = 0.2


def event_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """An event in words: on a narrow terminal columns would leave out why there is no master."""
    values = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    words = {"master": "master ", "last_vlsn": "VLSN "}
    return "  ".join(words.get(name, "") + value for name, value in values.items())


def _why(problem: JetoolError) -> str:
    return f"{problem}; {problem.hint}" if problem.hint else str(problem)


def report(run: Run, running: JoinedNode, stopping: threading.Event) -> None:
    """Print changes of role, and of the reason for having no master, until the node ends."""
    said: tuple[Role, str, str | None] | None = None
    with run.out.stream(EVENT, line=event_line) as events:
        while not stopping.is_set() and running.failure is None:
            status = running.status()
            problem = running.problem if running.role is not Role.REPLICA else None
            now = (running.role, status.master, _why(problem) if problem is not None else None)
            # The end of the stream moves all the time; only a change of role is an event.
            if now != said:
                said = now
                row = (
                    int(time.time() * 1000),
                    status.node,
                    status.role,
                    status.master or None,
                    status.last_vlsn,
                    now[2],
                )
                events.row("event", EVENT.row(row))
                # Whoever watches through a pipe must hear of a new master at once.
                events.flush()
            running.await_end(_POLL_S)
        status = running.status()
        events.end(STOPPED.row((status.node, status.last_vlsn)))
