"""The ``Output`` protocol, through which commands print everything.

Four things can be printed:

* a **document**: one record with nested records (``info``);
* a **table**: rows of one shape, small enough for memory (``dbs``);
* a **stream**: any number of rows of several shapes, closed by a summary (``dump-log``). A stream without its summary
  is incomplete, which a reader can detect;
* **findings**: a stream of findings (``verify``), which has additional formats.

A stream accepts rows (``row`` renders one row) or rendered lines (``write``). For the latter, worker processes get
``encoder`` (plain values, so that it can be pickled) and render the rows of one file each, and the parent only passes
the bytes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from engine.fields import Row, Shape, Shaped
from engine.verdict import CheckVerdict
from jetool.output.findings import FindingView
from jetool.output.shape import Style

# A command's function from (rec, row, style) to a line of text without the newline. It must be a module-level function,
# since worker processes need it too.
TextLine = Callable[[str, Row, Style], str]


class StreamLayout(NamedTuple):
    """The layout of a stream.

    Attributes:
        shapes: the possible shapes; ``--fields`` applies to the first, the principal one.
        selected: the names of ``--fields`` in order, or None for all.
        style: how values look.
        line: the line of text for a row; None for columns.
        few: all rows come at once, so that text columns on a terminal can be fitted to their content.
        verdict: the first line of text; empty for none.
    """

    shapes: tuple[Shape, ...]
    selected: tuple[str, ...] | None = None
    style: Style = Style()
    line: TextLine | None = None
    few: bool = False
    verdict: str = ""


class Encoder(Protocol):
    """Renders the rows of a stream. It holds a ``StreamLayout`` and no state, so any process can render any part."""

    @property
    def between(self) -> bytes:
        """The separator between two results of ``rows``; empty if every row is a line."""

    def head(self) -> bytes:
        """The text before the first row."""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """Render rows, each given with the name of its shape; empty for no rows."""

    def foot(self, summary: Row) -> bytes:
        """The text after the last row."""


class OutputStream(Protocol):
    """A stream of rows. Use it as a context manager, and call ``end`` last."""

    @property
    def encoder(self) -> Encoder:
        """Renders rows for ``write``, in this process or another."""

    def row(self, record: Any) -> None:
        """Print one record of any class of the stream."""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Print rows, each with the name of its shape."""

    def fit(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Fit text columns on a terminal to some rows, before ``encoder`` is used; prints nothing."""

    def write(self, chunk: bytes) -> None:
        """Print rows that ``encoder.rows`` rendered. An empty chunk prints nothing."""

    def flush(self) -> None:
        """Flush all output now (``--follow``)."""

    def end(self, summary: Any) -> None:
        """Print the summary."""

    def __enter__(self) -> OutputStream:
        """Nothing happens yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises RuntimeError if the block ended without a summary and without an exception."""


class FindingStream(Protocol):
    """A stream of findings."""

    def add(self, finding: FindingView) -> None:
        """Print one finding."""

    def end(self, summary: Any, incomplete: Collection[str] = ()) -> None:
        """Print the summary, which lists what was checked and what was not.

        Arguments:
            summary: the fields of the summary.
            incomplete: the environments whose check was not completed.
        """


class Output(Protocol):
    """Prints the results of a command."""

    @property
    def format(self) -> str:
        """The chosen format. Commands rarely need it, because the renderers apply it."""

    @property
    def style(self) -> Style:
        """How values look."""

    @property
    def selected(self) -> tuple[str, ...] | None:
        """The names of ``--fields``, or None."""

    def document(self, record: Any) -> None:
        """Print one record. In text, nested records become sections, and lists of records become tables."""

    def table(self, of: Shaped, records: Iterable[Any], more: Row = ()) -> None:
        """Print records of one class.

        Arguments:
            of: the class of the records.
            records: all of them.
            more: further fields of the summary; the command declares their shape.
        """

    def stream(
        self,
        *classes: Shaped,
        line: TextLine | None = None,
        encoder: Encoder | None = None,
        few: bool = False,
        verdict: CheckVerdict | None = None,
    ) -> OutputStream:
        """Start a stream.

        Arguments:
            classes: all possible record classes except the summary, the principal one first.
            line: renders a row as a line of text instead of columns.
            encoder: the encoder for a format that only this command has.
            few: all rows will be given in one call of the stream's ``rows``.
            verdict: the first line of text, without ``--fields``; the summary has the same fields.
        """

    def findings(
        self,
        rules: Sequence[tuple[str, str]],
        environments: Sequence[str],
        verdict: CheckVerdict | None = None,
        *,
        of_fleet: bool = False,
    ) -> FindingStream:
        """Start a stream of findings.

        Arguments:
            rules: code and one sentence for every finding that the command can report.
            environments: the directories that are checked.
            verdict: as for ``stream``.
            of_fleet: whether rows have the environment, which each finding then names.
        """

    def flush(self) -> None:
        """Flush all output now (``--watch``)."""

    def text(self, text: str) -> None:
        """Print a text that is itself the result (a script, a schema). A newline is added if the text does not end with
        one.
        """
