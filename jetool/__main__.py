"""The entry point, also of ``python -m jetool``. This module imports little, so that an interrupt during the other
imports is handled.
"""

import atexit
import gc
import os
import sys

# Thresholds of the three generations: objects for the first, then collections of the previous generation.
GC_THRESHOLDS = (400_000, 10, 50)


class _Ending:
    """Ends the process when everything that was registered for its end has run.

    The interpreter would now free every object, one by one: a tenth of the time of a short command. The system frees
    them at once. Threads have been waited for, and functions that others have registered ran before, because they were
    registered later.

    Attributes:
        code: the exit code; None: the interpreter ends as it does elsewhere, for example with a traceback.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def __call__(self) -> None:
        if self.code is None:
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            # The interpreter has an exit code for output that cannot be written.
            return
        os._exit(self.code)


def main() -> None:
    """Run the command line of the process, and exit.

    This process belongs to jetool, so it may configure the garbage collector. None of the millions of objects that
    recovery creates is part of a cycle, and searching them for cycles would take a tenth of its time. The engine, which
    other programs may call in their own process, does not touch the collector.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    ending = _Ending()
    atexit.register(ending)
    try:
        from jetool.frame import cli

        gc.freeze()
    except KeyboardInterrupt:
        sys.stderr.write("jetool: error: interrupted\n")
        sys.exit(130)
    ending.code = cli.main()
    sys.exit(ending.code)


if __name__ == "__main__":
    main()
