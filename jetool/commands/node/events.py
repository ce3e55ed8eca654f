"""What ``jetool node run`` reads from its options, and reports while the node runs."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

import click

from engine.errors import JetoolError
from engine.rep.messages import NodeStatus
from engine.rep.settings import ElectionConfig, Role
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
        Field("term", "int", "the highest that it knows; null where masters are named by hand", null=True),
        Field("problem", "text", "why it has no master, or feeds a replica no more; null otherwise", null=True),
    ),
)
STOPPED: Final = Shape(
    "summary",
    "The node was stopped.",
    (Field("node", "text", "its name"), Field("last_vlsn", "vlsn", "the end of its part of the stream", null=True)),
)
_POLL_S: Final = 0.2


class RunningNode(Protocol):
    """A node of a group of jetool nodes, or of a group of JE."""

    failure: Exception | None

    @property
    def problem(self) -> JetoolError | None:
        """Why it has no master, or feeds a replica no more."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """Close the environment."""

    @property
    def role(self) -> Role:
        """What it is now."""

    def status(self) -> NodeStatus:
        """What it says of itself."""

    def await_end(self, timeout_s: float) -> bool:
        """Wait until it has failed; False when it has not in that time."""


def read_election(leads: bool, elect: bool, priority: int | None, timeout_s: float | None) -> ElectionConfig | None:
    """How the master is elected; None when it is named by hand. Raises UsageError."""
    ctx = click.get_current_context()
    if leads and elect:
        raise click.UsageError("--master names the master by hand, --elect has it elected; leave one out", ctx)
    if not elect and (priority is not None or timeout_s is not None):
        raise click.UsageError("--priority and --election-timeout have no meaning without --elect", ctx)
    if not elect:
        return None
    plain = ElectionConfig()
    return ElectionConfig(
        plain.priority if priority is None else priority, plain.timeout_s if timeout_s is None else timeout_s
    )


def event_line(rec: str, row: Row, style: Style) -> str:  # noqa: ARG001 - the signature of TextLine
    """An event in words: on a narrow terminal columns would leave out why there is no master."""
    values = {name: to_text(kind, value, style) for name, kind, value in row if value is not None}
    words = {"master": "master ", "last_vlsn": "VLSN ", "term": "term "}
    return "  ".join(words.get(name, "") + value for name, value in values.items())


def report(run: Run, running: RunningNode, stopping: threading.Event) -> None:
    """Print changes of role, and of the reason for having no master, until the node ends."""
    said: tuple[Role, str, int | None, str | None] | None = None
    with run.out.stream(EVENT, line=event_line) as events:
        while not stopping.is_set() and running.failure is None:
            status = running.status()
            problem = running.problem if running.role is not Role.REPLICA else None
            term = status.term if status.elects else None
            now = (running.role, status.master, term, str(problem) if problem is not None else None)
            # The end of the stream moves all the time; only a change of role is an event.
            if now != said:
                said = now
                row = (
                    int(time.time() * 1000),
                    status.node,
                    status.role,
                    status.master or None,
                    status.last_vlsn,
                    *now[2:],
                )
                events.row("event", EVENT.row(row))
                # Whoever watches through a pipe must hear of a new master at once.
                events.flush()
            running.await_end(_POLL_S)
        status = running.status()
        events.end(STOPPED.row((status.node, status.last_vlsn)))
