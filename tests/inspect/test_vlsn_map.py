"""VLSNs by headers alone: the same as by a full check, except for what only a checksum shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.format.fast.header import header_lengths, steps
from engine.format.fast.loops import follow_links
from engine.format.header import REPLICATED, decode_header
from engine.format.vlsn import NULL_VLSN
from engine.inspect.survey import survey
from engine.inspect.vlsn_map import FileVlsns, gaps_of_file, map_file, vlsn_ends
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from tests.support import corpus, harness

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
LOGS = sorted(path.parent for path in GOLDEN.glob("*/*/00000000.jdb"))
REPLICATED_LOG = GOLDEN / "je-17" / "ha-rollback"


def both(directory: Path) -> list[tuple[FileVlsns, FileVlsns]]:
    """Every file by its headers and by a full check, the gaps aside."""
    storage = DiskStorage(str(directory))
    files = list_log_files(storage)
    end = files.end_file()
    return [
        (map_file(storage, end, file), gaps_of_file(storage, end, file)._replace(inner_gaps=()))
        for file in files.with_marker()
    ]


def boundaries(data: bytes) -> list[int]:
    """Where the entries of an intact file of version 17 begin, and its end."""
    found = [0]
    while found[-1] < len(data):
        header = decode_header(data, found[-1], 17)
        found.append(found[-1] + header_lengths(17)[header.flags << 8] + header.item_size)
    return found


def test_the_ends_of_the_stream_are_those_that_the_entries_tell() -> None:
    """On every real environment; where there is damage it says nothing."""
    told = 0
    for env in sorted(corpus.path().glob("je*/**/env")):
        storage = DiskStorage(str(env))
        files = list_log_files(storage)
        if (ends := vlsn_ends(storage, files)) is None:
            continue
        told += ends != (NULL_VLSN, NULL_VLSN)
        found = survey(storage, files)
        assert ends == (found.first_vlsn, found.last_vlsn), env
    assert told > 30


@pytest.mark.parametrize("directory", LOGS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_same_as_a_full_check(directory: Path) -> None:
    for quick, full in both(directory):
        reasons = {seen.damage.reason for seen in full.damages}
        if quick != full:
            assert reasons == {"checksum"}
            assert quick.damages == ()


@pytest.mark.parametrize("at", [4, 6, 7, 8, 9, 10, 11, 12, 13])
def test_broken_chain_is_reported(tmp_path: Path, at: int) -> None:
    """A wrong type, prevOffset or size of any entry is reported as the full check reports it."""
    good = (REPLICATED_LOG / "00000000.jdb").read_bytes()
    for place in boundaries(good)[1:-1:7]:
        data = bytearray(good)
        data[place + at] ^= 0xFF
        (tmp_path / "00000000.jdb").write_bytes(data)
        ((quick, full),) = both(tmp_path)
        assert quick == full
        assert full.damages


def test_wrong_checksum_is_not_seen() -> None:
    """What the help says: bodies are not read."""
    damaged = GOLDEN / "je-17" / "corrupt-middle"
    quick, full = both(damaged)[-1]
    assert [seen.damage.reason for seen in full.damages] == ["checksum"]
    assert quick.damages == ()
    assert harness.run("vlsn", "map", damaged).code == 0
    assert harness.run("vlsn", "gaps", damaged).code == 1


def test_follow_links_stops_at_every_end() -> None:
    """Whatever part of a file the buffer holds, the loop stops at an entry that lies in it whole."""
    data = (REPLICATED_LOG / "00000000.jdb").read_bytes()
    places = boundaries(data)
    for end in range(places[40], places[60]):
        pos, prev, last, entries, replicated = follow_links(data[:end], 0, end, 0, 0, 0, steps(17))
        assert pos == places[entries] <= end
        # The loop needs 22 bytes for a header, so it may stop one short entry early.
        assert end < places[entries + 1] or end - pos < 22
        headers = [decode_header(data, place, 17) for place in places[:entries]]
        stream = [header.vlsn for header in headers if header.flags & REPLICATED]
        assert (prev, replicated, last) == (places[entries - 1], len(stream), stream[-1])
