"""``clean --reserved`` deletes the files that DbDeleteReservedFiles of JE 18.3.20 lists; the VLSN index stays whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import corpus
from tests.support.environments.copies import state_of
from tests.support.harness import assert_valid, run

# As DbDeleteReservedFiles -s 1000 -l printed them.
LISTED = {
    "reserved-halted": [0x05, 0x06],
    "rep-one-halted": [
        *range(0x17, 0x1C),
        *range(0x1D, 0x23),
        *range(0x25, 0x2B),
        *range(0x2C, 0x2F),
    ],
    "stub-cleaned": [],
    "comparators-cleaned": [],
}
REPLICATED = "rep-one-halted"


def env_of(name: str, tmp_path: Path, *, properties: str = "") -> Path:
    env = corpus.copy(corpus.path() / "je-healthy" / name / "env", tmp_path / name)
    if properties:
        (env / "je.properties").write_text(properties)
    return env


def clean(env: Path, *options: str) -> Any:
    result = run("clean", env, "--reserved", *options, "--json")
    assert result.code == 0, result.err
    assert_valid("clean", result.out)
    return result.json()


def names(numbers: list[int]) -> list[str]:
    return [f"{number:08x}.jdb" for number in numbers]


@pytest.mark.parametrize("name", LISTED)
def test_the_files_are_those_that_je_lists(name: str, tmp_path: Path) -> None:
    env = env_of(name, tmp_path, properties="je.rep.minVLSNIndexSize=1\n" if name == REPLICATED else "")
    before, sizes = state_of(env), {path.name: path.stat().st_size for path in env.glob("*.jdb")}
    plan = clean(env, "-n")
    assert (plan["deleted"], plan["dry_run"]) == (names(LISTED[name]), True)
    assert state_of(env) == before
    done = clean(env)
    assert done["deleted"] == plan["deleted"]
    assert done["freed_bytes"] == plan["freed_bytes"] == sum(sizes[file] for file in done["deleted"])
    assert not {path.name for path in env.glob("*.jdb")} & set(done["deleted"])
    assert run("verify", env, "--full", "--json").json()["summary"]["errors"] == 0
    if name == REPLICATED:
        assert run("vlsn", "check", env).code == 0
    # An environment that was closed with nothing reserved is not changed at all.
    assert run("undo", env).code == (0 if done["backup"] else 4)
    assert {path.name: path.stat().st_size for path in env.glob("*.jdb")} == sizes


def test_whole_files_go_until_enough_is_free(tmp_path: Path) -> None:
    env = env_of(REPLICATED, tmp_path, properties="je.rep.minVLSNIndexSize=1\n")
    plan = clean(env, "--free", "16000", "-n")
    assert (plan["deleted"], plan["ended"]) == (names([0x17, 0x18]), "the goal is reached")
    assert clean(env, "--free", "1GiB", "-n")["ended"] == "no other reserved file may be deleted"
    done = clean(env, "--free", "15000", "--backup-dir", "none")
    assert (done["deleted"], done["backup"]) == (names([0x17]), None)
    assert clean(env, "-n")["deleted"] == names(LISTED[REPLICATED][1:])


def test_the_vlsn_index_keeps_its_files(tmp_path: Path) -> None:
    """By default it keeps at least 1,000 VLSNs, which are all that this log has. JE's tool deletes the files."""
    env = env_of(REPLICATED, tmp_path)
    plan = clean(env, "-n")
    reasons = {one["reason"] for one in plan["kept"] if one["state"] == "reserved"}
    assert (plan["deleted"], reasons) == ([], {"the VLSN index has to keep its VLSNs"})


def test_what_does_not_go_together(tmp_path: Path) -> None:
    env = env_of("stub-cleaned", tmp_path)
    for options in (("--target", "50%"), ("--max-files", "1")):
        assert run("clean", env, "--reserved", *options).code == 2
