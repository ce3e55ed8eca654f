"""Lock types and the two tables that decide every request, as data (R-TXN-2, 3, 4).

A lock belongs to an LSN, that is, to one version of one record. A request is checked twice: against each other owner by
``CONFLICTS``, and against the requester's own lock by ``UPGRADES``. Reading without locks (read-uncommitted) uses none
of these types, and "restart" is an answer, not a type.

Range types serve serializable scans: a RANGE_READ or RANGE_WRITE on a record also guards the gap in front of it, and an
insertion into that gap requests RANGE_INSERT on the following record. A scan that meets an insertion waits for its end
and then starts again, because the range has changed.

Example: T1 owns READ on 0x0/0x64. T2 requests READ there: allow. T3 requests WRITE: block, T3 waits. T1 requests WRITE:
the upgrade of its READ is "wait (WRITE)" and T2 conflicts, so T1 waits at the head of the queue, before T3.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple


class LockType(IntEnum):
    """The access that a locker gets to a record version and to the gap in front of it."""

    READ = 0
    WRITE = 1
    RANGE_READ = 2
    RANGE_WRITE = 3
    RANGE_INSERT = 4


class Conflict(Enum):
    """The effect of an owner's lock on a request of another group."""

    ALLOW = "allow"
    BLOCK = "block"
    RESTART = "restart"


class UpgradeKind(Enum):
    """The effect of a held lock on a request of the same locker.

    SAME: nothing to do. NOW: the type is widened at once, unless another group's insertion causes a restart. WAIT: a
    promotion, granted when no other owner conflicts. ILLEGAL: no caller requests this.
    """

    SAME = "same"
    NOW = "now"
    WAIT = "wait"
    ILLEGAL = "illegal"


class Upgrade(NamedTuple):
    """One cell of the upgrade table; ``result`` is the type held afterwards."""

    kind: UpgradeKind
    result: LockType


class Grant(Enum):
    """The answer to a request.

    NEW: granted, the locker held nothing on this LSN. PROMOTED: granted, READ became WRITE. EXISTING: granted, already
    held, perhaps widened. DENIED: a request that must not wait; nothing changed. RESTART: it waited for an insertion
    and holds nothing; the cursor operation starts again.
    """

    NEW = "new"
    PROMOTED = "promoted"
    EXISTING = "existing"
    DENIED = "denied"
    RESTART = "restart"


_READ, _WRITE, _RANGE_READ, _RANGE_WRITE, _RANGE_INSERT = LockType
_ALLOW, _BLOCK, _RESTART = Conflict

# Owner (row) against request (column): READ, WRITE, RANGE_READ, RANGE_WRITE, RANGE_INSERT.
CONFLICTS: Final[tuple[tuple[Conflict, ...], ...]] = (
    (_ALLOW, _BLOCK, _ALLOW, _BLOCK, _ALLOW),  # READ
    (_BLOCK, _BLOCK, _BLOCK, _BLOCK, _ALLOW),  # WRITE
    (_ALLOW, _BLOCK, _ALLOW, _BLOCK, _BLOCK),  # RANGE_READ
    (_BLOCK, _BLOCK, _BLOCK, _BLOCK, _BLOCK),  # RANGE_WRITE
    (_ALLOW, _ALLOW, _RESTART, _RESTART, _ALLOW),  # RANGE_INSERT
)


def _same(result: LockType) -> Upgrade:
    return Upgrade(UpgradeKind.SAME, result)


def _now(result: LockType) -> Upgrade:
    return Upgrade(UpgradeKind.NOW, result)


def _wait(result: LockType) -> Upgrade:
    return Upgrade(UpgradeKind.WAIT, result)


def _illegal(held: LockType) -> Upgrade:
    return Upgrade(UpgradeKind.ILLEGAL, held)


# Held (row) against request (column), in the same order.
UPGRADES: Final[tuple[tuple[Upgrade, ...], ...]] = (
    (_same(_READ), _wait(_WRITE), _now(_RANGE_READ), _wait(_RANGE_WRITE), _illegal(_READ)),
    (_same(_WRITE), _same(_WRITE), _now(_RANGE_WRITE), _now(_RANGE_WRITE), _illegal(_WRITE)),
    (_same(_RANGE_READ), _wait(_RANGE_WRITE), _same(_RANGE_READ), _wait(_RANGE_WRITE), _illegal(_RANGE_READ)),
    (_same(_RANGE_WRITE), _same(_RANGE_WRITE), _same(_RANGE_WRITE), _same(_RANGE_WRITE), _illegal(_RANGE_WRITE)),
    (
        _illegal(_RANGE_INSERT),
        _illegal(_RANGE_INSERT),
        _illegal(_RANGE_INSERT),
        _illegal(_RANGE_INSERT),
        _same(_RANGE_INSERT),
    ),
)

WRITES: Final = frozenset((_WRITE, _RANGE_WRITE))
# The type that remains of a write lock if its owner only needs to keep others from writing.
DEMOTED: Final = {_WRITE: _READ, _RANGE_WRITE: _RANGE_READ}
