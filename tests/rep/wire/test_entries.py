"""Entries of recorded streams: bodies come back, and both forms of one entry mean the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.codecs import encode_body
from engine.format.entry.ln import LN
from engine.format.entry_types import COMMIT, DEL_IMAGE, INS_LN_TX, UPD_IMAGE
from engine.log.entry import LogEntry
from engine.rep.wire import feeder, log_file_feeder
from engine.rep.wire.batches import split_stream
from engine.rep.wire.entries import WireEntry, dtvlsn_of, for_replication, read_entry, same_entry, write_entry
from engine.rep.wire.messages import encode_frame
from tests.support.groups.recordings import HOME, Player, files, read
from tests.support.logs.golden_logs import read as read_log


@cache
def entries() -> dict[str, list[WireEntry]]:
    """Of each scenario every entry that was sent."""
    found = defaultdict(list)
    for path in files():
        for played in Player(read(path)).play():
            if isinstance(played.what, feeder.Entry | feeder.Commit | feeder.AlternateMatchpoint):
                found[path.parent.name].append(played.what.entry)
    return found


def test_before_images_in_earlier_versions() -> None:
    """As JE 25.3.17 sent them to a subscriber of log version 17: the types are new, the field of version 25 is not
    there, and the key has its length.
    """
    for vlsn, number, body, key, data in (
        (619, UPD_IMAGE, "00 00 88 8b 88 c9 ff 02 72 31 06 6b 30 30 30 30 33", b"k00003", b"r1"),
        (1813, DEL_IMAGE, "00 00 88 8b 87 1f 03 ff ff 06 6b 30 30 30 30 35", b"k00005", None),
    ):
        sent = WireEntry(vlsn, number, 17, bytes.fromhex(body))
        frame = write_entry(ByteWriter(), sent).getvalue()
        assert read_entry(ByteReader(frame)) == sent
        record = sent.record()
        assert isinstance(record, LN)
        assert (record.db_id, record.key, record.data, record.tail) == (-258, key, data, None)
        assert encode_body(number, 17, record) == sent.body
        (message,), size = split_stream(encode_frame(feeder.Entry(entry=sent), 11), 11)
        assert (message, size > len(frame)) == (sent, True)


def test_bodies_come_back() -> None:
    versions = set()
    for scenario in entries().values():
        for entry in scenario:
            versions.add(entry.log_version)
            assert encode_body(entry.type_number, entry.log_version, entry.record()) == entry.body
    assert versions == {8, 12, 16, 17, 26}


def test_entries_of_one_vlsn_mean_the_same() -> None:
    """In scenarios without a fork, whatever form and version they came in."""
    compared = 0
    for name, scenario in entries().items():
        if name.startswith("fork"):
            continue
        first: dict[int, WireEntry] = {}
        for entry in scenario:
            other = first.setdefault(entry.vlsn, entry)
            if other.body != entry.body:
                assert same_entry(other, entry), (name, other, entry)
                compared += 1
    assert compared > 100


def test_forks_do_not_mean_the_same() -> None:
    different = 0
    for name in ("fork-lost-tail", "fork-hard"):
        first: dict[int, WireEntry] = {}
        for entry in entries()[name]:
            other = first.setdefault(entry.vlsn, entry)
            different += not same_entry(other, entry)
    assert different > 0


def stored(scenario: str) -> dict[int, WireEntry]:
    """The entries of the log files that were copied from a node, by VLSN."""
    found = {}
    for path in sorted((HOME / scenario).glob("*LogFileFeeder*-n1.jsonl*")):
        files_of: dict[str, bytes] = {}
        name = ""
        for played in Player(read(path)).play():
            if isinstance(played.what, log_file_feeder.FileStart):
                name = played.what.name
                files_of[name] = b""
            elif isinstance(played.what, bytes):
                files_of[name] += played.what
        for name, data in files_of.items():
            for entry in read_log(data, number=int(name[:8], 16), is_last=False):
                if isinstance(entry, LogEntry) and entry.vlsn is not None and entry.vlsn > 0:
                    found[entry.vlsn] = WireEntry(entry.vlsn, entry.type_number, entry.version, bytes(entry.body))
    return found


def test_the_form_for_replication_is_that_of_je() -> None:
    """What a master sent is what its log files hold, as it is or in the form for replication."""
    logged = stored("restore")
    as_it_is, anew = Counter[int](), Counter[int]()
    for path in sorted((HOME / "restore").glob("*-Feeder-n1.jsonl")):
        for played in Player(read(path)).play():
            if isinstance(played.what, feeder.Entry | feeder.Commit) and played.what.entry.vlsn in logged:
                sent = played.what.entry
                own = logged[sent.vlsn]
                form = for_replication(own)
                assert sent.body in (own.body, form.body), sent
                (as_it_is if sent.body == own.body else anew)[sent.type_number] += 1
    assert (as_it_is[INS_LN_TX] > 5, anew[COMMIT] > 5) == (True, True), (as_it_is, anew)


def test_aborts_leave_nothing_of_their_files() -> None:
    entry = WireEntry(30, 33, 17, bytes.fromhex("0200888beaff0276316b31"))
    record = for_replication(entry).record()
    assert isinstance(record, LN)
    assert (record.flags, record.last_lsn, record.key, record.data) == (0, -1, b"k1", b"v1")


def test_dtvlsn() -> None:
    commit = WireEntry(26, 17, 16, bytes.fromhex("ffea7d9e1ab003a2010118"))
    assert dtvlsn_of(commit.record()) == 24
