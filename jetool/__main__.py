"""The entry point, also of ``python -m jetool``: so small that an interrupt while the rest loads is caught too."""

import gc
import sys

# Thresholds of the three generations: objects, then collections of the generation before.
GC_THRESHOLDS = (400_000, 10, 50)


def main() -> None:
    """Run the command line of the process and end it.

    The process is ours alone, so its garbage collector is too. None of the millions of objects that recovery makes is
    part of a cycle, and looking for cycles among them would be a tenth of its time. The engine itself, which others
    may call from a process of theirs, leaves the collector alone.
    """
    try:
        from jetool.frame import cli

        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
    except KeyboardInterrupt:
        sys.stderr.write("jetool: error: interrupted\n")
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
