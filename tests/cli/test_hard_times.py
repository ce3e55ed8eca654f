"""Full disks, files that vanish, signals: the right exit code, a message that helps, nothing lost (exit code table)."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jetool.frame import exits
from tests.support.children import child
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S, eventually

BATCH = 500


def write_dump(path: Path, records: int) -> Path:
    lines = ["VERSION=3", "format=bytevalue", "type=btree", "dupsort=0", "HEADER=END"]
    for number in range(records):
        lines += [f" {number:08x}", " " + "61" * 40]
    path.write_text("\n".join([*lines, "DATA=END", ""]))
    return path


def count_of(env: Path) -> int:
    rows = run("dbs", env, "--count", "--format", "ndjson").lines()
    return next(int(row["records"]) for row in rows if row.get("name") == "a")


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    assert run("create", path, "--db", "a", "--file-max", "1000000").code == 0
    return path


class SmallDisk:
    """A disk with room for so many bytes more."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.pwrite

    def pwrite(self, handle: int, data: bytes, offset: int) -> int:
        fits = min(len(data), self.room)
        if not fits and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= fits
        return self._write(handle, data[:fits], offset)


@pytest.mark.exhaustive
@pytest.mark.parametrize("room", [0, 100, 70_000, 1_000_000])
def test_a_full_disk_stops_a_load(env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    dump = write_dump(tmp_path / "a.dump", 20_000)
    disk = SmallDisk(room)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", disk.pwrite)
        result = run("load", env, dump, "--db", "a", "--batch", str(BATCH))
        again = run("put", env, "k", "v", "--db", "a", "--backup-dir", "none")
    assert (result.code, again.code) == (7, 7)
    assert "no space left on device" in result.err
    assert "make room" in result.err
    found = count_of(env)
    assert found % BATCH == 0
    assert run("recover", env).code == 0
    assert count_of(env) == found
    assert run("verify", env, "--full").code == 0
    assert run("load", env, dump, "--db", "a").code == 0
    assert count_of(env) == 20_000


def test_a_file_that_vanishes_is_named(env: Path, tmp_path: Path) -> None:
    """Not the last one: a log that ends earlier is a whole log."""
    dump = write_dump(tmp_path / "a.dump", 40_000)
    assert run("load", env, dump, "--db", "a").code == 0
    (env / "00000001.jdb").rename(tmp_path / "gone")
    for words in (("dump", env, "--db", "a"), ("verify", env, "--full"), ("scan", env, "--db", "a")):
        result = run(*words)
        assert result.code in (1, 7), words
        assert "00000001.jdb" in result.err + result.text, words
    (tmp_path / "gone").rename(env / "00000001.jdb")
    assert count_of(env) == 40_000
    shutil.rmtree(env)
    assert run("dbs", env).code == 4


def signalled(env: Path, dump: Path, number: signal.Signals, after: float) -> tuple[int, str]:
    words = [sys.executable, "-m", "jetool", "load", str(env), str(dump), "--db", "a", "--batch", str(BATCH)]
    with child(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        eventually(lambda: any(path.stat().st_size > 100_000 for path in env.glob("*.jdb")))
        time.sleep(after)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, err.decode()


@pytest.fixture(scope="module")
def large_dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dump(tmp_path_factory.mktemp("dump") / "large.dump", 400_000)


@pytest.mark.exhaustive
@pytest.mark.parametrize("after", [0.0, 0.2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_in_a_load(env: Path, large_dump: Path, number: signal.Signals, after: float) -> None:
    """SIGINT and SIGTERM end with a code and say what stays; after any whole batches are there, and work goes on."""
    # Into a database without records so many would go as files, all or none.
    assert run("put", env, "0xfffffffe", "v", "--db", "a").code == 0
    code, err = signalled(env, large_dump, number, after)
    if number is not signal.SIGKILL:
        assert code == 128 + number
        assert "loaded before the interruption, and kept: " in err
    else:
        assert code == -number
    found = count_of(env) - 1
    assert found % BATCH == 0
    if number is signal.SIGINT:
        assert f"loaded before the interruption, and kept: {found} record" in err
    assert run("recover", env).code == 0
    assert count_of(env) == found + 1
    assert run("put", env, "0xffffffff", "v", "--db", "a").code == 0
    assert count_of(env) == found + 2


def test_a_limit_of_the_size_of_files(env: Path) -> None:
    """``ulimit -f`` of a service: a clear message, nothing lost, and the way on."""
    assert run("put", env, "key", "value", "--db", "a").code == 0
    size = max(one.stat().st_size for one in env.glob("*.jdb"))
    limited = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
from jetool.frame import cli
sys.exit(cli.run(sys.argv[1:]))
"""
    words: list[str | Path] = [sys.executable, "-c", limited, "put", env, "key2", "value", "--db", "a"]
    with child(words, stderr=subprocess.PIPE, text=True) as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == exits.INCOMPLETE
    assert "file too large in" in err
    assert "what was committed before is there" in err
    assert "ulimit -f" in err
    assert run("put", env, "key2", "value", "--db", "a").code == 0
    assert count_of(env) == 2
