"""Operations of journals, by product: names, and the releases that have them (fe-journals.md 4).

Up to about 99 a code means the same in both products; after that they diverge. A code that is not listed has no name.
``engine.contents.operation_table`` holds the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from engine.contents.operation_table import DORIS_GONE, DORIS_OPERATIONS, STARROCKS_GONE, STARROCKS_OPERATIONS

DORIS: Final = "doris"
STARROCKS: Final = "starrocks"
PRODUCTS: Final = {DORIS: "Doris", STARROCKS: "StarRocks"}
# The releases whose sources were read, for messages.
SOURCE_RELEASES: Final = {DORIS: "1.1 to 4.0", STARROCKS: "1.19 to 3.5"}

# Operations that StarRocks never skips when their replay fails (fe-journals.md 3.3). A code is included if at least one
# release never skips it.
_NEVER_SKIPPED: Final = frozenset((
    0, 1, 5, 10, 12, 17, 18, 20, 21, 23, 25, 26, 27, 40, 41, 42, 44, 45, 46, 47, 50, 53, 54, 55, 56, 62, 71, 72, 74,
    75, 76, 77, 78, 79, 80, 82, 83, 88, 100, 102, 103, 104, 105, 107, 117, 118, 121, 210, 10000, 10002, 10095,
    10096, 10098, 10101, 10221, 10222, 10241, 10242, 10243, 10244, 10261, 10264, 10267, 11000, 12001, 12003, 12110,
    12111, 12112, 12151, 13000, 13002, 13003, 13020, 13022, 13023, 13024, 13027, 13028, 13030, 13033, 13034, 13035,
    13036, 13037, 13041, 13060, 13510, 13552, 20101, 20102, 20103, 20111, 20269, 20271, 20272, 20501, 20502,
))  # fmt: skip
# From this code on only StarRocks has operations (fe-journals.md 4), apart from one of Doris' cloud releases.
_STARROCKS_FROM: Final = 10_000
_CLOUD_CODE: Final = 10_325
_DORIS_ALONE: Final = frozenset((126, 127, 128, 141, 142, 212, 220, 221, *range(300, 500), *range(1000, 1200)))

TIMESTAMPS: Final = frozenset((70, 13040))


class Operation(NamedTuple):
    """A name of an operation code.

    Attributes:
        since: the lowest release whose sources have this name.
        until: the release from which on they have another name for the code, or no longer have it; None if the newest
            sources that were read have it.
    """

    code: int
    name: str
    since: str
    until: str | None


def _operations(table: Mapping[str, str], gone: Mapping[str, str]) -> tuple[Operation, ...]:
    """The operations of a product by code, and of a code by release."""
    until = {int(code): release for release, text in gone.items() for code in text.split()}
    found: dict[int, list[Operation]] = {}
    for release, text in table.items():
        words = text.split()
        for number, name in zip(words[::2], words[1::2], strict=True):
            code = int(number)
            names = found.setdefault(code, [])
            if names:
                names[-1] = names[-1]._replace(until=release)
            names.append(Operation(code=code, name=name, since=release, until=until.get(code)))
    return tuple(one for code in sorted(found) for one in found[code])


OPERATIONS: Final[dict[str, tuple[Operation, ...]]] = {
    DORIS: _operations(DORIS_OPERATIONS, DORIS_GONE),
    STARROCKS: _operations(STARROCKS_OPERATIONS, STARROCKS_GONE),
}

_NEWEST: Final[dict[str | None, dict[int, str]]] = {
    product: {one.code: one.name for one in found} for product, found in OPERATIONS.items()
}
# The newest name of each code. Under None, for an unknown product: the codes that both products give the same name.
NAMES: Final[dict[str | None, dict[int, str]]] = {
    None: {code: name for code, name in _NEWEST[DORIS].items() if _NEWEST[STARROCKS].get(code) == name},
    **_NEWEST,
}


def operation_name(product: str | None, code: int) -> str | None:
    """The name of an operation, without the products' ``OP_``; None for an unknown operation."""
    return NAMES[product].get(code)


def source_releases(product: str | None) -> str:
    """A text with the releases that the table of operations was made from; without a product, for both products."""
    named = PRODUCTS if product is None else {product: PRODUCTS[product]}
    return " and ".join(f"{title} {SOURCE_RELEASES[key]}" for key, title in named.items())


def codes_of(product: str | None, name: str) -> frozenset[int]:
    """The codes for a name (with or without ``OP_``) or a number; empty for an unknown name."""
    if name.removeprefix("-").isdigit() and len(name) < 7:
        return frozenset((int(name),))
    wanted = name.upper().removeprefix("OP_")
    if product is None:
        return frozenset(one.code for found in OPERATIONS.values() for one in found if one.name == wanted)
    return frozenset(one.code for one in OPERATIONS[product] if one.name == wanted)


def product_of_code(code: int) -> str | None:
    """The only product that uses a code; None if both or neither use it."""
    if code in _DORIS_ALONE or code == _CLOUD_CODE:
        return DORIS
    return STARROCKS if code in NAMES[STARROCKS] and code >= _STARROCKS_FROM else None


def may_skip(product: str | None, code: int) -> bool | None:
    """Whether a product can be configured to skip a journal of this operation when its replay fails.

    Returns:
        None if that is unknown: the product is not StarRocks, or the operation has no name.
    """
    if product != STARROCKS or code not in NAMES[STARROCKS]:
        return None
    return code not in _NEVER_SKIPPED
