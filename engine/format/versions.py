"""Log versions: the existing versions, the JE release that wrote each of them, and the features that each version
introduced.

Source: je-log-format.md sections 1 and 15. The version in a file's header applies to all of its entries; until v5 each
entry also has a version of its own, which counts the changes of its type. This project reads versions 1 to 26. The
version that it writes depends on the existing log, since JE never writes an older version after a newer one: a new
environment has version 17 unless its maker names a later one, an environment of an earlier version is continued in 17,
and one of a later version in its own version. No real logs of versions 16 and 18 to 25 were available: these are read
and written by the rules in JE's sources.
"""

from __future__ import annotations

from typing import Final

OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 26
# The oldest version that is continued: JE 7.3 and later read no tree node of earlier ones, so nothing could be written
# that a current JE would open.
OLDEST_CONTINUED: Final = 3
# For new environments, unless their maker names a later one.
WRITTEN_VERSION: Final = 17

# First release that wrote the version.
JE_RELEASES: Final[dict[int, str]] = {
    1: "1.5", 2: "1.7", 3: "2.0", 4: "3.1", 5: "3.2",
    6: "3.3", 7: "4.0", 8: "5.0", 9: "6.0", 10: "6.2", 11: "6.3", 12: "7.0", 13: "7.1", 14: "7.3", 15: "7.5",
    16: "18.1",
    17: "18.2", 18: "19.3", 19: "19.5", 20: "20.1", 21: "20.2", 22: "21.3", 23: "23.1", 24: "24.2", 25: "25.1",
    26: "25.2",
}  # fmt: skip

# Highest entry type number by version: a higher one ends the log (je-log-format.md 5).
HIGHEST_TYPE: Final[dict[int, int]] = {
    1: 27, 2: 27, 3: 27, 4: 27, 5: 27, 6: 27,
    7: 30, 8: 36, 9: 37, 10: 37, 11: 38, 12: 38, 13: 38, 14: 39, 15: 40, 16: 42,
    17: 43, 18: 43, 19: 43, 20: 43, 21: 43, 22: 43, 23: 43, 24: 43, 25: 45, 26: 45,
}  # fmt: skip

# Features, each with the first version that has it.
# Before it no number is packed; ``entry.early`` translates such bodies to the layout of this version.
PACKED_NUMBERS: Final = 6
INVISIBLE_BIT: Final = 7
VLSN_PRESENT_BIT: Final = 8
TWO_PART_DUPLICATES: Final = 8
EMBEDDED_RECORDS: Final = 11
LN_FLAGS_FIRST: Final = 12
EXPIRATION: Final = 12
DTVLSN: Final = 13
PRIOR_VERSION: Final = 16
EXTINCTION: Final = 17
LAST_WITH_PREPARE: Final = 17
LONG_LSNS_ONLY: Final = 18
NO_DATABASES_IN_RESERVED: Final = 18
LN_KEY_FIRST: Final = 19
BLIND_DELETIONS: Final = 20
NODE_SIZES: Final = 21
MASTER_TERM: Final = 22
COMPLETED_SCANS: Final = 23
BEFORE_IMAGES: Final = 25
CREATION_TIMES: Final = 26


def continued_in(version: int) -> int:
    """The version of new files after a log whose last file has the given version."""
    return max(version, WRITTEN_VERSION)


def is_supported(version: int) -> bool:
    """Whether this project reads files of the version."""
    return OLDEST_VERSION <= version <= NEWEST_VERSION
