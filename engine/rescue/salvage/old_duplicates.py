"""Duplicates of log versions 6 and 7 (je-log-format.md 12.2), as rows of two-part keys.

Up to v7 the data items of a key form a tree of their own (DIN, DBIN) once there are two of them. A single item is an LN
in a slot of the main tree. So an LN is a record of its key and its data, a slot of a DBIN is a whole record, and a slot
of a BIN names a main key only. An LN with a main key and no data deletes the only item, whatever its value.

Example: ``LN 100 k=a | LN 200 k deleted | LN 300 k=b``: (k, a) is deleted, (k, b) is a record.
"""

from __future__ import annotations

from engine.rescue.salvage.versions import SINGLE, KeyVersions, LNVersion


class OldDuplicates:
    """Facts about old duplicates in the log of one node, besides rows of two-part keys."""

    def __init__(self) -> None:
        self._deletions: dict[tuple[int, bytes], list[LNVersion]] = {}
        self._trees: set[tuple[int, bytes]] = set()
        self._legible: set[int] = set()

    def take_entry(self, lsn: int) -> None:
        """Note an LN or a node of a duplicates tree that a slot of a BIN may lead to."""
        self._legible.add(lsn)

    def take_tree(self, database: int, main_key: bytes) -> None:
        """A DBIN of a main key."""
        self._trees.add((database, main_key))

    def take_deletion(self, database: int, main_key: bytes, version: LNVersion) -> None:
        """Note the deletion of the only item of a main key."""
        self._deletions.setdefault((database, main_key), []).append(version)

    def complete(self, database: int, key: bytes, main_key: bytes | None, found: KeyVersions) -> None:
        """Add deletions of the main key to the versions of a record; drop a slot that leads to a legible entry.

        Arguments:
            key: the key of the record in the sorted rows.
            main_key: the first part of the key; None if it does not have two parts.
        """
        slot = found.slot
        if slot is not None and slot[1] & SINGLE:
            deletions = self._deletions.get((database, key), ())
            known = slot[0] in self._legible or (database, key) in self._trees
            if known or any(lsn > slot[0] for lsn, *_ in deletions):
                found.slot = None
        elif main_key is not None:
            newest = max((lsn for lsn, *_ in found.lns), default=-1)
            found.lns += [row for row in self._deletions.get((database, main_key), ()) if row[0] > newest]
