"""Version log sequence numbers: the position of an entry in the replication stream.

A VLSN is a positive integer. ``NULL_VLSN`` is -1; 0 means "uninitialised" and is not a VLSN. The first VLSN of a group
is 1. In entry headers it is a plain 64-bit integer, in bodies a packed one (je-log-format.md 4.5).
"""

from __future__ import annotations

from typing import Final

NULL_VLSN: Final = -1
FIRST_VLSN: Final = 1
# Never on disk: requests the next VLSN of the stream from the log writer.
NEXT_VLSN: Final = 0
