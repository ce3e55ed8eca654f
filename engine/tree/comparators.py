"""Orders of known embedders, by the Java class that their databases name. The one place where they are listed.

A database whose class is here is like one with plain keys: it is searched, checked and written to. Orders that
somebody registers go before these; those of other classes are learned (``engine.tree.order``).

==================================================================  ==============================================
class                                                               order
==================================================================  ==============================================
``oracle.kv.Key$BytesComparator`` (Oracle NoSQL, ``p1``, ``p2``)    unsigned bytes, but 0xff before all others: it
                                                                    divides major from minor components
``org.opends.server.backends.jeb.AttributeIndex$KeyComparator``     signed bytes: 0x80 to 0xff before 0x00
(OpenDJ 2 and 3 and its relatives: ``dn2id``, ``dn2uri``)
==================================================================  ==============================================

In both a key that is the beginning of another comes first. Doris and StarRocks have plain keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

_FF_FIRST: Final = bytes((value + 1) & 0xFF for value in range(256))
_SIGNED: Final = bytes(value ^ 0x80 for value in range(256))


def _ff_first(stored: bytes) -> bytes:
    return stored.translate(_FF_FIRST)


def _signed(stored: bytes) -> bytes:
    return stored.translate(_SIGNED)


BUILT_IN: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(
    {
        "oracle.kv.Key$BytesComparator": _ff_first,
        "org.opends.server.backends.jeb.AttributeIndex$KeyComparator": _signed,
    }
)
