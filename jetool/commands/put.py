"""``jetool put``: write one record."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import click

from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.fields import Bool, Int, Key, Lsn, Text, record
from engine.format.lsn import NULL_LSN
from engine.txn.payload import PutMode
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, lead_if_replicated, open_to_write, require_database
from jetool.frame.options import Run
from jetool.frame.record_output import read_data


@record("written")
class Written(NamedTuple):
    """What was written."""

    db: Annotated[Text, "name of the database"]
    key: Annotated[Key, "the key"]
    txn: Annotated[Int, "the transaction"]
    lsn: Annotated[Lsn, "its last record in the log"]
    commit_lsn: Annotated[Lsn, "its Commit; null when it was left open"]
    dry_run: Annotated[Bool, "nothing was changed"]


def _outputs() -> Outputs:
    from jetool.commands.page_store import rows

    return Outputs("document", (Written, rows.WrittenRow), derby=(rows.WrittenRow,))


@command(
    "put",
    outputs=_outputs,
    features=("fields", "keys", "lock", "cache", "order", "write"),
    examples=(
        ("One record", "jetool put /data/env user0001 Ada --db users"),
        ("Data from standard input", "jetool put /data/env 0x0007 - --db blobs"),
        ("A transaction that stays open, for a drill", "jetool put /data/env user0001 Ada --db users --no-commit"),
    ),
    exits={
        exits.DONE: "the record was written, and is durable",
        **WRITE_EXITS,
        exits.REFUSED: (
            "the environment is locked; --no-overwrite and the key has a record; or the group has other members"
        ),
    },
)
@environment
@click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms.")
@click.argument("data", type=params.DATA, help="The data: text, or 0x and hex; - reads the bytes of standard input.")
@click.option("-s", "--db", "name", required=True, type=params.DATABASE, metavar="NAME", help="The database.")
@click.option("--no-overwrite", is_flag=True, help="Refuse (exit 3) if the key has a record.")
@click.option("--no-commit", is_flag=True, help="Leave the transaction open, as after a crash; recovery undoes it.")
def put(run: Run, env: str, key: bytes, data: bytes, name: str, no_overwrite: bool, no_commit: bool) -> int:
    """Write one record in its own transaction; with sorted duplicates, add a data item.

    The environment is recovered first if it needs it, and closed with a checkpoint. With --no-commit the transaction
    stays open, as after a crash: the record is in the log and durable, but its transaction has no end.
    """
    data = read_data(data)
    with open_to_write(run, env, check=require_database(env, name)) as found:
        # A record that never reaches the other members would make this node diverge from its group.
        lead_if_replicated(found)
        mode = PutMode.INSERT_ONLY if no_overwrite else PutMode.OVERWRITE
        txn_id, lsn, commit = _put(found, name, (key, data), mode, commit=not no_commit)
        if no_commit:
            # Closing the environment would abort the transaction.
            found.engine.crash()
    run.out.document(Written(db=name, key=key, txn=txn_id, lsn=lsn, commit_lsn=commit, dry_run=run.dry_run))
    return exits.DONE


def _put(
    env: Environment, name: str, record: tuple[bytes, bytes], mode: PutMode, *, commit: bool
) -> tuple[int, int, int]:
    with env.open_database(name) as db:
        txn = env.begin()
        if not db.put(*record, txn, mode=mode):
            txn.abort()
            raise RefusedError(
                f"there is a record of the key {params.key_as_typed(record[0])} in database {name!r}", file=env.home
            )
        lsn = txn.inner.last_lsn
        if commit:
            return txn.id, lsn, txn.commit()
        # Sync the log, or recovery would have nothing to undo.
        env.sync()
        return txn.id, lsn, NULL_LSN
