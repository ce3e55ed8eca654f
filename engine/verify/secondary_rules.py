"""The rules that ``verify --secondary`` checks. Codes are permanent: append only."""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, WARNING, Rule

_FILL: Final = "stop the application, remove the secondary database, and let the application fill it from its primary"

NO_RECORD: Final = Rule(
    "JE-SEC-001",
    ERROR,
    "entry of a secondary leads to no record",
    "JE throws SecondaryIntegrityException when the application reads by that key",
    _FILL,
)
OTHER_TIME: Final = Rule(
    "JE-SEC-002",
    WARNING,
    "entry of a secondary expires at another time than its record",
    "for some time the record cannot be found by that key, or the entry leads to nothing",
    _FILL,
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
