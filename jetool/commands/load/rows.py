"""What ``jetool load`` prints."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from engine.fields import Bool, Int, Text, record


@record("loaded")
class LoadSummary(NamedTuple):
    """What was loaded."""

    db: Annotated[Text, "name of the database"]
    created: Annotated[Bool, "the database was made"]
    records: Annotated[Int, "records written"]
    rejected: Annotated[
        Int, "rejected records: bad records, and with --no-overwrite records whose keys already existed"
    ]
    transactions: Annotated[Int, "transactions that wrote them, 0 when log files were written instead"]
    dry_run: Annotated[Bool, "nothing was changed"]
    read: Annotated[Int, "records read; records + rejected + duplicates"]
    duplicates: Annotated[Int, "records replaced by another record with the same key"]
    files: Annotated[Int, "log files written, with --engine spark or local"]
    bytes: Annotated[Int, "their size"]
    rejects: Annotated[Text | None, "file with the bad records and the reasons"]
    value_schema: Annotated[Text | None, "Avro schema of the values, with --value-format avro"]
