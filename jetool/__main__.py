"""``python -m jetool``."""

from jetool.cli import main

main()
