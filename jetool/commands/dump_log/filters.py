"""The options of ``dump-log`` that choose entries, and the selection that they mean for a JE environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from engine.format.header import Provisional
from engine.inspect.selection import Selection
from engine.log.files import LogFiles
from engine.storage.base import Storage
from jetool.app import addresses, kinds, params

_ONLY_DERBY: Final = {"containers": "--container", "pages": "--page"}
_PROVISIONAL: Final = {state.value.replace("_", "-"): state for state in Provisional}


def filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose entries."""
    options = (
        click.option(
            "--from", "first", type=params.PLACE, help="The first entry: an LSN or instant, ckpt, first-active."
        ),
        click.option("--to", "last", type=params.PLACE, help="The last entry, itself included."),
        click.option("--vlsn", "vlsns", type=params.VLSNS, help="VLSNs A..B."),
        click.option(
            "--file", "numbers", type=params.FILES, multiple=True, help="Log file: 0x1f, 0000001f.jdb, log31.dat."
        ),
        click.option("--since", type=params.TIME, help="Entries since TIME (that of commits and checkpoints)."),
        click.option("--until", type=params.TIME, help="Entries until TIME."),
        click.option("--type", "types", type=addresses.TYPES, multiple=True, help="Type or group; list prints them."),
        click.option("--txn", "txns", type=int, multiple=True, metavar="ID", help="Transaction."),
        click.option("--db", "dbs", multiple=True, metavar="NAME|ID", help="Database."),
        click.option("--key", "keys", type=params.KEY, multiple=True, help="Key of an LN."),
        click.option("--key-prefix", "prefixes", type=params.KEY, multiple=True, help="How the key of an LN begins."),
        click.option("--node", "nodes", type=int, multiple=True, metavar="ID", help="Node id of an IN or BIN."),
        click.option("--container", "containers", type=int, multiple=True, metavar="N", help="Derby: container."),
        click.option("--page", "pages", type=int, multiple=True, metavar="N", help="Derby: page."),
        click.option("--provisional", type=click.Choice(list(_PROVISIONAL)), multiple=True, help="Provisional state."),
        click.option("--replicated", is_flag=True, help="Only entries of the replication stream."),
        click.option("--invisible", is_flag=True, help="Only entries that replication made invisible."),
        click.option("--rolled-back", is_flag=True, help="Only entries that a rollback undid, invisible yet or not."),
    )
    # Decorators apply from the inside out; reversed, the help keeps this order.
    for option in reversed(options):
        function = option(function)
    return function


def refuse_derby(options: dict[str, Any]) -> None:
    """UsageError for options of ``dump-log`` that mean nothing for a JE environment; the message names all of them."""
    wrong = [shown for name, shown in _ONLY_DERBY.items() if options[name]]
    if options["stats"] == "container":
        wrong.append("--stats=container")
    wrong += [f"--type {word}" for types in options["types"] for word in types.only_derby]
    wrong += [f"--file with log{file.number}.dat" for file in options["numbers"] if file.kind == kinds.DERBY]
    if wrong:
        raise kinds.not_for(kinds.JE, ", ".join(wrong))


def selection_of(options: dict[str, Any], storage: Storage, files: LogFiles) -> Selection:
    """What the options select in a JE environment."""
    # A name of digits cannot be told from an id, which is taken first: it works without the catalogue.
    ids = frozenset(int(db) for db in options["dbs"] if db.lstrip("-").isdigit())
    first, last = options["first"], options["last"]
    vlsns = options["vlsns"]
    return Selection(
        # -1 is NULL_LSN: no limit.
        from_lsn=addresses.resolve(first, storage, files) if first else -1,
        to_lsn=addresses.resolve(last, storage, files) if last else -1,
        files=frozenset(file.number for file in options["numbers"]),
        vlsns=(vlsns.first, vlsns.last) if vlsns else None,
        types=frozenset().union(*(types.numbers for types in options["types"])),
        txns=frozenset(options["txns"]),
        nodes=frozenset(options["nodes"]),
        dbs=ids,
        db_names=tuple(db for db in options["dbs"] if not db.lstrip("-").isdigit()),
        keys=frozenset(options["keys"]),
        key_prefixes=options["prefixes"],
        provisional=frozenset(_PROVISIONAL[word] for word in options["provisional"]),
        replicated=options["replicated"],
        invisible=options["invisible"],
        rolled_back=options["rolled_back"],
        since_ms=options["since"],
        until_ms=options["until"],
    )
