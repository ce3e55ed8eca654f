"""``jetool explain``: cause, risk and next command for an exception or a whole log file of an application."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Annotated, Final, NamedTuple

import click

from engine.errors import NotFoundError, StorageError, UsageError, plural
from engine.fields import ABSENT, Absent, Bool, Choices, FieldName, Int, Lsn, Text, record, row_of
from engine.rescue.explanation import ExplainedMessage, PlaceLook, explain_code, look_at_places
from engine.rescue.explanation import explain as read_messages
from engine.rescue.messages.record import DATA, ENVIRONMENTS, RISKS
from engine.storage.disk import DiskStorage
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command
from jetool.frame.kinds import JE, kind_of
from jetool.frame.options import Run
from jetool.output.shape import Style, to_text
from jetool.output.text import fold, heading, label

RISK_MEANINGS: Final = {
    "none": "nothing is lost",
    "check": "look",
    "node": "this node stops, its data is safe",
    "data": "data may be lost or wrong",
}

# The source of a text that is itself an argument.
_TEXT: Final = "argument"


@record()
class ExplainedText(NamedTuple):
    """A message and its meaning."""

    message: Annotated[Text, "the reason, the exception or the code"]
    known: Annotated[Bool, "whether the table has it; what follows is null when it has not"]
    cause: Annotated[Text | None, "what causes it"]
    risk: Annotated[
        Text | None,
        "; ".join(f"{word}: {meaning}" for word, meaning in RISK_MEANINGS.items()),
        Choices(RISKS),
    ]
    environment: Annotated[
        Text | None,
        "goes-on: usable; invalid: it has to be closed and opened again; not-open: it was not "
        "opened; null: the text does not say",
        Choices(ENVIRONMENTS),
    ]
    next: Annotated[Text | None, "the next command"]
    count_: Annotated[Int, "how often it was met", FieldName("count")]
    first_line: Annotated[Int, "the line where it was met first"]
    last_line: Annotated[Int, "the line where it was met last"]
    lsns: Annotated[Sequence[Lsn], "LSNs that its lines name"]
    vlsns: Annotated[Sequence[Int], "VLSNs that they name"]
    txns: Annotated[Sequence[Int], "transactions that they name"]
    releases: Annotated[Sequence[Text], "releases that they name"]
    others: Annotated[Sequence[Text], "messages in the same exceptions that did not decide"]
    text: Annotated[Text, "the first of these lines"]
    source: Annotated[Text | Absent, "the argument that it came from, if there are several"] = ABSENT


@record()
class ExplainedPlace(NamedTuple):
    """The content of the environment at a place that a message names."""

    lsn: Annotated[Lsn, "a place that a message names"]
    intact: Annotated[Bool, "a good entry begins there"]
    found: Annotated[Text, "what is there"]


@record("explained")
class Explanation(NamedTuple):
    """What was recognised."""

    source: Annotated[Text, "the file, - for standard input, or argument for a text; several are separated by commas"]
    lines: Annotated[Int, "lines that were read"]
    unknown: Annotated[Int, "kinds of exceptions of JE or Derby that the table does not have"]
    messages: Annotated[Sequence[ExplainedText], "messages, each once, in the order in which they first come"]
    places: Annotated[Sequence[ExplainedPlace], "what is in ENV at the places that they name"]


@command(
    "explain",
    outputs=lambda: Outputs("document", (Explanation,)),
    features=("fields",),
    formats=("text", "json", "ndjson"),
    examples=(
        ("A pasted exception, and a code", "jetool explain 'LOG_CHECKSUM: wrong checksum at 0x5/0x80e' XSLA7"),
        ("A code that verify, doctor or a monitor reported", "jetool explain JE-TAIL-002"),
        ("Two log files of a frontend", "jetool explain /data/fe/log/fe.warn.log /data/fe/log/fe.out"),
        (
            "A log file, and what is in the environment at the places that it names",
            "jetool explain /data/env/je.info.0 --env /data/env",
        ),
        ("For a script: is data at risk", "jetool explain derby.log --json"),
    ),
    exits={
        exits.DONE: "read; no message means that data may be lost or wrong",
        exits.FINDINGS: "a message means that data may be lost or wrong, or a message is unknown",
        exits.NOT_FOUND: "no such file; no message of JE or Derby in an argument; no environment",
        exits.INCOMPLETE: "the file cannot be read",
    },
)
@click.argument(
    "words",
    metavar="[FILE|TEXT]...",
    nargs=-1,
    help="Files, or texts and codes as they are; - is standard input, also without arguments.",
)
@click.option(
    "--env", "directory", type=params.DIRECTORY, help="An environment: examine there the places that messages name."
)
def explain(run: Run, words: tuple[str, ...], directory: str | None) -> int:
    """Explain messages of JE and Derby, and finding codes: cause, risk, and the next command.

    FILE is a pasted exception or a whole log file (je.info.0, fe.log, derby.log, the log of an LDAP server). An
    argument that is not the name of a file is itself the text, and may be a code alone (LOG_CHECKSUM, XSLA7), also a
    finding code of verify or doctor (JE-TAIL-002). The text may be wrapped by a terminal, quoted, or prefixed by a
    container or journald. The table covers every EnvironmentFailureReason, JE's exceptions, the messages with which JE,
    Derby and the frontends of Doris and StarRocks report a closed environment, and Derby's codes. Derby's messages
    without a code are recognised in English; those about damage and startup also in 13 other languages.

    An exception with its causes counts once. The verdict comes from the outermost message that does not just report
    another one; the other messages are listed. Repeats are counted, and LSNs, VLSNs, transactions and releases in the
    text are listed. With --env the places that messages name are examined in that environment. A message that is not in
    the table is reported as unknown.
    """
    sources = _read(words or ("-",))
    found = [one for source in sources for one in source.found]
    places: list[PlaceLook] = []
    if directory is not None:
        storage = DiskStorage(directory)
        if kind_of(storage) != JE:
            raise UsageError("--env looks at environments of JE only", hint="jetool verify looks at Derby databases")
        places = look_at_places(storage, found)
    unknown = sum(one.known is None for one in found)
    explanation = Explanation(
        source=", ".join(source.name for source in sources),
        lines=sum(source.lines for source in sources),
        unknown=unknown,
        messages=[
            _explained(one, directory or _home_of(source.name), source.name if len(sources) > 1 else ABSENT)
            for source in sources
            for one in source.found
        ],
        places=[ExplainedPlace(lsn=one.lsn, intact=one.intact, found=one.found) for one in places],
    )
    if run.out.format == "text" and run.out.selected is None:
        run.out.text(_page(explanation, run.out.style))
    else:
        run.out.document(explanation)
    bad = unknown or any(one.known is not None and one.known.risk == DATA for one in found)
    return exits.FINDINGS if bad or any(not place.intact for place in places) else exits.DONE


def _home_of(file: str) -> str | None:
    """The environment that a file with messages lies in; None if it lies in none."""
    home = os.path.dirname(file) or "."
    try:
        return home if file != "-" and any(name.endswith(".jdb") for name in os.listdir(home)) else None
    except OSError:
        return None


def _page(found: Explanation, style: Style) -> str:
    """The text: a paragraph for each message, then the places that they name."""
    lines = [f"{plural(len(found.messages), 'message')} in {_read_lines(found)}"]
    for one in found.messages:
        met = "once" if one.count_ == 1 else f"{one.count_} times"
        where = f"line {one.first_line}"
        if one.last_line != one.first_line:
            where = f"lines {one.first_line} to {one.last_line}"
        if one.source is not ABSENT:
            where += f" of {_named(one.source)}"
        lines += ["", heading(to_text("text", one.message), style), f"  met {met}, {where}"]
        lines += _labelled(one) if one.known else ["  this message is not in the table"]
        lines.append(f"  text: {to_text('text', one.text)}")
    for place in found.places:
        state = "intact" if place.intact else "not intact"
        lines += ["", heading(f"at {to_text('lsn', place.lsn)}", style), f"  {state}: {to_text('text', place.found)}"]
    return "\n".join(fold(line, style.width, 2) for line in lines)


def _read_lines(found: Explanation) -> str:
    """What was read, in words."""
    names = found.source.split(", ")
    if set(names) == {_TEXT}:
        return f"{plural(found.lines, 'line')} of {plural(len(names), 'argument')}"
    return f"{plural(found.lines, 'line')} of {', '.join(map(_named, names))}"


def _named(source: str) -> str:
    return "standard input" if source == "-" else to_text("text", source)


def _labelled(one: ExplainedText) -> Iterator[str]:
    row = {name: (kind, value) for name, kind, value in row_of(one)}
    for name in ("cause", "risk", "environment", "next", "lsns", "vlsns", "txns", "releases", "others"):
        kind, value = row[name]
        if value:
            meaning = f" ({RISK_MEANINGS[value]})" if name == "risk" else ""
            yield f"  {label(name)}: {to_text(kind, value)}{meaning}"


class _Source(NamedTuple):
    """The messages of an argument, and the number of lines read."""

    name: str
    lines: int
    found: list[ExplainedMessage]


def _read(words: Sequence[str]) -> list[_Source]:
    """Read all arguments. NotFoundError: one has no message."""
    sources: list[_Source] = []
    texts = [word for word in words if not _is_file(word)]
    alone = {word: _explained_text(word) for word in texts}
    for word in filter(_is_file, words):
        with _opened(word) as lines:
            sources.append(_explained_lines(word, lines))
        if not sources[-1].found:
            raise _no_message("standard input" if word == "-" else word, sources[-1].lines)
    silent = [word for word, source in alone.items() if not source.found]
    if not silent:
        return sources + list(alone.values())
    # A path that was mistyped is no text.
    if all(word.startswith((os.sep, f".{os.sep}", f"..{os.sep}")) for word in silent):
        raise NotFoundError("no such file", file=silent[0], hint="check the path; - reads standard input")
    # The words of a text that was typed without quotes.
    together = _explained_text(" ".join(texts))
    if not together.found:
        raise NotFoundError(
            "no file of this name, and neither a message of JE or Derby nor a finding code in it as a text",
            file=" ".join(texts),
            hint="check the path, or paste the whole exception, with the lines before its stack trace",
        )
    return [*sources, together]


def _is_file(word: str) -> bool:
    return word == "-" or os.path.exists(word)


def _explained_text(text: str) -> _Source:
    source = _explained_lines(_TEXT, text.splitlines())
    if source.found:
        return source
    from engine.diagnosis.codes import explain_findings

    return source._replace(found=explain_code(text.strip().rstrip(":")) or explain_findings(text))


def _no_message(where: str, lines: int) -> NotFoundError:
    return NotFoundError(
        "no message of JE or Derby in the text",
        file=where,
        found=plural(lines, "line"),
        hint="paste the whole exception, with the lines before its stack trace",
    )


def _explained_lines(name: str, lines: Iterable[str]) -> _Source:
    count = 0

    def counted() -> Iterator[str]:
        nonlocal count
        for line in lines:
            count += 1
            yield line

    found = read_messages(counted())
    return _Source(name, count, found)


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
            "not a file with messages but a directory",
            file=file,
            hint=f"jetool doctor {file} says what is wrong with an environment; --env looks at the places in messages",
        ) from error
    except OSError as error:
        raise StorageError("cannot read the file", file=file, found=error.strerror) from error


def _explained(one: ExplainedMessage, directory: str | None, source: str | Absent) -> ExplainedText:
    known = one.known
    return ExplainedText(
        message=one.word,
        known=known is not None,
        cause=None if known is None else known.cause,
        risk=None if known is None else known.risk,
        environment=one.environment,
        next=None if known is None else known.next.replace("{env}", directory or "ENV"),
        count_=one.count,
        first_line=one.first_line,
        last_line=one.last_line,
        lsns=list(one.lsns),
        vlsns=list(one.vlsns),
        txns=list(one.txns),
        releases=list(one.releases),
        others=list(one.others),
        text=one.sample,
        source=source,
    )
