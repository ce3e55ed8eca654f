"""The encoder of ``dump-log --format xml``. Its rows contain the entry or damage objects; ``dump_xml`` renders the
lines.

A row is ``[("item", "item", LogEntry or Damage), ("record", "record", the decoded body or None)]``.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.fields import Row
from engine.log.entry import Damage
from jetool.commands.dump_log.xml_entries import EPILOGUE, PROLOGUE, bad_line, entry_line


class XmlEncoder:
    """Renders entries between the prologue and the epilogue."""

    between = b""

    def head(self) -> bytes:
        """The start tag of the root element."""
        return f"{PROLOGUE}\n".encode()

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """One line per entry."""
        lines = []
        for _, ((_, _, item), (_, _, record)) in rows:
            lines.append(bad_line(item) if isinstance(item, Damage) else entry_line(item, record))
        return "".join([f"{line}\n" for line in lines]).encode()

    def foot(self, summary: Row) -> bytes:  # noqa: ARG002 - the end tag says that the stream is complete
        """The end tag of the root element."""
        return f"{EPILOGUE}\n".encode()
