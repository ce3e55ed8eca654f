"""The checker of ``tests.rep.partitions``, whose rounds need root and minutes."""

from __future__ import annotations

from tests.rep.partitions import Answers, differences

_ANSWERS = Answers.parse(
    [
        "asked a",
        "acknowledged a",
        "asked b",
        "refused b",
        "asked c",
        "unknown c",
        "asked d",
    ]
)
_KEYS = frozenset({"a", "c"})


def test_answers() -> None:
    """A writer that was killed before the answer does not know."""
    assert Answers(acknowledged=frozenset({"a"}), refused=frozenset({"b"}), unknown=frozenset({"c", "d"})) == _ANSWERS


def test_nothing_is_wrong() -> None:
    """What is unknown may be there or not, on all nodes alike."""
    for keys in (_KEYS, frozenset({"a"}), frozenset({"a", "c", "d"})):
        assert differences(_ANSWERS, {"n1": keys, "n2": keys}) == []


def test_each_difference() -> None:
    lost, refused, strange = frozenset({"c"}), _KEYS | {"b"}, _KEYS | {"z"}
    assert differences(_ANSWERS, {"n1": lost}) == ["n1: 1 lost, such as a"]
    assert differences(_ANSWERS, {"n1": refused}) == ["n1: 1 was refused and is there, such as b"]
    assert differences(_ANSWERS, {"n1": strange}) == ["n1: 1 was never asked for, such as z"]
    assert differences(_ANSWERS, {"n1": _KEYS, "n2": frozenset({"a"})}) == ["records differ: n1 2, n2 1"]
