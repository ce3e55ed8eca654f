"""Real Derby as the judge of service properties and left over files: where it starts and checks, nothing is an error.

Needs Derby 10.14 and a JDK, see ``derby_java``.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import gather
from engine.derby.recovery.manager import recover
from engine.derby.verify.check import verify
from engine.derby.verify.findings import ERROR, WARNING
from engine.errors import RefusedError
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from tests.derby.test_aries_properties import BROKEN, PROPERTIES, SOUND
from tests.support.derby_java import java

FIRST = """create table T (A int primary key, B varchar(200))
create table U (A int primary key, B varchar(200))
create index TI on T(B)
create index UI on U(B)
!repeat 300 insert into T values (?, 'row number ?')
!repeat 300 insert into U values (?, 'row number ?')
"""
THEN = """!repeat 90 insert into T values (-1 - ?, 'row number ?')
drop index TI
drop table U
create table W (A int primary key, B varchar(300))
!commit
call SYSCS_UTIL.SYSCS_COMPRESS_TABLE('APP', 'T', 0)
create index TI on T(B)
!commit
call SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()
!repeat 300 insert into W values (?, 'row number ?')
!commit
"""
KEPT = ("-Dderby.storage.logSwitchInterval=100000", "-Dderby.storage.keepTransactionLog=true")


def left_over(files: list[Path], stale: Path, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Bring back containers of dropped tables and indexes, changed."""

    def bring(database: Path) -> None:
        for file in files:
            (database / "seg0" / file.name).write_bytes(change((stale / file.name).read_bytes()))

    return bring


def old_log(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change the first log file, which recovery does not need."""

    def spoil(database: Path) -> None:
        file = database / "log" / "log1.dat"
        file.write_bytes(change(file.read_bytes()))

    return spoil


def properties(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change the service properties."""

    def spoil(database: Path) -> None:
        file = database / PROPERTIES
        file.write_bytes(change(file.read_bytes()))

    return spoil


def damaged(data: bytes) -> bytes:
    """With bytes of page 1 changed."""
    return data[:4196] + b"\xff" * 40 + data[4236:]


@pytest.mark.parametrize("halted", [False, True])
def test_verdicts_are_those_of_derby(classes: Path, tmp_path: Path, *, halted: bool) -> None:
    base, stale = tmp_path / "base", tmp_path / "stale"
    url = f"jdbc:derby:{base}"
    done = java(classes, "DerbyScript", f"{url};create=true", text=FIRST, properties=KEPT)
    assert done.returncode == 0, done.stderr
    shutil.copytree(base / "seg0", stale)
    done = java(classes, "DerbyScript", url, text=THEN + "!halt\n" * halted, properties=KEPT)
    assert done.returncode == 9 * halted, done.stderr
    gone = [file for file in sorted(stale.glob("c*.dat")) if not (base / "seg0" / file.name).exists()]
    # T and its indexes have new containers, and U is no more.
    assert len(gone) == 6
    cases: dict[str, Callable[[Path], None]] = {
        "as it is": lambda _: None,
        "left over": left_over(gone, stale, lambda data: data),
        "left over and damaged": left_over(gone, stale, damaged),
        "left over and cut": left_over(gone, stale, lambda data: data[:5000]),
        "left over and empty": left_over(gone, stale, lambda _: b""),
        "old log damaged": old_log(damaged),
        "old log garbage": old_log(lambda data: random.Random(3).randbytes(len(data))),
        "old log cut": old_log(lambda data: data[:40000]),
        "old log gone": lambda database: (database / "log" / "log1.dat").unlink(),
        "properties gone": lambda database: (database / PROPERTIES).unlink(),
        "catalogue damaged": left_over([stale / "c20.dat"], base / "seg0", damaged),
        "a table damaged": left_over([stale / "c60.dat"], base / "seg0", damaged),
        **{f"properties: {name}": properties(change) for name, change in {**BROKEN, **SOUND}.items()},
    }
    for number, spoil in enumerate(cases.values()):
        shutil.copytree(base, tmp_path / str(number))
        spoil(tmp_path / str(number))
    ours = {}
    for number, name in enumerate(cases):
        disk = DiskStorage(tmp_path / str(number))
        severities = {one.severity for one in verify(DerbyDatabase(disk)).findings}
        assert WARNING not in severities, name
        ours[name] = ERROR not in severities
        if ours[name]:
            assert gather(DerbyDatabase(disk)).start_problem is None, name
            recover(OverlayStorage(disk))
        elif name != "a table damaged":
            with pytest.raises(RefusedError):
                recover(disk)
    lines = "".join(f"{tmp_path / str(number)}\n" for number in range(len(cases)))
    found = java(classes, "DerbyOracle", text=lines).stdout.splitlines()
    theirs = {
        name: one["error"] is None and set(one["check"].values()) == {1}
        for name, one in zip(cases, map(json.loads, found), strict=True)
    }
    assert ours == theirs
    assert sum(theirs.values()) == 9 + len(SOUND)
