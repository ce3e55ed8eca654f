"""Collecting a bounded number of findings: a lost file causes the same finding for every slot that refers into it.

The first hundred findings of each kind and database are kept. The others are counted, and one finding gives their
number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN, file_of, format_lsn, is_null
from engine.log.files import LogFiles, log_file_name
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.verify.report import ERROR, Finding, Rule, finding

_KEPT: Final = 100
_NO_KEY: Final = object()


class FoundPart(NamedTuple):
    """The findings of a part of a walk.

    Attributes:
        kept: kinds and findings, in order.
        seen: number of findings of each kind, in order of first occurrence.
    """

    kept: list[tuple[tuple[Rule, str], Finding]]
    seen: Counter[tuple[Rule, str]]


class Collector:
    """Collects findings about trees.

    Arguments:
        files: the log files, for their names.
    """

    def __init__(self, files: LogFiles) -> None:
        self._paths = {file.number: file.path for file in files.files}
        self._part = FoundPart([], Counter())

    def add(
        self,
        rule: Rule,
        message: str,
        *,
        lsn: int = NULL_LSN,
        file: str = "",
        db: DatabaseState | None = None,
        key: Key = _NO_KEY,
        label: str = "",
    ) -> None:
        """Take one finding.

        Arguments:
            lsn: where the damage is.
            file: the file concerned, if it is not the file of the LSN.
            db, key: the database and the key (in comparable form) concerned.
            label: the name of the database to print, if it differs from the name in memory.
        """
        label = label or (db.label if db is not None else "")
        kept, seen = self._part
        seen[rule, label] += 1
        if seen[rule, label] > _KEPT:
            return
        stored = None if key is _NO_KEY or db is None else stored_key(db, key)
        made = finding(rule, message, lsn=lsn, file=file or self._path(lsn), db=label or None, key=stored)
        kept.append(((rule, label), made))

    def has_errors(self, db: DatabaseState, but: Collection[Rule] = ()) -> bool:
        """Whether the part so far has errors of a database; errors of the rules in ``but`` do not count."""
        seen = (rule for rule, label in self._part.seen if label == db.label)
        return any(rule.severity == ERROR and rule not in but for rule in seen)

    def swap(self, part: FoundPart | None = None) -> FoundPart:
        """Switch to another part, by default a new one; returns the previous part."""
        before, self._part = self._part, part or FoundPart([], Counter())
        return before

    def join(self, later: FoundPart) -> None:
        """Append the findings of the next part of the walk, as if they had been found here."""
        kept, seen = self._part
        counts = Counter(seen)
        for kind, made in later.kept:
            counts[kind] += 1
            if counts[kind] <= _KEPT:
                kept.append((kind, made))
        for kind, count in later.seen.items():
            seen[kind] += count

    def all(self) -> list[Finding]:
        """Everything that was found, in the order of the walk."""
        more = [
            finding(rule, f"{count - _KEPT} more of this kind", db=label or None)
            for (rule, label), count in self._part.seen.items()
            if count > _KEPT
        ]
        return [made for _, made in self._part.kept] + more

    def _path(self, lsn: int) -> str:
        return "" if is_null(lsn) else self._paths.get(file_of(lsn), log_file_name(file_of(lsn)))


def stored_key(db: DatabaseState, key: Key) -> bytes:
    """The bytes of a key as stored in the log."""
    return key if isinstance(key, bytes) else db.order.unwrap(key)


def at(lsn: int) -> str:
    """A place in words: an LSN, or a note that the node was never logged."""
    return "in memory" if is_null(lsn) else f"at {format_lsn(lsn)}"
