"""Updates of a replication changelog as LDIF change records (RFC 2849).

Example::

    # 0000018bcfe568000007000000000000 modify, server 7
    dn: uid=a,dc=example,dc=com
    changetype: modify
    replace: mail
    mail: a@example.com
    -

Attributes that LDAP clients may not set, such as ``entryUUID`` and ``modifyTimestamp``, are printed as the update has
them. A change of the DN also modifies such attributes; LDIF has no place for that, and a comment names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from engine.contents.changelog_updates import (
    ADD,
    DELETE,
    MODIFY,
    MODIFY_DN,
    ReplicaUpdate,
    attributes_of,
    modifications_of,
)
from engine.contents.ldap_attributes import LdapAttribute
from engine.contents.opendj import ldif_line, readable_value
from engine.errors import FormatError

# Asks a server to delete an entry with all entries below it.
_SUBTREE_CONTROL: Final = "1.2.840.113556.1.4.805 true"
_ENTRY_KINDS: Final = (ADD, DELETE, MODIFY, MODIFY_DN)


def change_record(update: ReplicaUpdate) -> str | None:
    """An update as an LDIF record, with a comment before it and an empty line after it.

    Returns:
        None if the update is of no entry (generic, offline, encrypted), lacks its DN, or cannot be decoded whole.
    """
    if update.kind not in _ENTRY_KINDS or update.dn is None or update.csn is None:
        return None
    try:
        lines = list(_lines(update))
    except (FormatError, ValueError):
        return None
    return "\n".join([f"# {update.csn} {update.kind}, server {update.csn.server}", *lines]) + "\n\n"


def _lines(update: ReplicaUpdate) -> Iterator[str]:
    modifications = modifications_of(update)
    if update.kind == MODIFY_DN and modifications:
        yield f"# also modified: {', '.join(one.attribute.name for one in modifications)}"
    yield ldif_line("dn", (update.dn or "").encode())
    if update.kind == DELETE and update.subtree:
        yield f"control: {_SUBTREE_CONTROL}"
    yield f"changetype: {'moddn' if update.kind == MODIFY_DN else update.kind}"
    for attribute in attributes_of(update):
        yield from _values(attribute)
    if update.kind == MODIFY:
        for one in modifications:
            yield ldif_line(one.kind, one.attribute.name.encode())
            yield from _values(one.attribute)
            yield "-"
    if update.kind == MODIFY_DN:
        yield ldif_line("newrdn", (update.new_rdn or "").encode())
        yield f"deleteoldrdn: {1 if update.deletes_old_rdn else 0}"
        if update.new_superior is not None:
            yield ldif_line("newsuperior", update.new_superior.encode())


def _values(attribute: LdapAttribute) -> Iterator[str]:
    return (ldif_line(attribute.name, value) for value in attribute.values)


def changes_json(update: ReplicaUpdate) -> list[dict[str, Any]] | None:
    """Attributes of an added entry, or modifications, for JSON; None if the update has none or they cannot be decoded.

    Each has ``attribute`` and ``values``; a modification also ``op``. Values that are not text are in base64.
    """
    try:
        added = [{"attribute": one.name, "values": _json(one)} for one in attributes_of(update)]
        modified = [
            {"op": one.kind, "attribute": one.attribute.name, "values": _json(one.attribute)}
            for one in modifications_of(update)
        ]
    except (FormatError, ValueError):
        return None
    return added + modified or None


def _json(attribute: LdapAttribute) -> list[Any]:
    return [readable_value(value) for value in attribute.values]
