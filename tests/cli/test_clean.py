"""``jetool clean``: what it chooses, what it says beforehand, and what it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cleaner.offline import CleanedFile, OfflineCleaner
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.disk import DiskStorage
from engine.txn.txn import Durability
from tests.support import corpus
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

CLEANABLE = (
    "je-18.3.20/cleaned", "je-18.3.20/erased", "je-18.3.20/subdirs", "je-18.3.20/torn-base", "je-18.3.20/upgraded",
    "je-18.3.20/vlsn-range", "je-25.3.17/cleaned", "je-3.3.98/torn-base", "je-7.3.8/cleaned", "je-7.5.11/torn-base",
)  # fmt: skip


def make(home: Path, updates: int = 6000, keys: int = 300) -> Path:
    """An environment of small files, most of which hold nothing that is needed."""
    config = EnvironmentConfig(create=True, file_max_bytes=60_000, checkpoint_bytes=200_000, max_embedded_bytes=0)
    with Environment(home, config) as env, env.create_database("d") as db:
        for first in range(0, updates, 100):
            with env.begin(durability=Durability.NO_SYNC) as txn:
                for number in range(first, first + 100):
                    db.put(b"%06d" % (number * 7919 % keys), b"%050d" % number, txn)
    return home


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("clean") / "env")


@pytest.fixture
def env(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "env"))


def clean(env: Path, *options: str) -> Any:
    done = run("clean", env, *options, "--json")
    assert done.code == 0, done.err
    assert_valid("clean", done.out)
    return done.json()


def log_bytes(env: Path) -> int:
    return sum(path.stat().st_size for path in env.rglob("*.jdb"))


def files(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.iterdir() if path.name != "je.lck"}


def errors(env: Path) -> list[str]:
    found = run("verify", env, "--full", "--json").json()["findings"]
    return [one["message"] for one in found if one["severity"] != "note"]


def test_it_frees_what_it_said(env: Path) -> None:
    before, dump = files(env), run("dump", env, "--db", "d").out
    planned = clean(env, "-n")
    assert files(env) == before
    done = clean(env, "--backup-dir", "none")
    # The prediction is within five per cent of the run.
    assert abs(planned["freed_bytes"] - done["freed_bytes"]) < 0.05 * done["freed_bytes"]
    assert [one["file"] for one in planned["cleaned"]] == [one["file"] for one in done["cleaned"]]
    assert done["freed_bytes"] > 0.5 * done["bytes_before"]
    assert abs(log_bytes(env) - done["bytes_after"]) < 0.1 * done["bytes_after"]
    # The newest files are left alone, so it does not get to fifty.
    assert done["utilization_after"] > 3 * done["utilization_before"]
    assert done["backup"] is None
    assert run("dump", env, "--db", "d").out == dump
    assert errors(env) == []


def test_once_more_there_is_nothing_left(env: Path) -> None:
    clean(env, "--backup-dir", "none")
    again = clean(env, "--backup-dir", "none")
    assert (again["files_cleaned"], again["ended"]) == (0, "nothing more is worth it")
    assert {one["state"] for one in again["kept"]} == {"live"}
    assert all(one["reason"] for one in again["kept"])


def test_undo_brings_the_files_back(env: Path, tmp_path: Path) -> None:
    before = files(env)
    done = clean(env, "--backup-dir", str(tmp_path / "saved"))
    assert done["files_deleted"] > 3
    assert files(env) != before
    assert run("undo", env, "--backup-dir", tmp_path / "saved").code == 0
    assert files(env) == before


def test_max_files(env: Path) -> None:
    done = clean(env, "--max-files", "2", "--backup-dir", "none")
    assert (done["files_cleaned"], done["ended"]) == (2, "the goal is reached")


def test_free(env: Path) -> None:
    done = clean(env, "--free", "100KiB", "--backup-dir", "none")
    assert done["ended"] == "the goal is reached"
    assert 60_000 < done["freed_bytes"] < 300_000


def test_target(env: Path) -> None:
    by_target = [clean(env, "-n", "--target", target) for target in ("1", "10%", "90%")]
    assert [one["utilization_after"] for one in by_target] == sorted(one["utilization_after"] for one in by_target)
    assert by_target[0]["files_cleaned"] < by_target[2]["files_cleaned"]


@pytest.mark.parametrize("words", [("--target", "95%"), ("--target", "x"), ("--free", "much"), ("--max-files", "0")])
def test_wrong_words(env: Path, words: tuple[str, str]) -> None:
    before = files(env)
    assert run("clean", env, *words).code == 2
    assert files(env) == before


def test_damage_is_left_alone_and_named(env: Path) -> None:
    victim = env / "00000001.jdb"
    data = bytearray(victim.read_bytes())
    data[3000:3010] = bytes(10)
    victim.write_bytes(data)
    done = run("clean", env, "--backup-dir", "none", "--json")
    assert done.code == 1
    assert "00000001.jdb was left alone" in done.err
    assert victim.exists()
    assert done.json()["files_deleted"] > 3


def test_a_reader_keeps_the_files(env: Path) -> None:
    """R-LOG-28: a JVM that reads holds byte 1."""
    storage = DiskStorage(env)
    reader = storage.lock("je.lck", 1, exclusive=False)
    try:
        done = clean(env, "--backup-dir", "none")
    finally:
        reader.release()
    assert done["files_cleaned"] > 3
    assert done["files_deleted"] == 0
    assert any("another process reads" in one["reason"] for one in done["kept"] if one["state"] == "reserved")
    # They hold nothing any more; the next run deletes them.
    assert clean(env, "--backup-dir", "none")["files_deleted"] == done["files_cleaned"]


def test_no_room(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: 1000)
    before = run("dump", env, "--db", "d").out
    done = run("clean", env)
    assert done.code == 7
    assert "there is no room to clean the next file" in done.err
    assert "bytes free" in done.err
    monkeypatch.undo()
    assert run("dump", env, "--db", "d").out == before


def test_less_than_a_file_is_enough(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two megabytes are enough for any number of files, since each goes before the next needs the room."""
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: 1_300_000)
    planned = clean(env, "--backup-dir", "none", "-n")
    assert clean(env, "--backup-dir", "none")["files_deleted"] == planned["files_deleted"] > 3


def test_sigint_ends_after_the_file(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: Any, heard: Callable[[CleanedFile], None], **named: Any) -> OfflineCleaner:
        def then(found: CleanedFile) -> None:
            heard(found)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

        return OfflineCleaner(*words, heard=then, **named)

    monkeypatch.setattr("jetool.commands.clean.command.OfflineCleaner", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = run("clean", env, "--backup-dir", "none", "--json")
    assert result.code == 130
    assert (result.json()["files_cleaned"], result.json()["files_deleted"]) == (1, 1)
    assert signal.getsignal(signal.SIGINT) is before
    assert errors(env) == []


@pytest.mark.parametrize("name", CLEANABLE)
def test_environments_of_real_je(name: str, tmp_path: Path) -> None:
    env = copy_of(named(name), tmp_path / "env")
    listed = [row["name"] for row in run("dbs", env, "--format", "ndjson").lines() if "name" in row]
    before = {db: run("dump", env, "--db", db).out for db in listed}
    found = errors(env)
    done = clean(env, "--target", "90%", "--backup-dir", "none")
    assert done["files_cleaned"] > 0
    assert {db: run("dump", env, "--db", db).out for db in listed} == before
    assert [one for one in errors(env) if one not in found] == []


def test_the_corpus_is_there() -> None:
    assert all((corpus.path() / "je" / name).is_dir() for name in CLEANABLE)
