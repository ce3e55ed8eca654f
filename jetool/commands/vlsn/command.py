"""``jetool vlsn``: the VLSN range and index of a replicated environment."""

from __future__ import annotations

# Each module adds its commands to the group.
from jetool.commands.vlsn import find, from_index, from_log, repair
from jetool.commands.vlsn.group import vlsn

__all__ = ["find", "from_index", "from_log", "repair", "vlsn"]
