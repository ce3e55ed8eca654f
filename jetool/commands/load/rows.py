"""What ``jetool load`` prints."""

from __future__ import annotations

from typing import Final

from jetool.output.shape import Field, Shape

LOADED: Final = Shape(
    "loaded",
    "What was loaded.",
    (
        Field("db", "text", "name of the database"),
        Field("created", "bool", "the database was made"),
        Field("records", "int", "records written"),
        Field(
            "rejected", "int", "records that were not taken: bad ones, and with --no-overwrite those that were there"
        ),
        Field("transactions", "int", "transactions that wrote them, 0 when log files were written instead"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("read", "int", "records read; records + rejected + duplicates"),
        Field("duplicates", "int", "records that gave way to another one with the same key"),
        Field("files", "int", "log files written, with --engine spark or local"),
        Field("bytes", "int", "their size"),
        Field("rejects", "text", "file with the bad records and the reasons", null=True),
        Field("value_schema", "text", "Avro schema of the values, with --value-format avro", null=True),
    ),
)
