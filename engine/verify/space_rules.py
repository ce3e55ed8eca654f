"""The rules that ``verify --space`` checks. Codes are permanent: append only."""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, NOTE, WARNING, Rule

OTHER_TOTALS: Final = Rule(
    "JE-SPACE-001",
    WARNING,
    "summary of a file counts other entries than the file holds",
    "the cleaner chooses files by wrong figures; no record is at risk",
    "clean the file by force (je.cleaner.forceCleanFiles), or dump and load",
)
TOO_MUCH: Final = Rule(
    "JE-SPACE-002",
    WARNING,
    "summary of a file counts more as obsolete than can be",
    "the cleaner takes the file too early, and copies what is in use; no record is at risk",
    "clean the file by force (je.cleaner.forceCleanFiles), or dump and load",
)
TOO_LITTLE: Final = Rule(
    "JE-SPACE-003",
    NOTE,
    "summary of a file counts much less as obsolete than is",
    "the cleaner leaves the file alone, and its space is not given back",
    "clean the file by force (je.cleaner.forceCleanFiles)",
)
BAD_SUMMARY: Final = Rule(
    "JE-SPACE-004",
    WARNING,
    "summary of a file cannot be read",
    "the cleaner takes the file for one that is in use completely",
    "restore the file that holds the summary; no record is at risk",
)

RESERVED_IN_USE: Final = Rule(
    "JE-SPACE-005",
    ERROR,
    "the cleaner has released a file that is in use",
    "the file may be deleted at any time, and its content is then lost",
    "put it back with jetool clean --reactivate, before any process opens the environment for writing",
)
BAD_RESERVED: Final = Rule(
    "JE-SPACE-006",
    ERROR,
    "record of a reserved file cannot be read",
    "JE does not open the environment, not even read-only, and jetool recover stops; no user's record is at risk",
    "restore the file that holds the record, or dump with jetool dump and load into a new environment",
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
