"""Large dumps become log files; what comes of a dump is what comes of it record by record."""

from __future__ import annotations

import io
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import needs

needs("Spark")

from engine.errors import DamageError
from engine.pipeline.load import bulk
from jetool.commands.load import dump_reader
from jetool.commands.load.dump_reader import LARGE_RECORDS, DumpReader
from jetool.frame import exits
from tests.support import harness
from tests.support.children import child
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S, eventually

HEADER = "VERSION=3\nformat={}\ntype=btree\ndupsort={}\nHEADER=END\n"
# Fields that say how the records were written, not which.
WAYS = ("transactions", "files", "bytes")


def pairs(count: int, keys: int, seed: int = 1) -> list[tuple[bytes, bytes]]:
    rng = random.Random(seed)
    return [(b"%07d" % rng.randrange(keys), rng.randbytes(rng.choice((0, 3, 40)))) for _ in range(count)]


def lines_of(records: list[tuple[bytes, bytes]]) -> str:
    return "".join(f" {key.hex()}\n {value.hex()}\n" for key, value in records)


SORTED = sorted(dict(pairs(300, 1 << 20)).items())
BYTES = HEADER.format("bytevalue", 0)
PRINTED = "".join(f" k\\5c{number}\n a\\\\b\\00{number}\n" for number in range(300))
DUMPS = {
    "sorted": f"{BYTES}{lines_of(SORTED)}DATA=END\n",
    "unsorted": f"{BYTES}{lines_of(pairs(300, 1 << 20))}DATA=END\n",
    "equal keys": f"{BYTES}{lines_of(pairs(300, 40))}DATA=END\n",
    "printable": f"{HEADER.format('print', 0)}{PRINTED}DATA=END\n",
    "from Windows": f"{BYTES}{lines_of(SORTED)}DATA=END\n".replace("\n", "\r\n"),
    "duplicates": f"{HEADER.format('bytevalue', 1)}{lines_of(pairs(300, 40))}DATA=END\n",
    "cut between records": f"{BYTES}{lines_of(SORTED)}",
    "cut in a record": f"{BYTES}{lines_of(SORTED)} 61\n",
    "a bad line": f"{BYTES}{lines_of(SORTED[:255])} 6\n 61\n{lines_of(SORTED[255:])}DATA=END\n",
    "the first line bad": f"{BYTES} 6\n{lines_of(SORTED)}DATA=END\n",
    "nothing": f"{BYTES}DATA=END\n",
}


def loaded(home: Path, dump: Path, *words: str, files: bool) -> tuple[int, str, dict[str, Any], bytes, int]:
    """Load; code, error, summary, the records afterwards, the exit code of verify."""
    done = run("load", home, dump, "--db", "d", "--create", "--batch", "20", "--json", *words)
    summary = done.json() if done.out else {}
    ways = {name: summary.pop(name) for name in WAYS if name in summary}
    if done.out and "-n" not in words:
        assert (bool(ways["files"]), ways["transactions"] == 0) == (files, files)
    records = run("dump", home, "--db", "d").out if run("get", home, "--db", "d", "0").code != 4 else b"no database"
    return done.code, done.err.replace(str(home), "ENV"), summary, records, run("verify", home, "--full").code


@pytest.mark.parametrize("more", [(), ("--no-overwrite",), ("-n",), ("-n", "--no-overwrite")], ids=" ".join)
@pytest.mark.parametrize("name", DUMPS)
def test_files_and_puts_come_to_the_same(
    name: str, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dump").write_text(DUMPS[name])
    found = []
    for large in (1 << 30, 10):
        monkeypatch.setattr(dump_reader, "LARGE_RECORDS", large)
        home = tmp_path / f"env{large}"
        run("create", home)
        files = large == 10 and name not in ("nothing", "duplicates")
        found.append(loaded(home, tmp_path / "dump", *more, files=files))
        assert list(home.glob(".jetool-load*")) == []
    assert found[0] == found[1]


@pytest.mark.parametrize("published", [False, True])
def test_an_interruption_leaves_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """It says how to see which."""
    write_files = bulk.write_files

    def interrupted(*args: Any) -> None:
        if published:
            write_files(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(dump_reader, "LARGE_RECORDS", 10)
    monkeypatch.setattr(bulk, "write_files", interrupted)
    (tmp_path / "dump").write_text(DUMPS["sorted"])
    home = tmp_path / "env"
    run("create", home, "--db", "d")
    done = run("load", home, tmp_path / "dump", "--db", "d")
    assert done.code == exits.INTERRUPTED
    assert f"either all records were loaded or none; jetool dbs {home} --count says which" in done.err
    (database,) = run("dbs", home, "--count", "--json").json()["records"]
    assert database["records"] == (len(SORTED) if published else 0)
    assert list(home.glob(".jetool-load*")) == []


def test_a_database_with_records_is_put_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_reader, "LARGE_RECORDS", 10)
    (tmp_path / "dump").write_text(DUMPS["sorted"])
    home = tmp_path / "env"
    run("create", home, "--db", "d")
    assert run("put", home, f"0x{SORTED[0][0].hex()}", "old", "--db", "d").code == 0
    done = run("load", home, tmp_path / "dump", "--db", "d", "--json").json()
    assert (done["records"], done["transactions"], done["files"]) == (len(SORTED), 1, 0)
    assert lines_of(SORTED).encode() in run("dump", home, "--db", "d").out


def read_out(text: bytes, *, plain: bool, in_blocks: bool = True) -> tuple[list[tuple[bytes, bytes]], str | None, int]:
    """Records, the error at the end, lines."""
    found: list[tuple[bytes, bytes]] = []
    try:
        reader = DumpReader(io.BytesIO(text), "dump", plain=plain, in_blocks=in_blocks)
        for record in reader.records():
            found.append(record)
    except DamageError as error:
        return found, str(error), 0
    return found, None, reader.line


def test_blocks_are_read_as_line_by_line() -> None:
    """Mutated dumps of all forms, in blocks and line by line."""
    rng = random.Random(4)
    differing = 0
    for turn in range(400):
        text = bytearray(DUMPS[rng.choice(list(DUMPS))].encode()[: rng.choice((300, 4000, 1 << 20))])
        for _ in range(rng.choice((0, 0, 1, 3))):
            at = rng.randrange(len(BYTES), len(text))
            text[at : at + rng.randrange(2)] = rng.choice((b"\n", b"\\", b" ", b"x", b"\r\n", b"\nDATA=END\n", b"61"))
        plain = turn % 4 == 0
        expected = read_out(bytes(text), plain=plain, in_blocks=False)
        differing += expected[1] is not None
        assert read_out(bytes(text), plain=plain) == expected
    assert 50 < differing < 350


def test_the_end_of_a_dump_in_a_pipe_is_not_waited_past() -> None:
    """Who writes the dump may keep the pipe open."""
    words = ["-c", "import sys; from jetool.commands.load.dump_reader import DumpReader as R\n"
             "print(len(list(R(sys.stdin.buffer, 'pipe', plain=False).records())), flush=True)"]  # fmt: skip
    environ = harness.environment()
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(DUMPS["sorted"].encode())
        reader.stdin.flush()
        assert reader.stdout.readline() == b"%d\n" % len(SORTED)


def test_an_interrupt_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    home = tmp_path / "env"
    run("create", home, "--db", "kept")
    before = {path.name: path.read_bytes() for path in home.glob("*.jdb")}
    words = [sys.executable, "-m", "jetool", "load", str(home), "--db", "d", "--create"]
    with child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        # A dump whose end does not come.
        process.stdin.write(BYTES.encode())
        for number in range(LARGE_RECORDS + 10_000):
            process.stdin.write(b" %08x\n 61\n" % number)
        process.stdin.flush()
        eventually((home / ".jetool-load").exists)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT
    assert b"either all records were loaded or none" in err
    assert {path.name: path.read_bytes()[: len(before[path.name])] for path in home.glob("*.jdb")} == before
    assert not (home / ".jetool-load").exists()
    assert [row["name"] for row in run("dbs", home, "--format", "ndjson").lines() if row.get("name")] == ["kept"]
