"""``jetool node put``, ``get`` and ``delete``: records of a running node, which holds the lock of its environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import click

from engine.fields import Int, Key, Text, Vlsn, record
from engine.rep import remote
from engine.rep.peers import address_text
from engine.rep.records import DeleteRequest, GetRequest, PutRequest
from engine.rep.remote import RemoteWrite
from jetool.commands.node.peers import node
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command
from jetool.frame.decode_option import decoded_shape
from jetool.frame.networks import network_of
from jetool.frame.options import Run
from jetool.frame.record_output import PrintedRecord, printed


@record("written")
class CommittedWrite(NamedTuple):
    """What was committed."""

    master: Annotated[Text, "the node that has committed it"]
    db: Annotated[Text, "name of the database"]
    key: Annotated[Key, "the key"]
    records: Annotated[Int, "records that were written or deleted"]
    vlsn: Annotated[Vlsn, "the VLSN of its Commit: what a replica must have replayed to show it"]


_EXITS: Final = {
    exits.NOT_FOUND: "no such database, no such record",
    exits.INCOMPLETE: "the node cannot read or write its log",
}
_WRITE_EXITS: Final = {
    exits.DONE: "committed, and acknowledged by replicas as the policy of the master requires",
    **_EXITS,
    exits.REFUSED: "nothing was changed: no node or no master answers, too few replicas, or the key has a record",
    exits.INCOMPLETE: "it may have been committed: not enough acknowledgements, or the connection was lost",
}


def _shared(callback: Callable[..., int]) -> Callable[..., int]:
    """Add the options that the three commands share."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(0.1, 3600),
            default=30.0,
            metavar="S",
            help="Longest wait for the answer, in seconds.  [default: 30]",
        ),
        click.option("--db", "name", required=True, metavar="NAME", help="The database."),
        click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms."),
        click.argument("address", type=params.HOST, help="Where the node listens."),
    ):
        callback = option(callback)
    return callback


@command(
    "put",
    parent=node,
    outputs=lambda: Outputs("document", (CommittedWrite,)),
    writes=True,
    features=("fields", "keys", "tls"),
    examples=(
        ("One record", "jetool node put localhost:5001 user0001 Ada --db users"),
        ("Only if the key has no record", "jetool node put localhost:5001 lock me --db locks --no-overwrite"),
    ),
    exits=_WRITE_EXITS,
)
@_shared
@click.argument("data", type=params.DATA, help="The data: text, or 0x and hex; - reads the bytes of standard input.")
@click.option("--no-overwrite", is_flag=True, help="Refuse (exit 3) if the key has a record.")
@click.option("--create", is_flag=True, help="Create the database, without duplicates, if it does not exist.")
def node_put(
    run: Run,
    address: tuple[str, int],
    key: bytes,
    data: bytes,
    name: str,
    timeout: float,
    no_overwrite: bool,
    create: bool,
) -> int:
    """Write one record through a running node, in its own transaction; with sorted duplicates, add a data item.

    A replica forwards the request to the master. The command returns when replicas have acknowledged the commit. A
    jetool node serves local callers over loopback, and remote callers over TLS with a certificate that it trusts; JE
    nodes have no such service.
    """
    if data == b"-":
        data = sys.stdin.buffer.read()
    request = PutRequest(name, key, data, not no_overwrite, create)
    return _print(run, name, key, remote.put_record(network_of(run), address, request, timeout))


@command(
    "delete",
    parent=node,
    outputs=lambda: Outputs("document", (CommittedWrite,)),
    writes=True,
    features=("fields", "keys", "tls"),
    examples=(
        ("One record", "jetool node delete localhost:5001 user0001 --db users"),
        ("One data item of a key", "jetool node delete localhost:5001 user0001 --db tags --data blue"),
    ),
    exits=_WRITE_EXITS,
)
@_shared
@click.option("--data", type=params.DATA, help="With sorted duplicates: only this data item.")
def node_delete(
    run: Run,
    address: tuple[str, int],
    key: bytes,
    name: str,
    timeout: float,
    data: bytes | None,
) -> int:
    """Delete the record of KEY through a running node; with sorted duplicates, all data items or one."""
    request = DeleteRequest(name, key, data)
    return _print(run, name, key, remote.delete_record(network_of(run), address, request, timeout))


@command(
    "get",
    parent=node,
    outputs=lambda: Outputs("table", (decoded_shape(PrintedRecord, None),)),
    features=("fields", "keys", "tls"),
    examples=(
        ("One record, as this node has it", "jetool node get localhost:5001 user0001 --db users"),
        (
            "What was just written with VLSN 120, from a replica",
            "jetool node get localhost:5001 user0001 --db users --vlsn 120",
        ),
    ),
    exits={
        exits.DONE: "the record was printed",
        **_EXITS,
        exits.REFUSED: "the node does not answer, has no environment open, or has not replayed the VLSN in time",
    },
)
@_shared
@click.option("--vlsn", type=params.VLSN, help="Wait until the node has replayed this VLSN.")
def node_get(run: Run, address: tuple[str, int], key: bytes, name: str, timeout: float, vlsn: int | None) -> int:
    """Print the record of KEY from a running node; in a database with sorted duplicates, all its data items.

    Only committed records are read. A replica may lag behind the master; --vlsn waits for the VLSN that a write
    printed.
    """
    request = GetRequest(name, key, vlsn or 0, int(timeout * 1000))
    # Wait one second longer than the node does, so that its answer arrives first.
    items = remote.get_record(network_of(run), address, request, timeout + 1)
    run.out.table(decoded_shape(PrintedRecord, None), [printed((key, item)) for item in items])
    return exits.DONE


def _print(run: Run, name: str, key: bytes, done: RemoteWrite) -> int:
    run.out.document(
        CommittedWrite(
            master=address_text(done.master),
            db=name,
            key=key,
            records=done.written.records,
            vlsn=done.written.vlsn,
        )
    )
    return exits.DONE
