"""``jetool cache-size``: the memory that the cache needs for a database, in JE and in jetool."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final, NamedTuple

import click

from engine.errors import NotFoundError, UsageError
from engine.events import counted
from engine.evictor.je_cache_size import JE_18, RELEASES, CacheLoad, je_cache_size
from engine.evictor.je_off_heap import LEAST_MAIN_BYTES, JeOffHeapSize, je_off_heap_size
from engine.fields import ABSENT, Absent, Bool, Int, SizeBytes, Text, record
from engine.monitor.cache_facts import CacheFacts, cache_facts, own_cache_bytes
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.defaults.only_database import chosen_database
from jetool.frame.environments import open_to_read
from jetool.frame.kinds import require_je
from jetool.frame.options import Run
from jetool.frame.params import SizeType

# A node of JE has an index of two bytes, and DbCacheSize fills nodes of up to 0xFFFF entries.
_MOST_PLACES: Final = 32767
_LEAST_PLACES: Final = 4
_MOST_RECORDS: Final = 10**15
_MOST_BYTES: Final = 1 << 30
# The limits of je.log.fileMax, and its default.
_LEAST_FILE, _LARGEST_FILE, _USUAL_FILE = 1_000_000, 1 << 30, 10_000_000
_OF_RECORDS: Final = ("key_bytes", "data_bytes", "prefix_bytes", "node_max", "duplicates")


@record("cache_size")
class CacheSize(NamedTuple):
    """The memory for one database."""

    database: Annotated[Text | Absent, "its name; without an environment absent"]
    records: Annotated[Int, "records"]
    key_bytes: Annotated[Int, "mean size of a key, rounded up"]
    data_bytes: Annotated[Int | None, "mean size of the data, rounded up; null if it is not given"]
    prefix_bytes: Annotated[Int, "bytes that the keys of a bottom node have in common"]
    node_max: Annotated[Int, "places of a node"]
    entries_per_node: Annotated[Int, "places that are assumed to be taken"]
    embedded: Annotated[Bool, "the data lies in the slots of the bottom nodes"]
    levels: Annotated[Int, "levels of the tree, as assumed"]
    bins: Annotated[Int, "bottom nodes, as assumed"]
    upper_nodes: Annotated[Int, "upper nodes, as assumed"]
    bin_bytes: Annotated[SizeBytes, "JE: one bottom node without its records"]
    internal_bytes: Annotated[SizeBytes, "JE: all nodes, without the records"]
    version_bytes: Annotated[
        SizeBytes | None, "JE 25.3, a node of a group: all nodes and the VLSNs of the records; null where none are kept"
    ]
    all_bytes: Annotated[SizeBytes | None, "JE: all nodes and records; null if the size of the data is not given"]
    environment_bytes: Annotated[SizeBytes, "JE: least memory of an open environment, once, besides its databases"]
    jetool_bytes: Annotated[SizeBytes, "jetool's own cache with all data, estimated from a sample that was measured"]
    off_heap_records: Annotated[
        Int | Absent, "--off-heap: records, or fewer if the main cache does not hold the upper nodes"
    ] = ABSENT
    main_least_bytes: Annotated[SizeBytes | Absent, "--off-heap: the upper nodes in the main cache"] = ABSENT
    main_internal_bytes: Annotated[SizeBytes | Absent, "--off-heap: main cache, for nodes only"] = ABSENT
    main_all_bytes: Annotated[
        SizeBytes | Absent | None, "--off-heap: main cache, for nodes and records; null as all_bytes"
    ] = ABSENT
    off_heap_internal_bytes: Annotated[SizeBytes | Absent, "--off-heap: off-heap cache, for nodes only"] = ABSENT
    off_heap_all_bytes: Annotated[
        SizeBytes | Absent | None, "--off-heap: off-heap cache, for nodes and records; null as all_bytes"
    ] = ABSENT
    current_bins: Annotated[Int | Absent, "bottom nodes that the tree has now"] = ABSENT
    current_upper_nodes: Annotated[Int | Absent, "upper nodes that the tree has now"] = ABSENT


def _check_off_heap(options: dict[str, Any]) -> None:
    main_cache = options["main_cache"]
    if not options["off_heap"]:
        if main_cache is not None:
            raise UsageError("--main-cache goes with --off-heap")
        return
    if options["release"] != JE_18:
        raise UsageError(f"JE {options['release']} has no off-heap cache", hint=f"--je {JE_18}")
    environment_bytes = CacheLoad(
        1, 1, replicated=options["replicated"], large_heap=options["large_heap"]
    ).environment_bytes
    if main_cache is not None and main_cache <= environment_bytes + LEAST_MAIN_BYTES:
        raise UsageError(
            "the main cache does not hold the environment and 1 MiB of nodes",
            expected=f"more than {environment_bytes + LEAST_MAIN_BYTES}",
            found=str(main_cache),
        )


def _check(*, env: str, record_count: int | None, name: str | None, **options: Any) -> None:
    """Either the records are described, or a database is named."""
    _check_off_heap(options)
    if record_count is None:
        given = [f"--{one.replace('_', '-')}" for one in _OF_RECORDS if options[one] not in (None, False)]
        if given:
            raise UsageError(
                "an option that describes records goes with --record-count",
                found=given[0],
                hint="without --record-count the database of an environment is read",
            )
        return
    if name is not None or env != os.curdir:
        raise UsageError(
            "with --record-count no environment is read",
            found="--db" if name is not None else env,
            hint="leave one of them out",
        )
    if options["key_bytes"] is None:
        raise UsageError("--record-count needs --key-bytes")
    if options["duplicates"] and options["data_bytes"] is None:
        raise UsageError("--duplicates needs --data-bytes, because the data is a part of the key in the tree")
    whole = options["key_bytes"] + (options["data_bytes"] or 0) * options["duplicates"]
    if (options["prefix_bytes"] or 0) >= whole:
        raise UsageError(
            "the prefix leaves nothing of the keys", expected=f"less than {whole}", found=str(options["prefix_bytes"])
        )


@command(
    "cache-size",
    outputs=lambda: Outputs("document", (CacheSize,)),
    check=lambda _, **options: _check(**options),
    instead="record_count",
    features=("fields", "progress"),
    examples=(
        (
            "A hundred million records that are planned",
            "jetool cache-size --record-count 100000000 --key-bytes 16 --data-bytes 200",
        ),
        (
            "The same for a node of Oracle NoSQL, whose JE is 25.3",
            "jetool cache-size --record-count 100000000 --key-bytes 16 --data-bytes 200 --je 25.3 --replicated",
        ),
        ("A database that is there", "jetool cache-size /data/env --db orders"),
        (
            "A secondary with duplicates: 8 bytes and a primary key of 20",
            "jetool cache-size --record-count 1000000 --key-bytes 8 --data-bytes 20 --prefix-bytes 8 --duplicates",
        ),
        (
            "10 GB for JE's main cache, and the rest outside the Java heap",
            "jetool cache-size --record-count 1000000000 --key-bytes 16 --data-bytes 200 --off-heap --main-cache 10GB",
        ),
        ("For a script: bytes for je.maxMemory", "jetool cache-size /data/env --db orders --json --fields all_bytes"),
    ),
    exits={
        exits.DONE: "printed",
        exits.REFUSED: "the environment has a restore marker and must not be opened",
        exits.NOT_FOUND: "no environment, no such database, or a database without records",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: "damage, or a file that cannot be read",
    },
)
@environment
@click.option("-s", "--db", "name", metavar="NAME", help="The database to read.  [default: the only one]")
@click.option(
    "--record-count", type=click.IntRange(1, _MOST_RECORDS), metavar="N", help="Instead of a database: N records."
)
@click.option("--key-bytes", type=click.IntRange(1, _MOST_BYTES), metavar="BYTES", help="Mean size of a key.")
@click.option("--data-bytes", type=click.IntRange(0, _MOST_BYTES), metavar="BYTES", help="Mean size of the data.")
@click.option(
    "--prefix-bytes",
    type=click.IntRange(0, _MOST_BYTES),
    metavar="BYTES",
    help="With key prefixing or duplicates: what the keys of a bottom node have in common.  [default: 0]",
)
@click.option(
    "--node-max",
    type=click.IntRange(_LEAST_PLACES, _MOST_PLACES),
    metavar="N",
    help="Slots of a node of these databases.  [default: 128]",
)
@click.option("--duplicates", is_flag=True, help="The database has sorted duplicates.")
@click.option("--ordered", is_flag=True, help="Records are inserted in key order and never deleted: nodes are full.")
@click.option("--expiring", is_flag=True, help="Records have an expiration.")
@click.option("--replicated", is_flag=True, help="The environment is a node of a replication group.")
@click.option(
    "--embedded-max",
    type=click.IntRange(0, _MOST_BYTES),
    default=16,
    metavar="BYTES",
    help="Largest data in a slot (je.tree.maxEmbeddedLN).  [default: 16]",
)
@click.option(
    "--compact-key-max",
    type=click.IntRange(0, 255),
    default=42,
    metavar="BYTES",
    help="Largest key in one array (je.tree.compactMaxKeyLength).  [default: 42]",
)
@click.option(
    "--je",
    "release",
    type=click.Choice(RELEASES),
    default=JE_18,
    help="The release of JE whose memory is computed.  [default: 18.3]",
)
@click.option("--large-heap", is_flag=True, help="A Java heap of 32 GiB or more, where references take 8 bytes.")
@click.option(
    "--file-max",
    type=click.IntRange(_LEAST_FILE, _LARGEST_FILE),
    default=_USUAL_FILE,
    metavar="BYTES",
    help="Size of log files (je.log.fileMax), which matters with --ordered.  [default: 10000000]",
)
@click.option(
    "--off-heap", is_flag=True, help="With a cache outside the Java heap too (je.maxOffHeapMemory); JE 18.3 only."
)
@click.option(
    "--main-cache",
    type=SizeType(),
    metavar="SIZE",
    help="With --off-heap: je.maxMemory, environment included.  [default: all nodes, and no records]",
)
def cache_size(run: Run, /, env: str, name: str | None, **options: Any) -> int:
    """Print the memory that a database needs in the cache.

    The figures for JE are those of DbCacheSize of JE 18.3.20, or with --je 25.3 of JE 25.3.17, byte for byte: nodes
    that are filled to 70 per cent. Cache at least the internal nodes. Add the environment once, and more for locks,
    daemons and connections. With --off-heap the output also has what each of the two caches of JE 18.3 needs: upper
    nodes stay in the main cache, which --main-cache limits.

    Of a database in an environment every record is read, and mean sizes and the common prefix of its keys are used. The
    tree may have more nodes than assumed, after deletions for example: the output has both numbers. Parameters in
    je.properties do not count: give them as options. Nothing is changed.
    """
    facts = None if options["record_count"] is not None else _facts(run, env, name)
    load = _load(facts, options)
    found = je_cache_size(load)
    shown = CacheSize(
        database=facts[0] if facts is not None else ABSENT,
        records=load.records,
        key_bytes=load.key_bytes,
        data_bytes=load.data_bytes,
        prefix_bytes=load.prefix_bytes,
        node_max=load.node_max,
        entries_per_node=load.entries_per_node,
        embedded=load.is_embedded,
        levels=found.levels,
        bins=found.bins,
        upper_nodes=found.upper_nodes,
        bin_bytes=found.nodes.bottom,
        internal_bytes=found.internal_bytes,
        version_bytes=found.version_bytes,
        all_bytes=found.all_bytes,
        environment_bytes=load.environment_bytes,
        jetool_bytes=own_cache_bytes(load),
        current_bins=facts[1].bins if facts is not None else ABSENT,
        current_upper_nodes=facts[1].upper_nodes if facts is not None else ABSENT,
    )
    if options["off_heap"]:
        shown = _with_off_heap(shown, je_off_heap_size(load, options["main_cache"]))
    run.out.document(shown)
    return exits.DONE


def _with_off_heap(shown: CacheSize, found: JeOffHeapSize) -> CacheSize:
    return shown._replace(
        off_heap_records=found.records,
        main_least_bytes=found.main_least_bytes,
        main_internal_bytes=found.main_internal_bytes,
        main_all_bytes=found.main_all_bytes,
        off_heap_internal_bytes=found.off_heap_internal_bytes,
        off_heap_all_bytes=found.off_heap_all_bytes,
    )


def _facts(run: Run, env: str, name: str | None) -> tuple[str, CacheFacts]:
    """The name of the database, and what its records are like.

    Raises:
        NotFoundError: there is no such database, or it has no records.
    """
    require_je(DiskStorage(env))
    with open_to_read(run, env) as opened:
        chosen = chosen_database(run, env, name, opened.database_names())
        with opened.open_database(chosen) as database:
            facts = cache_facts(database, lambda done, total: counted(run.listener, "records", done, total, done))
    if not facts.records:
        raise NotFoundError(
            f"the database {chosen!r} is empty", file=env, hint="describe the records: --record-count, --key-bytes"
        )
    return chosen, facts


def _load(facts: tuple[str, CacheFacts] | None, options: dict[str, Any]) -> CacheLoad:
    common: dict[str, Any] = {
        "ordered": options["ordered"],
        "replicated": options["replicated"],
        "expires": options["expiring"],
        "embedded_max": options["embedded_max"],
        "compact_key_max": options["compact_key_max"],
        "large_heap": options["large_heap"],
        "release": options["release"],
        "file_max": options["file_max"],
    }
    if facts is None:
        return CacheLoad(
            records=options["record_count"],
            key_bytes=options["key_bytes"],
            data_bytes=options["data_bytes"],
            prefix_bytes=options["prefix_bytes"] or 0,
            node_max=options["node_max"] or 128,
            duplicates=options["duplicates"],
            **common,
        )
    _, found = facts
    return CacheLoad(
        records=found.records,
        key_bytes=max(found.key_bytes, 1),
        data_bytes=found.data_bytes,
        prefix_bytes=found.prefix_bytes,
        node_max=found.node_max,
        duplicates=found.duplicates,
        **common,
    )
