"""The rules that ``verify --rep`` and ``vlsn check`` check. Codes are permanent: append, never renumber."""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, NOTE, WARNING, Rule

_REBUILD: Final = "jetool vlsn rebuild rebuilds the index from the log; preview it with -n"
_RESTORE: Final = "restore this node from another member of the group"
_NOT_FOUND: Final = "this node cannot send those entries as a master, and JE fails when a replica asks for them"

HOLE: Final = Rule(
    "JE-REP-001",
    ERROR,
    "hole between the VLSN index and the log after the checkpoint",
    "JE refuses to open the environment: recoveryTracker should overlap or follow the disk tracker",
    _REBUILD,
)
MALFORMED: Final = Rule(
    "JE-REP-002", ERROR, "malformed record of the VLSN index", "JE fails when it reads the record", _REBUILD
)
WRONG_ENTRY: Final = Rule(
    "JE-REP-003", ERROR, "the VLSN index points at the wrong entry", "a replica would be sent other entries", _REBUILD
)
MAPPED_INVISIBLE: Final = Rule(
    "JE-REP-004",
    ERROR,
    "the VLSN index points at an entry that was rolled back",
    "a replica could be sent what the group does not have",
    _REBUILD,
)
RANGE_BEYOND: Final = Rule(
    "JE-REP-005",
    ERROR,
    "the range of the VLSN index ends after the log",
    "this node claims entries that it does not have: it could win an election and then fail",
    _REBUILD,
)
RANGE_SHORT: Final = Rule(
    "JE-REP-006",
    ERROR,
    "the range of the VLSN index ends before the log",
    "as a master this node would give VLSNs a second time, and the nodes of the group would part",
    _REBUILD,
)
RANGE_EARLY: Final = Rule(
    "JE-REP-007", ERROR, "the range of the VLSN index begins before the log", _NOT_FOUND, _REBUILD
)
RANGE_LATE: Final = Rule(
    "JE-REP-008",
    NOTE,
    "the log holds VLSNs before the range of the index",
    "none: log cleaning has cut the index and not yet deleted the files, or the group was created again",
    "nothing",
)
CONTRADICTORY: Final = Rule("JE-REP-009", ERROR, "the VLSN index contradicts itself", _NOT_FOUND, _REBUILD)
LANDMARK: Final = Rule(
    "JE-REP-010",
    ERROR,
    "last sync point or last transaction end of the range is wrong",
    "a syncup begins at the wrong place, or rolls back what must not be",
    _REBUILD,
)
GAP: Final = Rule(
    "JE-REP-011",
    ERROR,
    "VLSNs are missing in the log",
    _NOT_FOUND,
    "put missing log files back; else restore this node from another member of the group",
)
OPEN_ROLLBACK: Final = Rule(
    "JE-REP-012",
    NOTE,
    "a rollback was interrupted",
    "none: the next recovery finishes it",
    "jetool rollbacks --open-only shows it; jetool recover finishes it",
)
NO_INDEX: Final = Rule(
    "JE-REP-013",
    ERROR,
    "the log holds VLSNs and there is no VLSN index",
    "JE opens the environment without a word and begins again at VLSN 1",
    _REBUILD,
)
NO_GROUP: Final = Rule(
    "JE-REP-014",
    WARNING,
    "the log holds VLSNs and no group record",
    "JE does not know which group this node belongs to",
    _RESTORE,
)
BAD_GROUP: Final = Rule(
    "JE-REP-015", ERROR, "malformed record of the group database", "JE fails when it reads the record", _RESTORE
)
NODE_IDS: Final = Rule(
    "JE-REP-016",
    ERROR,
    "ids of group members contradict each other",
    "acknowledgements and votes can be counted for the wrong node",
    "jetool group show lists them; restore this node from another member of the group",
)
DTVLSN_ORDER: Final = Rule(
    "JE-REP-017",
    ERROR,
    "the durable VLSN of a transaction end is above that of a later one",
    "JE's search for a matchpoint fails on this log",
    _RESTORE,
)

UNREADABLE: Final = Rule(
    "JE-REP-018",
    ERROR,
    "the VLSN index or the group cannot be read",
    "JE does not open the environment as a node of a group, or fails when it needs them",
    "jetool verify --full says what is damaged; put missing files back, or restore this node from another member",
)

REP_RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
