"""The filter for copied log files: on every file of the corpus it agrees with the check of a file as a whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.backup.file_filter import LogFileFilter, PassedFile
from engine.errors import DamageError, UnsupportedError
from engine.format.lsn import offset_of
from engine.log.check import check_file
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from tests.support.environments.oracle import Environment, environments
from tests.support.logs.golden_logs import LogMaker

GOLDEN = Path(__file__).parent.parent / "golden" / "je-17"


def passed(
    data: bytes, sizes: random.Random, number: int | None = None, held: int = 1 << 20
) -> tuple[bytes, PassedFile]:
    check = LogFileFilter("f.jdb", number, most_held_bytes=held)
    out, at = [], 0
    try:
        while at < len(data):
            size = sizes.choice((1, 7, 100, 4096, 70_000))
            out.append(check.feed(data[at : at + size]))
            at += size
        found = check.end()
    except DamageError:
        out.append(check.checked)
        raise DamageError(f"{len(b''.join(out))}", lsn=str(check.passed().entries)) from None
    return b"".join([*out, check.checked]), found


@pytest.mark.parametrize("environment", environments())
def test_agrees_with_the_check_of_whole_files(environment: Environment) -> None:
    """Good files pass byte for byte; of others what is before the first damage."""
    storage, sizes = DiskStorage(environment.path / "env"), random.Random(1)
    for file in list_log_files(storage).with_marker():
        data = (environment.path / "env" / file.path).read_bytes()
        with FileReader(storage, file, is_last=False) as reader:
            check = check_file(reader)
        for held in (1 << 20, 100):
            if not check.damages:
                out, found = passed(data, sizes, file.number, held)
                assert (out, found.entries, found.size_bytes) == (data, check.entries, len(data))
            else:
                first = min(offset_of(seen.damage.lsn) for seen in check.damages)
                with pytest.raises(DamageError) as error:
                    passed(data, sizes, file.number, held)
                good = int(error.value.what)
                # An entry that is larger than what is held passes before its checksum is known.
                assert good == first or (held == 100 and good >= first), file.path


def test_every_flipped_bit_is_found() -> None:
    """No bit of a file can change without damage, but for bits that no checksum covers."""
    data = (GOLDEN / "txn-crash" / "00000000.jdb").read_bytes()[:4000]
    ends = []
    check = LogFileFilter("f")
    for at in range(len(data)):
        if check.feed(data[at : at + 1]):
            ends.append(at + 1)
    data = data[: ends[-1]]
    unseen = []
    for at in range(len(data)):
        spoiled = data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]
        try:
            passed(spoiled, random.Random(at), 0)
        except (DamageError, UnsupportedError):
            continue
        unseen.append(at)
    # The INVISIBLE bit (0x10) of the flags, which replication sets later, is outside the checksum.
    assert all(data[at] & 0xEF == data[at] for at in unseen)
    starts = {0, *ends}
    assert {at - 5 for at in unseen} <= starts


@pytest.mark.parametrize("cut", [0, 1, 37, 38, 39, 50, 60, 1000, 1001])
def test_a_cut_file_ends_inside_an_entry(cut: int) -> None:
    data = (GOLDEN / "txn-crash" / "00000000.jdb").read_bytes()[:cut]
    if cut == 38:
        assert passed(data, random.Random(1))[1].entries == 1
        return
    with pytest.raises(DamageError):
        passed(data, random.Random(1))


def test_the_number_in_the_header() -> None:
    data = (GOLDEN / "txn-crash" / "00000000.jdb").read_bytes()
    with pytest.raises(DamageError) as error:
        LogFileFilter("00000007.jdb", 7).feed(data)
    assert (error.value.expected, error.value.found) == ("0x7", "0x0")


def test_an_entry_larger_than_memory_passes_in_pieces() -> None:
    log = LogMaker()
    log.trace()
    big = log.add(24, b"\x00" + b"\x7c\x91\xc1\x02\x00\x00" + b"x" * 180_000)
    log.trace("behind")
    check = LogFileFilter("f", most_held_bytes=1000)
    pieces = [check.feed(log.data[at : at + 500]) for at in range(0, len(log.data), 500)]
    assert check.end() == PassedFile(4, len(log.data), 17)
    assert b"".join([*pieces, check.checked]) == log.data
    assert max(map(len, pieces)) < 2000
    spoiled = bytearray(log.data)
    spoiled[big + 100_000] ^= 1
    with pytest.raises(DamageError) as error:
        LogFileFilter("f", most_held_bytes=1000).feed(bytes(spoiled))
    assert ("wrong checksum" in error.value.what, error.value.lsn) == (True, f"0x0/{big:#x}")
    cut = LogFileFilter("f", most_held_bytes=1000)
    cut.feed(log.data[:100_000])
    with pytest.raises(DamageError, match="the file ends inside the entry"):
        cut.end()
