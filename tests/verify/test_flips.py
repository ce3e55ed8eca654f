"""Every byte of every entry of a log of four files, flipped: ``verify`` reports it, or it is proven harmless.

Harmless are, and nothing else:

* the checksum of an Erased entry, which means nothing (je-log-format.md 3.5), and of its flags all but those that make
  the header longer; JE skips the entry whatever they say;
* the INVISIBLE bit of a replicated entry in a period whose RollbackEnd is missing: recovery sets these bits itself
  (R-RB-31), and where one is cleared it sets it again.
"""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

import pytest

from engine.format.entry_types import COMMIT, ERASED
from engine.format.header import FLAGS_AT, TYPE_AT, has_vlsn
from engine.format.lsn import make_lsn
from engine.verify.report import ERROR, NOTE, Finding
from tests.support.logs.golden_logs import offsets_and_sizes
from tests.support.logs.log_writer import (
    INVISIBLE,
    TXN,
    Files,
    LogWriter,
    changed,
    findings,
    golden,
    replicated_ln,
    whole,
)
from tests.support.samples import part

pytestmark = pytest.mark.exhaustive

MASKS = (0x01, 0x08, 0x10, 0x80, 0xFF)
BODY_AT = 14


class Place(NamedTuple):
    """One entry of the log."""

    name: str
    number: int
    offset: int
    size: int

    @property
    def lsn(self) -> int:
        return make_lsn(self.number, self.offset)


class Log(NamedTuple):
    """The log that is flipped, and the LSNs that matter."""

    files: Files
    erased: int
    closed: frozenset[int]
    open_period: frozenset[int]
    last_durable: int


@cache
def log() -> Log:
    """A real environment in file 0, then two rollback periods, an Erased entry and a torn transaction."""
    writer = LogWriter()
    writer.makers[0].data = golden("je-17/empty")["00000000.jdb"]
    writer.makers[0].offsets = [at for at, _ in offsets_and_sizes(writer.makers[0].data, 17)]
    writer.next_file()
    erased = writer.add(ERASED, bytes(24))
    first = writer.commit(1)
    hidden = [replicated_ln(writer, 2, invisible=True), replicated_ln(writer, 3, invisible=True)]
    writer.trace("local, between the rolled-back ones")
    start = writer.rollback_start(first, 1, (TXN,))
    writer.rollback_end(first, start)
    writer.next_file()
    replicated_ln(writer, 2)
    second = writer.commit(3)
    unfinished = [replicated_ln(writer, 4), replicated_ln(writer, 5, invisible=True)]
    writer.rollback_start(second, 3, (TXN,))
    writer.next_file()
    durable = writer.commit()
    writer.trace("after the last commit")
    writer.trace("the last entry")
    return Log(writer.files, erased, frozenset(hidden), frozenset(unfinished), durable)


def every_entry(files: Files) -> list[Place]:
    return [
        Place(name, int(name[:8], 16), at, size)
        for name, data in files.items()
        for at, size in offsets_and_sizes(data, 17)
    ]


def test_the_log_is_clean() -> None:
    assert findings(log().files) == ()


def is_harmless(place: Place, byte: int, mask: int) -> bool:
    if place.lsn == log().erased:
        return byte < TYPE_AT or (byte == FLAGS_AT and not has_vlsn(mask, 17))
    return byte == FLAGS_AT and mask == INVISIBLE and place.lsn in log().open_period


@pytest.mark.parametrize("place", every_entry(log().files), ids=lambda place: f"{place.number}-{place.offset:x}")
def test_every_byte_flipped(place: Place) -> None:
    original = log().files[place.name]
    harmless = 0
    # Whatever is harmless lies in the header.
    for byte in (*range(BODY_AT), *part(range(BODY_AT, place.size))):
        old = original[place.offset + byte]
        for mask in MASKS:
            files = changed(log().files, place.name, place.offset + byte, bytes((old ^ mask,)))
            found = findings(files)
            if is_harmless(place, byte, mask):
                assert found == (), (place, byte, mask)
                harmless += 1
            else:
                assert_reported(found, place, byte, mask)
    expected = (
        4 * len(MASKS) + sum(not has_vlsn(mask, 17) for mask in MASKS)
        if place.lsn == log().erased
        else place.lsn in log().open_period
    )
    assert harmless == expected


def assert_reported(found: tuple[Finding, ...], place: Place, byte: int, mask: int) -> None:
    told = (place, byte, hex(mask), found)
    assert found, told
    # The size of an Erased entry shows only where it leads to.
    assert place.lsn in [f.lsn for f in found] or place.lsn == log().erased, told
    assert {f.file for f in found} <= set(log().files), told
    assert worst(place, byte, mask) in (None, *(f.severity for f in found)), told
    if byte == FLAGS_AT and mask == INVISIBLE:
        hidden = place.lsn in log().closed
        assert [f.code for f in found if f.lsn == place.lsn] == ["JE-LOG-024" if hidden else "JE-LOG-015"], told


def worst(place: Place, byte: int, mask: int) -> str | None:
    """The severity that must be among the findings."""
    if place.lsn == log().erased and byte >= BODY_AT:
        return NOTE
    if place.lsn < log().last_durable or (byte == FLAGS_AT and mask == INVISIBLE):
        return ERROR
    # After the last Commit an entry is a torn tail. What it was nobody knows when the damage is in its type.
    if byte == TYPE_AT:
        return None
    return ERROR if place.lsn == log().last_durable else NOTE


def test_every_type_byte_turned_into_erased() -> None:
    """The one change of a byte that takes the checksum out of use."""
    for place in every_entry(log().files):
        if place.lsn == log().erased:
            continue
        files = changed(log().files, place.name, place.offset + TYPE_AT, bytes((ERASED,)))
        found = findings(files)
        at = [f.code for f in found if f.lsn == place.lsn]
        assert at == ["JE-LOG-006"] * (place.offset == 0) + ["JE-LOG-013"], (place, found)


def test_real_logs_flips_by_chance() -> None:
    """Three hundred flips over a real environment of six files, each named at the entry that it hit."""
    files = whole()
    places = every_entry(files)
    durable = max(place.lsn for place in places if files[place.name][place.offset + TYPE_AT] == COMMIT)
    chance = random.Random(20)
    for _ in range(300):
        place = chance.choice(places)
        byte, mask = chance.randrange(place.size), 1 << chance.randrange(8)
        old = files[place.name][place.offset + byte]
        found = findings(changed(files, place.name, place.offset + byte, bytes((old ^ mask,))))
        assert [(f.lsn, f.file) for f in found] == [(place.lsn, place.name)], (place, byte, mask)
        in_tail = place.lsn > durable and found[0].code.startswith("JE-TAIL")
        last_commit = place.lsn == durable
        assert found[0].severity == (NOTE if in_tail else ERROR) or last_commit, (place, byte, mask)


def test_every_invisible_bit_of_a_real_replicated_log() -> None:
    """Set where it was clear: a stray one. Cleared where it was set: a rolled-back entry that is visible."""
    name = "00000000.jdb"
    files = golden("je-17/ha-rollback")
    assert findings(files) == ()
    seen = set()
    for place in every_entry(files):
        flags = files[name][place.offset + FLAGS_AT]
        found = findings(changed(files, name, place.offset + FLAGS_AT, bytes((flags ^ INVISIBLE,))))
        code = "JE-LOG-024" if flags & INVISIBLE else "JE-LOG-015"
        assert [f.code for f in found if f.lsn == place.lsn] == [code]
        # What is hidden is missing: its VLSN is a gap before the entry after it, a RollbackEnd lacks its start.
        assert {f.code for f in found if f.lsn != place.lsn} <= {"JE-REP-011", "JE-LOG-028"}
        seen.add(code)
    assert seen == {"JE-LOG-015", "JE-LOG-024"}
