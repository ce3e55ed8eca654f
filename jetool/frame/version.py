"""What ``jetool --version`` prints."""

from __future__ import annotations

from engine.format.versions import JE_RELEASES, NEWEST_VERSION, OLDEST_VERSION, WRITTEN_VERSION
from engine.native import is_native
from engine.version import VERSION


def text() -> str:
    """The version of jetool, which build of it runs, and the log versions that it reads and writes.

    With each log version stands the JE release that wrote it. What is written is of that version in new environments
    and in those of an earlier one; logs of a later version are continued in theirs.
    """
    read = f"{OLDEST_VERSION} to {NEWEST_VERSION} (JE {JE_RELEASES[OLDEST_VERSION]} to {JE_RELEASES[NEWEST_VERSION]})"
    written = f"{WRITTEN_VERSION} (JE {JE_RELEASES[WRITTEN_VERSION]})"
    build = "native build" if is_native() else "pure Python"
    return f"jetool {VERSION} ({build})\nreads log versions {read}\nwrites log version {written}, continues later ones"
