"""Finding deadlocks, and choosing the transaction that gives way.

Rule R-TXN-25. A waiting request waits for every owner that conflicts with it and, because queues are first in first
out, for every request in front of it. Requests are nodes; a group of lockers that owns a lock stands for all of its own
waiting requests. The requester searches breadth first for the shortest path back to its own group. The table holds its
mutex meanwhile, so the search sees a consistent state.

One cycle has one victim, the **youngest** locker, which has the highest id (ids count up, replicated ones down from
-10, so the highest absolute value). The longest-running transaction therefore always survives, and the choice does not
depend on the thread that finds the cycle. Importunate lockers, which must not fail, are chosen only if there are no
others.

Example: T1 owns A, T2 owns B and C, T3 owns D. T2 waits for A, T1 requests B: the cycle is T1, T2; the victim is T2,
and T1, which found the cycle, continues to wait until T2 has released B.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence

from engine.format.lsn import format_lsn
from engine.txn.lock_entry import Waiter

WaitingGroups = Mapping[Hashable, Sequence[Waiter]]


def find_cycle(start: Waiter, waiting: WaitingGroups) -> list[Waiter]:
    """The shortest cycle through a request.

    Arguments:
        start: a waiting request.
        waiting: all waiting requests, by group.

    Returns:
        The requests of the cycle, beginning with ``start``, or an empty list.
    """
    home = start.locker.group
    came_from: dict[Waiter, Waiter | None] = {start: None}
    queue = deque((start,))
    while queue:
        waiter = queue.popleft()
        for group in _waited_for(waiter):
            if group == home:
                return _way_back(waiter, came_from)
            for other in waiting.get(group, ()):
                if other not in came_from:
                    came_from[other] = waiter
                    queue.append(other)
    return []


def choose_victim(cycle: Sequence[Waiter]) -> Waiter:
    """The request of a cycle that fails: the youngest locker that is not importunate."""
    candidates = [waiter for waiter in cycle if not waiter.locker.importunate] or cycle
    # Replicated ids count down, so the youngest has the largest absolute value.
    return max(candidates, key=lambda waiter: (abs(waiter.locker.id), waiter.locker.id))


def describe_cycle(cycle: Sequence[Waiter]) -> str:
    """The cycle as text for the victim's error message."""
    return " -> ".join(
        f"transaction {waiter.locker.id} wants {waiter.lock_type.name} at {format_lsn(waiter.lock.lsn)}"
        for waiter in cycle
    )


def _waited_for(waiter: Waiter) -> Iterator[Hashable]:
    # Owners first: a cycle closed by an owner does not depend on another waiter's place in the queue.
    home = waiter.locker.group
    for owner in waiter.lock.in_the_way(waiter):
        yield owner.group
    for ahead in waiter.lock.waiters or ():
        if ahead is waiter:
            break
        if ahead.locker.group != home:
            yield ahead.locker.group


def _way_back(last: Waiter, came_from: Mapping[Waiter, Waiter | None]) -> list[Waiter]:
    way = [last]
    before = came_from[last]
    while before is not None:
        way.append(before)
        before = came_from[before]
    way.reverse()
    return way
