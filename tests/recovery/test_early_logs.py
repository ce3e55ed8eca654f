"""Logs of versions 1 to 5 are recovered to what JE makes of them, and continued in version 17.

JE 18.3.20 is the judge where it opens the environment; where it asks for DbPreUpgrade_4_1 (duplicates or deltas in the
recovery interval), the release that wrote it is. The older forms of a log (``as_version``) were held against both:
versions 3 and 4 against JE 18.3.20 and JE 3.2.68, versions 1 and 2 against JE 3.2.68, since 18.3.20 reads no tree node
of these.
"""

from __future__ import annotations

import hashlib

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, UnsupportedError
from engine.format import entry_types as et
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import MapLN
from engine.format.header import HEADER_BYTES, EntryHeader, encode_entry
from engine.format.lsn import offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from engine.storage.memory import MemoryStorage
from tests.support.environments.early import NAMES, files_of, judged, records_of, said
from tests.support.logs.early_logs import as_version, encode_early
from tests.support.logs.golden_logs import open_bytes

# One of each: names and removals, and duplicates and deltas with a transaction open at the crash.
CONVERTED = ("je-3.1.0/names", "je-3.2.68/dup-delta-crash")
WITH_CUTS = "je-3.2.68/names-delta-crash"
FILE = "00000000.jdb"


@pytest.mark.parametrize("name", NAMES)
def test_records_are_those_of_je(name: str) -> None:
    assert records_of(files_of(name)) == said(name, "records.txt")


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("name", CONVERTED)
def test_the_same_log_in_an_older_version(name: str, version: int) -> None:
    files = as_version(files_of(name), version)
    with open_bytes(files[FILE]) as reader:
        assert reader.version == version
    assert records_of(files) == said(name, "records.txt")


def test_log_that_ends_after_an_entry() -> None:
    data = files_of(WITH_CUTS)[FILE]
    judges = []
    for offset, judge, digest in judged(WITH_CUTS, "cuts.json"):
        judges.append(judge)
        found = hashlib.sha256(records_of({FILE: data[:offset]}).encode()).hexdigest()
        assert found.startswith(digest), f"0x{offset:x}"
    assert (judges.count("18.3.20"), judges.count("3.2.68")) == (46, 9)


def test_recovered_for_writing_from_a_torn_end() -> None:
    """What is written after the cut, in version 17, changes no record."""
    data = files_of(WITH_CUTS)[FILE]
    for offset, _, digest in judged(WITH_CUTS, "cuts.json")[5::7]:
        storage = MemoryStorage({FILE: data[: offset + 9]})
        Environment(storage).close()
        files = {file: content for file, content in storage.contents().items() if file.endswith(".jdb")}
        assert files[FILE] == data[:offset]
        assert list(files) == [FILE, "00000001.jdb"]
        assert hashlib.sha256(records_of(files).encode()).hexdigest().startswith(digest), f"0x{offset:x}"


@pytest.mark.parametrize(("name", "version"), [("field/a", 5), *((name, 3) for name in CONVERTED), (WITH_CUTS, 5)])
def test_continued_in_version_17(name: str, version: int) -> None:
    storage = MemoryStorage(as_version(files_of(name), version))
    before = records_of(storage.contents())
    with Environment(storage) as env:
        db = env.create_database("made later")
        db.put(b"key", b"data")
    files = storage.contents()
    assert files[FILE].startswith(as_version(files_of(name), version)[FILE][:HEADER_BYTES])
    versions = []
    for file, data in sorted(files.items()):
        if file.endswith(".jdb"):
            with open_bytes(data, number=int(file[:8], 16)) as reader:
                versions.append(reader.version)
    assert versions == [version, 17]
    made = "DB made later dups=false\n6b6579 64617461\n"
    after = records_of({file: data for file, data in files.items() if file.endswith(".jdb")})
    assert made in after
    assert after.replace(made, "") == before


@pytest.mark.parametrize("version", [1, 2])
def test_versions_1_and_2_are_not_written_on(version: int) -> None:
    storage = MemoryStorage(as_version(files_of("je-3.1.0/names"), version))
    before = storage.contents()
    with pytest.raises(UnsupportedError, match=f"a log of version {version} .* not written on") as caught:
        Environment(storage)
    assert caught.value.hint == "jetool salvage saves its records in a new environment"
    assert storage.contents() == {**before, "je.lck": b""}


def changed_body(files: dict[str, bytes], number: int) -> dict[str, bytes]:
    """The log with a byte too many in the last body of a type, and the checksum made right."""
    data = files[FILE]
    with open_bytes(data) as reader:
        entry = [one for one in reader.entries() if isinstance(one, LogEntry) and one.type_number == number][-1]
    start = offset_of(entry.lsn)
    body = data[start + HEADER_BYTES : start + entry.total_bytes - 1] + b"\x7f"
    header = EntryHeader(0, number, entry.flags, entry.prev_offset, 0, NULL_VLSN)
    made = encode_entry(header, b"\xff" * 20 + body[20:], 5)
    return {FILE: data[:start] + made + data[start + len(made) :]}


@pytest.mark.parametrize("number", [et.DB_TREE, et.CKPT_END, et.BIN_TYPE, et.IN_TYPE])
def test_a_body_that_contradicts_its_type_is_an_error(number: int) -> None:
    """Its checksum is right, so it is no torn end; nothing is guessed from it."""
    with pytest.raises(JetoolError):
        records_of(changed_body(files_of("je-3.1.0/names"), number))


@pytest.mark.parametrize("committed", [True, False])
def test_map_ln_in_a_transaction(committed: bool) -> None:
    """Until v3 a MapLN has a transaction of its own; without its Commit it is not redone."""
    files = as_version(files_of("je-3.1.0/names"), 3)
    with open_bytes(files[FILE]) as reader:
        entries = [one for one in reader.entries() if isinstance(one, LogEntry)]
    logged = next(one for one in reversed(entries) if one.type_number == et.MAP_LN and _is_plain(one))
    record = logged.record()
    assert isinstance(record, LN)
    assert isinstance(record.content, MapLN)
    gone = record._replace(
        content=record.content._replace(deleted=1), data=None, txn_id=7_000, last_lsn=-1, abort_lsn=logged.lsn
    )
    data = files[FILE]
    removal = encode_early(et.MAP_LN_TX, 1, gone)
    last = offset_of(entries[-1].lsn)
    data += encode_entry(EntryHeader(0, et.MAP_LN_TX, 1, last, 0, NULL_VLSN), removal, 3)
    if committed:
        end = (7_000).to_bytes(8, "little") + bytes(8) + len(files[FILE]).to_bytes(8, "little")
        data += encode_entry(EntryHeader(0, et.COMMIT, 0, len(files[FILE]), 0, NULL_VLSN), end, 3)
    with Environment(MemoryStorage({FILE: data}), EnvironmentConfig(read_only=True)) as env:
        try:
            count = env.open_database("plain").count()
        except JetoolError:
            count = 0
    assert count == (0 if committed else 45)


def _is_plain(entry: LogEntry) -> bool:
    record = entry.record()
    return isinstance(record, LN) and record.key == b"3"
