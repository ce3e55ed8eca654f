"""``jetool journal``: the journals of Doris and StarRocks frontends."""

from __future__ import annotations

# Each module adds its commands to the group.
from jetool.commands.journal import check, compare, journals, plan_skip, show, truncate, usage
from jetool.commands.journal.group import journal

__all__ = ["check", "compare", "journal", "journals", "plan_skip", "show", "truncate", "usage"]
