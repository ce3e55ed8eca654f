"""Named progress steps and the listener that hears them.

The engine reports what it is doing through one small protocol; the command line draws a progress bar from it, crash
simulation raises from it, tests count it. Events never carry data that the result does not carry too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, TypeVar, runtime_checkable

# For a unit that takes long, such as a database, a step tells this number of parts.
PARTS: Final = 1000
Item = TypeVar("Item")


class Listener(Protocol):
    """Hears the steps of a long operation."""

    def step(self, name: str, done: int, total: int) -> None:
        """A step has advanced.

        Arguments:
            name: the step, stable text such as ``scan`` or ``file``.
            done: units finished so far (bytes for scans).
            total: units in all, or 0 when not known.
        """


@runtime_checkable
class RecordCountListener(Protocol):
    """A listener that shows the records of a step beside its units, where a step counts both."""

    def count(self, name: str, records: int) -> None:
        """So many records so far; heard before the ``step`` that it belongs to."""


def counted(listener: Listener, name: str, done: int, total: int, records: int) -> None:
    """Tell a step that counts records too; see ``Listener.step``."""
    if isinstance(listener, RecordCountListener):
        listener.count(name, records)
    listener.step(name, done, total)


def counted_in_parts(listener: Listener, name: str, done: float, total: int, records: int) -> None:
    """The same where one unit takes long: of it a share is done."""
    counted(listener, name, int(done * PARTS), total * PARTS, records)


class Progress:
    """A step that is told by what is done of it, often but not always.

    Arguments:
        listener: hears it.
        name: the step.
        total: units in all, bytes mostly.
        every: units between two reports.
    """

    def __init__(self, listener: Listener, name: str, total: int, every: int = 1) -> None:
        self._listener, self._name, self._total, self._every = listener, name, total, every
        self._done = self._told = 0
        listener.step(name, 0, total)

    def add(self, units: int) -> None:
        """So many more are done."""
        self._done += units
        if self._done - self._told >= self._every:
            self._told = self._done
            self._listener.step(self._name, min(self._done, self._total), self._total)


def heard(items: Iterable[Item], listener: Listener, name: str, every: int = 1024) -> Iterator[Item]:
    """The items as they are, and a step that tells how many there were; how many will come is not known."""
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
