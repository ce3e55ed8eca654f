"""Key order: converting stored keys to values that Python compares as the database does.

A node keeps its keys in *comparable* form, so that ``bisect`` works on them directly:

* plain databases: the bytes themselves, which Python compares as unsigned bytes, the shorter first;
* duplicates databases: the pair ``(key, data)`` of the two-part key. Comparing the stored bytes would be wrong
  (je-log-format.md 12.1). Nodes that JE converted from duplicates of v6 and v7 can hold prefix-only keys, a key without
  data and with -1 as its length. Their form is ``(key,)``, which Python sorts before every pair with that key, as JE
  does;
* databases with a comparator class: the result of the function that is registered under the class name; the classes of
  known embedders are built in (``engine.tree.comparators``). Without a function the order is learned from the nodes in
  the log (``engine.tree.order``).

A learned order is sufficient for reading: a key that no node has is put last in memory, and ``LearnedOrder.guessed``
counts it. It is not sufficient for writing. An environment that is opened for writing must not guess (``may_guess`` is
False): slots may change as long as their keys are in the logged nodes. Inserting a key, or changing a node whose slots
were merged by a guess, raises ``UnknownOrderError`` before the first byte on disk changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import total_ordering
from typing import Any, Final, NamedTuple

from engine.errors import UnsupportedError
from engine.format.bytecursor import PREFIX_ONLY, join_two_part_key, split_two_part_key
from engine.tree.comparators import BUILT_IN, SortKey

# Bytes, a pair of bytes, or the result of a registered function.
Key = Any

_SERIALIZED_STRING: Final = b"\xac\xed\x00\x05t"
_SERIALIZED_OBJECT: Final = b"\xac\xed\x00\x05sr"


class LearnedOrder:
    """The order of a class that is not registered, as far as the nodes show it (``engine.tree.order``).

    Arguments:
        name: the Java class, for messages.

    Attributes:
        db_id, database: the database; its name is "" while not known.
        direction: 1 or -1 for ascending or descending bytes, 0 for neither.
        places: the position of each stored key in the sequence of all keys; None if ``direction`` is set, or if nothing
            is known.
        may_guess: keys that no node has may be put last; False if nodes will be logged.
        guessed: number of keys that were placed by a guess, last or among others.
        skipped: number of entries that recovery left out because nothing is known about the order.
        near: the BIN that was used last; a search looks there first. The order between keys that no node shows together
            is not known, so a descent may miss a key, and a search of all BINs is expensive.
    """

    __slots__ = ("database", "db_id", "direction", "guessed", "may_guess", "name", "near", "places", "skipped")

    def __init__(self, name: str) -> None:
        self.name = name
        self.db_id = -1
        self.database = ""
        self.direction = 0
        self.places: dict[bytes, int] | None = None
        self.may_guess = True
        self.guessed = 0
        self.skipped = 0
        self.near: Any = None

    def __repr__(self) -> str:
        return f"<LearnedOrder {self.name} of {self.database!r}, {self.guessed} guessed, {self.skipped} skipped>"

    @property
    def is_unknown(self) -> bool:
        """Whether the nodes show nothing about the order, or contradict each other."""
        return not self.direction and self.places is None

    def knows(self, stored: bytes) -> bool:
        """Whether a stored key can be compared with others."""
        return self.direction != 0 or (self.places is not None and stored in self.places)

    def sort_key(self, stored: bytes) -> Any:
        """A sort key; it compares by the order as learned at the time of the comparison."""
        return _LearnedKey(stored, self)

    def is_less(self, first: bytes, second: bytes) -> bool:
        """Whether one key comes before another.

        Raises:
            UnknownOrderError: nothing is known about the order.
        """
        if self.direction:
            return first < second if self.direction > 0 else first > second
        if self.places is None:
            raise UnknownOrderError(self)
        return self._place(first) < self._place(second)

    def _place(self, stored: bytes) -> int:
        """The place of a key; a key that no node has comes last from now on.

        Raises:
            UnknownOrderError: no node has it, and guessing is not allowed.
        """
        assert self.places is not None
        place = self.places.get(stored)
        if place is None:
            if not self.may_guess:
                raise UnknownOrderError(self)
            # No node has the key, so it was inserted after the last checkpoint.
            place = self.places[stored] = len(self.places)
        return place


@total_ordering
class _LearnedKey:
    """A key whose order is learned."""

    __slots__ = ("order", "stored")

    def __init__(self, stored: bytes, order: LearnedOrder) -> None:
        self.stored = stored
        self.order = order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LearnedKey) and self.stored == other.stored

    def __lt__(self, other: _LearnedKey) -> bool:
        return self.order.is_less(self.stored, other.stored)

    def __hash__(self) -> int:
        return hash(self.stored)


class KeyOrder(NamedTuple):
    """The key order of one database.

    Attributes:
        duplicates: keys are two-part keys.
        wrap: stored bytes to comparable form.
        unwrap: comparable form to stored bytes.
        comparator: name of the Java class if the order is not plain; None otherwise.
        learned: the learned order; None if the order is known.
        given: the order was given by the caller of the environment; it may be wrong.
    """

    duplicates: bool
    wrap: Callable[[bytes], Key]
    unwrap: Callable[[Key], bytes]
    comparator: str | None
    learned: LearnedOrder | None = None
    given: bool = False

    @property
    def plain(self) -> bool:
        """Whether comparable form and stored form are identical."""
        return not self.duplicates and self.comparator is None


def _same(stored: bytes) -> bytes:
    return stored


def _split(stored: bytes) -> tuple[bytes, ...]:
    # JE made such keys when it converted nodes of old duplicates (je-log-format.md 12.1).
    return (stored[:-1],) if stored.endswith(PREFIX_ONLY) else split_two_part_key(stored)


def _join(key: tuple[bytes, ...]) -> bytes:
    return key[0] + PREFIX_ONLY if len(key) == 1 else join_two_part_key(*key)


PLAIN: Final = KeyOrder(False, _same, _same, None)
TWO_PART: Final = KeyOrder(True, _split, _join, None)


class _AfterAll:
    """Compares greater than everything; stands for a data item after the last one of a key."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return self is other

    def __gt__(self, other: object) -> bool:
        return self is not other

    def __ge__(self, other: object) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 0


AFTER_ALL: Final = _AfterAll()


@total_ordering
class RegisteredKey:
    """A key under a registered order: compares by the sort key and keeps the stored bytes."""

    __slots__ = ("sort", "stored")

    def __init__(self, stored: bytes, sort: Any) -> None:
        self.stored = stored
        self.sort = sort

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegisteredKey) and bool(self.sort == other.sort)

    def __lt__(self, other: RegisteredKey) -> bool:
        # A sort key may be of any type, and not comparable with AFTER_ALL.
        if self.sort is AFTER_ALL or other.sort is AFTER_ALL:
            return self.sort is not AFTER_ALL
        return bool(self.sort < other.sort)

    def __hash__(self) -> int:
        return hash(self.stored)


def comparator_name(serialized: bytes | None) -> str | None:
    """The class of a serialized comparator; None if it cannot be read.

    A comparator is either a serialized ``String`` with the class name, or the serialized object itself, which begins
    with the description of its class.
    """
    if not serialized:
        return None
    if serialized.startswith(_SERIALIZED_STRING):
        return serialized[len(_SERIALIZED_STRING) + 2 :].decode("utf-8", "replace")
    if serialized.startswith(_SERIALIZED_OBJECT):
        name_at = len(_SERIALIZED_OBJECT) + 2
        length = int.from_bytes(serialized[name_at - 2 : name_at], "big")
        return serialized[name_at : name_at + length].decode("utf-8", "replace")
    return "serialized object"


def serialized_comparator(name: str | None) -> bytes:
    """A comparator in the form that JE stores if the class name was given; empty for no comparator."""
    if name is None:
        return b""
    encoded = name.encode()
    return _SERIALIZED_STRING + len(encoded).to_bytes(2, "big") + encoded


def key_order(
    duplicates: bool, btree: bytes | None, duplicate: bytes | None, registered: Mapping[str, SortKey]
) -> KeyOrder:
    """The order of a database.

    Arguments:
        duplicates: the database holds sorted duplicates in two-part keys.
        btree, duplicate: serialized comparators of the database; empty or None for no comparator.
        registered: sort keys by class name.
    """
    names = (comparator_name(btree), comparator_name(duplicate))
    if names == (None, None):
        return TWO_PART if duplicates else PLAIN
    label = ", ".join(name for name in names if name)
    given = any(name in registered for name in names)
    registered = {**BUILT_IN, **registered}
    unknown = any(name is not None and name not in registered for name in names)
    learned: LearnedOrder | None = LearnedOrder(label) if unknown else None
    first, second = (_sort_key(name, registered, learned) for name in names)
    if not duplicates:
        return KeyOrder(False, lambda stored: RegisteredKey(stored, first(stored)), _unwrap_one, label, learned, given)
    # If one of two comparators is unknown, only the order of whole keys can be learned.
    if learned is not None:
        return KeyOrder(True, lambda stored: _learned_pair(stored, learned), _unwrap_pair, label, learned)
    return KeyOrder(True, lambda stored: _wrap_pair(stored, first, second), _unwrap_pair, label, learned, given)


class UnknownOrderError(UnsupportedError):
    """Keys of a database cannot be compared: its order is not registered, and its nodes do not show enough of it.

    Arguments:
        learned: the learned part of the order.
    """

    def __init__(self, learned: LearnedOrder) -> None:
        named = repr(learned.database) if learned.database else f"with the id {learned.db_id}"
        super().__init__(
            f"the database {named} is in the order of a Java class that is not known here",
            expected="an order of keys for the class",
            found=learned.name,
            consequence="its keys cannot be compared"
            if learned.may_guess
            else "no key of it is written: one in the wrong place would break the tree",
            hint=f"give the order by --comparator {learned.database or 'DB'}=NAME (jetool-orders(7)), or open the "
            "environment with JE, or take its records out with jetool salvage",
        )
        self.learned = learned


def _sort_key(name: str | None, registered: Mapping[str, SortKey], learned: LearnedOrder | None) -> SortKey:
    if name is None:
        return _same
    known = registered.get(name)
    if known is not None:
        return known
    assert learned is not None
    return learned.sort_key


def _unwrap_one(key: Key) -> bytes:
    return bytes(key.stored)


def _wrap_pair(stored: bytes, first: SortKey, second: SortKey) -> Key:
    parts = _split(stored)
    return tuple(RegisteredKey(part, sort(part)) for part, sort in zip(parts, (first, second), strict=False))


def _learned_pair(stored: bytes, learned: LearnedOrder) -> Key:
    """A two-part key that is known only by its place among whole keys."""
    first, *second = _split(stored)
    return RegisteredKey(first, learned.sort_key(stored)), *second


def _unwrap_pair(key: Key) -> bytes:
    # In a learned order the second part is plain bytes.
    return _join(tuple(getattr(part, "stored", part) for part in key))
