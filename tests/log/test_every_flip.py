"""Every byte of a small log flipped: each flip is reported, at the entry that it hit, or proven harmless (T-60)."""

from __future__ import annotations

import pytest

from engine.format.entry.markers import ErasedEntry
from engine.format.entry_types import ERASED
from engine.format.versions import HIGHEST_TYPE
from tests.support.logs.golden_logs import check, damages, entries, golden_files, offsets_and_sizes, read
from tests.support.samples import part

pytestmark = pytest.mark.exhaustive

MASKS = (0x01, 0x10, 0x80, 0xFF)
INVISIBLE = 0x10
TYPE_AT, FLAGS_AT = 4, 5

# Environment, log version, flips by.
LOGS = [
    ("je-6/empty", 6, MASKS),
    ("je-17/empty", 17, MASKS),
    ("je-26/empty", 26, MASKS),
    ("je-17/rollback-four-periods", 17, (0x10,)),
]


@pytest.mark.parametrize(("environment", "version", "masks"), LOGS, ids=[log[0] for log in LOGS])
def test_every_flip_is_found_where_it_is(environment: str, version: int, masks: tuple[int, ...]) -> None:
    (file,) = golden_files(environment)
    original = check(file.data)
    assert not original.damages
    harmless = 0
    for at, size in offsets_and_sizes(file.data, version):
        for place in (*range(at, at + FLAGS_AT + 1), *part(range(at + FLAGS_AT + 1, at + size))):
            for mask in masks:
                data = bytearray(file.data)
                data[place] ^= mask
                found = check(bytes(data), version=version)
                if place == at + FLAGS_AT and mask == INVISIBLE and version >= 7:
                    harmless += 1
                    assert_only_visibility_changed(found.invisible, original.invisible, at)
                    assert found.damages == ()
                    continue
                assert len(found.damages) == 1, (hex(place), hex(mask))
                damage = found.damages[0].damage
                assert (damage.lsn, damage.length) == (at, size), (hex(place), hex(mask))
                assert found.entries == original.entries - 1
    assert harmless == (original.entries if version >= 7 else 0)


def assert_only_visibility_changed(
    now: tuple[tuple[int, int], ...], before: tuple[tuple[int, int], ...], at: int
) -> None:
    assert {offset for offset, _ in now} ^ {offset for offset, _ in before} == {at}


@pytest.mark.parametrize("environment", ["je-17/empty", "je-26/empty"])
def test_a_type_byte_changed_to_erased_is_listed(environment: str) -> None:
    """The one change that a reader cannot call damage: an Erased entry's checksum means nothing.

    The reader lists the entry as erased, and its body, which an eraser would have made zeros, tells the verifier.
    """
    (file,) = golden_files(environment)
    version = check(file.data).version
    for at, size in list(offsets_and_sizes(file.data, version))[1:]:
        data = bytearray(file.data)
        data[at + TYPE_AT] = ERASED
        items = read(bytes(data))
        assert damages(items) == []
        assert check(bytes(data)).erased == (at,)
        (entry,) = (entry for entry in entries(items) if entry.lsn == at)
        record = entry.record()
        assert isinstance(record, ErasedEntry)
        assert len(record.content) == size - 14
        assert record.nonzero_bytes > 0
        # Its size is still checked by the entry after it, its prevOffset by itself.
        for place in (6, 10):
            worse = bytearray(data)
            worse[at + place] ^= 1
            assert damages(read(bytes(worse))), (hex(at), place)


@pytest.mark.parametrize("version", [6, 16])
def test_erased_is_unknown_before_version_17(version: int) -> None:
    assert HIGHEST_TYPE[version] < ERASED
