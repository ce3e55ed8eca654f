"""Decides when ``--until-idle`` ends a stream, and whether everything was read by then."""

from __future__ import annotations

from typing import Final

from engine.rep.changes.subscriber import Quiet

IDLE: Final = "idle"
BEHIND: Final = "behind"
# Longer than 15 s, after which the subscriber itself refuses a group that never reports durable VLSNs, with a better
# message.
_DURABILITY_S: Final = 20.0


class Idleness:
    """A timer for a stream that ends when nothing new arrives.

    A transaction, a retraction, and a new highest VLSN count as news. Heartbeats and repeated entries do not count, so
    a server cannot delay the end without new data.

    Arguments:
        idle_s: longest time without news.
        timeout_s: minimum time to wait for the server while something is known to be missing.
        now: the start time; all times are from ``time.monotonic``.

    Attributes:
        quiet_s: seconds between the last news and the end.
        why: the data that was missing at the end, or "".
    """

    def __init__(self, idle_s: float, timeout_s: float, now: float) -> None:
        self._idle_s = idle_s
        self._timeout_s = timeout_s
        self._newest_vlsn = 0
        # Time of the last news, and of the last moment when nothing was known to be missing.
        self._news = self._caught_up = now
        self.quiet_s = 0.0
        self.why = ""

    def news(self, now: float) -> None:
        """Something was printed."""
        self._news = self._caught_up = now

    def ended(self, quiet: Quiet, newest_vlsn: int, now: float) -> str | None:
        """Why a quiet moment ends the stream: ``IDLE``, or ``BEHIND`` if data is missing; None if the stream continues.

        Arguments:
            newest_vlsn: the highest VLSN received in the current history.
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
