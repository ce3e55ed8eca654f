"""A Spark daemon whose workers die of SIGKILL in one step of a load (``spark.python.daemon.module``).

``JETOOL_DIES_IN`` names the step, ``JETOOL_DIES`` a directory, and ``JETOOL_DEATHS`` how many workers die there: each
leaves a file. Tasks find the function by its name, so it is replaced before the workers are forked.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.pipeline.load import log_output
from engine.pipeline.load.input import splits


def deadly(work: Callable[..., Any]) -> Callable[..., Any]:
    """A function that kills its process the first times."""

    def dies(*arguments: Any) -> Any:
        result = work(*arguments)
        directory = Path(os.environ["JETOOL_DIES"])
        if len(list(directory.iterdir())) < int(os.environ["JETOOL_DEATHS"]):
            (directory / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return dies


if __name__ == "__main__":
    from pyspark.daemon import manager

    if os.environ["JETOOL_DIES_IN"] == "read":
        splits.read_task = deadly(splits.read_task)
    else:
        log_output.write_share = deadly(log_output.write_share)
    manager()
