"""Units of expiration times: days or hours since 1970, as slots and LNs keep them since log version 12.

A positive expiration counts days; a negative one, without its sign, counts hours: 20000 is 2024-10-04T00Z, -480001 is
2024-10-04T01Z.
"""

from __future__ import annotations

from typing import Final

HOURS_A_DAY: Final = 24
HOUR_MS: Final = 3_600_000
DAY_MS: Final = HOUR_MS * HOURS_A_DAY
