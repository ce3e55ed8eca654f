"""Exit codes: the table, and the only place that turns an exception into a code and a message.

Rules:

* Every way out of ``jetool`` ends in a code of ``TABLE``. Python and Click alone would return 1 for a bug, an abort and
  a closed pipe, but here 1 means "findings".
* An error is one message on standard error, never a traceback. With ``--format json`` or ``ndjson`` a JSON object with
  the same fields follows on a separate line.
* An unexpected exception is a bug: code 70, one line, and a report file with the traceback.
* SIGTERM is handled like an interrupt: the same cleanup, one message, code 143.
* A reader that closes the pipe (``jetool dump-log env | head``) is not an error: code 141 and no message.
"""

from __future__ import annotations

import itertools
import os
import select
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from engine.errors import JetoolError
from jetool.output.sink import OutputClosedError, silence

if TYPE_CHECKING:
    from engine.verdict import CheckVerdict

DONE: Final = 0
FINDINGS: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
NOT_FOUND: Final = 4
UNSUPPORTED: Final = 5
DATA_GIVEN_UP: Final = 6
INCOMPLETE: Final = 7
WARNINGS: Final = 8
INTERNAL: Final = 70
INTERRUPTED: Final = 130
TERMINATED: Final = 143
PIPE_CLOSED: Final = 141

TABLE: Final[dict[int, str]] = {
    DONE: "done, or checked and clean",
    FINDINGS: "checked to the end; findings exist (damage, gap, difference, rejected records)",
    USAGE: "wrong usage",
    REFUSED: "refused: lock held, safety interlock, no confirmation, directory not empty",
    NOT_FOUND: "not found: no environment, database, file or key of that name",
    UNSUPPORTED: "format not supported (newer log version, foreign file)",
    DATA_GIVEN_UP: "done, but data was lost or discarded",
    INCOMPLETE: "incomplete: stopped early; the rest is unknown",
    WARNINGS: "only warnings, and --strict",
    INTERNAL: "internal error: a bug; one line and a report file",
    INTERRUPTED: "interrupted",
    PIPE_CLOSED: "the reader closed the pipe",
    TERMINATED: "terminated by SIGTERM",
}

# Codes that every command can end with, whatever it does.
ALWAYS: Final = (USAGE, INTERNAL, INTERRUPTED, PIPE_CLOSED, TERMINATED)

_PRECEDENCE: Final = (INTERNAL, INCOMPLETE, FINDINGS, DATA_GIVEN_UP, WARNINGS, DONE)


# The next command for errors without their own hint; ``{}`` is the command that ran.
_NEXT: Final = {
    "usage": "{} --help",
    "refused": "{} --help states when it may run",
    "not_found": "check the path and the name",
    "unsupported": "jetool --version says which log versions are read and written",
    "damage": "copy the environment first; jetool verify says what is damaged",
    "storage": "check permissions, free space and the disk, then run it again",
    "unknown_outcome": "jetool node get shows the current record",
    "disconnected": "check the address and that the node runs, then run it again",
    "lost_position": "jetool backup copies the group; then begin a new stream",
    "rewritten": "begin a new stream, or add --fast for retractions",
    "stalled": "run it again once there is room",
    "committed": "the write is committed: jetool node get reads it, jetool group show shows the state of the nodes",
    "job": "{} --help; --master and --conf set where and how Spark runs it",
}


def verdict(code: int, why: str, *, partly: bool = False) -> CheckVerdict:
    """The verdict that agrees with an exit code.

    Arguments:
        why: what it rests on.
        partly: not everything was checked, so that nothing may be called sound.
    """
    from engine.verdict import DAMAGED, NONE_SEEN, SOUND, UNJUDGED, CheckVerdict

    if code in (DONE, WARNINGS):
        return CheckVerdict(NONE_SEEN if partly else SOUND, why)
    return CheckVerdict({FINDINGS: DAMAGED, DATA_GIVEN_UP: DAMAGED}.get(code, UNJUDGED), why)


def comparison_verdict(why: str, *, same: bool, problem: str, skipped: str = "") -> CheckVerdict:
    """The verdict of a comparison, whose exit code is DONE only for ``EQUAL``.

    Arguments:
        problem: damage, or what was not read; empty if everything was read.
        skipped: what could not be compared, without being damaged.
    """
    from engine.verdict import DAMAGED, DIFFERENT, EQUAL, UNJUDGED, CheckVerdict

    unseen = "; ".join(part for part in (problem, skipped) if part)
    if same and unseen:
        return CheckVerdict(DAMAGED if problem else UNJUDGED, f"{why}, but {unseen}")
    return CheckVerdict(EQUAL if same else DIFFERENT, f"{why}; {unseen}" if unseen else why)


class TerminatedError(KeyboardInterrupt):
    """SIGTERM was received; the run ends as after an interrupt."""


def worst(codes: Iterable[int]) -> int:
    """The exit code of a run with several results, each with its own code.

    Arguments:
        codes: codes of parts that have a result: 70, 7, 1, 6, 8 or 0. Other codes (usage, refusal and so on) end a run
            before it has a result; a caller that continues after one of them counts it as ``INCOMPLETE``.

    Returns:
        The first of 70 > 7 > 1 > 6 > 8 > 0 that occurs; 0 if there are no codes.

    Raises:
        ValueError: a code without a rank.
    """
    ranks = [_PRECEDENCE.index(code) for code in codes]
    return _PRECEDENCE[min(ranks, default=len(_PRECEDENCE) - 1)]


def code_of(error: BaseException) -> int:
    """The exit code for an exception."""
    if isinstance(error, JetoolError | click.exceptions.Exit):
        return error.exit_code
    # Test this before its base class KeyboardInterrupt.
    if isinstance(error, TerminatedError):
        return TERMINATED
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OutputClosedError) or (isinstance(error, BrokenPipeError) and _reader_gone()):
        return PIPE_CLOSED
    if isinstance(error, click.ClickException):
        return USAGE
    if isinstance(error, SystemExit) and (error.code is None or error.code in TABLE):
        return int(error.code or 0)
    return _what_ended_it(error)


def _what_ended_it(error: BaseException) -> int:
    """The code for an unexpected exception: a bug, unless it followed an interrupt or a closed pipe.

    An interrupt or a closed pipe can make the cleanup fail (worker processes, threads), but is still the reason why the
    run ended.
    """
    # ``__context__``, not ``__cause__``: an error during cleanup is not raised from the interrupt.
    seen = error.__context__
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt | OutputClosedError):
            return code_of(seen)
        seen = seen.__context__
    return INTERNAL


def report(error: BaseException, args: Sequence[str]) -> int:
    """Report an exception that ends the run; returns the exit code.

    Arguments:
        error: what was raised.
        args: the command line, without the program name.

    Returns:
        The exit code.
    """
    code = code_of(error)
    if code == PIPE_CLOSED:
        # Python flushes both at exit and would report the pipe again.
        silence(sys.stdout)
        silence(sys.stderr)
        return code
    # The reason for the end was already printed.
    if isinstance(error, click.exceptions.Exit | SystemExit) and code != INTERNAL:
        return code
    try:
        from jetool.output import messages

        fields = _fields(error, code, args)
        messages.print_error(fields, color=messages.wants_color(args), as_json=wants_json(args))
    except KeyboardInterrupt:
        pass  # impatient; the code stands
    except Exception as second:
        # As a last resort bypass Python's streams, which may be what failed.
        os.write(2, f"jetool: error: {error!r}, and reporting it failed: {second!r}\n".encode(errors="replace"))
        return INTERNAL
    return code


def _fields(error: BaseException, code: int, args: Sequence[str]) -> dict[str, str | int]:
    """The error as plain values: kind, exit_code, what, and other known fields."""
    if isinstance(error, JetoolError) and code != INTERNAL:
        fields = error.fields()
        if error.kind in _NEXT:
            fields.setdefault("hint", _NEXT[error.kind].format(_named(args)))
        return fields
    if code == INTERRUPTED:
        return {"kind": "interrupted", "exit_code": code, "what": "interrupted"}
    if code == TERMINATED:
        return {"kind": "interrupted", "exit_code": code, "what": "terminated"}
    if isinstance(error, click.ClickException):
        return _usage_fields(error, code)
    from jetool.frame import crash_report

    return crash_report.fields(error, code, args)


def _named(args: Sequence[str]) -> str:
    """The command in a command line, for a message: ``jetool verify``, or ``jetool`` without a command."""
    from jetool.frame import table

    known = {name for row in table.COMMANDS for name in (row.name, *row.aliases)}
    return " ".join(["jetool", *[word for word in args if word in known][:1]])


def _usage_fields(error: click.ClickException, code: int) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"kind": "usage", "exit_code": code, "what": _one_line(error.format_message())}
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        fields["hint"] = f"{context.command_path} --help"
    return fields


def _one_line(message: str) -> str:
    """A message of Click, which lists choices on lines of their own, as one line."""
    return " ".join(message.split()).rstrip(".")


def wants_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for JSON. Uses the raw words, because parsing them may be what failed."""
    words = list(args)
    # Words after ``--`` are arguments, even ``--json``.
    if "--" in words:
        words = words[: words.index("--")]
    formats = [word.partition("=")[2] for word in words if word.startswith("--format=")]
    formats += [after for word, after in itertools.pairwise([*words, ""]) if word == "--format"]
    return "--json" in words or any(name in ("json", "ndjson") for name in formats)


def _reader_gone() -> bool:
    """Whether standard output or standard error is a pipe without a reader.

    A broken pipe elsewhere, for example to a worker process, is a bug and must not look like a closed reader.
    """
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        try:
            poll.register(stream.fileno(), select.POLLOUT)
        except (OSError, ValueError, AttributeError):
            continue
    # The poll asks the kernel and writes nothing.
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
