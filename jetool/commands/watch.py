"""``jetool watch``: nodes at a glance, again and again: a screen, lines, or metrics over HTTP."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol

import click

from engine.errors import NotFoundError, UsageError
from engine.fields import Bool, Int, record
from engine.monitor.sample import NodeSample
from engine.rep.client.connection import Address
from engine.rep.client.group_state import check_group
from engine.storage.disk import DiskStorage
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment_or
from jetool.frame.kinds import require_je
from jetool.frame.networks import network_of, refuse_tls
from jetool.frame.options import Run

if TYPE_CHECKING:
    from jetool.output.exporter import PageServer

_INTERVAL_S: Final = 2.0
_TIMEOUT_S: Final = 2.0
_LOOPBACK: Final = "127.0.0.1"
# A terminal that cannot be drawn on gets blocks, as a pipe does.
_DUMB: Final = ("dumb", "unknown")


class ListenType(click.ParamType[Address]):
    """Where to listen: ``HOST:PORT``, or ``:PORT`` for this machine only."""

    name = "[HOST]:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Host and port. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        found = params.HOST.convert(f"{_LOOPBACK}{text}" if text.startswith(":") else text, param, ctx)
        return found[0], found[1]


@record("summary")
class WatchEnd(NamedTuple):
    """The end of the samples."""

    samples: Annotated[Int, "how many were taken of every node"]
    interrupted: Annotated[Bool, "ended by the user and not by --count"]


class Meter(Protocol):
    """Takes samples of an environment, or of the nodes of a group."""

    def check(self) -> None:
        """Raises JetoolError if nothing can be sampled."""

    def sample(self) -> Sequence[NodeSample]:
        """One sample of each node."""


def _check(
    run: Run,
    *,
    env: str,
    others: tuple[str, ...],
    name: str | None,
    count: int | None,
    listen: Address | None,
    **_: object,
) -> None:
    """Options that exclude each other, and words that are neither a directory nor an address."""
    if count is None and run.out.format == "json":
        raise UsageError("watch has no end, which --format json needs", hint="add --count N, or use --format ndjson")
    if listen is not None and run.out.selected is not None and run.out.format == "text":
        raise UsageError("--fields has no effect on metrics", hint="leave it out, or add --format ndjson")
    if name is not None:
        check_group(name)
    groups = [word for word in (env, *others) if addresses_of(word)]
    if not groups:
        refuse_tls("environments in directories")
        if name is not None:
            raise UsageError("--group is for the nodes of a running group", found=env)


def addresses_of(word: str) -> tuple[Address, ...]:
    """The addresses of an argument; empty for a directory.

    Raises:
        UsageError: it is neither an existing directory nor a list of addresses.
    """
    if os.path.lexists(word):
        return ()
    found = []
    for part in word.split(","):
        try:
            found.append(params.HOST.convert(part, None, None))
        except click.BadParameter:
            if part == word and ":" not in word:
                raise NotFoundError("no such directory", file=word, hint="a running node is HOST:PORT") from None
            raise UsageError(
                "neither a directory nor the address of a node", expected="HOST:PORT,...", found=part
            ) from None
    return tuple(found)


@command(
    "watch",
    check=_check,
    names_end=True,
    outputs=lambda: Outputs("stream", (NodeSample,), WatchEnd),
    features=("fields", "times", "tls"),
    examples=(
        ("A running group: roles, VLSNs, lag; p pauses, q quits", "jetool watch fe1:9010"),
        ("Several nodes in case one is down, and the environment of this machine", "jetool watch fe1:9010,fe2:9010 ."),
        ("A line every ten seconds, for a file", "jetool watch /data/env --interval 10 --format ndjson"),
        ("Once, for a script: exit code 1 when a node does not answer", "jetool watch fe1:9010 --count 1 --json"),
        ("Metrics for Prometheus, for this machine only", "jetool watch /data/env --listen :9464"),
    ),
    exits={
        exits.DONE: "ended by q, by Ctrl-C, or by --count with every node answering",
        exits.FINDINGS: "--count: in the last sample a node does not answer, or an environment cannot be read",
        exits.REFUSED: "the answering process is not a JE node, or belongs to another group",
        exits.NOT_FOUND: "no environment; no node answers",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.INCOMPLETE: "a file cannot be read, or the address of --listen is in use",
    },
)
@environment_or(
    "ENV|HOST:PORT[,...]",
    "Directory of an environment, or addresses of nodes of a running group; the other nodes are found.",
)
@click.argument(
    "others",
    type=params.DIRECTORY,
    metavar="[ENV|HOST:PORT[,...]]...",
    nargs=-1,
    help="Further environments and groups.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 86_400),
    default=_INTERVAL_S,
    metavar="S",
    help="Seconds from one sample to the next.  [default: 2]",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N samples.")
@click.option(
    "--listen",
    type=ListenType(),
    metavar="[HOST]:PORT",
    help="Serve the last sample as metrics for Prometheus, at http://HOST:PORT/metrics. Without HOST only this machine "
    "can read it.",
)
@click.option(
    "--group", "name", metavar="NAME", help="Name of the running group.  [default: as the first node reports]"
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 600),
    default=_TIMEOUT_S,
    metavar="S",
    help="Longest wait for a connection and for each answer, in seconds.  [default: 2]",
)
def watch(
    run: Run,
    env: str,
    others: tuple[str, ...],
    interval: float,
    count: int | None,
    listen: Address | None,
    name: str | None,
    timeout: float,
) -> int:
    """Show nodes and environments on one screen that refreshes.

    Nodes of a running group report role, VLSN, lag, release and load, as for jetool group show. An environment is read
    from outside, also while JE or jetool writes it: commits and log growth per second, utilization, files that the
    cleaner has to clean, age of the last checkpoint, log that a recovery would read, and what may still be written
    before je.freeDisk or je.maxDisk stops it. The cache is taken from JE's own je.stat.csv, which has a row a minute.
    Name both to see both.

    Columns of the screen: used, the part of the log in use by the counters of the last checkpoint; clean, files that
    the cleaner has to clean; ckpt, age of the last checkpoint; recovery, bytes from firstActive to the end of the log.
    A column without a value is left out, and so are the less urgent ones of a narrow terminal.

    Without a terminal, text is a block per sample; other formats are a row per node and sample. With --listen nothing
    is printed in text: the last sample is served over HTTP, to GET /metrics only, and a node that is down is a value
    and not an error.

    Nothing is opened for writing and no lock is taken. The first sample reads the log back to its last checkpoint, up
    to 24 MiB; each further one reads what was appended.
    """
    meters = _meters(run, (env, *others), name, timeout)
    with _serving(run, listen) as server:
        for meter in meters:
            # An exporter waits for a group that is not there yet.
            if server is None:
                meter.check()

        def take() -> list[NodeSample]:
            found = [one for meter in meters for one in meter.sample()]
            if server is not None:
                from jetool.output.node_metrics import node_metrics

                server.show(node_metrics(found))
            return found

        last = _show(run, take, interval, count or 0, quiet=server is not None)
    down = count is not None and any(one.problem is not None for one in last)
    return exits.FINDINGS if down else exits.DONE


def _meters(run: Run, words: Sequence[str], name: str | None, timeout: float) -> list[Meter]:
    meters: list[Meter] = []
    for word in words:
        addresses = addresses_of(word)
        if addresses:
            from engine.monitor.group import GroupMeter

            meters.append(GroupMeter(network_of(run), addresses, name, timeout))
        else:
            from engine.monitor.environment import EnvironmentMeter

            storage = DiskStorage(word)
            require_je(storage)
            meters.append(EnvironmentMeter(storage))
    return meters


@contextmanager
def _serving(run: Run, listen: Address | None) -> Iterator[PageServer | None]:
    """The server of ``--listen``; None without it."""
    if listen is None:
        yield None
        return
    from jetool.output.exporter import PATH, PageServer

    with PageServer(listen) as server:
        run.messages.notice(f"metrics at http://{server.address}{PATH}")
        yield server


def _show(
    run: Run, take: Callable[[], list[NodeSample]], interval: float, count: int, *, quiet: bool
) -> Sequence[NodeSample]:
    """Print samples until the user ends it, or ``count`` were taken; returns the last ones."""
    as_text = run.out.format == "text" and run.out.selected is None
    if as_text and not quiet and run.out.style.width is not None and os.environ.get("TERM") not in _DUMB:
        return _show_screen(run, take, interval, count)
    last: list[NodeSample] = []
    taken = 0
    with nullcontext() if as_text else run.out.stream(NodeSample) as stream:
        with _until_interrupted():
            due = time.monotonic()
            while not count or taken < count:
                time.sleep(max(due - time.monotonic(), 0))
                due = time.monotonic() + interval
                last = take()
                taken += 1
                if stream is not None:
                    for one in last:
                        stream.row(one)
                    stream.flush()
                elif not quiet:
                    _print_block(run, last)
        if stream is not None:
            stream.end(WatchEnd(samples=taken, interrupted=not count or taken < count))
    return last


def _show_screen(run: Run, take: Callable[[], list[NodeSample]], interval: float, count: int) -> Sequence[NodeSample]:
    """The screen; the last samples stay on the terminal when it has ended."""
    from jetool.output.screen import NodeScreen

    screen = NodeScreen(take, run.out.style, interval, count)
    with _until_interrupted():
        screen.run()
    if screen.samples:
        _print_block(run, screen.samples)
    return screen.samples


def _print_block(run: Run, samples: Sequence[NodeSample]) -> None:
    from jetool.output.node_table import block

    run.out.text(block(samples, run.out.style))
    run.out.flush()


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """End the block at Ctrl-C, which is the way to end a watch and no error."""
    try:
        yield
    except exits.TerminatedError:
        raise
    except KeyboardInterrupt:
        pass
