"""The options of ``jetool stream``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from jetool.commands.stream.column_files import AVRO, PARQUET
from jetool.frame import params
from jetool.frame.options import out_option

F = TypeVar("F", bound=Callable[..., Any])

NDJSON: Final = "ndjson"
COLUMN_FORMATS: Final = (AVRO, PARQUET)
_PATIENCE_S: Final = 300.0
_TIMEOUT_S: Final = 10.0
_HOLD_BYTES: Final = 1 << 30
_OPTIONS: Final = (
    click.argument(
        "addresses",
        type=params.HOST,
        metavar="HOST:PORT...",
        nargs=-1,
        required=True,
        help="Addresses of nodes of the group; the others are found.",
    ),
    click.option("--group", metavar="NAME", help="Name of the group.  [default: as the first node reports]"),
    click.option(
        "--from",
        "begin",
        metavar="begin|now|VLSN|FILE",
        help="Start of a new stream, or the state file of an earlier one.  [default: now]",
    ),
    click.option(
        "--after",
        metavar="ENV",
        type=params.DIRECTORY,
        help="Begin a new stream where this environment, a copy of a node of the group, ends.",
    ),
    click.option(
        "--state",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Keep the position in this file, and continue from it if it exists.",
    ),
    click.option(
        "--db",
        "names",
        metavar="NAME|id:ID",
        multiple=True,
        help="Only changes of this database; id:7 means the database with this id. Repeatable.",
    ),
    click.option("--internal", is_flag=True, help="Also changes of JE's own databases."),
    click.option(
        "--durable/--fast",
        default=True,
        help="Print a transaction when no election can roll it back, or at once; if it is then rolled back, a "
        "retraction follows.  [default: durable]",
    ),
    out_option("Write files to this directory, each transaction exactly once.", required=False),
    click.option(
        "--file-format",
        type=click.Choice([NDJSON, *COLUMN_FORMATS]),
        help="Format of the files; avro and parquet hold a row for each change, keys and data as bytes.  "
        "[default: ndjson]",
    ),
    click.option(
        "--file-size",
        type=click.IntRange(1),
        metavar="BYTES",
        help="Complete a file when it reaches this size.  [default: 64 MiB]",
    ),
    click.option(
        "--file-seconds",
        type=click.FloatRange(0),
        metavar="S",
        help="Complete a file when it reaches this age, in seconds.  [default: 60]",
    ),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N transactions."),
    click.option(
        "--until-idle",
        type=click.FloatRange(0),
        metavar="S",
        help="Stop after S seconds without anything new. The exit code is 0 if everything was read that the"
        " master had announced. Otherwise jetool waits at least for --timeout, and 20 s for transactions to"
        " become durable; then the exit code is 7.",
    ),
    click.option(
        "--max-hold",
        type=click.IntRange(1),
        default=_HOLD_BYTES,
        metavar="BYTES",
        help="Stop when the unread part of the log has grown by this much, because the master keeps files for it.  "
        "[default: 1 GiB]",
    ),
    click.option(
        "--patience",
        type=click.FloatRange(0),
        default=_PATIENCE_S,
        metavar="S",
        help="Give up after this many seconds without a master; --until-idle has its own limits.  [default: 300]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1, 600),
        default=_TIMEOUT_S,
        metavar="S",
        help="Longest wait for a connection and for each answer, in seconds.  [default: 10]",
    ),
    click.option("--force", is_flag=True, help="Also accept a JE release outside 7.3 to 25.3."),
)


def stream_options(function: F) -> F:
    """Decorate the command with its addresses and options, in this order."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
