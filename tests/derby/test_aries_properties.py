"""Service properties, unused containers and old log files: what keeps Derby from starting, and what is harmless."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.derby import database_info as info
from engine.derby.database import DerbyDatabase, with_its_log
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.service_properties import parse
from engine.derby.verify import check as verify
from engine.derby.verify import findings
from engine.errors import RefusedError, UnsupportedError
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import files_of
from tests.support.derby_java import put

Change = Callable[[bytes], bytes]

PROPERTIES, OLD = "service.properties", "service.propertiesold"
BASES = ("clean-shutdown", "crash-five-transactions", "crash-ddl", "crash-xa-prepared")


def lines_without(name: str) -> Change:
    """A change of the properties: without one of them."""
    return lambda data: b"".join(
        line for line in data.splitlines(keepends=True) if not line.startswith(f"{name}=".encode())
    )


def with_number(name: str, number: int) -> Change:
    """A change of the properties: with another number for one of them."""
    return lambda data: f"{name}={number}\n".encode() + lines_without(name)(data)


BROKEN: dict[str, Change] = {
    "empty": lambda _: b"",
    "garbage": lambda _: random.Random(30).randbytes(700),
    "zeros": lambda data: bytes(len(data)),
    "cut": lambda data: data[: data.index(b"derby.serviceProtocol")],
    "another service": lambda data: data.replace(b"org.apache.derby.database.Database", b"org.example.Other"),
    "no service": lines_without("derby.serviceProtocol"),
    "no property table": lines_without("derby.storage.propertiesId"),
    "no tables": lines_without("SystablesIdentifier"),
    "no index of schemas": lines_without("SysschemasIndex2Identifier"),
    "tables that are not there": with_number("SystablesIdentifier", 9999),
    "tables twice": with_number("SystablesIdentifier", 144),
    "columns that are a user's table": with_number("SyscolumnsIdentifier", 0x9990),
    "a catalogue that is another table": with_number("SysconglomeratesIdentifier", 0x490),
    "a catalogue that is not there": with_number("SysconglomeratesIdentifier", 9999),
}
SOUND: dict[str, Change] = {
    "colons": lambda data: data.replace(b"=", b" : "),
    "blanks": lambda data: data.replace(b"=", b" "),
    "carriage returns": lambda data: data.replace(b"\n", b"\r\n"),
    "a continued line": lambda data: data.replace(b"Systables", b"Sys\\\n   tables"),
    "escapes": lambda data: data.replace(b"SystablesI", b"S\\u0079stables\\I"),
    "no last line": lambda data: data[: data.rindex(b"#---")],
    "no locale": lines_without("derby.serviceLocale"),
    "no second index of columns": lines_without("SyscolumnsIndex2Identifier"),
}


def report(storage: MemoryStorage, severity: str = findings.ERROR, *, pages: bool = True) -> list[str]:
    found = verify.verify(DerbyDatabase(storage), pages=pages).findings
    return [one.code for one in found if one.severity == severity]


def changed(name: str, change: Change) -> MemoryStorage:
    files = dict(files_of(name))
    return MemoryStorage({**files, PROPERTIES: change(files[PROPERTIES])})


def refuses(storage: MemoryStorage) -> None:
    before = storage.contents()
    for dry_run in (True, False):
        for accept in (False, True):
            with pytest.raises(RefusedError):
                recover(storage, dry_run=dry_run, options=RecoveryOptions(accept_loss=accept))
    assert {path: data for path, data in storage.contents().items() if path != "dbex.lck"} == before


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("case", BROKEN)
def test_properties_that_keep_derby_from_starting(name: str, case: str) -> None:
    storage = changed(name, BROKEN[case])
    # A catalogue without a file is a missing container.
    wanted = {"DRB-DB-002"} if case != "a catalogue that is not there" else {"DRB-CONT-002"}
    for pages in (True, False):
        assert set(report(storage, pages=pages)) & {"DRB-DB-002", "DRB-CONT-002"} == wanted
    if "there" not in case and "table" not in case.partition("that")[2]:
        assert report(storage, pages=False) == ["DRB-DB-002"]
        assert info.gather(DerbyDatabase(storage)).start_problem is not None
    if case != "a catalogue that is not there":
        refuses(storage)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("case", SOUND)
def test_properties_that_derby_reads(name: str, case: str) -> None:
    storage = changed(name, SOUND[case])
    assert report(storage) == report(storage, findings.WARNING) == []
    assert info.gather(DerbyDatabase(storage)).start_problem is None
    recover(storage)


def test_properties_that_are_missing() -> None:
    """Without them the rest is checked all the same, by the numbers that every database has."""
    files = dict(files_of("clean-shutdown"))
    properties = files.pop(PROPERTIES)
    storage = MemoryStorage(files)
    found = verify.verify(DerbyDatabase(storage))
    assert [(one.code, one.message) for one in found.findings] == [("DRB-DB-002", "service.properties is missing")]
    assert "tables and indexes of the catalogue against their files" not in found.not_checked
    refuses(storage)
    only_log = MemoryStorage({path: data for path, data in files.items() if path.startswith("log/")})
    assert "service.properties is missing, and so is seg0" in [
        one.message for one in verify.verify(DerbyDatabase(only_log)).findings
    ]
    refuses(only_log)
    no_log = MemoryStorage({path: data for path, data in files.items() if path.startswith("seg0/")} | {OLD: properties})
    assert "DRB-LOG-003" in report(no_log)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("keep", [0, 2, 3])
def test_containers_that_are_missing(name: str, keep: int) -> None:
    """No level is green over an empty ``seg0/``, or over half of one."""
    files = dict(files_of(name))
    places = sorted(path for path in files if path.startswith("seg0/"))
    for at, path in enumerate(places):
        if keep == 0 or at % keep == 0:
            del files[path]
    storage = MemoryStorage(files)
    quick = set(report(storage, pages=False))
    assert "DRB-CONT-002" in quick
    assert quick <= set(report(storage))


@pytest.mark.parametrize("current", [None, b"", b"derby.serviceProtocol=half\n"])
def test_an_interrupted_change_of_the_properties(current: bytes | None) -> None:
    """Derby goes by the old file while the new one does not end with its last line."""
    files = dict(files_of("crash-ddl"))
    files[OLD] = files.pop(PROPERTIES)
    if current is not None:
        files[PROPERTIES] = current
    storage = MemoryStorage(files)
    assert report(storage) == []
    assert "DRB-DB-003" in report(storage, findings.NOTE)
    assert recover(storage).checkpoint is not None


def test_a_whole_new_file_counts() -> None:
    files = dict(files_of("crash-ddl"))
    assert "DRB-DB-003" not in report(MemoryStorage({**files, OLD: b"half"}), findings.NOTE)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# a=1\n ! b=2\n\n  c = 3", {"c": "3"}),
        ("a=x\\\n   y\nb=1", {"a": "xy", "b": "1"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\:b\\=c=d\\te\\u0041", {"a:b=c": "d\teA"}),
        ("a=1\rb=2\r\nc=\x0b3", {"a": "1", "b": "2", "c": "\x0b3"}),
        ("a=1\\", {"a": "1"}),
        ("=1\n:\n\\", {"": ""}),
    ],
)
def test_the_format_is_that_of_java(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


def test_a_log_on_another_device(tmp_path: Path) -> None:
    """Read from there, even where a log lies in the database; never written; missing is an error."""
    name, device = "crash-five-transactions", tmp_path / "device"
    database = put(MemoryStorage(dict(files_of(name))), tmp_path / "db")
    (database / "log").rename(tmp_path / "log")
    with (database / PROPERTIES).open("a") as properties:
        properties.write(f"logDevice={device}\n")
    disk = DiskStorage(database)
    assert [
        one.code for one in verify.verify(DerbyDatabase(with_its_log(disk))).findings if one.severity == "error"
    ] == [
        "DRB-DB-002",
        "DRB-CTL-004",
        "DRB-LOG-003",
    ]
    with pytest.raises(RefusedError, match="not there"):
        recover(disk)
    device.mkdir()
    (tmp_path / "log").rename(device / "log")
    (database / "log").mkdir()
    (database / "log" / "log1.dat").write_bytes(b"left over")
    found = info.gather(DerbyDatabase(with_its_log(disk)))
    assert found.start_problem is found.problem is None
    assert found.analysis is not None
    assert [one.number for one in found.analysis.losers] == [196]
    assert all(one.severity == "note" for one in verify.verify(DerbyDatabase(with_its_log(disk))).findings)
    with pytest.raises(UnsupportedError, match="another device"):
        recover(disk)


@pytest.mark.parametrize("name", BASES)
def test_files_that_nothing_names_are_notes(name: str) -> None:
    """Whatever they hold: garbage, nothing, the container of another table, a part of one."""
    files = dict(files_of(name))
    files |= {
        "seg0/c9991.dat": random.Random(1).randbytes(9000),
        "seg0/c9a01.dat": b"",
        "seg0/c9a10.dat": files["seg0/c490.dat"],
        "seg0/c9a21.dat": files["seg0/ca1.dat"],
        "seg0/c9a31.dat": files["seg0/ca1.dat"][:5000],
        "seg0/d9a41.dat": b"half",
        "seg0/c10.dat.bak": b"copy",
        "log/log1.dat.bak": b"copy",
        "log/README.txt": b"text",
        "BACKUP.HISTORY": b"text",
        "tmp/T1.tmp": b"text",
        "jar/a/b.jar.G1": b"PK",
    }
    storage = MemoryStorage(files)
    assert report(storage) == report(storage, findings.WARNING) == []
    assert report(storage, findings.NOTE).count("DRB-CONT-005") == 5
    assert info.gather(DerbyDatabase(storage)).start_problem is None
    recover(storage)


def test_a_container_in_use_is_not_a_left_over_one() -> None:
    """The same damage in a container that the catalogue names is damage."""
    files = dict(files_of("clean-shutdown"))
    for path in ("seg0/c490.dat", "seg0/ca1.dat"):
        assert report(MemoryStorage({**files, path: files[path][:5000]})) != []
        assert report(MemoryStorage({**files, path: random.Random(1).randbytes(9000)})) == ["DRB-CONT-001"]


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("left", [189, 3146, 4096])
def test_a_container_of_the_catalogue_needs_its_first_page(name: str, left: int) -> None:
    """Cut inside page 0, or with nothing but its header there: Derby opens the database and cannot read the table."""
    files = dict(files_of(name))
    data = files["seg0/c1c0.dat"]
    files["seg0/c1c0.dat"] = data[:left] if left < 4096 else data[:189] + bytes(4096 - 189)
    assert "DRB-PAGE-008" in report(MemoryStorage(files)) or "DRB-PAGE-001" in report(MemoryStorage(files))


def test_a_catalogue_that_cannot_be_read_is_not_recovered_in_silence() -> None:
    files = dict(files_of("clean-shutdown"))
    data = bytearray(files["seg0/c20.dat"])
    data[4096 + 500 : 4096 + 540] = bytes(40)
    storage = MemoryStorage({**files, "seg0/c20.dat": bytes(data)})
    assert report(storage) == ["DRB-PAGE-001"]
    with pytest.raises(RefusedError, match="catalogue cannot be read"):
        recover(storage)
    lost = recover(storage, RecoveryOptions(accept_loss=True)).analysis.presence.lost
    assert [one.loss for one in lost] == ["unreadable"]


@pytest.mark.parametrize("archived", [False, True])
def test_old_log_files_are_not_needed(*, archived: bool) -> None:
    """In front of the undo low water mark; where log files are archived, a roll-forward would miss them."""
    files = dict(files_of("crash-five-transactions"))
    data = bytearray(files["log/log1.dat"])
    data[20000:20004] = b"\xff" * 4
    files["log/log1.dat"] = bytes(data)
    if archived:
        files[PROPERTIES] = b"derby.storage.logArchiveMode=true\n" + files[PROPERTIES]
    storage = MemoryStorage(files)
    assert report(storage) == []
    assert "DRB-LOG-006" in report(storage, findings.WARNING if archived else findings.NOTE)
    recover(storage)
