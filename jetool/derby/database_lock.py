"""The lock of a Derby database, which a JVM takes too."""

from __future__ import annotations

import time
from typing import Final

from engine.derby.database import DerbyDatabase
from jetool.app.options import Run

_POLL_S: Final = 0.2


def wait_for_lock(run: Run, database: DerbyDatabase) -> None:
    """Wait as long as ``--lock-timeout`` says for a JVM to close the database; a dry run does not."""
    end = time.monotonic() + run.lock_timeout_s
    while not run.dry_run and database.lock_holder() is not None and time.monotonic() < end:
        time.sleep(_POLL_S)
