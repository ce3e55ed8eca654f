"""The entry point, also of ``python -m jetool``: so small that an interrupt while the rest loads is caught too."""

import gc
import sys

# Records are made by the million and form no cycles; collecting as often as Python does by default costs a tenth of a
# dump.
gc.set_threshold(100_000, 50, 50)


def main() -> None:
    """Run the command line of the process and end it."""
    try:
        from jetool import cli
    except KeyboardInterrupt:
        sys.stderr.write("jetool: error: interrupted\n")
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
