"""How much of a large sample a run takes: the native build all of it, pure code, several times as slow, a part.

CI runs both. A test takes a part only if the stage of the native build runs it too (``.ci/run``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from engine.native import is_native

_T = TypeVar("_T")

SHARE: Final = 1 if is_native() else 5
_FEWEST: Final = 10


def part(items: Sequence[_T]) -> Sequence[_T]:
    """Each item in the native build, each fifth in pure code, the first among them."""
    return items[::SHARE]


def examples(most: int) -> int:
    """The number of examples of a property, not below ten."""
    return max(most // SHARE, min(most, _FEWEST))
