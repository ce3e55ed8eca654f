"""The rules that ``verify --refs`` (JE-REF), ``--data`` (JE-DATA) and ``--secondary`` (JE-SEC) check.

Codes are permanent: append only.
"""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, WARNING, Rule

_LOST: Final = "the record cannot be read; JE fails when it needs it"
_RESTORE: Final = "copy the environment; restore the file from a backup or a replica, or save what can be read"
_DUMP: Final = "compare the record with another copy; dump the database and load it into a new environment"

NO_FILE: Final = Rule("JE-REF-001", ERROR, "record in a log file that is not there", _LOST, _RESTORE)
NO_ENTRY: Final = Rule("JE-REF-002", ERROR, "no entry at the place that a slot gives for its record", _LOST, _RESTORE)
WRONG_TYPE: Final = Rule("JE-REF-003", ERROR, "slot does not lead to a record", _LOST, _RESTORE)
WRONG_DATABASE: Final = Rule("JE-REF-004", ERROR, "slot leads to a record of another database", _LOST, _RESTORE)
WRONG_SIZE: Final = Rule(
    "JE-REF-005",
    ERROR,
    "the size of a record differs from its slot",
    "the slot leads to another record, or JE counts the space of the record wrongly",
    _DUMP,
)
INVISIBLE: Final = Rule(
    "JE-REF-006",
    ERROR,
    "slot leads to an entry that replication rolled back",
    "JE refuses to read the record, with LOG_INTEGRITY",
    "restore this node from another member of the group",
)
OBSOLETE_RECORD: Final = Rule(
    "JE-REF-007",
    ERROR,
    "record in use is counted as obsolete",
    "the cleaner does not save the record before it deletes the file",
    "switch the cleaner off (je.env.runCleaner=false), dump the database, load it into a new environment",
)
OBSOLETE_NODE: Final = Rule(
    "JE-REF-008",
    ERROR,
    "tree node in use is counted as obsolete",
    "the cleaner does not save the node before it deletes the file, and all records below are lost",
    "switch the cleaner off (je.env.runCleaner=false), dump the database, load it into a new environment",
)
PROVISIONAL: Final = Rule(
    "JE-REF-009",
    ERROR,
    "record logged provisionally",
    "recovery from an earlier checkpoint ignores it",
    _DUMP,
)

UNREADABLE: Final = Rule("JE-DATA-001", ERROR, "record cannot be read", _LOST, _RESTORE)
OTHER_KEY: Final = Rule(
    "JE-DATA-002",
    ERROR,
    "the key of a record differs from its slot",
    "a search for the key gives the data of another record",
    _DUMP,
)
DELETION: Final = Rule(
    "JE-DATA-003", ERROR, "slot in use leads to a deletion", "the record is lost, or should not be there", _DUMP
)
OTHER_DATA: Final = Rule(
    "JE-DATA-004",
    ERROR,
    "the data in the slot differs from the data in the log",
    "one of the two is damaged; JE reads the slot",
    _DUMP,
)
OTHER_EXPIRATION: Final = Rule(
    "JE-DATA-005",
    WARNING,
    "record and slot give different times of expiration",
    "JE goes by the slot; the cleaner may go by the record",
    _DUMP,
)

NOT_OPENED: Final = Rule(
    "JE-DATA-006",
    ERROR,
    "entries contradict each other, and opening for writing fails",
    "jetool recover stops there; JE fails too, or continues and loses records",
    "copy the environment before anything opens it; restore the file from a backup or a replica, or dump what is there",
)

_FILL: Final = "stop the application, remove the secondary database, and let the application fill it from its primary"

SECONDARY_NO_RECORD: Final = Rule(
    "JE-SEC-001",
    ERROR,
    "entry of a secondary leads to no record",
    "JE throws SecondaryIntegrityException when the application reads by that key",
    _FILL,
)
SECONDARY_OTHER_TIME: Final = Rule(
    "JE-SEC-002",
    WARNING,
    "an entry of a secondary and its record expire at different times",
    "for some time the record cannot be found by that key, or the entry leads to nothing",
    _FILL,
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
