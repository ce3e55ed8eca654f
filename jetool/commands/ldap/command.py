"""``jetool ldap``: LDAP servers of the OpenDJ family."""

from __future__ import annotations

# Each module adds its commands to the group.
from jetool.commands.ldap import backend, changelog, changes
from jetool.commands.ldap.group import ldap

__all__ = ["backend", "changelog", "changes", "ldap"]
