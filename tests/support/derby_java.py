"""Real Derby as a judge: its classes, how it is run, and the log bytes that its recovery and ours have to share.

Needs Derby 10.14 (Debian: libderby-java, or DERBY_JAR) and a JDK.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.derby.format import instant
from engine.derby.recovery.manager import DerbyRecoveryResult
from engine.storage.memory import MemoryStorage
from tests.support.tools import DERBY_JAR as JAR
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

HERE = Path(__file__).parent
SWITCH_BYTES = 100_000
PROPERTIES = (
    "-Dderby.locks.waitTimeout=1",
    f"-Dderby.storage.logSwitchInterval={SWITCH_BYTES}",
    "-Dderby.storage.keepTransactionLog=true",
)


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("Derby", "JDK")
    target = tmp_path_factory.mktemp("classes")
    sources = [
        str(HERE / f"{name}.java")
        for name in ("DerbyOracle", "DerbyRawStore", "DerbyScript", "DerbyTypes", "DerbyWorkload")
    ]
    subprocess.run(["javac", "-cp", str(JAR), "-d", str(target), *sources], check=True)
    return target


def java(
    classes: Path, *words: str, text: str = "", properties: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = ["java", *properties, f"-Dderby.stream.error.file={classes}/derby.log", "-cp", f"{classes}:{JAR}", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S)


def put(storage: MemoryStorage, target: Path) -> Path:
    for directory in ("log", "seg0"):
        (target / directory).mkdir(parents=True, exist_ok=True)
    for path, data in storage.contents().items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return target


def keep_log(directory: Path) -> None:
    """Our recovery removes no log file (Derby is told by PROPERTIES): what undo wrote into several is compared."""
    with (directory / "service.properties").open("a") as properties:
        properties.write("derby.storage.keepTransactionLog=true\n")


def same_log(ours: Path, derbys: Path, result: DerbyRecoveryResult) -> bool:
    """Whether the undo part has the same bytes in both logs, headers of files that it went on in included."""
    first, last = instant.file_of(result.undo_from), instant.file_of(result.undo_to)
    for number in range(first, last + 1):
        mine, theirs = ((directory / "log" / f"log{number}.dat").read_bytes() for directory in (ours, derbys))
        start = instant.position_of(result.undo_from) if number == first else 0
        # A file that was left is compared to its end: the end marker, and what was preallocated.
        end = instant.position_of(result.undo_to) if number == last else max(len(mine), len(theirs))
        if mine[start:end] != theirs[start:end]:
            return False
    return True
