"""The position of a stream: the last yielded commit, and the state needed to continue exactly there.

* ``restart``: a transaction that was open at that commit has records before it. The stream is read again from the first
  of them, and transactions that ended up to the commit are not yielded twice.
* The last few thousand commits, so that after a fork the newest commit in both histories can be found. A commit is
  identified by VLSN, transaction and the master that wrote it; its time differs between nodes (je-ha-protocol.md 6.4).
* The names of databases, and the operations that undo those of the last transactions.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.rep.changes.database_names import NamedDatabase, Undo
from engine.rep.wire.entries import WireEntry

REMEMBERED: Final = 2000
_VERSION: Final = 1
_MOST: Final = (1 << 63) - 1


class CommitPoint(NamedTuple):
    """A commit.

    Attributes:
        dtvlsn: the durable VLSN in the commit; 0 or less if the commit holds none.
        restart: the VLSN from which to read the transactions that were open at the commit.
    """

    vlsn: int
    txn_id: int
    master_id: int
    dtvlsn: int
    restart: int

    def is_same(self, entry: WireEntry) -> bool:
        """Whether an entry is this commit.

        Raises:
            FormatError: the entry is malformed.
        """
        if entry.vlsn != self.vlsn or entry.type_number != COMMIT:
            return False
        end = entry.record()
        assert isinstance(end, TxnEnd)
        known = end.dtvlsn > 0 and self.dtvlsn > 0
        return (end.id, end.master_id) == (self.txn_id, self.master_id) and (not known or end.dtvlsn == self.dtvlsn)


class Torn(NamedTuple):
    """The facts about transactions that began before the stream.

    Attributes:
        start: the first VLSN of the stream.
        ends: number of transactions that have ended since the start.
        newest_txn: id of the newest transaction that was seen until a thousand had ended.
    """

    start: int
    ends: int = 0
    newest_txn: int = 0


class Position:
    """A position in the stream of a group; it advances as transactions are yielded.

    Arguments:
        group: the name of the group.
        uuid: identity of the group, as two signed numbers.
        torn: facts about the beginning of the stream.
        commits: the last yielded commits, oldest first.
        names: of databases.
        undos: VLSNs of commits that changed names, with the operations that undo them.
    """

    def __init__(
        self,
        group: str,
        uuid: tuple[int, int],
        torn: Torn,
        commits: list[CommitPoint],
        names: dict[int, NamedDatabase],
        undos: list[tuple[int, Undo]],
    ) -> None:
        self.group = group
        self.uuid = uuid
        self.torn = torn
        self.commits: deque[CommitPoint] = deque(commits, REMEMBERED)
        self.names = names
        self.undos = undos

    @property
    def last(self) -> CommitPoint | None:
        """The last yielded commit."""
        return self.commits[-1] if self.commits else None

    @property
    def restart(self) -> int:
        """The VLSN to read from."""
        return self.commits[-1].restart if self.commits else self.torn.start

    def as_json(self) -> dict[str, Any]:
        """The position as plain values."""
        return {
            "version": _VERSION,
            "group": self.group,
            "uuid": list(self.uuid),
            "torn": list(self.torn),
            "commits": [list(point) for point in self.commits],
            "names": [[db_id, *found] for db_id, found in sorted(self.names.items())],
            "undos": [[vlsn, [[db_id, found] for db_id, found in undo.items()]] for vlsn, undo in self.undos],
        }


def position_of(value: Any) -> Position:
    """A position from its plain values.

    Raises:
        FormatError: the values do not form a position.
    """
    try:
        if value["version"] != _VERSION:
            raise FormatError("version of a position", expected=str(_VERSION), found=str(value["version"])[:80])
        commits = [CommitPoint(*map(_number, point)) for point in value["commits"]]
        high, low = map(_number, value["uuid"])
        position = Position(
            _text(value["group"]),
            (high, low),
            Torn(*map(_number, value["torn"])),
            commits,
            {_number(db_id): _database(found) for db_id, *found in value["names"]},
            [
                (_number(vlsn), {_number(db_id): None if found is None else _database(found) for db_id, found in undo})
                for vlsn, undo in value["undos"]
            ],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError("a position in a stream", expected="its fields", found=str(error)[:200]) from error
    vlsns = [point.vlsn for point in commits]
    if vlsns != sorted(set(vlsns)) or any(point.restart not in range(1, point.vlsn + 2) for point in commits):
        raise FormatError("commits of a position", expected="rising VLSNs", found=str(vlsns[:5]))
    return position


def _database(found: Any) -> NamedDatabase:
    name, duplicates = found
    if duplicates is not None and not isinstance(duplicates, bool):
        raise ValueError(duplicates)
    return NamedDatabase(_text(name), duplicates)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST + 1:
        raise ValueError(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
