"""``jetool dump-log``: the log, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from engine.format.header import Provisional
from engine.log.files import list_log_files
from engine.log.select import Selection
from engine.log.stats import BY
from engine.storage.disk import DiskStorage
from jetool import addresses, dump_modes, exits, params
from jetool.command import Outputs, command, environment
from jetool.dumping import Plan
from jetool.options import Run
from jetool.output.dump_rows import BAD, ENTRY, SUMMARY, View

_PROVISIONAL = {state.value.replace("_", "-"): state for state in Provisional}


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose entries."""
    options = (
        click.option("--from", "first", type=params.LSN, help="The first entry: an LSN, ckpt or first-active."),
        click.option("--to", "last", type=params.LSN, help="The last entry, itself included."),
        click.option("--vlsn", "vlsns", type=params.VLSNS, help="VLSNs A..B."),
        click.option("--file", "numbers", type=params.FILE, multiple=True, help="File number, 0x1f or 0000001f.jdb."),
        click.option("--since", type=params.TIME, help="Entries since TIME (that of commits and checkpoints)."),
        click.option("--until", type=params.TIME, help="Entries until TIME."),
        click.option("--type", "types", type=addresses.TYPES, multiple=True, help="Type or group; list prints them."),
        click.option("--txn", "txns", type=int, multiple=True, metavar="ID", help="Transaction."),
        click.option("--db", "dbs", multiple=True, metavar="NAME|ID", help="Database."),
        click.option("--key", "keys", type=params.KEY, multiple=True, help="Key of an LN."),
        click.option("--key-prefix", "prefixes", type=params.KEY, multiple=True, help="How the key of an LN begins."),
        click.option("--node", "nodes", type=int, multiple=True, metavar="ID", help="Node id of an IN or BIN."),
        click.option("--provisional", type=click.Choice(list(_PROVISIONAL)), multiple=True, help="Provisional state."),
        click.option("--replicated", is_flag=True, help="Only entries of the replication stream."),
        click.option("--invisible", is_flag=True, help="Only entries that replication made invisible."),
        click.option("--rolled-back", is_flag=True, help="Only entries that a rollback undid, invisible yet or not."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command(
    "dump-log",
    outputs=lambda: Outputs("stream", (ENTRY, BAD, dump_modes.COUNTED), SUMMARY),
    formats=("text", "json", "ndjson", "csv", "xml"),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("The last checkpoint and what came after it", "jetool dump-log /data/env --from ckpt"),
        ("Commits of the last quarter of an hour", "jetool dump-log /data/env --type Commit --since -15m"),
        ("All versions of one key, newest first", "jetool dump-log /data/env --key user0001 --reverse --data"),
        ("Entries and bytes by type", "jetool dump-log /data/env --stats"),
    ),
    exits={
        exits.DONE: "all was read; a torn tail that holds no commit is no damage",
        exits.FINDINGS: "all was read; damage was met and stepped over",
        exits.NOT_FOUND: "no environment, no entry at an LSN, no database of a name",
        exits.UNSUPPORTED: "a log version that this program does not read, or no JE log at all",
        exits.INCOMPLETE: "stopped early: --stop-on-error, or a file that cannot be read",
    },
)
@environment
@_filters
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N entries.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="The last N entries.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--follow", is_flag=True, help="Go on with entries that are appended, until interrupted.")
@click.option("--nodes", "detail", type=click.Choice(("none", "summary", "slots")), default="summary",
              help="How much of INs and BINs to show.  [default: summary]")  # fmt: skip
@click.option("--data", is_flag=True, help="Show the data of records.")
@click.option("--stats", type=click.Choice(BY), is_flag=False, flag_value="type", help="Count instead of printing.")
@click.option("--keep-going/--stop-on-error", default=True, help="Step over damage, or stop at it (exit 7).")
def dump_log(run: Run, env: str, **options: Any) -> int:
    """Print the log of an environment, entry by entry, also past damage.

    Filters of different kinds are ANDed, values of one kind (repeat the option) are ORed. One line per entry: LSN, type
    and version, provisional state, VLSN, transaction, database, item size, and what the body holds. --format xml gives
    the elements and attributes of DbPrintLog as well-formed XML.

    Nothing is locked, created or changed; a running environment can be read.
    """
    if any(not numbers for numbers in options["types"]):
        run.out.text(addresses.types_text())
        return exits.DONE
    storage = DiskStorage(env)
    files = list_log_files(storage)
    view = View(options["detail"], options["data"])
    selection = _selection(options, storage, files).prepare(storage, files)
    if options["stats"]:
        dump_modes.refuse_together(options, "stats", ("limit", "tail", "reverse", "follow"))
        return dump_modes.print_stats(run, storage, files, selection, options["stats"])
    stream = dump_modes.open_stream(run)
    plan = Plan(
        storage, files, selection, view, run.out.format, run.out.style, stream.encoder,
        dump_modes.is_plain_text(run), not options["keep_going"],
    )  # fmt: skip
    return dump_modes.print_entries(run, plan, stream, options)


def _selection(options: dict[str, Any], storage: DiskStorage, files: Any) -> Selection:
    ids = frozenset(int(db) for db in options["dbs"] if db.lstrip("-").isdigit())
    first, last = options["first"], options["last"]
    vlsns = options["vlsns"]
    return Selection(
        from_lsn=addresses.resolve(first, storage, files) if first else -1,
        to_lsn=addresses.resolve(last, storage, files) if last else -1,
        files=frozenset(options["numbers"]),
        vlsns=(vlsns.first, vlsns.last) if vlsns else None,
        types=frozenset().union(*options["types"]),
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
