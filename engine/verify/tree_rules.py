"""The rules that ``verify --tree`` checks. Codes are permanent: append, never renumber.

``JE-TREE`` is about nodes, ``JE-DB`` about the catalogue of databases.
"""

from __future__ import annotations

from typing import Final

from engine.verify.report import ERROR, NOTE, Rule

_BELOW: Final = "the records below it cannot be read; JE fails when it needs them, with LOG_CHECKSUM or LOG_INTEGRITY"
_SEARCH: Final = "records may not be found although they are there"
_RESTORE: Final = "copy the environment; restore the file from a backup or a replica, or save what can be read"
_DUMP: Final = "dump the database and load it into a new environment; keep a copy of the old environment"

NOT_RECOVERED: Final = Rule(
    "JE-TREE-001",
    ERROR,
    "recovery fails",
    "JE does not open the environment either; trees, references and data were not checked",
    _RESTORE,
)
UNREADABLE: Final = Rule("JE-TREE-002", ERROR, "tree node cannot be read", _BELOW, _RESTORE)
WRONG_TYPE: Final = Rule("JE-TREE-003", ERROR, "reference of a tree does not lead to a node", _BELOW, _RESTORE)
WRONG_DATABASE: Final = Rule("JE-TREE-004", ERROR, "node of another database", _BELOW, _RESTORE)
WRONG_LEVEL: Final = Rule("JE-TREE-005", ERROR, "the level of a node differs from its parent", _BELOW, _RESTORE)
KEY_ORDER: Final = Rule("JE-TREE-006", ERROR, "keys of a node out of order", _SEARCH, _DUMP)
KEY_RANGE: Final = Rule("JE-TREE-007", ERROR, "key outside the range that the parent gives the node", _SEARCH, _DUMP)
IDENTIFIER_RANGE: Final = Rule(
    "JE-TREE-008",
    ERROR,
    "identifier key outside the range of the node",
    "recovery and checkpoints look for the node elsewhere, and changes to it are lost",
    _DUMP,
)
IDENTIFIER_ABSENT: Final = Rule(
    "JE-TREE-009",
    ERROR,
    "identifier key of a bottom node in none of its slots",
    "JE's own verification fails; recovery may look for the node elsewhere",
    _DUMP,
)
TOO_FULL: Final = Rule(
    "JE-TREE-010", ERROR, "more slots than the node has room for", "JE fails when it reads the node", _DUMP
)
EMPTY_UPPER: Final = Rule("JE-TREE-011", ERROR, "upper node without a child", _BELOW, _RESTORE)
PREFIX: Final = Rule(
    "JE-TREE-012",
    NOTE,
    "key prefix in a database that does not prefix keys",
    "none: the keys are whole; prefixing was switched off after the node was written",
    "nothing",
)
ROOT_FLAG: Final = Rule(
    "JE-TREE-013",
    ERROR,
    "root flag wrong",
    "recovery takes the node for a root, or a root for an ordinary node, and replays it wrongly",
    _DUMP,
)
SAME_NODE_ID: Final = Rule(
    "JE-TREE-014",
    ERROR,
    "node id in use twice",
    "recovery may put the one node in the place of the other",
    _DUMP,
)
NODE_ID_AHEAD: Final = Rule(
    "JE-TREE-015",
    ERROR,
    "node id above the last id that the log has assigned",
    "the id will be given to another node too",
    _DUMP,
)
BAD_DELTA: Final = Rule("JE-TREE-016", ERROR, "BIN-delta does not fit its full version", _BELOW, _RESTORE)
NO_LSN: Final = Rule(
    "JE-TREE-017",
    ERROR,
    "slot leads nowhere",
    "its record or branch is lost; JE fails when it reads the slot",
    _RESTORE,
)
PROVISIONAL_ROOT: Final = Rule(
    "JE-TREE-018",
    ERROR,
    "root logged provisionally",
    "recovery from an earlier checkpoint ignores it, and the records below it are lost",
    _DUMP,
)
LOW_ROOT: Final = Rule(
    "JE-TREE-019", ERROR, "root is a bottom node", "JE expects an upper node and fails when it reads it", _DUMP
)
CHANGED_ENTRY: Final = Rule(
    "JE-TREE-020",
    ERROR,
    "changed entry that recovery reads",
    "JE does not check it, since no checkpoint follows it: committed records may be lost or wrong",
    _RESTORE,
)

NO_MAP_LN: Final = Rule(
    "JE-DB-001",
    ERROR,
    "name without a database",
    "JE cannot open the database of this name",
    "restore from a backup or a replica",
)
NO_NAME: Final = Rule(
    "JE-DB-002",
    NOTE,
    "database without a name",
    "none: it is being removed, or its creation did not commit; its space is not given back before JE removes it",
    "nothing",
)
OTHER_NAME: Final = Rule(
    "JE-DB-003",
    ERROR,
    "MapLN and naming tree give a database different names",
    "tools that go by ids name the wrong database",
    "open the database under the name of the naming tree; rename it there and back",
)
OTHER_ID: Final = Rule(
    "JE-DB-004",
    ERROR,
    "MapLN of another database",
    "JE opens the wrong tree under this id",
    "restore from a backup or a replica",
)
ID_AHEAD: Final = Rule(
    "JE-DB-005",
    ERROR,
    "database id above the last id that the log has assigned",
    "the id will be given to another database too, and their records mix",
    _DUMP,
)
TWO_NAMES: Final = Rule(
    "JE-DB-006",
    ERROR,
    "two names for one database",
    "a removal under one name removes the records of the other",
    "restore from a backup or a replica",
)
BAD_CATALOGUE_LN: Final = Rule(
    "JE-DB-007",
    ERROR,
    "record of the catalogue cannot be read",
    "JE cannot open the database",
    _RESTORE,
)

NAME_LOST: Final = Rule(
    "JE-DB-008",
    ERROR,
    "database without a name, and the naming tree is damaged",
    "its name is lost, or it was being removed; without a name JE does not open it, and its records cannot be reached",
    "copy the environment; restore the damaged file from a backup or a replica; jetool salvage saves the records",
)

RULES: Final[tuple[Rule, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
