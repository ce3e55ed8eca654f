"""What of reading the log is C in the native build; None each in the pure one, whose twins stand in ``access``.

A module of its own, since compiled modules cannot ask whether another one is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.log import mapped_values
    from engine.storage import file_map
else:
    try:
        from engine.log import mapped_values
    except ImportError:
        mapped_values = None

value_at: Callable[[dict[int, tuple[file_map.FileMap, int]], int, int, int], bytes | None] | None = (
    None if mapped_values is None else mapped_values.value_at
)
values_at: (
    Callable[[dict[int, tuple[file_map.FileMap, int]], list[int], list[int], list[int], int], list[bytes | None]] | None
) = None if mapped_values is None else mapped_values.values_at
