"""Index descriptors of the catalogue: hand-made ones, those of every golden database, and damage."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.derby import catalog
from engine.derby.database import DerbyDatabase
from engine.derby.format import btree, container, page, row
from engine.derby.format.index_descriptor import base_columns
from engine.derby.log import DerbyLogFiles
from engine.errors import FormatError
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import NAMES, files_of

PAGE = 4096


def name(text: str) -> bytes:
    return struct.pack(">HH", 1, len(text)) + text.encode()


def number(value: int) -> bytes:
    return struct.pack(">Hi", 303, value)


def descriptor(columns: list[int], extra: dict[str, bytes] | None = None) -> bytes:
    """A descriptor of columns that are counted from 0."""
    pairs = {"isUnique": number(1), "indexType": name("BTREE"), **(extra or {})}
    pairs |= {f"bcp{at}": number(column + 1) for at, column in enumerate(columns)}
    pairs = {"keyLength": number(len(columns)), **pairs}
    return struct.pack(">HHi", 387, 313, len(pairs)) + b"".join(name(key) + value for key, value in pairs.items())


@given(st.lists(st.integers(0, 2**31 - 2), min_size=1, max_size=30))
def test_columns_come_in_the_order_of_the_index(columns: list[int]) -> None:
    assert base_columns(descriptor(columns)) == tuple(columns)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=5), st.data())
def test_damage_is_refused_or_read(columns: list[int], data: st.DataObject) -> None:
    """Nothing but FormatError, and never more columns than the descriptor has pairs."""
    whole = bytearray(descriptor(columns))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(FormatError):
        assert len(base_columns(bytes(whole))) <= len(columns) + 3
    with pytest.raises(FormatError):
        base_columns(descriptor(columns)[:at])


@pytest.mark.parametrize(
    "extra",
    [{"keyLength": number(-1)}, {"keyLength": number(2**31 - 1)}, {"keyLength": name("x")}, {"bcp0": number(0)}],
)
def test_impossible_values_are_refused(extra: dict[str, bytes]) -> None:
    whole = descriptor([])
    count = 3 + len(extra)
    pairs = b"".join(name(key) + value for key, value in extra.items())
    with pytest.raises(FormatError):
        base_columns(struct.pack(">HHi", 387, 313, count) + whole[8:] + pairs)


@pytest.mark.parametrize("source", NAMES)
def test_each_index_of_the_catalogue_is_described(source: str) -> None:
    """The number of columns is the one that the index itself has, less the row location."""
    database = DerbyDatabase(MemoryStorage(files_of(source)))
    found = catalog.conglomerates(database, catalog.PendingCatalogChanges(DerbyLogFiles(database), 0, [], []))
    assert found.problem is None
    assert len(found.base_columns) > 20
    for key, is_stub in database.containers().items():
        if is_stub or key.container not in found.base_columns:
            continue
        data = files_of(source)[container.path_of(key)]
        first = row.decode_row(page.decode(data[PAGE : 2 * PAGE]).rows[0].record)
        control = btree.control_row(first)
        assert control is not None, key
        assert control.descriptor is not None, key
        assert len(found.base_columns[key.container]) == btree.decode_descriptor(control.descriptor).location
