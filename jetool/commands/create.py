"""``jetool create``: a new environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import click

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import PROPERTIES_FILE, EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError, UsageError
from engine.fields import Bool, Int, Lsn, Text, record
from engine.format.versions import JE_RELEASES, NEWEST_VERSION, WRITTEN_VERSION
from engine.rep.group import check_name, form_group
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from jetool.frame import exits, kinds, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.options import Run

_LEAST_FILE: Final = 1_000_000


@record("created")
class CreateResult(NamedTuple):
    """The new environment."""

    environment: Annotated[Text, "its directory"]
    log_version: Annotated[Int, "version of its log"]
    dbs: Annotated[Sequence[Text], "its databases"]
    end_lsn: Annotated[Lsn, "the end of its log"]
    dry_run: Annotated[Bool, "nothing was made"]


def _outputs() -> Outputs:
    from jetool.commands.page_store import rows

    return Outputs("document", (CreateResult, rows.CreatedStore), derby=(rows.CreatedStore,))


def _require_parent(run: Run, /, *, env: str, **_: object) -> None:  # noqa: ARG001 - the signature of a check
    """NotFoundError: the directory in which the environment is to be made does not exist."""
    parent = os.path.dirname(os.path.abspath(env))
    if not os.path.isdir(parent):
        raise NotFoundError(
            "no such directory",
            file=parent,
            consequence="nothing was made",
            hint=f"make it first: mkdir -p {shlex.quote(parent)}",
        )


@command(
    "create",
    kind_option="store",
    check=_require_parent,
    outputs=_outputs,
    features=("fields", "write"),
    examples=(
        ("An environment with two databases", "jetool create /data/new --db orders --db tags:dups"),
        (
            "The first node of a replication group",
            "jetool create /data/n1 --replicated --group orders --node n1 --address db1.example.org:5001",
        ),
        ("A page store on Derby's format, with one table", "jetool create /data/pages --store derby --db orders"),
        ("One that JE 25.3 continues, as in Oracle NoSQL", "jetool create /data/new --db t --log-version 26"),
        ("Small files and nodes, for a drill", "jetool create /tmp/drill --db t --file-max 1000000 --node-max 8"),
    ),
    exits={
        exits.DONE: "the environment was created",
        exits.REFUSED: "the directory is not empty, or a database is named twice",
        exits.NOT_FOUND: "the directory in which it is to be made does not exist",
        exits.INCOMPLETE: "the directory cannot be written",
    },
)
@environment
@click.option("--db", "dbs", type=params.NEW_DATABASE, multiple=True, help="A database to create in it; repeatable.")
@click.option(
    "--store",
    type=click.Choice((kinds.JE, kinds.DERBY)),
    default=kinds.JE,
    help="What to create: a JE environment, or a page store in Derby's format.  [default: je]",
)
@click.option(
    "--file-max",
    type=click.IntRange(100_000, 1 << 30),
    metavar="BYTES",
    help="Largest log file; kept in je.properties as je.log.fileMax.  [default: 10000000]",
)
@click.option(
    "--node-max",
    type=click.IntRange(4, 32_767),
    metavar="N",
    default=128,
    help="Slots of a node of these databases.  [default: 128]",
)
@click.option(
    "--log-version",
    type=click.IntRange(WRITTEN_VERSION, NEWEST_VERSION),
    metavar="N",
    default=WRITTEN_VERSION,
    help=f"Version of the log, which its files keep: {WRITTEN_VERSION} for JE 18.3 and later, {NEWEST_VERSION} for JE "
    f"{JE_RELEASES[NEWEST_VERSION]} and later.  [default: {WRITTEN_VERSION}]",
)
@click.option("--replicated", is_flag=True, help="Create the first node of a new replication group.")
@click.option("--group", metavar="NAME", default="jetool", help="Name of that group.  [default: jetool]")
@click.option("--node", metavar="NAME", default="node1", help="Name of the node in it.  [default: node1]")
@click.option(
    "--address",
    type=params.HOST,
    default="localhost:5001",
    help="Address at which other members reach the node.  [default: localhost:5001]",
)
def create(
    run: Run,
    env: str,
    dbs: tuple[tuple[str, bool, bool], ...],
    store: str,  # noqa: ARG001 - chooses who serves
    file_max: int | None,
    node_max: int,
    log_version: int,
    replicated: bool,
    group: str,
    node: str,
    address: tuple[str, int],
) -> int:
    """Create an environment that JE 18.3 and later open.

    The directory is created if needed; an existing one must be empty. With --replicated the environment is a
    replication group of one node: put, load and delete write to it as its master, and others join with jetool node.

    With --log-version only the release of JE that has this version, and later ones, open it; Oracle NoSQL has 26.
    jetool node run continues the log in its version.

    With --store derby it is a page store: tables of keys and values in Apache Derby's files, with Derby's logging and
    recovery, but without SQL. For a page store --file-max is the log switch interval, from 100000 to 134217728.
    [default: 1048576]
    """
    check_name("group", group)
    check_name("node", node)
    # The option accepts smaller sizes for page stores; JE refuses a je.log.fileMax below this.
    if file_max is not None and file_max < _LEAST_FILE:
        raise UsageError("--file-max is too small", expected=f"{_LEAST_FILE} at least", found=str(file_max))
    disk = DiskStorage(env)
    storage: Storage = OverlayStorage(disk) if run.dry_run else disk
    # Check the real directory even in a dry run, so that it refuses the same things as a real run.
    _require_empty(disk)
    if file_max is not None:
        # Write the limit first, because creating the environment reads it.
        _write_properties(storage, file_max)
    config = EnvironmentConfig(create=True, node_max_entries=node_max, replicated=replicated, log_version=log_version)
    with Environment(storage, config, run.listener) as made:
        if replicated:
            # Become master first: creating databases is a write of the group's master.
            form_group(made, group, node, *address)
        for name, duplicates, prefixing in dbs:
            made.create_database(name, DatabaseOptions(duplicates, prefixing, node_max)).close()
        names = made.database_names()
    run.out.document(
        CreateResult(environment=env, log_version=log_version, dbs=names, end_lsn=made.end_lsn, dry_run=run.dry_run)
    )
    return exits.DONE


def _require_empty(storage: Storage) -> None:
    try:
        names = storage.names()
    except NotFoundError:
        return
    if names:
        raise RefusedError(
            "the directory is not empty",
            file=storage.root,
            found=", ".join(names[:5]),
            consequence="nothing was made",
            hint="name a directory that is not there yet",
        )


def _write_properties(storage: Storage, file_max: int) -> None:
    """Store the limit in je.properties, which JE and jetool read when they open the environment."""
    storage.make_directory("")
    file = storage.open_rw(PROPERTIES_FILE, create=True)
    try:
        file.write(0, f"je.log.fileMax={file_max}\n".encode())
        file.sync()
    finally:
        file.close()
    storage.sync_directory()
