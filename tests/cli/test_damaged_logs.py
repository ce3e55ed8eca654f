"""Results that rest on a damaged log say so; what JE reads unchecked is refused, with ways on; any place will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.format.entry_types import CKPT_END, COMMIT, TRACE
from engine.format.header import CHECKSUM_BYTES, TYPE_AT, entry_checksum
from engine.format.lsn import offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.harness import run

CORRUPT = "je-18.3.20/corrupt-middle"
WHOLE = "je-18.3.20/torn-base"
NOT_SEEN = "3 committed transactions after damage at 0x5/0x80e are not seen"


def entries_of(env: Path, number: int) -> list[LogEntry]:
    storage = DiskStorage(str(env))
    file = list_log_files(storage).find(number)
    assert file is not None
    with FileReader(storage, file, is_last=False) as reader:
        return [item for item in reader.entries() if isinstance(item, LogEntry)]


def without_checkpoints(env: Path) -> Path:
    """Make every CkptEnd a Trace, with a checksum that is right."""
    for path in sorted(env.glob("*.jdb")):
        data = bytearray(path.read_bytes())
        for entry in entries_of(env, int(path.stem, 16)):
            start = offset_of(entry.lsn)
            if entry.type_number == CKPT_END:
                data[start + TYPE_AT] = TRACE
                checksum = entry_checksum(bytes(data[start : start + entry.total_bytes]), entry.version)
                data[start : start + CHECKSUM_BYTES] = checksum.to_bytes(CHECKSUM_BYTES, "little")
        path.chmod(0o644)
        path.write_bytes(data)
    return env


def change_commit(env: Path) -> str:
    """Change the last byte of a Commit of file 1; returns its LSN."""
    commits = [entry for entry in entries_of(env, 1) if entry.type_number == COMMIT]
    entry = commits[len(commits) // 2]
    path = env / "00000001.jdb"
    data = bytearray(path.read_bytes())
    data[offset_of(entry.lsn) + entry.total_bytes - 1] ^= 1
    path.write_bytes(data)
    return f"0x1/0x{offset_of(entry.lsn):x}"


def test_damage_that_je_reads_unchecked_is_refused_with_ways_on(tmp_path: Path) -> None:
    """D-16: JE 18.3.20 opens this log, and has all records: what changed is the time of a Commit."""
    env = without_checkpoints(copy_of(named(WHOLE), tmp_path / "env"))
    whole = run("dump", env, "--db", "accounts").out
    lsn = change_commit(env)
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    (env / "je.lck").unlink(missing_ok=True)
    for words in (("recover", env), ("recover", env, "-n")):
        error = run(*words, "--json").error()
        assert (error["exit_code"], error["lsn"], error["changed_entries"]) == (3, lsn, 1)
        assert f"jetool recover {env} --accept-loss" in error["hint"]
    assert run("put", env, "k", "v", "--db", "accounts").code == 3
    assert not (env / "je.lck").exists()
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before
    assert not (tmp_path / "env.jetool-backup").exists()
    codes = {finding["code"] for finding in run("verify", env, "--tree", "--json").json()["findings"]}
    assert codes == {"JE-TREE-020"}
    # Readers go on, as JE does, and say what they rest on.
    read = run("dump", env, "--db", "accounts", "--format", "ndjson")
    assert (read.code, read.lines()[-1]["complete"]) == (1, False)
    assert lsn in read.lines()[-1]["reason"]
    for option in ("--je-default", "--accept-loss"):
        done = run("recover", env, option)
        assert done.code == 6
        assert lsn in done.err
        assert run("dump", env, "--db", "accounts").out == whole
        assert run("recover", env).code == 0
        assert run("undo", env).code == 0
        assert run("recover", env).code == 3
    assert run("salvage", env, "--to", tmp_path / "saved", "--as", "je").code in (0, 1, 6)


@pytest.mark.parametrize("name", ["je-18.3.20/torn-base", "je-18.3.20/backup-mark", "je-18.3.20/erased"])
def test_a_file_that_lost_its_end_can_be_salvaged(name: str, tmp_path: Path) -> None:
    """JE 18.3.20 refuses all three (R-LOG-44); in the last one the CkptStart went with the end of the file."""
    env = copy_of(named(name), tmp_path / "env")
    files = list_log_files(DiskStorage(str(env))).files
    last = entries_of(env, files[-2].number)[-1]
    path = env / files[-2].path
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[: offset_of(last.lsn)])
    error = run("recover", env, "-n", "--json").error()
    assert error["exit_code"] == 7
    assert error["what"] == "a log file has lost entries at its end"
    assert f"jetool salvage {env} --out NEW" in error["hint"]
    assert run("info", env).code in (0, 1)
    assert run("salvage", env, "--to", tmp_path / "saved", "--as", "je").code in (0, 1, 6)


def test_ends_of_streams_say_that_commits_were_not_seen() -> None:
    env = named(CORRUPT).path / "env"
    for words in (("scan", "--limit", "1"), ("scan",), ("dump",)):
        result = run(words[0], env, "--db", "accounts", *words[1:], "--format", "ndjson")
        assert result.code == 1
        assert (result.lines()[-1]["complete"], result.lines()[-1]["reason"]) == (False, NOT_SEEN)
    limited = run("scan", named(WHOLE).path / "env", "--db", "accounts", "--limit", "1", "--format", "ndjson").lines()
    assert limited[-1]["reason"] == "--limit left some out"


def test_a_key_that_may_lie_after_damage_is_not_simply_missing() -> None:
    env = named(CORRUPT).path / "env"
    # Its only version stands after the damage, in a transaction that committed.
    error = run("get", env, "0x000004b1", "--db", "accounts", "--json").error()
    assert (error["exit_code"], error["found"]) == (7, NOT_SEEN)
    command = error["hint"].split(" shows")[0].split()[1:]
    assert "0x5/0xb3a" in run(*command).out.decode()
    assert run("get", named(WHOLE).path / "env", "0x00ffffff", "--db", "accounts").code == 4


def test_dump_log_begins_at_any_place() -> None:
    """The place that verify names, and every byte of the entries around it."""
    env = named(CORRUPT).path / "env"
    assert "0x5/0x80e" in run("verify", env).out.decode()
    starts = [offset_of(entry.lsn) for entry in entries_of(env, 5)]
    for offset in (*range(0x7F0, 0x870), starts[-1] + 1):
        result = run("dump-log", env, "--from", f"0x5/0x{offset:x}", "--limit", "1", "--format", "ndjson")
        wanted = next((start for start in starts if start >= offset), None)
        lsns = [line["lsn"] for line in result.lines()[:-1]]
        bad = ["0x5/0x80e"] if offset <= 0x80E < (wanted or 0) else []
        assert lsns == [*bad, *([] if wanted is None else [f"0x5/0x{wanted:x}"])], hex(offset)
        named_elsewhere = offset not in (*starts, 0x80E)
        assert ("no entry begins at the LSN of --from" in result.err) == named_elsewhere, hex(offset)


def test_dump_log_ends_at_any_place() -> None:
    env = named(CORRUPT).path / "env"
    result = run("dump-log", env, "--to", "0x5/0x850", "--reverse", "--limit", "1", "--format", "ndjson")
    assert [line["lsn"] for line in result.lines()[:-1]] == ["0x5/0x846"]
    assert "no entry begins at the LSN of --to" in result.err
