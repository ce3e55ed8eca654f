"""The implementation of ``Output``: a format, a style, a selection of fields, and a sink."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

from engine.fields import Row, Shaped, as_row, named_row, row_of, shape_of
from engine.verdict import CheckVerdict
from jetool.output.base import Encoder, FindingStream, StreamLayout, TextLine
from jetool.output.findings import (
    COLLECTED_FORMATS,
    FindingRow,
    FindingView,
    FleetFindingRow,
    finding_row,
    fleet_finding_row,
    text_line,
)
from jetool.output.shape import Style, check_fields, pick_fields
from jetool.output.sink import Sink

# The rows of a stream that its columns are fitted to.
_SCREEN: Final = 50


class Renderer:
    """Implements ``Output``.

    Arguments:
        form: the format; the command line has checked that the command supports it.
        style: how values look.
        selected: the names of ``--fields``, or None.
        sink: where bytes go.
    """

    def __init__(self, form: str, style: Style, selected: Sequence[str] | None, sink: Sink) -> None:
        self.format = form
        self.style = style
        self.selected = tuple(selected) if selected is not None else None
        self._sink = sink

    # Each format is loaded when it is used, because loading all would take a tenth of every start.

    def document(self, record: Any) -> None:
        """Print one record."""
        shape = shape_of(type(record))
        check_fields(self.selected, (shape,))
        row = pick_fields(row_of(record), self.selected)
        if self.format in ("json", "ndjson"):
            from jetool.output import jsonl

            as_line = self.format == "ndjson"
            self._sink.write(
                jsonl.document_lines(shape, row, self.style) if as_line else jsonl.document(row, self.style)
            )
        elif self.format == "csv":
            from jetool.output import csv

            self._sink.write(csv.table(shape, [row], self.selected, self.style))
        else:
            from jetool.output import text

            self._sink.write(text.document(row, self.style))

    def flush(self) -> None:
        """Flush all output."""
        self._sink.flush()

    def table(self, of: Shaped, records: Iterable[Any], more: Row = ()) -> None:
        """Print records of one class."""
        shape = shape_of(of)
        check_fields(self.selected, (shape,))
        picked = [pick_fields(as_row(record), self.selected) for record in records]
        if self.format == "json":
            from jetool.output import jsonl

            self._sink.write(jsonl.table(picked, more, self.style))
        elif self.format == "csv":
            from jetool.output import csv

            self._sink.write(csv.table(shape, picked, self.selected, self.style))
        elif self.format == "ndjson":
            encoder = self._encoder(StreamLayout((shape,), None, self.style), "")
            self._sink.write(encoder.rows((shape.rec, row) for row in picked))
            self._sink.write(encoder.foot([("count", "int", len(picked)), *more]))
        else:
            from jetool.output import text

            self._sink.write(text.table(shape, picked, self.selected, self.style))

    def stream(
        self,
        *classes: Shaped,
        line: TextLine | None = None,
        encoder: Encoder | None = None,
        few: bool = False,
        verdict: CheckVerdict | None = None,
    ) -> RowStream:
        """Start a stream."""
        check_fields(self.selected, classes)
        said = "" if verdict is None else verdict.in_words()
        plan = StreamLayout(tuple(map(shape_of, classes)), self.selected, self.style, line, few, said)
        return RowStream(encoder or self._encoder(plan, "records"), self._sink)

    def findings(
        self,
        rules: Sequence[tuple[str, str]],
        environments: Sequence[str],
        verdict: CheckVerdict | None = None,
        *,
        of_fleet: bool = False,
    ) -> FindingStream:
        """Start a stream of findings."""
        shape = FleetFindingRow if of_fleet else FindingRow
        check_fields(self.selected, (shape,))
        if self.format in COLLECTED_FORMATS:
            return _CollectedFindings(self.format, rules, environments, self.style, self._sink)
        said = "" if verdict is None else verdict.in_words()
        plan = StreamLayout((shape_of(shape),), self.selected, self.style, text_line, verdict=said)
        return _StreamedFindings(RowStream(self._encoder(plan, "findings"), self._sink), of_fleet=of_fleet)

    def text(self, text: str) -> None:
        """Print a text as it is."""
        self._sink.write((text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape"))

    def _encoder(self, plan: StreamLayout, name: str) -> Encoder:
        if self.format in ("json", "ndjson"):
            from jetool.output import jsonl

            return jsonl.JsonEncoder(plan, name) if self.format == "json" else jsonl.NdjsonEncoder(plan)
        if self.format == "csv":
            from jetool.output import csv

            return csv.CsvEncoder(plan)
        from jetool.output import text

        return text.TextEncoder(plan)


class RowStream:
    """Implements ``Stream``.

    Arguments:
        encoder: renders rows.
        sink: where bytes go.
    """

    def __init__(self, encoder: Encoder, sink: Sink) -> None:
        self.encoder = encoder
        self._sink = sink
        self._pending = encoder.head()
        self._between = b""
        self._written = False
        self._ended = False
        # The first rows, until the columns are fitted to them; None once they are.
        self._held: list[tuple[str, Row]] | None = [] if getattr(encoder, "wants_rows", False) else None

    def row(self, record: Any) -> None:
        """Print one record."""
        self.rows([named_row(record)])

    def rows(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Print rows."""
        if self._held is None:
            self.write(self.encoder.rows(rows))
            return
        self._held += rows
        if len(self._held) >= _SCREEN:
            self._release()

    def fit(self, rows: Iterable[tuple[str, Row]]) -> None:
        """Fit text columns to some rows, without printing them."""
        if self._held is not None:
            held, self._held = self._held, list(rows)
            self._fit_to_held()
            self.rows(held)

    def _release(self) -> None:
        """Fit text columns to the rows that were held back, and print these."""
        if self._held is not None:
            held = self._held
            self._fit_to_held()
            self.write(self.encoder.rows(held))

    def _fit_to_held(self) -> None:
        from jetool.output.text import TextEncoder

        held, self._held = self._held, None
        if held and isinstance(self.encoder, TextEncoder):
            self.encoder = self.encoder.fitted_to(held)
            self._pending = self.encoder.head()

    def write(self, chunk: bytes) -> None:
        """Print rendered rows."""
        self._release()
        if chunk:
            # The head is printed with the first rows, so that a run that fails earlier prints nothing.
            self._sink.write(self._pending + self._between + chunk)
            self._pending, self._between, self._written = b"", self.encoder.between, True

    def flush(self) -> None:
        """Flush all output."""
        self._release()
        self._sink.flush()

    def end(self, summary: Any) -> None:
        """Print the summary."""
        self._release()
        foot = self.encoder.foot(as_row(summary))
        # The foot of text begins with a blank line to separate it from rows; remove that line if there are no rows.
        nothing_above = not self._written and (not self._pending or self._pending.endswith(b"\n\n"))
        self._sink.write(self._pending + (foot.removeprefix(b"\n") if nothing_above else foot))
        self._ended = True

    def __enter__(self) -> RowStream:
        """Nothing happens yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A stream that ends without an error must have had its summary."""
        self._release()
        # Without its summary a stream would look truncated.
        if error is None and not self._ended:
            raise RuntimeError("a stream was left without its summary")


class _StreamedFindings:
    def __init__(self, stream: RowStream, *, of_fleet: bool) -> None:
        self._stream = stream
        self._of_fleet = of_fleet

    def add(self, finding: FindingView) -> None:
        self._stream.row(fleet_finding_row(finding) if self._of_fleet else finding_row(finding))

    def end(self, summary: Any, incomplete: Collection[str] = ()) -> None:  # noqa: ARG002 - the summary says it
        self._stream.end(summary)


class _CollectedFindings:
    def __init__(
        self, form: str, rules: Sequence[tuple[str, str]], environments: Sequence[str], style: Style, sink: Sink
    ) -> None:
        # Imported here because the standard library's XML escapes load its web client, which takes a tenth of a start.
        from jetool.output import findings_formats

        self._form = form
        self._found = findings_formats.FindingTally(rules, environments)
        self._render = findings_formats.render
        self._style = style
        self._sink = sink

    def add(self, finding: FindingView) -> None:
        self._found.add(finding)

    def end(self, summary: Any, incomplete: Collection[str] = ()) -> None:
        self._found.ended(incomplete)
        # Render only at the end, because the totals come first.
        self._sink.write(self._render(self._form, self._found, as_row(summary), self._style))
