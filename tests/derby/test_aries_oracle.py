"""Real Derby as the judge: it opens what was recovered here, finds the same rows, and its own check passes.

Needs Derby 10.14 and a JDK, see ``derby_java``.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import gather
from engine.derby.format import instant
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.verify.check import verify
from engine.derby.verify.findings import NOTE
from engine.errors import DamageError, RefusedError, UnsupportedError
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import FIXTURES, NAMES, cut_of, damaged_of, json_of, storage_of
from tests.support.derby_java import PROPERTIES, SWITCH_BYTES, java, keep_log, put, same_log
from tests.support.tools import DERBY_JAR as JAR
from tests.support.waiting import eventually

Look = Callable[[list[Path]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def look(classes: Path) -> Look:
    def run(directories: list[Path]) -> list[dict[str, Any]]:
        lines = "".join(f"{path}\n" for path in directories)
        done = java(classes, "DerbyOracle", text=lines, properties=PROPERTIES)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def contents(found: dict[str, Any]) -> dict[str, Any]:
    """What Derby sees, in the form of contents-after-recovery.json."""
    assert found["error"] is None, found
    tables = {name: sorted(rows, key=json.dumps) for name, rows in found["tables"].items()}
    return {"check": found["check"], "in_doubt": found["in_doubt"], "tables": tables}


def digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(contents(found), sort_keys=True).encode()).hexdigest()


def test_derby_finds_its_own_contents_in_every_recovered_fixture(look: Look, tmp_path: Path) -> None:
    """Contents and consistency check of every fixture and every cut, as after Derby's own recovery."""
    expected = []
    for name in NAMES:
        images = [(storage_of(name), json_of(name, "manifest.json")["contents"]["sha256"])]
        if (FIXTURES / name / "cuts.json").exists():
            cuts = json_of(name, "cuts.json")["cuts"]
            images += [(cut_of(name, cut), cut["expected"]["contents_sha256"]) for cut in cuts]
        for number, (storage, wanted) in enumerate(images):
            recover(storage)
            expected.append((put(storage, tmp_path / f"{name}-{number}"), wanted))
    assert len(expected) == 63
    found = look([path for path, _ in expected])
    for one, (path, wanted) in zip(found, expected, strict=True):
        assert digest(one) == wanted, path


def test_derby_finds_its_own_contents_after_damage(look: Look, tmp_path: Path) -> None:
    name = "crash-five-transactions"
    base = json_of(name, "manifest.json")["contents"]["sha256"]
    expected = []
    for number, case in enumerate(json_of(name, "damage.json")["cases"]):
        if case["damage"] == "control files of a newer release":
            # 10.14 opens no database of 10.15.
            continue
        storage = damaged_of(name, case)
        try:
            recover(storage, RecoveryOptions(accept_loss=True))
        except (DamageError, UnsupportedError):
            continue
        wanted = case["expected"].get("contents_sha256", base)
        expected.append((put(storage, tmp_path / str(number)), wanted))
    assert len(expected) == 26
    for one, (path, wanted) in zip(look([path for path, _ in expected]), expected, strict=True):
        assert digest(one) == wanted, path
        assert set(one["check"].values()) == {1}


def test_accepted_loss_leaves_what_derby_leaves(look: Look, tmp_path: Path) -> None:
    """Damage in the second of four log files: Derby drops the rest without a word; given up here, the same is left."""
    files = storage_of("crash-log-files").contents()
    log = bytearray(files["log/log2.dat"])
    log[60_000:60_004] = b"\xff\xff\xff\xff"
    image = {**files, "log/log2.dat": bytes(log)}
    image["service.properties"] += b"derby.storage.keepTransactionLog=true\n"
    derbys = put(MemoryStorage(image), tmp_path / "derby")
    storage = MemoryStorage(image)
    result = recover(storage, RecoveryOptions(accept_loss=True, switch_bytes=SWITCH_BYTES))
    ours = put(storage, tmp_path / "ours")
    mine, theirs = look([ours, derbys])
    assert contents(mine) == contents(theirs)
    assert same_log(ours, derbys, result)
    assert set(mine["check"].values()) == {1}


def crashed(classes: Path, directory: Path, seed: int) -> None:
    """A database that a halted JVM left behind."""
    draw = random.Random(seed)
    properties = [
        f"-Dderby.storage.pageCacheSize={draw.choice([40, 1000])}",
        f"-Dderby.storage.logSwitchInterval={draw.choice([SWITCH_BYTES, 1_048_576])}",
        f"-Dderby.storage.checkpointInterval={draw.choice([100_000, 10_485_760])}",
        f"-Dderby.storage.pageSize={draw.choice([4096, 4096, 8192, 32768])}",
    ]
    properties += ["-Dderby.locks.waitTimeout=1", "-Dderby.locks.deadlockTimeout=1"]
    statements = draw.choice([50, 300, 800])
    done = java(classes, "DerbyWorkload", str(directory), str(seed), str(statements), properties=tuple(properties))
    assert done.returncode == 9, done.stderr
    keep_log(directory)


class Outcome(NamedTuple):
    """A crashed database that was recovered here, and a copy of it that Derby recovered.

    Attributes:
        ours: what Derby finds in ours: rows, in-doubt transactions, verdict of its consistency check.
        derbys: what it finds in the copy.
        same_log: whether the undo part has the same bytes in both.
        severities: those of what ``verify`` finds in ours.
        clean: whether ours has nothing left to recover.
        switched: whether undo went on in another log file.
    """

    seed: int
    ours: dict[str, Any]
    derbys: dict[str, Any]
    same_log: bool
    severities: set[str]
    clean: bool
    switched: bool


def recovered_by_both(classes: Path, look: Look, directory: Path, seeds: Sequence[int]) -> Iterator[Outcome]:
    """Recover crashed databases here, and a copy of each in Derby; ten at a time, for one JVM looks at them all."""
    for part in (seeds[at : at + 10] for at in range(0, len(seeds), 10)):
        places = [(directory / f"ours-{seed}", directory / f"derby-{seed}") for seed in part]
        results = []
        for seed, (ours, derbys) in zip(part, places, strict=True):
            crashed(classes, ours, seed)
            shutil.copytree(ours, derbys)
            results.append(recover(DiskStorage(ours), RecoveryOptions(switch_bytes=SWITCH_BYTES)))
        severities = [{one.severity for one in verify(DerbyDatabase(DiskStorage(ours))).findings} for ours, _ in places]
        analyses = [gather(DerbyDatabase(DiskStorage(ours))).analysis for ours, _ in places]
        found = [contents(one) for one in look([path for pair in places for path in pair])]
        for at, (pair, result) in enumerate(zip(places, results, strict=True)):
            mine, theirs = found[2 * at : 2 * at + 2]
            analysis = analyses[at]
            clean = analysis is not None and analysis.clean
            switched = instant.file_of(result.undo_from) != instant.file_of(result.undo_to)
            yield Outcome(part[at], mine, theirs, same_log(*pair, result), severities[at], clean, switched)


@pytest.mark.parametrize(
    ("seeds", "least_switches"), [(range(3), 0), pytest.param(range(100, 150), 1, marks=pytest.mark.slow)]
)
def test_random_workloads_recover_as_derby_recovers_a_copy(
    classes: Path, look: Look, tmp_path: Path, seeds: range, least_switches: int
) -> None:
    """Three of them in CI, fifty in the long run: same rows, same log bytes, and neither checker finds fault."""
    switches = 0
    for seed, one in zip(seeds, recovered_by_both(classes, look, tmp_path, seeds), strict=True):
        assert one.seed == seed
        assert one.ours == one.derbys, seed
        assert one.same_log, seed
        assert one.ours["tables"], seed
        assert set(one.ours["check"].values()) == {1}, seed
        assert one.severities <= {NOTE}, seed
        assert one.clean, seed
        switches += one.switched
    assert switches >= least_switches


def test_a_database_that_a_jvm_has_open_is_refused(classes: Path, tmp_path: Path) -> None:
    """The lock of a running JVM is seen, its process is named, and readers go on."""
    directory = tmp_path / "open"
    words = ["DerbyWorkload", str(directory), "1", "1000000000"]
    command = ["java", f"-Dderby.stream.error.file={tmp_path}/derby.log", "-cp", f"{classes}:{JAR}", *words]
    process = subprocess.Popen(command)
    try:
        wait_for_log(directory)
        database = DerbyDatabase(DiskStorage(directory))
        assert database.lock_holder() == process.pid
        with pytest.raises(RefusedError, match="in use"):
            recover(DiskStorage(directory))
        assert gather(database, quick=True).lock_holder == process.pid
    finally:
        process.kill()
        process.wait()
    recover(DiskStorage(directory))
    assert DerbyDatabase(DiskStorage(directory)).lock_holder() is None


def wait_for_log(directory: Path) -> None:
    log = directory / "log" / "log1.dat"
    eventually(lambda: log.exists() and any(log.read_bytes()[60_000:60_400]))


def script(classes: Path, url: str, *lines: str, halt: bool = False) -> None:
    """Run SQL in real Derby; ``halt`` says that the script ends in the death of the process."""
    done = java(classes, "DerbyScript", url, text="".join(f"{line}\n" for line in lines))
    assert done.returncode == (9 if halt else 0), done.stderr


def test_a_table_undone_to_a_savepoint_before_the_last_checkpoint(classes: Path, look: Look, tmp_path: Path) -> None:
    """The open transaction has created a table that is gone, with its stub: undo skips it, and nothing is missing."""
    ours, derbys = tmp_path / "ours", tmp_path / "derby"
    script(
        classes,
        f"jdbc:derby:{ours};create=true",
        "CREATE TABLE K (ID INT NOT NULL PRIMARY KEY, A VARCHAR(30))",
        "!commit",
        "INSERT INTO K VALUES (1, 'open')",
        "SAVEPOINT BEFORE_T ON ROLLBACK RETAIN CURSORS",
        "CREATE TABLE T (X INT PRIMARY KEY NOT NULL, Y INT)",
        "INSERT INTO T VALUES (1, 1)",
        "ROLLBACK TO SAVEPOINT BEFORE_T",
        "INSERT INTO K VALUES (2, 'open')",
        "CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()",
        "CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()",
        "INSERT INTO K VALUES (3, 'open')",
        "CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()",
        "!halt",
        halt=True,
    )
    assert not list((ours / "seg0").glob("d*.dat"))
    shutil.copytree(ours, derbys)
    found = verify(DerbyDatabase(DiskStorage(ours))).findings
    assert {one.severity for one in found} <= {NOTE}, found
    result = recover(DiskStorage(ours))
    assert sum(one.clrs for one in result.undone) > 0
    after, theirs = look([ours, derbys])
    assert contents(after) == contents(theirs)
    assert after["tables"] == {"K": []}
    assert set(after["check"].values()) == {1}


def test_roll_forward_from_a_backup(classes: Path, look: Look, tmp_path: Path) -> None:
    """R-DRB-72, 73: backup with archiving, more work, crash; backup data and online log give everything back."""
    online, copies, rolled = tmp_path / "online", tmp_path / "copies", tmp_path / "rolled"
    backup = f"CALL SYSCS_UTIL.SYSCS_BACKUP_DATABASE_AND_ENABLE_LOG_ARCHIVE_MODE('{copies}', 0)"
    script(
        classes,
        f"jdbc:derby:{online};create=true",
        "CREATE TABLE K (ID INT NOT NULL PRIMARY KEY, A VARCHAR(900))",
        "!repeat 50 INSERT INTO K VALUES (?, 'before')",
        "!commit",
        backup,
        "!repeat 60 INSERT INTO K VALUES (? + 1000, REPEAT_ME)".replace("REPEAT_ME", "'" + "x" * 700 + "'"),
        "CREATE TABLE LATER (ID INT NOT NULL PRIMARY KEY)",
        "!repeat 20 INSERT INTO LATER VALUES (?)",
        "!commit",
        "CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()",
        "DELETE FROM K WHERE ID < 10",
        "!commit",
        "INSERT INTO K VALUES (5000, 'open')",
        "CALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()",
        "!halt",
        halt=True,
    )
    assert (online / "log" / "log2.dat").exists()
    shutil.copytree(copies / "online", rolled)
    for file in (online / "log").glob("log*.dat"):
        shutil.copy(file, rolled / "log" / file.name)
    result = recover(DiskStorage(rolled))
    assert any("archiving is on" in note for note in result.notes)
    assert result.checkpoint is not None
    assert result.checkpoint.log_files_removed == ()
    assert (rolled / "log" / "log1.dat").exists()
    recover(DiskStorage(online))
    after, before = look([rolled, online])
    assert contents(after) == contents(before)
    assert len(after["tables"]["K"]) == 100
    assert len(after["tables"]["LATER"]) == 20
    assert set(after["check"].values()) == {1}


@pytest.mark.slow
def test_second_allocation_page(classes: Path, look: Look, tmp_path: Path) -> None:
    """More pages than one allocation page of 4096 bytes manages, as they are and made again from the log."""
    ours, derbys, cut = tmp_path / "ours", tmp_path / "derby", tmp_path / "cut"
    row = "'" + "x" * 3300 + "'"
    done = java(
        classes,
        "DerbyScript",
        f"jdbc:derby:{ours};create=true",
        text=(
            "CREATE TABLE B (ID INT, C VARCHAR(3500))\n!commit\nCALL SYSCS_UTIL.SYSCS_CHECKPOINT_DATABASE()\n"
            f"!repeat 10300 INSERT INTO B VALUES (?, {row})\n!commit\n"
            f"!repeat 60 INSERT INTO B VALUES (? + 100000, {row})\n!halt\n"
        ),
        properties=(
            "-Dderby.storage.pageSize=4096",
            "-Dderby.system.durability=test",
            "-Dderby.storage.checkpointInterval=134217728",
        ),
    )
    assert done.returncode == 9, done.stderr
    shutil.copytree(ours, derbys)
    shutil.copytree(ours, cut)
    largest = max((cut / "seg0").iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(largest, 2 * 4096)
    for directory in (ours, cut):
        result = recover(DiskStorage(directory))
        assert [one.clrs for one in result.undone if one.clrs] != []
        codes = {one.code for one in verify(DerbyDatabase(DiskStorage(directory))).findings if one.severity != "note"}
        # The script ran without syncing, which the control file remembers.
        assert codes <= {"DRB-CTL-006"}
    found = [contents(one) for one in look([ours, cut, derbys])]
    assert found[0] == found[1] == found[2]
    assert len(found[0]["tables"]["B"]) == 10300
