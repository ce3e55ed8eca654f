"""``jetool vlsn``: code that its commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import UsageError
from engine.format.vlsn import NULL_VLSN
from jetool.frame import exits
from jetool.frame.environments import READ_EXITS
from jetool.frame.groups import group
from jetool.frame.node_stream import StreamNode
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.db.environment import Environment
    from engine.db.vlsn_index.view import IndexView
    from engine.vlsn.index import VLSNIndex

LOG_EXITS: Final = {
    exits.NOT_FOUND: "no environment",
    exits.UNSUPPORTED: "a log version that this program does not read",
    exits.INCOMPLETE: "a file cannot be read",
}
INDEX_EXITS: Final = {
    **READ_EXITS,
    exits.FINDINGS: "printed; index and log disagree, or damage was found",
}

vlsn = group(
    "vlsn",
    help="VLSNs of a replicated environment: the stream in its log, and the index that finds entries by VLSN.",
    examples=(
        ("First and last VLSN of each file", "jetool vlsn map /data/env"),
        ("Do index and log agree", "jetool vlsn check /data/env"),
        ("The range, the same as jetool vlsn range", "jetool vlsn /data/env"),
    ),
    place_default="range",
)


def index_of(run: Run, env: Environment) -> VLSNIndex:
    """The index as opening for writing would leave it; an empty index, with a notice, if the environment is not
    replicated.

    Raises:
        DamageError: opening the environment for writing would fail.
    """
    from engine.db.vlsn_index.view import read_index
    from engine.vlsn.index import VLSNIndex
    from engine.vlsn.memory_index import MemoryIndex

    view = read_index(env.engine.parts)
    if view.refused is not None:
        raise view.refused
    if view.merged is None:
        note_stand_alone(run, env.home)
        return VLSNIndex(MemoryIndex())
    return view.merged


def has_stream(node: StreamNode, view: IndexView) -> bool:
    """Whether an environment has a stream or an index at all."""
    return node.facts.first != NULL_VLSN or bool(view.records)


def note_stand_alone(run: Run, env: str) -> None:
    """Print a notice that the environment has no stream."""
    run.messages.notice("the environment has no VLSN: it is not replicated", file=env)


def not_replicated(env: str) -> UsageError:
    """The error for an environment without a stream, for commands that need one."""
    return UsageError(
        "the environment is not replicated: it has no VLSN",
        file=env,
        hint="jetool info describes it; every node of a group has its own environment",
    )
