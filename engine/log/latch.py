"""The latches of an environment: re-entrant locks under which its parts change.

A change that ends half way, by an exception that is not one of ours (``JetoolError``), leaves memory in a state that
must not reach the log: an interrupt, a full memory, a defect. ``unexpected`` is told of it while the latch is still
held, so that no other thread sees the half-made state and logs it; the log writer then refuses everything, as after a
failed write, and recovery makes good what was acknowledged. The latch of the trees is refused from then on too: a
search could miss a record in a node that was split by half.

Example: KeyboardInterrupt between the LN of a put in the buffer and its slot: the writer is invalid, the put was not
acknowledged, and a later put or get is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from engine.errors import JetoolError


class Latch:
    """A re-entrant lock that reports changes which ended half way.

    Attributes:
        acquire, release: as those of a lock; what is held so reports nothing, and asks for ``refusal`` itself.
        unexpected: told of exceptions of other kinds that leave a ``with`` block; None while nothing can be logged.
        refusal: raises the reason why what the latch guards must not be used any more; None while it may.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self.unexpected: Callable[[BaseException], None] | None = None
        self.refusal: Callable[[], None] | None = None

    def __enter__(self) -> None:
        self.acquire()
        # After the wait: the thread before this one may have failed.
        if self.refusal is not None:
            try:
                self.refusal()
            except BaseException:
                self.release()
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None and self.unexpected is not None and is_unexpected(error):
                self.unexpected(error)
        finally:
            self.release()


def is_unexpected(error: BaseException) -> bool:
    """Whether an exception may have ended a change half way."""
    # A generator that is closed has given up its place between two steps.
    return not isinstance(error, (JetoolError, GeneratorExit))
