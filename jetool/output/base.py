"""What commands print through, and nothing else: the ``Output`` protocol.

Four things can be printed:

* a **document**: one record with nested records (``info``);
* a **table**: rows of one shape, small enough for memory (``dbs``);
* a **stream**: rows of several shapes, any number of them, closed by a summary (``dump-log``). Without its summary a
  stream is not complete, and a reader can tell;
* **findings**: a stream of findings (``verify``), for which there are further formats.

For streams there are two ways in. ``row`` renders one row. ``write`` takes lines that are rendered already: worker
processes get ``encoder`` (plain values, so that it can be pickled), render the rows of one file each, and the parent
only passes bytes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from engine.fields import Row, Shape, Shaped
from jetool.output.findings import FindingView
from jetool.output.shape import Style

# How a command turns (rec, row, style) into a line of text, without the newline. A function of a module, not a lambda
# or a closure, since workers need it too.
TextLine = Callable[[str, Row, Style], str]


class StreamLayout(NamedTuple):
    """What a stream looks like.

    Attributes:
        shapes: the shapes that can occur; the first is the principal one, to which ``--fields`` applies.
        selected: the names that ``--fields`` gave, in that order, or None for all.
        style: how values look.
        line: the line of text for a row; None for columns.
        few: all rows come at once, so that columns of text on a terminal are as wide as what is in them.
    """

    shapes: tuple[Shape, ...]
    selected: tuple[str, ...] | None = None
    style: Style = Style()
    line: TextLine | None = None
    few: bool = False


class Encoder(Protocol):
    """Renders the rows of a stream. Holds a ``StreamLayout`` and no state: any process can render any part."""

    @property
    def between(self) -> bytes:
        """What stands between two parts that ``rows`` gave; empty where every row is a line."""

    def head(self) -> bytes:
        """What comes before the first row."""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """Rows with the name of their shape, rendered; empty for no rows."""

    def foot(self, summary: Row) -> bytes:
        """What comes after the last row."""


class OutputStream(Protocol):
    """A stream of rows. Use as a context manager, and call ``end`` last."""

    @property
    def encoder(self) -> Encoder:
        """Renders rows for ``write``, in this process or another."""

    def row(self, record: Any) -> None:
        """Print one record, of one of the stream's classes."""

    def rows(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Print rows, each with the name of its shape."""

    def write(self, chunk: bytes) -> None:
        """Print rows that ``encoder.rows`` rendered. An empty chunk is nothing."""

    def flush(self) -> None:
        """Hand everything to the reader now (``--follow``)."""

    def end(self, summary: Any) -> None:
        """Print the summary."""

    def __enter__(self) -> OutputStream:
        """Nothing happens yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises RuntimeError when the stream was left without a summary and without an exception."""


class FindingStream(Protocol):
    """A stream of findings."""

    def add(self, finding: FindingView) -> None:
        """Print one finding."""

    def end(self, summary: Any, incomplete: Collection[str] = ()) -> None:
        """Print the summary, which says what was and what was not checked.

        Arguments:
            summary: its fields.
            incomplete: those of the environments whose check did not come to its end.
        """


class Output(Protocol):
    """Where a command prints its results."""

    @property
    def format(self) -> str:
        """The chosen format. Commands rarely need it: the renderers know."""

    @property
    def style(self) -> Style:
        """How values look."""

    @property
    def selected(self) -> tuple[str, ...] | None:
        """The names of ``--fields``, or None."""

    def document(self, record: Any) -> None:
        """Print one record. In text, nested records become sections and lists of records tables."""

    def table(self, of: Shaped, records: Iterable[Any], more: Row = ()) -> None:
        """Print records of one class.

        Arguments:
            of: their class.
            records: all of them.
            more: what the summary says besides their count; the command declares the shape of it.
        """

    def stream(
        self, *classes: Shaped, line: TextLine | None = None, encoder: Encoder | None = None, few: bool = False
    ) -> OutputStream:
        """Start a stream.

        Arguments:
            classes: all record classes that can occur, the principal one first. The summary's is not among them.
            line: the line of text for a row, where columns do not serve.
            encoder: the command's own, for a format that only it has.
            few: all rows will be given at once, by ``rows`` of the stream.
        """

    def findings(self, rules: Sequence[tuple[str, str]], environments: Sequence[str]) -> FindingStream:
        """Start a stream of findings.

        Arguments:
            rules: code and one sentence for every finding that the command can make.
            environments: the directories that are checked.
        """

    def flush(self) -> None:
        """Hand everything to the reader now (``--watch``)."""

    def text(self, text: str) -> None:
        """Print a text that is a document of its own (a script, a schema). A missing last newline is added."""
