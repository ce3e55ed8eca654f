"""Why JE refuses to open an intact environment: it is of another kind, or another program has it open."""

from __future__ import annotations

from typing import Final

from engine.rescue.messages.record import INFO, NONE, NOT_OPEN, KnownMessage

_CONVERSION: Final = "check the directory; jetool info {env}; DbEnableReplication of JE converts the environment"

OPEN_TEXTS: Final = (
    KnownMessage(
        word="replicated environment opened alone",
        cause="the environment belongs to a replication group, and the application opened it for writing without "
        "replication; the log is good",
        risk=NONE,
        next="open it as a ReplicatedEnvironment, or read-only; jetool group show {env}",
        environment=NOT_OPEN,
        signs=("previously opened for replication",),
    ),
    KnownMessage(
        word="environment never replicated",
        cause="the application opened the environment as a node of a group, but it was never replicated; the log is "
        "good",
        risk=NONE,
        next=_CONVERSION,
        environment=NOT_OPEN,
        signs=("previously opened as a standalone",),
    ),
    KnownMessage(
        word="environment not converted",
        cause="the environment was never replicated, and has to be converted before it can be a node of a group; "
        "the log is good",
        risk=NONE,
        next=_CONVERSION,
        environment=NOT_OPEN,
        signs=("must be converted for replication",),
    ),
    KnownMessage(
        word="directory of an arbiter",
        cause="an arbiter of the group runs in this directory: an environment cannot be opened there",
        risk=NONE,
        next=INFO,
        environment=NOT_OPEN,
        signs=("Arbiter is currently using this",),
    ),
)
