"""``jetool backup HOST:PORT DEST``: a hot copy of a node of JE that runs."""

from __future__ import annotations

import os
import time
from typing import Final

import click

from engine.errors import UsageError
from engine.rep.client.connection import Address, SocketNetwork
from engine.rep.client.copying import HotCopy, Throttle, choose
from engine.rep.client.looking import check_group, look
from engine.rep.frames import PeerError, address_text
from engine.rep.wire.node_state import STATES
from engine.storage.disk import DiskStorage
from jetool.app import exits, params
from jetool.app.command import Outputs, command
from jetool.app.options import Run
from jetool.output.shape import Field, Shape

COPIED: Final = Shape(
    "backup",
    "The copy.",
    (
        Field("directory", "text", "where it is: an environment of its own"),
        Field("node", "text", "the node that it was made of"),
        Field("address", "text", "where that was asked"),
        Field("state", "text", "what the node was when the copy began", choices=STATES),
        Field("group", "text", "its group"),
        Field("je_version", "text", "release of JE that it runs"),
        Field("protocol", "int", "version of the protocol for copies"),
        Field("files", "int", "log files"),
        Field("bytes", "size_bytes", "their bytes"),
        Field("kept_files", "int", "those that an earlier run or attempt had fetched"),
        Field("attempts", "int", "connections that it took"),
        Field("first_vlsn", "vlsn", "first VLSN that the node had when the copy began"),
        Field("last_vlsn", "vlsn", "last VLSN that the node had then; the copy has it"),
        Field("duration", "duration_ms", "how long it took"),
    ),
)
_TIMEOUT_S: Final = 5.0
# A node computes the digest of a whole file in one step, and waits for a checkpoint before the first one.
_LEAST_COPY_TIMEOUT_S: Final = 60.0
_RETRIES: Final = 5


def _check(_run: Run, *, dest: str, group: str | None, node: str | None, from_master: bool, **_: object) -> None:
    if from_master and node is not None:
        raise UsageError("--node names the node, master or not: --from-master says nothing beside it")
    if group is not None:
        check_group(group)
    if not os.path.basename(os.path.abspath(dest)):
        raise UsageError("the copy needs a directory of its own", file=dest)


@command(
    "backup",
    check=_check,
    outputs=lambda: Outputs("document", (COPIED,)),
    features=("fields", "progress"),
    examples=(
        ("A copy of a group's data, from its least busy replica", "jetool backup fe1:9010 /backup/monday"),
        ("Of this node, at 20 MB/s at most", "jetool backup fe1:9010 /backup/fe2 --node fe2 --rate 20000000"),
        ("Of the only node there is", "jetool backup localhost:5001 /backup/one --from-master"),
    ),
    exits={
        exits.DONE: "copied; every digest agreed",
        exits.REFUSED: "DEST is not empty, another run copies to it, only the master is there, or the node refuses",
        exits.NOT_FOUND: "no node answers, or none of that name; no directory for DEST",
        exits.UNSUPPORTED: "a release of JE outside of 7.3 to 25.3",
        exits.INCOMPLETE: "the connection was cut too often, or DEST cannot be written: run it again and it goes on",
    },
)
@click.argument("address", type=params.HOST, metavar="HOST:PORT",
                help="Where a node of the group listens; the others are found.")  # fmt: skip
@click.argument("dest", type=click.Path(), metavar="DEST",
                help="A directory that does not exist, or an empty one.")  # fmt: skip
@click.option("--node", metavar="NAME", help="Copy this node, master or not.  [default: the least busy replica]")
@click.option("--from-master", is_flag=True, help="Copy the master where there is no replica.")
@click.option("--group", metavar="NAME", help="Name of the group.  [default: what the node says]")
@click.option("--rate", type=click.IntRange(1000), metavar="BYTES", help="Bytes a second at most.")
@click.option("--retries", type=click.IntRange(0, 1000), default=_RETRIES, metavar="N",
              help="Connections that may be cut before the run ends.  [default: 5]")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=_TIMEOUT_S, metavar="S",
              help="Longest wait for each answer, in seconds; a minute at least once the copy begins."
              "  [default: 5]")  # fmt: skip
@click.option("--force", is_flag=True, help="Copy from a release of JE outside of 7.3 to 25.3, too.")
def backup(
    run: Run, address: Address, dest: str, node: str | None, from_master: bool, group: str | None, rate: int | None,
    retries: int, timeout: float, force: bool,
) -> int:  # fmt: skip
    """Copy the environment of a node of JE while it runs, over its own port.

    By JE's network restore, without Java and without TLS: the node begins a new log file, protects the files before it,
    and sends them with digests. The result is a consistent environment that recovers to what the node had; jetool
    verify --full checks it, and JE opens it. The node's log gets one small file more for each copy.

    Files come to DEST.part, which is renamed when all are there. Run again, a copy that was stopped goes on: files that
    agree by digest are kept.
    """
    began = time.monotonic()
    network = SocketNetwork()
    found = look(network, [address], group, timeout)
    chosen = choose(network, found, node, timeout, allow_master=from_master, force=force)
    said = chosen.said
    assert said is not None
    place = os.path.abspath(dest)
    copy = HotCopy(DiskStorage(os.path.dirname(place)), os.path.basename(place), run.listener, Throttle(rate))
    run.messages.detail(f"copying {chosen.name} at {address_text(chosen.address)}, {said.state}")

    def retried(error: PeerError) -> None:
        run.messages.warning("the copy was cut and goes on", found=str(error))

    done = copy.run(network, chosen.address, max(timeout, _LEAST_COPY_TIMEOUT_S), retries, retried)
    run.out.document(COPIED, COPIED.row(
        (
            place, chosen.name, address_text(chosen.address), said.state, found.group, said.je_version, done.version,
            done.files, done.size_bytes, done.kept_files, done.attempts, done.first_vlsn, done.last_vlsn,
            round((time.monotonic() - began) * 1000),
        )
    ))  # fmt: skip
    return exits.DONE
