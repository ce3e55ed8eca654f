"""Comparison of an entry with what JE says of it.

``expected`` (module ``expected``) holds what JE printed and nothing else; the other dict may say more. A key that JE
says nothing of is null or absent there, and so is one whose expected value is None. Byte arrays may stand under
``NAME`` or ``NAME_hex``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from engine.format.entry.ln_content import FileSummary


class Rule(Protocol):
    """An expectation that is not one value: JE prints less than the log holds."""

    def matches(self, actual: Any) -> bool: ...


class NotSaid(NamedTuple):
    """A value that JE prints as unknown."""

    def matches(self, actual: Any) -> bool:
        return True


class Bits(NamedTuple):
    """A number of which JE shows the bits of ``mask``."""

    mask: int
    value: int

    def matches(self, actual: Any) -> bool:
        return isinstance(actual, int) and actual & self.mask == self.value


class OneOf(NamedTuple):
    """One of several values: JE prints an hour, whose unit may be hours or days."""

    values: tuple[Any, ...]

    def matches(self, actual: Any) -> bool:
        return actual in self.values


class Length(NamedTuple):
    """A byte array of which JE shows the length in bytes."""

    length: int

    def matches(self, actual: Any) -> bool:
        return isinstance(actual, str | None) and len(actual or "") == 2 * self.length


class Present(NamedTuple):
    """A byte array of which JE shows whether it is there and not empty."""

    present: bool

    def matches(self, actual: Any) -> bool:
        return isinstance(actual, str | None) and bool(actual) == self.present


class Zeros(NamedTuple):
    """A byte array of which JE shows whether every byte is zero."""

    zeros: bool

    def matches(self, actual: Any) -> bool:
        return isinstance(actual, str) and (not actual.strip("0")) == self.zeros


class InAnyOrder(NamedTuple):
    """A list that JE sorts before it prints it."""

    values: tuple[Any, ...]

    def matches(self, actual: Any) -> bool:
        return isinstance(actual, list) and sorted(actual, key=repr) == sorted(self.values, key=repr)


class Derived(NamedTuple):
    """Numbers that JE computes from a FileSummary (R-CLN-2 to 4), in the order of the fields of ``derived``."""

    values: tuple[Any, ...]

    def matches(self, actual: Any) -> bool:
        return is_summary(actual) and derived(actual) == self.values


def is_summary(value: Any) -> bool:
    """Whether every counter of a FileSummary is there and a 32-bit number."""
    numbers = [value.get(name) for name in FileSummary._fields] if isinstance(value, dict) else [None]
    return all(isinstance(number, int) and abs(number) < 1 << 32 for number in numbers)


def derived(summary: Mapping[str, int]) -> tuple[Any, ...]:
    """Obsolete size, of INs, of LNs, the most, the most of LNs, and the average size of uncounted LNs."""
    record = FileSummary(*(summary[name] for name in FileSummary._fields))
    return (
        record.estimated_obsolete_size,
        record.estimated_obsolete_in_size,
        record.estimated_obsolete_ln_size,
        record.most_obsolete_size,
        record.most_obsolete_ln_size,
        record.average_uncounted_ln_size,
    )


# Expectations about a key of another name.
ALSO_OF = {"summary_derived": "summary"}


def compare_entry(
    expected: Mapping[str, Any], ndjson: Mapping[str, Any], *, without: Collection[str] = ()
) -> list[str]:
    """Every difference between what JE printed of an entry and what we say of it.

    Arguments:
        expected: from ``expected.expected_entry`` or ``expected.expected_header``.
        ndjson: a line of ``dump-log --format ndjson``, or ``ndjson.entry_json``.
        without: keys that the caller's options left out, such as ``data`` and ``slot_list``.

    Returns:
        One line for each difference; empty when there is none.
    """
    return list(_differences(expected, ndjson, "", without))


def _differences(
    expected: Mapping[str, Any], actual: Mapping[str, Any], path: str, without: Collection[str]
) -> Iterator[str]:
    for key, value in expected.items():
        if key not in without:
            name = ALSO_OF.get(key, key)
            found = actual[name] if name in actual else actual.get(f"{name}_hex")
            yield from _difference(value, found, f"{path}{key}", without)


def _difference(expected: Any, actual: Any, path: str, without: Collection[str]) -> Iterator[str]:
    if hasattr(expected, "matches"):
        if not expected.matches(actual):
            yield f"{path}: JE says {expected}, we say {actual!r}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _differences(expected, actual, f"{path}.", without)
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _list_differences(expected, actual, path, without)
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield f"{path}: JE says {expected!r}, we say {actual!r}"


def _list_differences(
    expected: Sequence[Any], actual: Sequence[Any], path: str, without: Collection[str]
) -> Iterator[str]:
    if len(expected) != len(actual):
        yield f"{path}: JE has {len(expected)}, we have {len(actual)}"
    for index, (value, found) in enumerate(zip(expected, actual, strict=False)):
        yield from _difference(value, found, f"{path}[{index}]", without)
