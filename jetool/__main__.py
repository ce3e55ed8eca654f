"""The entry point, also of ``python -m jetool``. This module imports little, so that an interrupt during the other
imports is handled.
"""

import gc
import sys

# Thresholds of the three generations: objects for the first, then collections of the previous generation.
GC_THRESHOLDS = (400_000, 10, 50)


def main() -> None:
    """Run the command line of the process, and exit.

    This process belongs to jetool, so it may configure the garbage collector. None of the millions of objects that
    recovery creates is part of a cycle, and searching them for cycles would take a tenth of its time. The engine, which
    other programs may call in their own process, does not touch the collector.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        from jetool.frame import cli

        gc.freeze()
    except KeyboardInterrupt:
        sys.stderr.write("jetool: error: interrupted\n")
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
