"""Output records of the commands for page stores: as for JE environments, with instants instead of LSNs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.fields import Bool, Choices, Instant, Int, Key, Text, record


@record("created")
class CreatedStore(NamedTuple):
    """The new page store."""

    environment: Annotated[Text, "its directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    dbs: Annotated[Sequence[Text], "its tables"]
    end: Annotated[Instant, "the end of its log"]
    dry_run: Annotated[Bool, "nothing was changed"]


@record("written")
class WrittenRow(NamedTuple):
    """A record written to a page store."""

    db: Annotated[Text, "name of the table"]
    key: Annotated[Key, "the key"]
    txn: Annotated[Int, "the transaction"]
    instant: Annotated[Instant, "its last change in the log"]
    commit_end: Annotated[Instant, "after its end record; null when it was left open"]
    dry_run: Annotated[Bool, "nothing was changed"]


@record("deleted")
class DeletedRow(NamedTuple):
    """A record deleted from a page store."""

    db: Annotated[Text, "name of the table"]
    key: Annotated[Key, "the key"]
    records: Annotated[Int, "how many records went"]
    txn: Annotated[Int, "the transaction"]
    commit_end: Annotated[Instant, "after its end record"]
    dry_run: Annotated[Bool, "nothing was changed"]


@record("database")
class StoredTable(NamedTuple):
    """One table of a page store."""

    name: Annotated[Text, "its name"]
    heap_container: Annotated[Int, "container of its rows"]
    index_container: Annotated[Int, "container of its keys"]
    page_bytes: Annotated[Int, "size of their pages"]
    heap_pages: Annotated[Int, "pages of the rows"]
    index_pages: Annotated[Int, "pages of the keys"]
    index_levels: Annotated[Int, "levels of the index"]
    records: Annotated[Int | None, "records, with --count"]
