"""When ``--until-idle`` ends a stream, and whether everything was read by then."""

from __future__ import annotations

from typing import Final

from engine.rep.changes.subscriber import Quiet

IDLE: Final = "idle"
BEHIND: Final = "behind"
# The subscriber itself refuses a group after 15 s that never says what is durable; its message says more.
_DURABILITY_S: Final = 20.0


class Idleness:
    """The clock of a stream that ends when nothing new comes.

    News are a transaction, a retraction, and a VLSN above all that have come. Neither heartbeats nor entries that a
    master sends again are news, so no server can put off the end without data of its own.

    Arguments:
        idle_s: how long nothing new may come.
        timeout_s: the least time that a server gets to say or send more while it is known that something is missing.
        now: the time of the start, as all times here of ``time.monotonic``.

    Attributes:
        quiet_s: at the end: seconds since the last news.
        why: at the end: what was missing; empty for nothing.
    """

    def __init__(self, idle_s: float, timeout_s: float, now: float) -> None:
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self._newest_vlsn = 0
        # Of the last news, and of the last moment at which nothing newer was missing.
        self._news = self._caught_up = now
        self.quiet_s = 0.0
        self.why = ""

    def news(self, now: float) -> None:
        """Something was printed."""
        self._news = self._caught_up = now

    def ended(self, quiet: Quiet, newest_vlsn: int, now: float) -> str | None:
        """Whether a quiet moment is the end: ``IDLE``, or ``BEHIND`` if something is missing; None: it is not.

        Arguments:
            newest_vlsn: the highest VLSN that has come in the present history.
        """
        if newest_vlsn != self._newest_vlsn:
            self._newest_vlsn = newest_vlsn
            self.news(now)
        self.quiet_s = now - self._news
        self.why = quiet.why
        if quiet.caught_up:
            self._caught_up = now
            return IDLE if self.quiet_s >= self._idle_s else None
        grace_s = max(self._timeout_s, _DURABILITY_S) if quiet.held else self._timeout_s
        return BEHIND if now - self._caught_up >= max(self._idle_s, grace_s) else None
