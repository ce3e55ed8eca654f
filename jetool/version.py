"""What ``jetool --version`` prints."""

from __future__ import annotations

from engine.format.versions import JE_RELEASES, NEWEST_VERSION, OLDEST_VERSION, WRITTEN_VERSION
from engine.version import VERSION


def text() -> str:
    """The version of jetool, and the log versions that it reads and writes with the JE releases that wrote them."""
    read = f"{OLDEST_VERSION} to {NEWEST_VERSION} (JE {JE_RELEASES[OLDEST_VERSION]} to {JE_RELEASES[NEWEST_VERSION]})"
    written = f"{WRITTEN_VERSION} (JE {JE_RELEASES[WRITTEN_VERSION]})"
    return f"jetool {VERSION}\nreads log versions {read}\nwrites log version {written}"
