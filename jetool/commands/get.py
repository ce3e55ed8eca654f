"""``jetool get``: the record of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.db.database import Database
from engine.errors import DamageError, NotFoundError
from engine.tree.keys import UnknownOrderError
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoded_shape, decoding_for
from jetool.frame.defaults.only_database import chosen_database, database_option
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code
from jetool.frame.options import Run
from jetool.frame.record_output import PrintedRecord, TableEnd, completeness, printed

if TYPE_CHECKING:
    from engine.rescue.points import Point


@command(
    "get",
    outputs=lambda: Outputs("table", (PrintedRecord,), TableEnd),
    features=("fields", "progress", "keys", "cache", "order"),
    examples=(
        ("One record, its data as text", "jetool get /data/env user0001 --db users --data-format utf8"),
        ("By a key in hex, for a script", "jetool get /data/env 0x8000000000000007 --db journal --json"),
    ),
    exits={
        exits.DONE: "the record was printed",
        **READ_EXITS,
        exits.NOT_FOUND: "no environment, no such database, no such key",
        exits.INCOMPLETE: (
            "no such key in the readable part of the log; damage that recovery has to read, or a file that cannot be "
            "read"
        ),
    },
)
@environment
@click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms.")
@database_option
@as_of_option
@decode_option
def get(run: Run, env: str, key: bytes, name: str | None, as_of: Point | None, decode: str | None) -> int:
    """Print the record of KEY; in a database with sorted duplicates, all its data items.

    The record is the one that recovery would leave; recovery runs in memory. Nothing is created or changed.
    """
    with open_to_read(run, env, as_of) as found:
        name = chosen_database(run, env, name, found.database_names())
        with found.open_database(name) as db:
            records = _find(db, key)
        decoding = decoding_for(run, found, decode)
    if not records:
        shown = params.key_as_typed(key)
        if found.unseen:
            raise DamageError(
                f"no record with the key {shown} in database {name!r}, as far as the log can be read",
                file=env,
                found=found.unseen,
                consequence="the record may be in the part that was not read",
                hint=f"jetool history {env} 0x{key.hex()} --db {name} shows its versions, also past damage",
            )
        raise NotFoundError(
            f"no record with the key {shown} in database {name!r}",
            file=env,
            hint=f"jetool scan {env} --db {name} shows the existing keys",
        )
    run.out.table(
        decoded_shape(PrintedRecord, decoding),
        [printed(record, name, decoding) for record in records],
        completeness(found.unseen),
    )
    return reading_code(found)


def _find(db: Database, key: bytes) -> list[tuple[bytes, bytes]]:
    order = db.state.order
    if order.learned is not None:
        found = [record for record in db.items() if record[0] == key]
        if not found:
            # No key has the same bytes, but the Java comparator may treat another key as equal, so absence is not
            # certain.
            raise UnknownOrderError(order.learned)
        return found
    if order.comparator is not None:
        with db.cursor() as cursor:
            first = cursor.search(key)
            rest = iter(cursor.next_dup, None) if first is not None and db.duplicates else ()
            return [] if first is None else [first, *rest]
    return list(db.items(start=key, end=key + b"\0"))
