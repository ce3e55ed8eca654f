"""The inner loops in C: one extension, ``core``, and the only module that asks whether it is there.

``pip install .`` builds it if a C compiler is available (``setup.py``). ``core.pyi`` is its contract, ``README.md`` has
the rules for C code. Every function has a Python twin with the same results; the pure build uses the twins. A caller
gets a function in one of two ways, once, at import:

* ``follow = chosen("follow", follow_links)``: the function in C, or its twin with the same arguments;
* ``if find is not None``: the names below are None in the pure build, where the code that follows is the twin.

Example: ``chosen("sift", loops.sift)`` is ``core.sift`` in the native build and ``loops.sift`` in the pure one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from engine.native import core

_Function = TypeVar("_Function", bound=Callable[..., Any])
# The maps of log files by file number, each with the log version of the file.
_Maps = dict[int, "tuple[core.FileMap, int]"]
_Slots = tuple[list[bytes], list[int], bytearray, list[bytes | None], list[int], list[int], int, int]


def _imported() -> Any:
    try:
        return import_module("engine.native.core")
    except ImportError:
        return None


# The extension, or None; annotated as any module so that both builds type-check.
extension: Any = _imported()


def is_native() -> bool:
    """Whether this is the native build."""
    return extension is not None


def chosen(name: str, twin: _Function) -> _Function:
    """A function of the extension by its name; its twin in the pure build."""
    function: _Function = getattr(extension, name, twin)
    return function


find: Callable[[list[Any], Any], int | None] | None = getattr(extension, "find", None)
covering: Callable[[list[Any], Any], int | None] | None = getattr(extension, "covering", None)
ascends: Callable[[list[Any], int], bool | None] | None = getattr(extension, "ascends", None)
live_slot: (
    Callable[
        [list[Any], list[int], bytearray, list[bytes | None], list[int], Any],
        tuple[int, bytes | None] | None,
    ]
    | None
) = getattr(extension, "live_slot", None)
records_of: Callable[[Any, list[Any], list[bytes | None], list[int], list[int]], list[Any]] | None = getattr(
    extension, "records_of", None
)
read_slots: Callable[[bytes, int, int, bytes, int | None, bool, int, bool], _Slots | None] | None = getattr(
    extension, "read_slots", None
)
value_at: Callable[[_Maps, int, int, int], bytes | None] | None = getattr(extension, "value_at", None)
values_at: Callable[[_Maps, list[int], list[int], list[int], int, bool], list[bytes | None]] | None = getattr(
    extension, "values_at", None
)
new_read_ahead: Callable[[], core.ReadAhead] | None = getattr(extension, "ReadAhead", None)
unpacked_offsets: Callable[[int, bytes], tuple[int, ...] | None] | None = getattr(extension, "unpacked_offsets", None)
encode_lns: Callable[[Any, Any, tuple[Any, Any], tuple[Any, Any], tuple[bytes, bytes], int], int | None] | None = (
    getattr(extension, "encode_lns", None)
)
