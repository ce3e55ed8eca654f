"""What the verbs of records print of a page store: as for JE environments, with instants in the place of LSNs."""

from __future__ import annotations

from typing import Final

from jetool.output.shape import Field, Shape

_DRY: Final = Field("dry_run", "bool", "nothing was changed")
CREATED: Final = Shape(
    "created",
    "The new page store.",
    (
        Field("environment", "text", "its directory"),
        Field("store", "text", "what it is", choices=("derby",)),
        Field("dbs", "texts", "its tables"),
        Field("end", "instant", "the end of its log"),
        _DRY,
    ),
)
WRITTEN: Final = Shape(
    "written",
    "What was written to a page store.",
    (
        Field("db", "text", "name of the table"),
        Field("key", "key", "the key"),
        Field("txn", "int", "the transaction"),
        Field("instant", "instant", "its last change in the log"),
        Field("commit_end", "instant", "after its end record; null when it was left open"),
        _DRY,
    ),
)
DELETED: Final = Shape(
    "deleted",
    "What was deleted from a page store.",
    (
        Field("db", "text", "name of the table"),
        Field("key", "key", "the key"),
        Field("records", "int", "how many records went"),
        Field("txn", "int", "the transaction"),
        Field("commit_end", "instant", "after its end record"),
        _DRY,
    ),
)
TABLE: Final = Shape(
    "database",
    "One table of a page store.",
    (
        Field("name", "text", "its name"),
        Field("heap_container", "int", "container of its rows"),
        Field("index_container", "int", "container of its keys"),
        Field("page_bytes", "int", "size of their pages"),
        Field("heap_pages", "int", "pages of the rows"),
        Field("index_pages", "int", "pages of the keys"),
        Field("index_levels", "int", "levels of the index"),
        Field("records", "int", "records, with --count", null=True),
    ),
)
