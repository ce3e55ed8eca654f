"""``jetool verify --stdin``: one log file from standard input, checked while another program copies it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from engine.backup.file_filter import LogFileFilter, PassedFile
from engine.errors import DamageError, UsageError, plural
from engine.fields import Row
from engine.format.lsn import parse_lsn
from engine.log.entry import REASONS
from engine.log.files import log_file_number
from engine.verify import log_rules
from engine.verify.report import Report, finding
from jetool.commands.verify.rows import JeFindingView, check_summary, why_of
from jetool.frame import exits
from jetool.frame.options import Run

_PIECE_BYTES: Final = 256 << 10
_LEFT: Final = ("other files", "missing files", "the end of the log", "rollback periods", "trees and records")


class BytesEncoder:
    """Passes bytes on as they are; the end of a stream adds nothing."""

    between = b""

    def head(self) -> bytes:
        """Nothing comes before the bytes."""
        return b""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:  # noqa: ARG002 - the protocol of encoders
        """A stream of bytes has no rows."""
        return b""

    def foot(self, summary: Row) -> bytes:  # noqa: ARG002 - the protocol of encoders
        """Nothing comes after the bytes."""
        return b""


def verify_stdin(run: Run, name: str, *, pass_through: bool) -> int:
    """Check a log file that comes from standard input.

    Arguments:
        name: the name of the file, which says its number; any other name leaves the number unchecked.
        pass_through: print the checked bytes instead of findings.

    Raises:
        DamageError: with ``pass_through``, at the first bad entry; what is before it was printed.
        UnsupportedError: a log version that this program does not read.
        UsageError: standard input is a terminal, or a format is given for bytes.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("--stdin reads a log file from standard input, and that is a terminal", hint="use a pipe or <")
    if pass_through and run.out.format != "text":
        raise UsageError("--pass-through prints the bytes of the file, in no format", hint="leave out --format")
    check = LogFileFilter(name, log_file_number(name.rpartition("/")[2]))
    if not pass_through:
        return _print_findings(run, name, check)
    with run.out.stream(encoder=BytesEncoder()) as stream:
        try:
            for piece in _pieces():
                stream.write(check.feed(piece))
            passed = check.end()
        except DamageError:
            stream.write(check.checked)
            raise
        stream.write(check.checked)
        stream.end(_summary_of(name, passed))
    run.messages.notice(_said(name, passed))
    return exits.DONE


def _pieces() -> Iterator[bytes]:
    while piece := sys.stdin.buffer.read(_PIECE_BYTES):
        yield piece


def _print_findings(run: Run, name: str, check: LogFileFilter) -> int:
    views = []
    try:
        for piece in _pieces():
            check.feed(piece)
        check.end()
    except DamageError as error:
        views.append(_view(name, error))
    code = exits.FINDINGS if views else exits.DONE
    report = _report(name, check.passed(), stopped=bool(views))
    verdict = exits.verdict(code, why_of(views, _said(name, check.passed())), partly=True)
    found = run.out.findings([(rule.code, rule.title) for rule in log_rules.BY_REASON.values()], [name], verdict)
    for view in views:
        found.add(view)
    found.end(check_summary(report, None, verdict)._replace(errors=len(views)))
    return code


def _view(name: str, error: DamageError) -> JeFindingView:
    reason = next(key for key, what in REASONS.items() if error.what.startswith(what))
    message = f"{error.what} (expected {error.expected}, found {error.found})"
    return JeFindingView(finding(log_rules.BY_REASON[reason], message, lsn=parse_lsn(error.lsn or ""), file=name))


def _said(name: str, passed: PassedFile) -> str:
    return f"{name}: no error in {plural(passed.entries, 'entry', 'entries')} and {plural(passed.size_bytes, 'byte')}"


def _report(name: str, passed: PassedFile, *, stopped: bool) -> Report:
    left = ("what follows the damage", *_LEFT) if stopped else _LEFT
    return Report((), 1, passed.entries, passed.size_bytes, ("log",), left, scope=f"the bytes of {name}")


def _summary_of(name: str, passed: PassedFile) -> object:
    report = _report(name, passed, stopped=False)
    return check_summary(report, None, exits.verdict(exits.DONE, _said(name, passed), partly=True))
