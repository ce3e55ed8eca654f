"""Named progress steps, and the listener that receives them.

The engine reports its progress through one small protocol: the command line draws a progress bar from it, the crash
simulation raises from it, tests count the calls. Events never carry data that the result lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar, runtime_checkable

# Number of reported parts in a unit that takes long, such as a database.
PARTS: Final = 1000
Item = TypeVar("Item")


class Listener(Protocol):
    """Receives the steps of a long operation."""

    def step(self, name: str, done: int, total: int) -> None:
        """A step has advanced.

        Arguments:
            name: the step, stable text such as ``scan`` or ``file``.
            done: units finished so far (bytes for scans).
            total: total number of units, or 0 when it is not known.
        """


@runtime_checkable
class RecordCountListener(Protocol):
    """A listener that also shows the number of records, for steps that count both units and records."""

    def count(self, name: str, records: int) -> None:
        """Report the number of records so far; called before the ``step`` that it belongs to."""


def counted(listener: Listener, name: str, done: int, total: int, records: int) -> None:
    """Report a step that counts records too; see ``Listener.step``."""
    if isinstance(listener, RecordCountListener):
        listener.count(name, records)
    listener.step(name, done, total)


def counted_in_parts(listener: Listener, name: str, done: float, total: int, records: int) -> None:
    """Like ``counted``, for units that take long: ``done`` may be a fraction of a unit."""
    counted(listener, name, int(done * PARTS), total * PARTS, records)


class Progress:
    """Reports the progress of one step, at most once in ``every`` units.

    Arguments:
        listener: receives the reports.
        name: the step.
        total: total number of units, usually bytes.
        every: units between two reports.
    """

    def __init__(self, listener: Listener, name: str, total: int, every: int = 1) -> None:
        self._listener, self._name, self._total, self._every = listener, name, total, every
        self._done = self._told = 0
        listener.step(name, 0, total)

    def add(self, units: int) -> None:
        """Count this number of further units as done."""
        self._done += units
        if self._done - self._told >= self._every:
            self._told = self._done
            self._listener.step(self._name, min(self._done, self._total), self._total)


def heard(items: Iterable[Item], listener: Listener, name: str, every: int = 1024) -> Iterator[Item]:
    """Pass the items through, and report how many there were so far; the total is not known."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % every:
            listener.step(name, number, 0)


class SilentListener:
    """A listener that ignores everything; the default."""

    __slots__ = ()

    def step(self, name: str, done: int, total: int) -> None:
        """Ignore the step."""


SILENT = SilentListener()
