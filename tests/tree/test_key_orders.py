"""How keys are ordered: prefix-only keys, orders of embedders, orders that are learned."""

from __future__ import annotations

import pytest

from engine.errors import UnsupportedError
from engine.format.bytecursor import join_two_part_key
from engine.tree.keys import TWO_PART, KeyOrder, key_order


def of_class(name: str, *, duplicates: bool = False) -> KeyOrder:
    serialized = b"\xac\xed\x00\x05t" + len(name).to_bytes(2, "big") + name.encode()
    return key_order(duplicates, serialized, None, {})


def test_prefix_only_keys_come_before_their_pairs() -> None:
    stored = [join_two_part_key(b"a", b"z"), b"b\xff", join_two_part_key(b"b", b""), join_two_part_key(b"b", b"a")]
    wrapped = [TWO_PART.wrap(key) for key in stored]
    assert sorted(wrapped) == wrapped
    assert [TWO_PART.unwrap(key) for key in wrapped] == stored
    order = of_class("oracle.kv.Key$BytesComparator", duplicates=True)
    assert sorted(map(order.wrap, stored)) == list(map(order.wrap, stored))
    assert [order.unwrap(order.wrap(key)) for key in stored] == stored


@pytest.mark.parametrize(
    ("name", "ascending"),
    [
        ("oracle.kv.Key$BytesComparator", [b"", b"a", b"a\xffz", b"a\x00b", b"ab", b"b", b"\xfe"]),
        (
            "org.opends.server.backends.jeb.AttributeIndex$KeyComparator",
            [b"", b"\x80", b"\xff", b"\x00", b"\x00\xff", b"\x00\x00", b"\x7f"],
        ),
    ],
)
def test_orders_of_embedders(name: str, ascending: list[bytes]) -> None:
    order = of_class(name)
    assert order.learned is None
    assert sorted(map(order.wrap, ascending)) == list(map(order.wrap, ascending))
    assert [order.unwrap(order.wrap(key)) for key in ascending] == ascending


def test_a_registered_order_goes_before_the_built_in_one() -> None:
    name = "oracle.kv.Key$BytesComparator"
    serialized = b"\xac\xed\x00\x05t" + len(name).to_bytes(2, "big") + name.encode()
    order = key_order(False, serialized, None, {name: lambda stored: stored})
    assert order.wrap(b"a") < order.wrap(b"\xff")


def test_nothing_is_compared_before_the_order_is_known() -> None:
    order = of_class("some.Comparator")
    assert order.learned is not None
    with pytest.raises(UnsupportedError):
        assert order.wrap(b"a") < order.wrap(b"b")
    order.learned.places = {b"b": 0, b"a": 1}
    assert order.wrap(b"b") < order.wrap(b"a")
    # A key that no node has comes last, and stays where it was put.
    assert order.wrap(b"a") < order.wrap(b"0")
    assert order.wrap(b"0") < order.wrap(b"c")
    assert order.wrap(b"0") > order.wrap(b"b")
