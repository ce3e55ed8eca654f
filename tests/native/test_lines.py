"""Lines by C are those of the twin, for any layout and any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.format.codecs import encode_body
from engine.format.entry_types import ABORT, COMMIT, COMMON_LNS
from engine.format.fast.entry_lines import FIELDS, LinePart, entry_lines_plain, line_layout
from engine.format.fast.header import PAIRS
from engine.format.versions import LN_FLAGS_FIRST, LN_KEY_FIRST
from tests.support.logs.entry_bodies import entry_bodies
from tests.support.logs.golden_logs import LogMaker
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

QUIET = ("prior_size", "prior_file", "data_hex", "abort_key_hex", "abort_data_hex", "abort_vlsn", "master", "dtvlsn")
LABELS: list[tuple[str, ...] | None] = [(f"<{pair:x}>", "{é}") for pair in range(PAIRS)]
FAR = 1 << 40

texts = st.sampled_from(("", "", " ", "word=", "{}", "é"))
parts = st.builds(
    lambda field, before, after, null, width, is_quiet: LinePart(
        field, before, after, null, width % 2 if field == "label" else width, is_quiet and field in QUIET
    ),
    st.sampled_from(FIELDS), texts, texts, texts | st.none(), st.sampled_from((0, 0, 5, 30, -5, -30)), st.booleans(),
)  # fmt: skip
layouts = st.lists(parts, max_size=20).map(tuple)
seconds = st.dictionaries(st.integers(-3, 3), st.tuples(texts, texts) | st.none(), max_size=5)


def both(*arguments: Any) -> tuple[bytes, int, int, tuple[int, int] | None]:
    found = core.entry_lines(*arguments)
    assert found == entry_lines_plain(*arguments)
    return found


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(LN_FLAGS_FIRST, LN_KEY_FIRST - 1), layouts, layouts, seconds, seconds)
def test_c_makes_the_lines_of_its_twin(
    data: st.DataObject, version: int, records: Any, ends: Any, of_seconds: Any, of_expirations: Any
) -> None:
    log = LogMaker(version)
    for _ in range(data.draw(st.integers(1, 5))):
        number = data.draw(st.sampled_from((COMMIT, ABORT, *sorted(COMMON_LNS))))
        body = data.draw(entry_bodies(number, version, st.integers(-3500, 3500)))
        log.add(number, body, flags=data.draw(st.sampled_from((0, 0x80, 0x28))), vlsn=9)
    changed = bytearray(log.data)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(40, len(changed) - 1), st.integers(0, 255)), max_size=2)):
        changed[at] = byte
    layout = line_layout(version, LABELS, records, ends)
    for pos in log.offsets[1:]:
        most = data.draw(st.sampled_from((0, 1, 50, FAR)))
        end = data.draw(st.sampled_from((len(changed), len(changed), len(changed) - 1, pos)))
        arguments = bytes(changed), pos, end, 7 << 32, layout, (of_seconds, of_expirations), most
        assert core.entry_lines(*arguments) == entry_lines_plain(*arguments)


def test_a_time_is_asked_for_and_then_there() -> None:
    log = LogMaker(17)
    log.add(COMMIT, encode_body(COMMIT, 17, (-1, 5, -1, 0, 0, 0)))
    layout = line_layout(17, LABELS, (), (LinePart("time", "at "), LinePart("txn", " of ", "\n", width=3)))
    tables: Any = ({}, {})
    begin = log.offsets[1]
    arguments = log.data, begin, len(log.data), 0, layout, tables, FAR
    assert both(*arguments) == (b"", begin, 0, (0, -1))
    tables[0][-1] = ("then", "Z")
    assert both(*arguments) == (b"at then.999Z of   5\n", len(log.data), 1, None)
    tables[0][-1] = None
    assert both(*arguments) == (b"", begin, 0, None)


def test_what_breaks_the_contract_is_refused() -> None:
    layout = line_layout(17, LABELS, (LinePart("label", width=1),), ())
    good: list[Any] = [b"", 0, 0, 0, layout, ({}, {}), 1]
    assert core.entry_lines(*good) == (b"", 0, 0, None)
    for at, wrong in ((0, "text"), (4, ()), (4, layout[:5]), (5, ({},)), (5, ([], {}))):
        with pytest.raises(TypeError):
            core.entry_lines(*[wrong if place == at else one for place, one in enumerate(good)])
    for part in (LinePart("nothing"), LinePart("txn", width=FAR), LinePart("db", width=5000)):
        with pytest.raises((ValueError, OverflowError)):
            core.entry_lines(b"", 0, 0, 0, layout._replace(records=(part,)), ({}, {}), 1)
        with pytest.raises(ValueError, match="no lines"):
            line_layout(17, LABELS, (part,), ())
    with pytest.raises(ValueError, match="no lines"):
        line_layout(19, LABELS, (), ())
    log = LogMaker(17)
    log.add(COMMIT, encode_body(COMMIT, 17, (-1, 5, 0, 0, 0, 0)))
    odd_labels: list[tuple[Any, type[Exception]]] = [(("one",), IndexError), ((1, 2), TypeError), ("one", TypeError)]
    for labels, error in odd_labels:
        odd = layout._replace(labels=[labels] * PAIRS, ends=(LinePart("label", width=1),))
        with pytest.raises(error):
            core.entry_lines(log.data, log.offsets[1], len(log.data), 0, odd, ({0: ("", "")}, {}), FAR)
