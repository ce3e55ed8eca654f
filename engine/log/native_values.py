"""The functions that read the log in C; each is None in the pure build, whose twins are in ``access``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.native import extension

if TYPE_CHECKING:
    from engine.log import mapped_values
    from engine.storage import file_map
else:
    mapped_values = extension("engine.log.mapped_values")

value_at: Callable[[dict[int, tuple[file_map.FileMap, int]], int, int, int], bytes | None] | None = (
    None if mapped_values is None else mapped_values.value_at
)
values_at: (
    Callable[[dict[int, tuple[file_map.FileMap, int]], list[int], list[int], list[int], int], list[bytes | None]] | None
) = None if mapped_values is None else mapped_values.values_at
