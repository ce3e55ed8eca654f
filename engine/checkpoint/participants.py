"""What takes part in a checkpoint from above: cleaner, VLSN index, utilization (R-CKPT-6, R-CKPT-8, R-CKPT-19)."""

from __future__ import annotations

from typing import Protocol


class Participant(Protocol):
    """Called at fixed steps; registered with the checkpointer in the order in which they run."""

    def checkpoint_begins(self) -> bool:
        """Step 1. Returns whether files will be let go after this checkpoint (then one level more is flushed)."""

    def checkpoint_started(self) -> None:
        """Step 3, after CkptStart: what was allocated before it must be in memory now (R-CKPT-9)."""

    def before_checkpoint_end(self) -> None:
        """Steps 6 and 7: write what has to be recoverable, without sync."""

    def checkpoint_ended(self) -> None:
        """Step 9: CkptEnd is durable."""
