"""The inner loops of trees in C; in the pure build each is None and its Python twin is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.native import extension

if TYPE_CHECKING:
    from engine.format.fast import slots
    from engine.tree import search
else:
    slots, search = extension("engine.format.fast.slots"), extension("engine.tree.search")

_Slots = tuple[list[bytes], list[int], bytearray, list[bytes | None], list[int], list[int], int]
find: Callable[[list[Any], Any], int | None] | None = None if search is None else search.find
covering: Callable[[list[Any], Any], int | None] | None = None if search is None else search.covering
ascends: Callable[[list[Any], int], bool | None] | None = None if search is None else search.ascends
prepare: Callable[[type, type], bool] | None = None if search is None else search.prepare
record_at: Callable[[object, Any], tuple[Any, int, bytes | None] | None] | None = (
    None if search is None else search.record_at
)
records_of: Callable[[Any, list[Any], list[bytes | None], list[int], list[int]], list[Any]] | None = (
    None if search is None else search.records_of
)
read_slots: Callable[[bytes, int, int, bytes, int | None, bool, int, bool], _Slots | None] | None = (
    None if slots is None else slots.read_slots
)
