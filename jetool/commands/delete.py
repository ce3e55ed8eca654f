"""``jetool delete``: delete one record."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import click

from engine.errors import NotFoundError
from engine.fields import Bool, Int, Key, Lsn, Text, record
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, lead_if_replicated, open_to_write, require_database
from jetool.frame.options import Run


@record("deleted")
class DeletedRecord(NamedTuple):
    """What was deleted."""

    db: Annotated[Text, "name of the database"]
    key: Annotated[Key, "the key"]
    records: Annotated[Int, "how many records went"]
    txn: Annotated[Int, "the transaction"]
    commit_lsn: Annotated[Lsn, "its Commit"]
    dry_run: Annotated[Bool, "nothing was changed"]


def _outputs() -> Outputs:
    from jetool.commands.page_store import rows

    return Outputs("document", (DeletedRecord, rows.DeletedRow), derby=(rows.DeletedRow,))


@command(
    "delete",
    outputs=_outputs,
    features=("fields", "keys", "lock", "cache", "order", "write"),
    examples=(
        ("One record", "jetool delete /data/env user0001 --db users"),
        ("One data item of a key", "jetool delete /data/env user0001 --db tags --data blue"),
        ("How many would go", "jetool delete /data/env user0001 --db tags -n"),
    ),
    exits={
        exits.DONE: "the record is durably deleted",
        **WRITE_EXITS,
        exits.NOT_FOUND: "no environment, no such database, no such record",
    },
)
@environment
@click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms.")
@click.option("-s", "--db", "name", required=True, type=params.DATABASE, metavar="NAME", help="The database.")
@click.option("--data", type=params.DATA, help="With sorted duplicates: only this data item.")
def delete(run: Run, env: str, key: bytes, name: str, data: bytes | None) -> int:
    """Delete the record of KEY in its own transaction; with sorted duplicates, all data items or one.

    The environment is recovered first if it needs it, and closed with a checkpoint.
    """
    with open_to_write(run, env, check=require_database(env, name)) as found:
        # A deletion that never reaches the other members would make this node diverge from its group.
        lead_if_replicated(found)
        with found.open_database(name) as db, found.begin() as txn:
            removed = db.delete(key, txn, data=data)
            if not removed:
                # Leaving the block aborts the transaction, which has written nothing.
                raise NotFoundError(
                    f"no record with the key {params.key_as_typed(key)} in database {name!r}",
                    file=env,
                    consequence="nothing was deleted",
                    hint=f"jetool scan {env} --db {name} shows the existing keys",
                )
            commit = txn.commit()
    run.out.document(
        DeletedRecord(db=name, key=key, records=removed, txn=txn.id, commit_lsn=commit, dry_run=run.dry_run)
    )
    return exits.DONE
