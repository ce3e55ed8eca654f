"""The latches of an environment: re-entrant locks under which its parts change.

An exception other than the project's own (``JetoolError``), such as an interrupt, exhausted memory or a defect, can end
a change half way and leave memory in a state that must not reach the log. ``unexpected`` is called for it while the
latch is still held, so that no other thread sees the half-made state and logs it. The log writer then refuses
everything, as after a failed write, and recovery restores what was acknowledged. After that the latch of the trees
cannot be taken either: a search could miss a record in a half-split node.

Example: KeyboardInterrupt after the LN of a put is in the buffer and before its slot is set: the writer is invalid, the
put was not acknowledged, and later puts and gets are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from engine.errors import JetoolError


class Latch:
    """A re-entrant lock that reports changes interrupted half way.

    Attributes:
        acquire, release: methods of the lock itself; used directly they report nothing, and do not check ``refusal``.
        unexpected: called with unexpected exceptions that leave a ``with`` block; None while nothing can be logged.
        refusal: raises the reason why the guarded state must not be used any more; None while it may be used.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self.unexpected: Callable[[BaseException], None] | None = None
        self.refusal: Callable[[], None] | None = None

    def __enter__(self) -> None:
        self.acquire()
        # Check after the wait, because the thread that held the latch may have failed.
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
    """Whether an exception may have interrupted a change half way."""
    # GeneratorExit closes a generator at a ``yield``, not in the middle of a change.
    return not isinstance(error, (JetoolError, GeneratorExit))
