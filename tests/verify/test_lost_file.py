"""A last file that is gone: what its absence leaves to be seen (JE-TAIL-009)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.damage import is_full
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.verify.log import verify_log
from engine.verify.report import WARNING
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.harness import run

# Environments of JE with several full files.
FIXTURES = ("je-18.3.20/cleaned", "je-18.3.20/cleaned-closed", "je-18.3.20/corrupt-middle")


def files_of(name: str) -> dict[str, bytes]:
    env = named(name).path / "env"
    return {path.name: path.read_bytes() for path in sorted(env.glob("*.jdb"))}


def found(files: dict[str, bytes]) -> list[tuple[str, str]]:
    storage = MemoryStorage(files)
    report = verify_log(storage, list_log_files(storage))
    # A kill between two files leaves the same, so this is no verdict: exit 0, and with --strict too.
    assert report.count(WARNING) == 0
    return [(f.code, f.file) for f in report.findings if f.code == "JE-TAIL-009"]


@pytest.mark.parametrize("name", FIXTURES)
def test_verify_says_that_a_last_file_may_be_lost(name: str) -> None:
    files = files_of(name)
    assert found(files) == []
    names = sorted(files)
    lost = {path: files[path] for path in names[:-1]}
    assert found(lost) == [("JE-TAIL-009", names[-2])]
    # JE had begun the next file, so it is there, if empty: no more than that was written.
    assert found({**lost, names[-1]: b""}) == []
    assert found({**lost, names[-2]: files[names[-2]][:-600]}) == []


@pytest.mark.parametrize(
    ("size", "earlier", "full"),
    [
        (19_990, [20_000, 19_950], True),
        (19_600, [20_000, 19_950], False),
        (19_990, [20_000, 15_000], False),
        (19_990, [20_000], False),
        (19_990, [], False),
        (20_100, [20_000, 19_999, 300], True),
        (22_000, [20_000, 19_999, 300], False),
        (990, [1_000, 999], False),
    ],
)
def test_a_file_is_full_when_others_ended_there(size: int, earlier: list[int], full: bool) -> None:
    assert is_full(size, earlier) is full


def test_recover_warns_before_the_trace_is_gone(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/cleaned"), tmp_path / "env")
    assert "a file after it may be lost" not in run("recover", env, "-n").err
    (env / "0000000b.jdb").unlink()
    for words in (("-n",), ()):
        done = run("recover", env, *words)
        assert done.code == 0
        assert "0000000a.jdb" in done.err
        assert "a file after it may be lost, with what was committed in it" in done.err
    assert "a file after it may be lost" not in run("recover", env).err
