"""``jetool journal``: the journals of Doris and StarRocks frontends."""

from __future__ import annotations

# Each module adds its commands to the group.
from jetool.commands.journal import checking, comparing, cutting, listing, showing, skipping, usage
from jetool.commands.journal.group import journal

__all__ = ["checking", "comparing", "cutting", "journal", "listing", "showing", "skipping", "usage"]
