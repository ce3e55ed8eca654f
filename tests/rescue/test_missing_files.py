"""``missing``: exactly what cannot be read without the files that are gone."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.entry.ln import LN
from engine.format.lsn import NULL_LSN
from engine.rescue.missing_files import CLEANED, CUT, MISSING, MissingReport, find_missing
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from tests.rescue.test_salvage import write
from tests.rescue.test_truncation import damage
from tests.support import corpus
from tests.support.environments.copies import state_of
from tests.support.environments.models import Modelled
from tests.support.environments.oracle import named
from tests.support.environments.records import records_of
from tests.support.environments.workload import State
from tests.support.harness import assert_valid, run
from tests.support.logs.decoded import record_of


def unreadable(storage: Storage, state: State) -> set[tuple[str, Any]]:
    """Records that cannot be read, one by one."""
    found = set()
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        for name, records in state.items():
            with env.open_database(name) as db:
                for key in records:
                    try:
                        assert (db.has(*key) if db.duplicates else db.get(key)) is not None
                    except JetoolError:
                        found.add((name, key))
    return found


def named_in(report: MissingReport, state: State) -> set[tuple[str, Any]]:
    """Records of the model that a report names, by key or by range."""
    found: set[tuple[str, Any]] = {(one.db, one.key) for one in report.keys}
    for tree in report.subtrees:
        for key in state.get(tree.db, {}):
            bare = key if isinstance(key, bytes) else key[0]
            # With duplicates a bound is a key with an item: compared by the key, as far as that tells.
            if (tree.low is None or bare >= tree.low) and (tree.high is None or bare < tree.high):
                found.add((tree.db, key))
    return found


@pytest.mark.parametrize("seed", [51, 52, 53])
def test_deleted_files(seed: int, tmp_path: Path) -> None:
    made = Modelled(seed, 260)
    state = made.marks[-1][1]
    source = random.Random(seed)
    names = sorted(made.files)
    walked = lost = 0
    for at in range(14):
        gone = set(source.sample(names[:-1], source.choice((1, 1, 2))))
        env = write({name: data for name, data in made.files.items() if name not in gone}, tmp_path / f"e{at}")
        report = find_missing(DiskStorage(env), str(env))
        if report.problem:
            # What is only damaged has no part in this: something needs each of these files.
            assert any(file.in_recovery or file.records or file.nodes for file in report.files) or names[0] in gone
            continue
        walked += 1
        plain: State = {name: records for name, records in state.items() if name != "dups"}
        expected = unreadable(DiskStorage(env), plain)
        assert {one for one in named_in(report, plain) if one[0] in plain} == expected
        lost += len(expected)
        for file in report.files:
            assert file.state == (MISSING if file.nodes or file.records else CLEANED)
    assert walked > 3
    assert lost > 0


def test_older_versions_are_found(tmp_path: Path) -> None:
    made = Modelled(54, 260)
    found = 0
    for at, gone in enumerate(sorted(made.files)[1:-1]):
        env = write({name: data for name, data in made.files.items() if name != gone}, tmp_path / f"e{at}")
        report = find_missing(DiskStorage(env), str(env))
        for key in report.keys:
            if key.older != NULL_LSN and not report.problem:
                with Environment(str(env), EnvironmentConfig(read_only=True)) as opened:
                    older = record_of(opened.engine.access.read(key.older), LN)
                assert older.key == key.key
                found += 1
    assert found > 0


def test_a_cut_file(tmp_path: Path) -> None:
    made = Modelled(55, 200)
    names = sorted(made.files)
    cut = names[2]
    env = write({**made.files, cut: made.files[cut][:2000]}, tmp_path / "env")
    report = find_missing(DiskStorage(env), str(env))
    assert {file.number: file.state for file in report.files}[int(cut[:8], 16)] == CUT
    whole = write(made.files, tmp_path / "whole")
    assert find_missing(DiskStorage(whole), str(whole)).files == ()


HEALTHY = [
    *(named(f"je-18.3.20/{name}").path for name in ("cleaned", "cleaned-closed", "txn-crash", "ttl", "schema-crash")),
    named("je-18.3.20/ha-group/node1").path,
    *sorted(path.parent for path in (corpus.path() / "je-healthy").glob("*/manifest.json")),
]


@pytest.mark.parametrize("case", HEALTHY, ids=lambda path: path.name)
def test_healthy_environments_miss_nothing(case: Path) -> None:
    env = case / "env"
    report = find_missing(DiskStorage(env), str(env))
    assert not report.problem
    assert {file.state for file in report.files} <= {CLEANED}
    assert not report.keys
    assert not report.subtrees


def test_mutations(tmp_path: Path) -> None:
    source = random.Random(15)
    made = Modelled(56)
    codes = set()
    for number in range(80):
        files = {name: bytearray(data) for name, data in made.files.items()}
        damage(source, files)
        env = write({name: bytes(data) for name, data in files.items()}, tmp_path / f"m{number}")
        codes.add(run("missing", env, "-q", "--output", tmp_path / "out").code)
    assert codes <= {0, 1, 5, 7}
    assert {0, 1} <= codes


def test_the_command(tmp_path: Path) -> None:
    env = corpus.copy(named("je-18.3.20/missing-file").path / "env", tmp_path / "env")
    before = state_of(env)
    done = run("missing", env, "--format", "ndjson")
    assert done.code == 1
    assert_valid("missing", done.out, "ndjson")
    lines = done.lines()
    assert (lines[0]["rec"], lines[0]["file"], lines[0]["state"]) == ("file", "00000004.jdb", "missing")
    assert lines[0]["in_recovery"] is True
    assert lines[-1]["missing"] == 1
    assert run("missing", env).code == 1
    done = run("missing", env, "--repair", "--to", tmp_path / "copy", "--format", "ndjson")
    assert done.code == 6
    assert state_of(env) == before
    assert done.lines()[-1]["next"] == f"jetool verify {tmp_path / 'copy'}/env --full"
    shown = run("missing", env, "--repair", "--to", tmp_path / "other", "-n", "--format", "ndjson")
    assert shown.code == 6
    assert not (tmp_path / "other").exists()
    summary = {**shown.lines()[-1], "dry_run": False}
    assert summary == json.loads(json.dumps(done.lines()[-1]).replace(str(tmp_path / "copy"), str(tmp_path / "other")))
    assert records_of(tmp_path / "copy" / "env")
    assert run("verify", tmp_path / "copy" / "env", "--full").code == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("corrupt-middle", "3 committed transactions after damage at 0x5/0x80e are not seen"),
        ("corrupt-older-file", "the log is damaged before its last file"),
        ("restore-required", "it holds a restore marker"),
    ],
)
def test_a_log_that_is_not_read_whole(name: str, words: str) -> None:
    env = named(f"je-18.3.20/{name}").path / "env"
    done = run("missing", env, "--format", "ndjson")
    assert done.code == 1
    assert words in done.err
    summary = done.lines()[-1]
    assert words in summary["problem"]
    assert summary["next"] == f"jetool salvage {env} --out DIR"


@pytest.mark.parametrize("name", ["torn-flip-last", "torn-cut-mid", "torn-garbage-tail", "torn-cut-commit"])
def test_a_torn_tail_holds_nothing_committed(name: str) -> None:
    done = run("missing", named(f"je-18.3.20/{name}").path / "env", "--format", "ndjson")
    assert (done.code, done.lines()[-1]["problem"], done.err) == (0, None, "")


def test_a_copy_without_records(tmp_path: Path) -> None:
    """Nothing is left that an environment could be made of: no command names one."""
    with Environment(tmp_path / "env", EnvironmentConfig(create=True)):
        pass
    done = run("missing", tmp_path / "env", "--repair", "--to", tmp_path / "copy", "--format", "ndjson")
    summary = done.lines()[-1]
    assert summary["copy"] is None
    assert summary["next"].startswith("restore the files from a backup")
    assert not (tmp_path / "copy" / "env").exists()


def test_usage(tmp_path: Path) -> None:
    env = corpus.copy(named("je-18.3.20/txn-closed").path / "env", tmp_path / "env")
    assert run("missing", env).code == 0
    assert run("missing", env, "--repair").code == 2
    assert run("missing", env, "-n").code == 2
    assert run("missing", env, "--to", tmp_path / "x").code == 2
    assert run("missing", env, "--repair", "--to", env).code == 3
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert "is a symbolic link" in run("missing", env, "--repair", "--to", tmp_path / "link").err
    assert run("missing", tmp_path / "nowhere").code == 4
