"""The replication stream of a node, collected part by part, for comparing nodes.

See ``StreamFacts`` for how parts are joined. Each Commit, Abort and Matchpoint takes 72 bytes, so the streams of a
group
stay on executors: they are grouped and compared there, and only results are returned.
"""

from __future__ import annotations

from engine.errors import FormatError, JetoolError
from engine.format.entry_types import STREAM_LNS
from engine.format.stream_facts import StreamFacts, matters
from engine.inspect.group_record import GroupName, group_of
from engine.log.entry import LogEntry
from engine.log.scan import LogScan, scan_file
from engine.pipeline.inventory import LogPart
from engine.storage.disk import DiskStorage


class NodeStream:
    """The stream in some consecutive files of a node.

    Attributes:
        order: number of the first of them.
        facts: of the stream.
        group: the replication group, or None if these files do not name it.
        damages: number of damaged stretches that were skipped, including a torn tail.
        problem: why a file could not be read; empty if all were read.
    """

    __slots__ = ("damages", "facts", "group", "order", "problem")

    def __init__(self, order: int) -> None:
        self.order = order
        self.facts = StreamFacts()
        self.group: GroupName | None = None
        self.damages = 0
        self.problem = ""

    def join(self, later: NodeStream) -> None:
        """Add the facts of the following files."""
        self.facts.join(later.facts)
        self.group = later.group or self.group
        self.damages += later.damages
        self.problem = self.problem or later.problem


def collect_stream(part: LogPart) -> NodeStream:
    """The stream in some consecutive files of an environment."""
    storage = DiskStorage(part.env)
    whole = NodeStream(part.files[0].number if part.files else 0)
    for file in part.files:
        found = NodeStream(file.number)
        try:
            _read(found, scan_file(storage, file, is_last=file.number >= part.end_file, past_end=False))
        except JetoolError as error:
            found.problem = str(error)
        whole.join(found)
    return whole


def joined(parts: list[NodeStream]) -> NodeStream:
    """The stream of a node from its parts, in any order."""
    whole = NodeStream(0)
    for part in sorted(parts, key=lambda part: part.order):
        whole.join(part)
    return whole


def _read(found: NodeStream, scan: LogScan) -> None:
    """Read a file up to the end of the log: what follows damage in the last file is after it (R-LOG-31)."""
    add = found.facts.add
    for item in scan.entries():
        if not isinstance(item, LogEntry):
            found.damages += 1
            continue
        if matters(item.type_number, item.flags):
            try:
                add(item.lsn, item.type_number, item.version, item.flags, item.vlsn, item.body)
            except FormatError:
                found.damages += 1
            if item.type_number in STREAM_LNS and not item.invisible:
                found.group = group_of(item) or found.group
