"""``verify --stdin``: a log file through a pipe, as somebody else copies it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.harness import assert_valid, environment, run

GOLDEN = Path(__file__).parent.parent / "golden" / "je-17"
SOUND = GOLDEN / "txn-crash" / "00000000.jdb"
DAMAGED = GOLDEN / "corrupt-middle" / "00000005.jdb"


def piped(data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "-m", "jetool", "verify", *options]
    return subprocess.run(words, input=data, env=environment(), capture_output=True, check=False)


def test_a_sound_file() -> None:
    done = piped(SOUND.read_bytes(), "--stdin", "/backup/00000000.jdb", "--json")
    assert_valid("verify", done.stdout)
    assert done.returncode == 0, done.stderr
    assert b'"verdict":"no damage seen"' in done.stdout
    assert b'"scope":"the bytes of /backup/00000000.jdb"' in done.stdout
    assert b'"entries":1221' in done.stdout


SPOILED = {
    "JE-LOG-001": DAMAGED.read_bytes(),
    "JE-LOG-002": SOUND.read_bytes() + b"\0" * 30,
    "JE-LOG-004": SOUND.read_bytes()[:-1],
    "JE-LOG-006": b"x" * 100,
    "JE-LOG-008": b"",
}


@pytest.mark.parametrize("code", SPOILED)
def test_a_damaged_file(code: str) -> None:
    done = piped(SPOILED[code], "--stdin", "somewhere", "--format", "ndjson")
    assert (done.returncode, code.encode() in done.stdout) == (1, True), done.stderr
    assert b'"verdict":"damaged"' in done.stdout
    assert b"what follows the damage" in done.stdout


def test_the_name_says_the_number() -> None:
    assert b"JE-LOG-007" in piped(SOUND.read_bytes(), "--stdin", "0000000a.jdb").stdout
    assert piped(SOUND.read_bytes(), "--stdin", "any").returncode == 0


def test_bytes_pass_through(tmp_path: Path) -> None:
    done = piped(SOUND.read_bytes(), "--stdin", "00000000.jdb", "--pass-through")
    assert (done.returncode, done.stdout == SOUND.read_bytes()) == (0, True)
    assert b"no error in 1221 entries" in done.stderr
    done = piped(DAMAGED.read_bytes(), "--stdin", "00000005.jdb", "--pass-through")
    # The good bytes before the damage at 0x80e, and an exit code that says that the copy is not whole.
    assert (done.returncode, done.stdout == DAMAGED.read_bytes()[:0x80E]) == (7, True)
    assert b"0x5/0x80e" in done.stderr
    copy = tmp_path / "copy"
    assert piped(DAMAGED.read_bytes(), "--stdin", "x", "--pass-through", "--output", str(copy)).returncode == 7
    assert not copy.exists()
    assert piped(SOUND.read_bytes(), "--stdin", "x", "--pass-through", "--output", str(copy)).returncode == 0
    assert copy.read_bytes() == SOUND.read_bytes()


def test_what_does_not_go_together() -> None:
    for options in (
        (str(GOLDEN / "txn-crash"), "--stdin", "x"),
        ("--stdin", "x", "--full"),
        ("--stdin", "x", "--files", "0x0"),
        ("--stdin", "x", "--rate", "1MB"),
        ("--stdin", "x", "--pass-through", "--json"),
    ):
        assert piped(b"", *options).returncode == 2, options
    assert run("verify", GOLDEN / "txn-crash", "--pass-through").code == 2
