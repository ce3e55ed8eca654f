"""The file of an arbiter: as JE wrote it, and over crashes."""

from __future__ import annotations

import pytest

from engine.errors import DamageError, InUseError, JetoolError, RefusedError, StorageError, UnsupportedError
from engine.format.entry.txn_end import FIRST_TERM, PRE_TERM
from engine.rep.arbiter.arbiter_file import (
    FILE_NAME,
    NOTHING,
    ArbiterCommit,
    ArbiterFile,
    ArbiterState,
    decode_state,
    encode_state,
)
from engine.rep.peers import DisconnectedError
from engine.storage.base import write_synced
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.support.damage.faulty_storage import Effect, FaultyStorage, Rule

TERM = 0x1A224150B09


def placed(*parts: tuple[int, str]) -> bytes:
    """Bytes at offsets, with zeros between them."""
    data = bytearray()
    for at, text in parts:
        data += bytes(at - len(data)) + bytes.fromhex(text)
    return bytes(data)


# Written by the arbiters of JE 18.3.20 and 25.3.17.
JE = [
    (placed((0, "00000002"), (32, "ffffffff")), ArbiterState(-1, NOTHING, has_terms=False)),
    (placed((0, "00000003"), (32, "ffffffff")), ArbiterState(-1, NOTHING._replace(term=FIRST_TERM), has_terms=True)),
    (
        placed((0, "00000002"), (32, "00000003"), (64, "000000000000001d000000000000001b00000001")),
        ArbiterState(3, ArbiterCommit(29, 27, 1, None), has_terms=False),
    ),
    (
        placed((0, "00000003"), (32, "00000003"), (64, "000000000000001e000000000000001c00000001000001a224150b09")),
        ArbiterState(3, ArbiterCommit(30, 28, 1, TERM), has_terms=True),
    ),
]


@pytest.mark.parametrize(("data", "state"), JE)
def test_as_je_writes_it(data: bytes, state: ArbiterState) -> None:
    assert decode_state(data) == state
    assert encode_state(state) == data


def test_other_forms_of_je() -> None:
    """The first version, one that JE 25.3 continued without a new version, and one that JE had only begun."""
    first = placed((0, "00000001"), (32, "00000003"), (64, "000000000000001d000000000000001b"))
    assert decode_state(first) == ArbiterState(3, ArbiterCommit(29, 27, -1, None), has_terms=False)
    continued = placed((0, "00000002"), *((at, data[at:].hex()) for at, data in ((32, JE[3][0]),)))
    assert decode_state(continued) == ArbiterState(3, ArbiterCommit(30, 28, 1, None), has_terms=False)
    assert decode_state(JE[3][0][:-8] + bytes(8)) == ArbiterState(3, ArbiterCommit(30, 28, 1, PRE_TERM), has_terms=True)
    assert [decode_state(data) for data in (b"", JE[0][0][:4])] == [None, None]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (placed((0, "00000004"), (32, "00000003")), UnsupportedError),
        (placed((0, "00000002"), (8, "01"), (32, "00000003")), DamageError),
        (
            placed((0, "00000002"), (32, "00000003"), (60, "00000001"), (64, "000000000000001d" * 2 + "00000001")),
            DamageError,
        ),
        (placed((0, "00000002"), (32, "00000000")), DamageError),
        (placed((0, "00000000"), (32, "00000003")), DamageError),
        (placed((0, "00000002"), (32, "80000000")), DamageError),
        (JE[2][0][:-1], DamageError),
        (JE[3][0][:-8], DamageError),
        (JE[3][0][:-8] + b"\xff" * 8, DamageError),
        (JE[2][0][:64] + b"\x80" + JE[2][0][65:], DamageError),
    ],
)
def test_what_no_arbiter_wrote_is_refused(data: bytes, error: type[JetoolError]) -> None:
    storage = MemoryStorage()
    write_synced(storage, FILE_NAME, data)
    for _ in range(2):
        # The lock is released; the bytes stay.
        with pytest.raises(error):
            ArbiterFile(storage).open()
    assert storage.open(FILE_NAME).read(0, 100) == data


def opened(storage: MemoryStorage | FaultyStorage) -> ArbiterFile:
    file = ArbiterFile(storage)
    file.open()
    return file


def test_commits_of_one_master_and_of_the_next() -> None:
    file = opened(MemoryStorage())
    file.note_member(3, has_terms=False)
    for commit, kept in [
        ((50, 48, 1), 50), ((49, 47, 1), 50), ((51, 49, 1), 51),
        # Another master has been elected: with a log that reaches 51, or by all data nodes.
        ((45, 44, 2), 45), ((44, 44, 2), 45),
    ]:  # fmt: skip
        file.keep(ArbiterCommit(*commit, term=PRE_TERM))
        assert (file.state.commit.vlsn, file.state.commit.term) == (kept, None)
    assert decode_state(encode_state(file.state)) == file.state
    file.close()


def test_the_log_of_the_group_gets_terms() -> None:
    storage = MemoryStorage()
    file = opened(storage)
    file.note_member(3, has_terms=True)
    assert file.state.commit.term == FIRST_TERM
    file.keep(ArbiterCommit(40, 40, 1, PRE_TERM))
    file.keep(ArbiterCommit(41, 40, 1, TERM))
    with pytest.raises(DisconnectedError, match="earlier term"):
        file.keep(ArbiterCommit(42, 40, 2, TERM - 1))
    file.keep(ArbiterCommit(39, 38, 2, TERM + 1))
    file.close()
    assert opened(storage).state == ArbiterState(3, ArbiterCommit(39, 38, 2, TERM + 1), has_terms=True)


def test_a_file_without_terms_goes_on_with_them() -> None:
    storage = MemoryStorage()
    write_synced(storage, FILE_NAME, JE[2][0])
    file = opened(storage)
    file.note_member(3, has_terms=True)
    assert file.state.commit == ArbiterCommit(29, 27, 1, PRE_TERM)
    file.close()
    assert opened(storage).state == file.state


def test_one_process_at_a_time() -> None:
    storage = MemoryStorage()
    file = opened(storage)
    with pytest.raises((RefusedError, InUseError)):
        opened(storage)
    file.close()
    opened(storage).close()


@pytest.mark.parametrize("mode", list(CrashMode))
def test_what_was_kept_outlives_a_crash(mode: CrashMode) -> None:
    """At every moment the file holds what was kept last, or what is being kept."""
    storage = CrashStorage()
    file = ArbiterFile(storage)
    file.open()
    for vlsn in (-1, 20, 30):
        if vlsn < 0:
            file.note_member(3, has_terms=True)
        else:
            file.keep(ArbiterCommit(vlsn, vlsn - 1, 1, TERM))
        copy = ArbiterFile(storage.image(mode))
        copy.open()
        assert copy.state == file.state


def test_nothing_counts_before_it_is_synced() -> None:
    memory = MemoryStorage()
    opened(memory).close()
    file = opened(FaultyStorage(memory, [Rule("sync", Effect.FAIL, nth=2, path=FILE_NAME)]))
    file.note_member(3, has_terms=False)
    before = file.state
    with pytest.raises(StorageError):
        file.keep(ArbiterCommit(20, 19, 1, None))
    assert file.state == before
