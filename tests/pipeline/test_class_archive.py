"""The archive of Spark's classes: written by the second session, read by all later ones, and never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.pipeline.class_archive import ClassArchive, archive_for
from engine.pipeline.java import Runtime, find
from engine.pipeline.settings import JAVA_OPTIONS
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S


def runtime(home: Path) -> Runtime:
    server = home / "lib" / "server"
    server.mkdir(parents=True)
    (server / "classes.jsa").touch()
    return Runtime(home, (17,), True, "PATH")


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Runtime, dict[str, str]]:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return runtime(tmp_path / "java"), {"HOME": str(tmp_path), "SPARK_HOME": str(tmp_path / "spark")}


def flags_of(
    machine: tuple[Runtime, dict[str, str]], conf: Mapping[str, str] | None = None, *, quick: bool = True
) -> str:
    return archive_for(machine[0], conf or {}, quick=quick, environment=machine[1]).flags


def written(archive: ClassArchive) -> Path:
    return Path(archive.flags.partition("ArchiveClassesAtExit=")[2])


def test_the_second_session_writes_it_and_the_third_reads_it(machine: tuple[Runtime, dict[str, str]]) -> None:
    assert flags_of(machine) == ""
    second = archive_for(machine[0], {}, quick=True, environment=machine[1])
    assert second.is_written
    # Another one that begins meanwhile writes none.
    assert flags_of(machine) == ""
    written(second).write_bytes(b"classes")
    second.keep()
    third = archive_for(machine[0], {}, quick=True, environment=machine[1])
    assert not third.is_written
    kept = Path(third.flags.partition("SharedArchiveFile=")[2])
    assert kept.read_bytes() == b"classes"
    assert kept.parent == Path(machine[1]["HOME"]) / ".cache" / "jetool"
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    # Sessions with data frames have classes of their own, and so has another class path.
    assert flags_of(machine, quick=False) == flags_of(machine, {"spark.driver.extraClassPath": "/more.jar"}) == ""


def test_a_session_that_fails_leaves_it_to_the_next(machine: tuple[Runtime, dict[str, str]]) -> None:
    flags_of(machine)
    failing = archive_for(machine[0], {}, quick=True, environment=machine[1])
    written(failing).write_bytes(b"half")
    failing.drop()
    again = archive_for(machine[0], {}, quick=True, environment=machine[1])
    assert again.is_written
    assert not written(failing).exists()
    # A JVM that cannot write one is not asked again.
    again.keep()
    assert flags_of(machine) == ""


@pytest.mark.parametrize("case", ["flags", "no base", "empty", "relative", "others may write", "no directory"])
def test_without_a_place_or_with_flags_of_the_users_there_is_none(
    machine: tuple[Runtime, dict[str, str]], tmp_path: Path, case: str
) -> None:
    conf = {}
    if case == "flags":
        conf[JAVA_OPTIONS] = "-Xshare:off"
    elif case == "no base":
        shutil.rmtree(machine[0].home / "lib")
    elif case == "empty":
        machine[1]["JETOOL_CACHE"] = ""
    elif case == "relative":
        machine[1]["XDG_CACHE_HOME"] = "cache"
    elif case == "others may write":
        machine[1]["JETOOL_CACHE"] = str(tmp_path / "open")
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
    else:
        (tmp_path / "file").touch()
        machine[1]["JETOOL_CACHE"] = str(tmp_path / "file")
    before = sorted(tmp_path.rglob("*"))
    assert [flags_of(machine, conf) for _ in range(3)] == ["", "", ""]
    assert sorted(tmp_path.rglob("*")) == before


def test_only_the_last_used_archives_stay(machine: tuple[Runtime, dict[str, str]]) -> None:
    flags_of(machine)
    cache = Path(machine[1]["HOME"]) / ".cache" / "jetool"
    for age in range(6):
        old = cache / f"spark-jobs-{age}.jsa"
        old.touch()
        os.utime(old, (1000 - age, 1000 - age))
    stale = cache / "spark-jobs-x.99.tmp"
    stale.touch()
    os.utime(stale, (1000, 1000))
    flags_of(machine)
    assert sorted(path.name for path in cache.glob("*-[0-9x].*")) == [f"spark-jobs-{age}.jsa" for age in range(4)]


def test_the_jvm_understands_the_flags(tmp_path: Path) -> None:
    needs("Java")
    found = find()
    (tmp_path / "jars").mkdir()
    environment = {"JETOOL_CACHE": str(tmp_path / "a cache"), "SPARK_HOME": str(tmp_path)}
    told = []
    for _ in range(3):
        archive = archive_for(found, {}, quick=True, environment=environment)
        java = f"{found.home}/bin/java {archive.flags} -version"
        done = subprocess.run(["sh", "-c", java], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        told.append((archive.is_written, bool(archive.flags), done.stdout))
        archive.keep()
    # Where the JVM came with no archive of its own there are no flags.
    has_base = (found.home / "lib" / "server" / "classes.jsa").exists()
    assert told == [(False, False, ""), (has_base, has_base, ""), (False, has_base, "")]
