"""``jetool dump-log``: print the log entry by entry; its options, and the selection from them for a JE environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from engine.errors import UsageError
from engine.format.header import Provisional
from engine.format.lsn import NULL_LSN, format_lsn
from engine.inspect.selection import Selection
from engine.inspect.statistics import BY
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.commands.dump_log import modes
from jetool.commands.dump_log.renderer import RenderPlan
from jetool.commands.dump_log.rows import DECODED_ENTRY, BadStretch, BodyView, DumpSummary
from jetool.frame import addresses, exits, kinds, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for_log
from jetool.frame.options import RenamedOption, Run

if TYPE_CHECKING:
    from engine.inspect.explain import Explainer

_ONLY_DERBY: Final = {"containers": "--container", "pages": "--page"}
_PROVISIONAL: Final = {state.value.replace("_", "-"): state for state in Provisional}


_FILTERS: Final = (
    click.option(
        "--from",
        "first",
        type=params.PLACE,
        help="The first entry: an LSN (or the next entry after it), an instant, ckpt, first-active.",
    ),
    click.option("--to", "last", type=params.PLACE, help="The last entry, inclusive."),
    click.option("--vlsn", "vlsns", type=params.VLSNS, help="VLSNs A..B."),
    click.option(
        "--file", "numbers", type=params.FILES, multiple=True, help="Log file: 0x1f, 0000001f.jdb, log31.dat."
    ),
    click.option("--since", type=params.TIME, help="Only entries since TIME, by the times of commits and checkpoints."),
    click.option("--until", type=params.TIME, help="Entries until TIME."),
    click.option(
        "--type",
        "types",
        type=addresses.TYPES,
        multiple=True,
        help="Entry type or group of types; list prints all of them.",
    ),
    click.option(
        "--not-type",
        "without_types",
        type=addresses.TYPES,
        multiple=True,
        help="Leave out entries of this type or group: ln for the records, in for the nodes.",
    ),
    click.option("--txn", "txns", type=int, multiple=True, metavar="ID", help="Transaction."),
    click.option(
        "--db",
        "dbs",
        multiple=True,
        type=params.DATABASE,
        metavar="NAME|ID",
        help="Database. A number is a name if a database has it as its name, else an id; id:7 is always an id.",
    ),
    click.option("--key", "keys", type=params.KEY, multiple=True, help="Key of an LN."),
    click.option(
        "--prefix",
        "prefixes",
        cls=RenamedOption,
        old=("--key-prefix",),
        type=params.KEY,
        multiple=True,
        help="Only LNs whose key begins with this.",
    ),
    click.option(
        "--node-id",
        "nodes",
        cls=RenamedOption,
        old=("--node",),
        type=int,
        multiple=True,
        metavar="ID",
        help="Node id of an IN or BIN.",
    ),
    click.option(
        "--table",
        "tables",
        type=int,
        multiple=True,
        metavar="ID",
        help="Oracle NoSQL: only rows of this table.",
    ),
    click.option(
        "--region",
        "regions",
        type=int,
        multiple=True,
        metavar="ID",
        help="Oracle NoSQL: only rows that were written in this region.",
    ),
    click.option("--container", "containers", type=int, multiple=True, metavar="N", help="Derby: container."),
    click.option("--page", "pages", type=int, multiple=True, metavar="N", help="Derby: page."),
    click.option("--provisional", type=click.Choice(list(_PROVISIONAL)), multiple=True, help="Provisional state."),
    click.option("--replicated", is_flag=True, help="Only entries of the replication stream."),
    click.option("--invisible", is_flag=True, help="Only entries that replication made invisible."),
    click.option(
        "--rolled-back",
        is_flag=True,
        help="Only entries that a rollback undid, whether or not they are already marked invisible.",
    ),
)


def filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that select entries."""
    # Decorators apply from the inside out; reversing them keeps this order in the help.
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def refuse_derby(options: dict[str, Any]) -> None:
    """The UsageError for all given options of ``dump-log`` that have no meaning for a JE environment."""
    wrong = [shown for name, shown in _ONLY_DERBY.items() if options[name]]
    if options["stats"] == "container":
        wrong.append("--stats=container")
    wrong += [f"--type {word}" for types in options["types"] for word in types.only_derby]
    wrong += [f"--not-type {word}" for types in options["without_types"] for word in types.only_derby]
    wrong += [f"--file with log{file.number}.dat" for file in options["numbers"] if file.kind == kinds.DERBY]
    if wrong:
        raise kinds.not_for(kinds.JE, ", ".join(wrong))


def selection_of(options: dict[str, Any], storage: Storage, files: LogFiles) -> Selection:
    """The selection that the options define for a JE environment."""
    first, last = options["first"], options["last"]
    vlsns = options["vlsns"]
    return Selection(
        # -1 is NULL_LSN, which means no limit.
        from_lsn=addresses.resolve(first, storage, files) if first else -1,
        to_lsn=addresses.resolve(last, storage, files) if last else -1,
        files=frozenset(file.number for file in options["numbers"]),
        vlsns=(vlsns.first, vlsns.last) if vlsns else None,
        types=frozenset().union(*(types.numbers for types in options["types"])),
        without_types=frozenset().union(*(types.numbers for types in options["without_types"])),
        txns=frozenset(options["txns"]),
        nodes=frozenset(options["nodes"]),
        db_names=options["dbs"],
        keys=frozenset(options["keys"]),
        key_prefixes=options["prefixes"],
        tables=frozenset(options["tables"]),
        regions=frozenset(options["regions"]),
        provisional=frozenset(_PROVISIONAL[word] for word in options["provisional"]),
        replicated=options["replicated"],
        invisible=options["invisible"],
        rolled_back=options["rolled_back"],
        since_ms=options["since"],
        until_ms=options["until"],
    )


def _outputs() -> Outputs:
    from jetool.commands.dump_log import derby_rows, derby_statistics

    derby = derby_rows.ENTRY, derby_rows.BadPlace, derby_statistics.RecordGroup
    return Outputs("stream", (DECODED_ENTRY, BadStretch, modes.EntryGroup, *derby), DumpSummary)


@command(
    "dump-log",
    outputs=_outputs,
    formats=("text", "json", "ndjson", "csv", "xml"),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("The last checkpoint and what came after it", "jetool dump-log /data/env --from ckpt"),
        ("Commits of the last quarter of an hour", "jetool dump-log /data/env --type Commit --since -15m"),
        ("The last twenty entries, and what is appended", "jetool dump-log /data/env --follow --tail 20"),
        ("All versions of one key, newest first", "jetool dump-log /data/env --key user0001 --reverse --data"),
        ("Entries and bytes by type", "jetool dump-log /data/env --stats"),
        ("Everything but records and nodes", "jetool dump-log /data/env --not-type ln,in"),
        ("Damaged entries as far as they can be decoded", "jetool dump-log /data/env --ignore-checksums --data"),
        ("Oracle NoSQL: the rows of one table, decoded", "jetool dump-log /data/env --table 2 --data --decode nosql"),
        ("What recovery would do from the checkpoint on", "jetool dump-log /data/env --from ckpt --explain"),
        ("Derby: what a transaction did from a record on", "jetool dump-log /data/db --txn 194 --from 1,40674 --data"),
    ),
    exits={
        exits.DONE: "everything was read; a torn tail without a commit is not damage",
        exits.FINDINGS: "everything was read; damage was found and skipped",
        exits.NOT_FOUND: "no environment, no entry at an LSN, no such database or log file",
        exits.UNSUPPORTED: "a log version or release that this program does not read, no log at all, encrypted",
        exits.INCOMPLETE: "stopped early: --stop-on-error, or a file that cannot be read",
    },
)
@environment
@filters
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N entries.")
@click.option("--tail", type=click.IntRange(1), metavar="N", help="The last N entries.")
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--follow", is_flag=True, help="Keep printing entries as they are appended, until interrupted.")
@click.option(
    "--nodes",
    "detail",
    type=click.Choice(("none", "summary", "slots")),
    default="summary",
    help="How much of INs and BINs to show.  [default: summary]",
)
@click.option("--explain", is_flag=True, help="What recovery does with each entry, and why.")
@click.option("--data", is_flag=True, help="Show the data of records.")
@decode_option
@click.option(
    "--stats",
    type=click.Choice((*BY, "container")),
    is_flag=False,
    flag_value="type",
    help="Count instead of printing.",
)
@click.option(
    "--ignore-checksums",
    is_flag=True,
    help="After damage, also print the entries in it whose headers make sense although their checksums do not match.",
)
@click.option("--keep-going/--stop-on-error", default=True, help="Skip damage, or stop at it (exit 7).")
def dump_log(run: Run, env: str, **options: Any) -> int:
    """Print the log of an environment entry by entry, continuing after damage.

    Filters of different kinds are ANDed, values of one kind (repeat the option) are ORed. One line per entry: LSN, type
    and version, provisional state, VLSN, transaction, database, item size, and what the body holds. --format xml gives
    the elements and attributes of DbPrintLog as well-formed XML.

    --ignore-checksums counts no entry as good: the damage is still printed and decides the exit code, and what is
    printed after it may be wrong.

    For a Derby database the columns are instant, operation, transaction, container, page, version, length, and the
    instant that a CLR undoes. Valid records after the end of the log, which Derby drops silently, are printed and
    marked. --from, --to, --file, --type, --txn, --container, --page, --limit, --tail, --reverse, --data, --explain and
    --stats apply; any other filter is refused with exit code 2.

    --explain recovers the environment in memory and prints what recovery does with each entry, and why. If recovery
    fails, there is nothing to explain.

    Nothing is created or changed; a running environment can be read.
    """
    storage = DiskStorage(env)
    refuse_derby(options)
    # ``--type list`` prints the types and reads no log.
    if any(not types.words for types in (*options["types"], *options["without_types"])):
        run.out.text(addresses.types_text())
        return exits.DONE
    files = list_log_files(storage)
    decode = options["decode"]
    if decode is not None and (not options["data"] or run.out.format == "xml"):
        raise UsageError("--decode goes with --data, in any format but xml", hint="add --data")
    view = BodyView(options["detail"], options["data"], decoding_for_log(run, storage, decode) if decode else None)
    selection = _synchronised(run, selection_of(options, storage, files), storage, files).prepare(storage, files)
    if options["stats"]:
        modes.refuse_together(options, "stats", ("limit", "tail", "reverse", "follow", "explain", "ignore_checksums"))
        return modes.print_stats(run, storage, files, selection, options["stats"])
    stream = modes.open_stream(run, view)
    plan = RenderPlan(
        storage,
        files,
        selection,
        view,
        run.out.format,
        run.out.style,
        stream.encoder,
        modes.is_plain_text(run),
        not options["keep_going"],
        _explainer(run, storage, files, options),
        selected=run.out.selected,
        despite_checksums=options["ignore_checksums"],
    )
    return modes.print_entries(run, plan, stream, options)


def _synchronised(run: Run, selection: Selection, storage: Storage, files: LogFiles) -> Selection:
    """Move the ends of a selection to the beginnings of entries or damage; prints a notice if an end moved."""
    log, low, high = scan_log(storage, files, marker=True), selection.from_lsn, selection.to_lsn
    moved = replace(
        selection,
        from_lsn=low if low == NULL_LSN else log.place_after(low),
        to_lsn=high if high == NULL_LSN else log.place_before(high),
    )
    for option, named, begins in (("--from", low, moved.from_lsn), ("--to", high, moved.to_lsn)):
        if named != begins:
            run.messages.notice(
                f"no entry begins at the LSN of {option}",
                file=storage.root,
                lsn=format_lsn(named),
                consequence=f"{'reading begins' if option == '--from' else 'the last one is that'} at "
                f"{format_lsn(begins)}",
            )
    return moved


def _explainer(run: Run, storage: Storage, files: LogFiles, options: dict[str, Any]) -> Explainer | None:
    """The explainer for ``--explain``, which runs recovery in memory."""
    if not options["explain"]:
        return None
    from engine.inspect.explain import Explainer

    if run.out.format == "xml":
        raise UsageError("--explain: XML has the fields of DbPrintLog only", hint="use --format json")
    modes.refuse_together(options, "explain", ("follow",))
    return Explainer(storage, files, listener=run.listener)
