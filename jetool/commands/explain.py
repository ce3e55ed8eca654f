"""``jetool explain``: an exception, or a whole log file of an application: cause, risk, next command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import IO, Final

import click

from engine.errors import NotFoundError, StorageError, UsageError, plural
from engine.rescue.explaining import ExplainedMessage, PlaceLook, look_at_places
from engine.rescue.explaining import explain as read_messages
from engine.rescue.messages.record import DATA, ENVIRONMENTS, RISKS
from engine.storage.disk import DiskStorage
from jetool.app import exits, params
from jetool.app.command import Outputs, command
from jetool.app.kinds import JE, kind_of
from jetool.app.options import Run
from jetool.output.shape import Field, Shape

_MESSAGE: Final = (
    Field("message", "text", "the reason, the exception or the code"),
    Field("known", "bool", "whether the table has it; what follows is null when it has not"),
    Field("cause", "text", "what causes it", null=True),
    Field("risk", "text", "none: try again; check: look; node: this node stops, its data is safe; data: data may be "
          "lost or wrong", null=True, choices=RISKS),
    Field("environment", "text", "goes-on: usable; invalid: it has to be closed and opened again; not-open: it was not "
          "opened; null: the text does not say", null=True, choices=ENVIRONMENTS),
    Field("next", "text", "the next command", null=True),
    Field("count", "int", "how often it was met"),
    Field("first_line", "int", "the line where it was met first"),
    Field("last_line", "int", "the line where it was met last"),
    Field("lsns", "lsns", "LSNs that its lines name"),
    Field("vlsns", "ints", "VLSNs that they name"),
    Field("txns", "ints", "transactions that they name"),
    Field("releases", "texts", "releases that they name"),
    Field("others", "texts", "messages in the same exceptions that did not decide"),
    Field("text", "text", "the first of these lines"),
)  # fmt: skip
_PLACE: Final = (
    Field("lsn", "lsn", "a place that a message names"),
    Field("intact", "bool", "a good entry begins there"),
    Field("found", "text", "what is there"),
)
EXPLAINED: Final = Shape(
    "explained",
    "What was recognised.",
    (
        Field("source", "text", "the file, or - for standard input"),
        Field("lines", "int", "lines that were read"),
        Field("unknown", "int", "kinds of exceptions of JE or Derby that the table does not have"),
        Field("messages", "records", "messages, each once, in the order in which they first come", fields=_MESSAGE),
        Field("places", "records", "what is in ENV at the places that they name", fields=_PLACE),
    ),
)
_MESSAGE_SHAPE: Final = Shape("message", "A message.", _MESSAGE)
_PLACE_SHAPE: Final = Shape("place", "A place.", _PLACE)


@command(
    "explain",
    outputs=lambda: Outputs("document", (EXPLAINED,)),
    features=("fields",),
    formats=("text", "json", "ndjson"),
    examples=(
        ("A pasted exception", "jetool explain exception.txt"),
        ("A log file, and what is in the environment at the places that it names",
         "jetool explain /data/env/je.info.0 --env /data/env"),
        ("For a script: is data at risk", "jetool explain derby.log --json"),
    ),
    exits={
        exits.DONE: "read; nothing says that data may be lost or wrong",
        exits.FINDINGS: "a message says that data may be lost or wrong, or one is unknown",
        exits.NOT_FOUND: "no such file; no message of JE or Derby in it; no environment",
        exits.INCOMPLETE: "the file cannot be read",
    },
)  # fmt: skip
@click.argument("file", metavar="[FILE]", required=False, default="-", help="The text; - is standard input.")
@click.option("--env", "directory", type=params.DIRECTORY, help="Look at the places that messages name there.")
def explain(run: Run, file: str, directory: str | None) -> int:
    """Say what messages of JE and Derby mean: cause, risk, and the next command.

    FILE is a pasted exception or a whole log file (je.info.0, fe.log, derby.log, that of an LDAP server), also wrapped
    by a terminal, quoted, or with the prefixes of a container or journald. A table has every
    EnvironmentFailureReason, the exceptions of JE, the texts by which JE, Derby and the frontends of Doris and
    StarRocks report that an environment ends, and Derby's codes. Derby's messages without a code are recognised in
    English and, for damage and starting, in 13 more languages.

    An exception with its causes counts once. The outermost message that is more than a report of another one decides;
    the others are listed. Repeats are counted; LSNs, VLSNs, transactions and releases that the lines name are listed.
    With --env the environment is looked at there. What the table does not have is called unknown.
    """
    count = 0

    def counted(lines: Iterator[str]) -> Iterator[str]:
        nonlocal count
        for line in lines:
            count += 1
            yield line

    with _opened(file) as lines:
        found = read_messages(counted(iter(lines)))
    if not found:
        raise NotFoundError(
            "no message of JE or Derby in the text",
            file="standard input" if file == "-" else file,
            found=plural(count, "line"),
            hint="paste the whole exception, with the lines before its stack trace",
        )
    places: list[PlaceLook] = []
    if directory is not None:
        storage = DiskStorage(directory)
        if kind_of(storage) != JE:
            raise UsageError("--env looks at environments of JE only", hint="jetool verify looks at Derby databases")
        places = look_at_places(storage, found)
    rows = [_row(one, directory) for one in found]
    unknown = sum(one.known is None for one in found)
    run.out.document(
        EXPLAINED,
        EXPLAINED.row((file, count, unknown, rows, [_PLACE_SHAPE.row(place) for place in places])),
    )
    bad = unknown or any(one.known is not None and one.known.risk == DATA for one in found)
    return exits.FINDINGS if bad or any(not place.intact for place in places) else exits.DONE


@contextlib.contextmanager
def _opened(file: str) -> Iterator[IO[str]]:
    if file == "-":
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        yield sys.stdin
        return
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - the user's file
            yield lines
    except FileNotFoundError as error:
        raise NotFoundError("no such file", file=file, hint="check the path; - reads standard input") from error
    except IsADirectoryError as error:
        raise UsageError(
            "a directory instead of a file with messages",
            file=file,
            hint="name the file, such as je.info.0; --env names an environment to look at",
        ) from error
    except OSError as error:
        raise StorageError("cannot read the file", file=file, found=error.strerror) from error


def _row(one: ExplainedMessage, directory: str | None) -> object:
    known = one.known
    cause = risk = following = None
    if known is not None:
        cause, risk = known.cause, known.risk
        following = known.next.replace("{env}", directory or "ENV")
    return _MESSAGE_SHAPE.row(
        (
            one.word, known is not None, cause, risk, one.environment, following, one.count,
            one.first_line, one.last_line, list(one.lsns), list(one.vlsns), list(one.txns), list(one.releases),
            list(one.others), one.sample,
        )
    )  # fmt: skip
