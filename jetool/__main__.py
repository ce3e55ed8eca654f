"""The entry point, also of ``python -m jetool``: so small that an interrupt while the rest loads is caught too."""

import sys


def main() -> None:
    """Run the command line of the process and end it."""
    try:
        from jetool.app import cli
    except KeyboardInterrupt:
        sys.stderr.write("jetool: error: interrupted\n")
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
