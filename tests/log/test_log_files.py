"""The listing of an environment directory (je-log-format.md 2; R-LOG-14, 30, 38; T-56, T-70)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import NotFoundError
from engine.format.entry.markers import RestoreRequired
from engine.format.entry_types import BY_NAME
from engine.log.check import check_file
from engine.log.entry import LogEntry
from engine.log.files import LogFile, list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support.logs.golden_logs import EXPECTED, GOLDEN


def listed(*names: str) -> list[tuple[int, str]]:
    return [(f.number, f.path) for f in list_log_files(MemoryStorage(dict.fromkeys(names, b"x"))).files]


def test_only_log_files_count() -> None:
    names = ["00000000.jdb", "foo.jdb", "0000000g.jdb", "000000001.jdb", "0000001.jdb", "00000002.jdb.gz", "je.lck",
             "je.properties", "je.config.csv", "je.stat.csv", "je.info.0", "00000003.jdbx",
             "x00000004.jdb"]  # fmt: skip
    assert listed(*names) == [(0, "00000000.jdb")]


def test_hexadecimal_order_and_gaps() -> None:
    files = list_log_files(MemoryStorage({f"{n:08x}.jdb": b"" for n in (0x10, 9, 0xA, 0xC, 0x7FFFFFFE)}))
    assert [f.number for f in files.files] == [9, 0xA, 0xC, 0x10, 0x7FFFFFFE]
    missing = files.missing()
    assert missing[:4] == (0xB, 0xD, 0xE, 0xF)
    assert missing[4:] == (0x11, 0x7FFFFFFD), "a gap of two billion is named by its ends"
    assert files.find(0xC) == LogFile(0xC, "0000000c.jdb", 0)
    assert files.find(0xB) is None


def test_upper_case_names_are_log_files() -> None:
    assert listed("0000000A.JDB", "0000000b.jdb") == [(10, "0000000A.JDB"), (11, "0000000b.jdb")]


def test_files_set_aside() -> None:
    names = ["00000000.jdb", "00000001.del", "00000002.bad", "00000002.bad.1", "00000003.bup.0", "00000004.tmp"]
    files = list_log_files(MemoryStorage(dict.fromkeys(names, b"")))
    assert [f.path for f in files.files] == names[:1]
    assert list(files.set_aside) == names[1:]


def test_data_directories() -> None:
    names = [
        "data001/00000000.jdb",
        "data002/00000001.jdb",
        "data003/00000002.jdb",
        "data1/00000003.jdb",
        "x/0000000f.jdb",
    ]
    files = list_log_files(MemoryStorage(dict.fromkeys(names, b"")))
    assert [f.path for f in files.files] == names[:3]
    assert files.data_directories == 3


def test_the_same_number_twice() -> None:
    files = list_log_files(MemoryStorage(dict.fromkeys(["00000001.jdb", "data002/00000001.jdb"], b"")))
    assert [f.path for f in files.files] == ["00000001.jdb"]
    assert files.twice == ("data002/00000001.jdb",)


def test_restore_marker_is_no_data_file() -> None:
    storage = DiskStorage(GOLDEN / "je-17" / "restore-required")
    files = list_log_files(storage)
    assert [f.number for f in files.files] == [0]
    assert files.marker == LogFile(0x7FFFFFFF, "7fffffff.jdb", 124)
    with FileReader(storage, files.marker, is_last=True) as reader:
        entries = [item for item in reader.entries() if isinstance(item, LogEntry)]
    record = entries[-1].record()
    assert [entry.type_name for entry in entries] == ["FileHeader", "RestoreRequired"]
    assert isinstance(record, RestoreRequired)
    assert record.failure_type == "NETWORK_RESTORE"


@pytest.mark.parametrize(
    ("files", "found"), [({}, "an empty directory"), ({"je.lck": b"", "x/00000000.jdb": b""}, "2 other files")]
)
def test_no_environment(files: dict[str, bytes], found: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        list_log_files(MemoryStorage(files))
    assert (caught.value.file, caught.value.found) == ("memory:", found)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such directory"):
        list_log_files(DiskStorage(tmp_path / "absent"))
    (tmp_path / "file").touch()
    with pytest.raises(NotFoundError, match="not a directory"):
        list_log_files(DiskStorage(tmp_path / "file"))


def test_a_directory_called_like_a_log_file(tmp_path: Path) -> None:
    (tmp_path / "00000000.jdb").mkdir()
    (tmp_path / "00000001.jdb").touch()
    (tmp_path / "00000002.jdb").symlink_to(tmp_path / "absent")
    (tmp_path / "data001").touch()
    files = list_log_files(DiskStorage(tmp_path))
    assert ([f.number for f in files.files], files.data_directories) == ([1], 0)


NAME = st.from_regex(r"[0-9a-fA-F]{7,9}\.(jdb|del|bad|JDB|bup\.1)|data\d{2,3}|\w{0,8}", fullmatch=True).filter(
    lambda name: name not in ("", ".", "..")
)


@given(st.dictionaries(st.one_of(NAME, st.tuples(NAME, NAME).map("/".join)), st.binary(max_size=3), max_size=8))
def test_any_names(files: dict[str, bytes]) -> None:
    storage = MemoryStorage(files)
    try:
        found = list_log_files(storage)
    except NotFoundError:
        return
    numbers = [f.number for f in found.files]
    assert numbers == sorted(set(numbers))
    assert all(len(files[f.path]) == f.size_bytes for f in found.files)
    for file in found.files:
        with FileReader(storage, file, is_last=file == found.files[-1]) as reader:
            assert check_file(reader).entries == 0


# Golden environments: what DbPrintLog found in them.


@pytest.mark.parametrize("environment", EXPECTED)
def test_golden_environment(environment: str) -> None:
    expected = EXPECTED[environment]
    storage = DiskStorage(GOLDEN / environment)
    listing = list_log_files(storage)
    # DbPrintLog prints the marker as the last file.
    files = listing.files if listing.marker is None else (*listing.files, listing.marker)
    counts: dict[str, int] = {}
    invisible = 0
    damages: list[tuple[int, str, bool]] = []
    for file in files:
        with FileReader(storage, file, is_last=file == files[-1]) as reader:
            for item in reader.entries():
                if isinstance(item, LogEntry) and not damages:
                    counts[item.type_name] = counts.get(item.type_name, 0) + 1
                    invisible += item.invisible
                    assert BY_NAME[item.type_name.lower()].number == item.type_number
                elif not isinstance(item, LogEntry):
                    damages.append((item.lsn, item.reason, item.is_tail))
    where = {
        "je-17/corrupt-middle": (0x5_0000080E, "checksum", False),
        "je-17/torn-cut-mid": (0x5_00000C27, "cut", True),
    }
    assert damages == ([where[environment]] if environment in where else [])
    assert counts == expected["types"]
    assert (sum(counts.values()), invisible) == (expected["entries"], expected["invisible"])


def test_golden_logs_are_copies(corpus: Path) -> None:
    copied = {environment: expected["fixture"] for environment, expected in EXPECTED.items() if expected["fixture"]}
    assert len(copied) > 10
    for environment, fixture in copied.items():
        for path in (GOLDEN / environment).iterdir():
            assert path.read_bytes() == (corpus / "je" / fixture / "env" / path.name).read_bytes()


@pytest.mark.parametrize("damage", ["remove", "cut", "empty"])
def test_a_middle_file_lost_or_cut(tmp_path: Path, damage: str) -> None:
    shutil.copytree(GOLDEN / "je-17" / "torn-cut-mid", tmp_path / "env")
    path = tmp_path / "env" / "00000002.jdb"
    data = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(data[:5000] if damage == "cut" else b"")
    storage = DiskStorage(tmp_path / "env")
    files = list_log_files(storage)
    assert files.missing() == ((2,) if damage == "remove" else ())
    found = []
    for file in files.files[:-1]:
        with FileReader(storage, file, is_last=False) as reader:
            found += [seen.damage for seen in check_file(reader).damages]
    assert [(d.lsn >> 32, d.reason) for d in found] == {
        "remove": [], "cut": [(2, "cut")], "empty": [(2, "short")]
    }[damage]  # fmt: skip
