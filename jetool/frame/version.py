"""What ``jetool --version`` prints."""

from __future__ import annotations

from engine.format.versions import JE_RELEASES, NEWEST_VERSION, OLDEST_VERSION, WRITTEN_VERSION
from engine.native import is_native
from engine.version import VERSION


def text() -> str:
    """The version of jetool, the running build, and the log versions that it reads and writes.

    Each log version is listed with the JE release that wrote it. New environments and logs of earlier versions are
    written in the stated version; logs of later versions are continued in their own version.
    """
    read = f"{OLDEST_VERSION} to {NEWEST_VERSION} (JE {JE_RELEASES[OLDEST_VERSION]} to {JE_RELEASES[NEWEST_VERSION]})"
    written = f"{WRITTEN_VERSION} (JE {JE_RELEASES[WRITTEN_VERSION]})"
    build = "native build" if is_native() else "pure Python"
    return f"jetool {VERSION} ({build})\nreads log versions {read}\nwrites log version {written}, continues later ones"
