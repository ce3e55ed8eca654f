"""Commands on environments of log versions 1 to 5: sound ones are green, damaged ones red, and the records are JE's.

Versions 4 and 5 are those of JE 3.1.0 and 3.2.68; versions 1 to 3 are the same logs in the older form.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.format.entry_types import TRACE
from engine.format.header import EntryHeader, encode_entry
from engine.format.vlsn import NULL_VLSN
from tests.support.environments.early import NAMES, said, unpack, unpack_as
from tests.support.harness import run

NAME = "je-3.2.68/dup-delta-crash"
FILE = "00000000.jdb"


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return unpack(NAME, tmp_path / "env")


def dumped(env: Path) -> str:
    """The records as ``records.txt`` has them."""
    lines = []
    for db in run("dbs", str(env), "--json").json()["records"]:
        lines.append(f"DB {db['name']} dups={str(db['duplicates']).lower()}")
        found = run("scan", str(env), "--db", db["name"], "--json").json()["records"]
        lines += [f"{one['key']} {one['data']}" for one in found]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_sound_environments_are_green(name: str, tmp_path: Path) -> None:
    env = str(unpack(name, tmp_path / "env"))
    for level, verdict in (("--quick", "no damage seen"), ("--full", "sound")):
        result = run("verify", env, level, "--json")
        assert (result.code, result.json()["summary"]["verdict"]) == (0, verdict), result.text
        assert {one["severity"] for one in result.json()["findings"]} <= {"note"}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_older_forms_are_green_and_show_the_same_records(version: int, tmp_path: Path) -> None:
    env = unpack_as(NAME, version, tmp_path / "env")
    result = run("verify", str(env), "--full", "--json")
    assert (result.code, result.json()["summary"]["verdict"]) == (0, "sound")
    assert dumped(env) == said(NAME, "records.txt")


@pytest.mark.parametrize("at", [0x1F20, 0x9000, 0x11E20])
def test_a_changed_byte_is_red(at: int, env: Path) -> None:
    path = env / FILE
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    for level in ("--quick", "--full"):
        result = run("verify", str(env), level, "--json")
        assert result.code == 1
        assert [one["severity"] for one in result.json()["findings"] if one["code"] == "JE-TAIL-002"] == ["error"]


@pytest.mark.parametrize("version", [1, 2, 3, 5])
def test_a_slot_that_leads_nowhere_is_red(version: int, tmp_path: Path) -> None:
    """A record's entry is gone from under its BIN: only the levels that follow references can see it."""
    env = unpack_as("je-3.1.0/names", version, tmp_path / "env")
    versions = run("history", str(env), "k11", "--db", "plain", "--json").json()["records"]
    lsn = [one["lsn"] for one in versions if one["fate"] == "committed"][-1]
    at = int(lsn.split("/")[1], 16)
    data = (env / FILE).read_bytes()
    size = int.from_bytes(data[at + 10 : at + 14], "little")
    body = bytes(8) + (size - 12).to_bytes(4, "little") + b"x" * (size - 12)
    header = EntryHeader(0, TRACE, 0, int.from_bytes(data[at + 6 : at + 10], "little"), 0, NULL_VLSN)
    made = encode_entry(header, body, version)
    (env / FILE).write_bytes(data[:at] + made + data[at + len(made) :])
    assert run("verify", str(env), "--quick").code == 0
    result = run("verify", str(env), "--full", "--json")
    assert result.code == 1
    assert [lsn in one["message"] for one in result.json()["findings"] if one["severity"] == "error"].count(True) >= 1


def test_info_names_version_and_release(env: Path, tmp_path: Path) -> None:
    found = run("info", str(env), "--json").json()
    assert [(one["version"], one["je_release"]) for one in found["log_versions"]] == [(5, "3.2")]
    assert (found["recovery"]["open_txns"], found["closed_cleanly"]) == ([100], False)
    found = run("info", str(unpack_as("je-3.1.0/names", 1, tmp_path / "one")), "--json").json()
    assert [(one["version"], one["je_release"]) for one in found["log_versions"]] == [(1, "1.5")]


def test_entries_have_their_own_versions(env: Path) -> None:
    entries = [one for one in run("dump-log", str(env), "--format", "ndjson").lines() if one["rec"] == "entry"]
    found = {(one["type"], one["version"]) for one in entries}
    assert found >= {("FileHeader", 5), ("BIN", 2), ("DBIN", 2), ("MapLN", 2), ("DbTree", 1), ("FileSummaryLN", 3)}
    assert {version for name, version in found if name in ("LN_TX", "Commit", "BINDelta", "CkptEnd")} == {0}
    text = run("dump-log", str(env)).text
    assert "BIN/2 " in text
    assert "LN_TX/0 " in text


def test_transactions_and_history(env: Path) -> None:
    fates = run("txns", str(env), "--json").json()
    assert {key: fates["summary"][key] for key in ("committed", "aborted", "open")} == {
        "committed": 76,
        "aborted": 24,
        "open": 1,
    }
    versions = run("history", str(env), "k5", "--db", "plain", "--json").json()["records"]
    assert [(one["txn"], one["fate"]) for one in versions] == [(36, "aborted"), (75, "committed"), (99, "aborted")]


@pytest.mark.parametrize("version", [1, 2, 3, 5])
def test_salvage_saves_every_record(version: int, tmp_path: Path) -> None:
    out = tmp_path / "saved"
    result = run("salvage", str(unpack_as(NAME, version, tmp_path / "env")), "--out", str(out), "--json")
    assert (result.code, result.json()["lost"]) == (0, 0)
    assert dumped(out) == said(NAME, "records.txt")
    assert run("verify", str(out), "--full").code == 0


def test_salvage_without_the_checkpoint(env: Path, tmp_path: Path) -> None:
    """The tree cannot be followed, so the records come from their own entries and from the nodes that are left."""
    path = env / FILE
    data = bytearray(path.read_bytes())
    end = int(run("info", str(env), "--json").json()["root_lsn"].split("/")[1], 16)
    data[end + 20] ^= 0xFF
    path.write_bytes(data)
    out = tmp_path / "saved"
    assert run("salvage", str(env), "--out", str(out)).code in (0, 6)
    assert dumped(out) == said(NAME, "records.txt")


def test_recovered_and_written_on(env: Path) -> None:
    before = run("recover", str(env), "-n", "--json").json()
    assert before["txns_undone"] == [99, 100]
    assert run("recover", str(env)).code == 0
    assert dumped(env) == said(NAME, "records.txt")
    assert run("put", str(env), "new", "value", "--db", "plain").code == 0
    assert run("clean", str(env)).code == 0
    assert run("verify", str(env), "--full").code == 0
    assert "DB plain dups=false" in dumped(env)
    assert "6e6577 76616c7565\n" in dumped(env)
    versions = run("info", str(env), "--json").json()["log_versions"]
    assert [one["version"] for one in versions] == [5, 17]


@pytest.mark.parametrize("command", ["recover", "clean", "checkpoint"])
def test_versions_1_and_2_are_only_read(command: str, tmp_path: Path) -> None:
    env = unpack_as("je-3.1.0/names", 2, tmp_path / "env")
    result = run(command, str(env))
    assert result.code == 5
    assert "a log of version 2 (JE 1.7) is read, but not written on" in result.err
    assert "jetool salvage saves its records in a new environment" in result.err
    assert run("recover", str(env), "-n").code == 5
    page = run("doctor", str(env), "--je", "18.3.20")
    assert page.text.startswith("can start: no: the log has version 2; JE 18.3.20 reads the tree nodes of version 3")
    assert f"jetool salvage {env} --out {env}.saved" in page.text


def test_cleaned(tmp_path: Path) -> None:
    """What the files of version 5 still hold is moved into files of version 17."""
    env = str(unpack("je-3.2.68/clean", tmp_path / "env"))
    # The last two files are never cleaned, so a third is begun first.
    assert run("put", env, "new", "value", "--db", "plain").code == 0
    result = run("clean", env, "--target", "90", "--yes", "--json")
    assert (result.code, result.json()["files_deleted"]) == (0, 1)
    assert run("verify", env, "--full").code == 0
    assert dumped(Path(env)) == said("je-3.2.68/clean", "records.txt") + "6e6577 76616c7565\n"
    versions = [(one["first_file"], one["version"]) for one in run("info", env, "--json").json()["log_versions"]]
    assert versions == [("00000003.jdb", 5), ("00000004.jdb", 17)]


def test_backup_and_restore_keep_the_version(env: Path, tmp_path: Path) -> None:
    """The file that forces the next writer to begin another one is of version 5 too, so JE 3.2 opens the result."""
    repository, restored = tmp_path / "repository", tmp_path / "restored"
    assert run("backup", "take", str(env), str(repository)).code == 0
    assert run("restore", str(repository), str(restored)).code == 0
    assert dumped(restored) == said(NAME, "records.txt")
    assert [one["version"] for one in run("info", str(restored), "--json").json()["log_versions"]] == [5]
    last = [one for one in run("dump-log", str(restored), "--format", "ndjson").lines() if one.get("rec") == "entry"][
        -1
    ]
    assert (last["lsn"], last["type"], last["version"]) == ("0x1/0x26", "Trace", 0)
    assert last["message"].startswith("restored from backup")
