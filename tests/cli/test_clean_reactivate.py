"""``clean --reactivate``: reserved files that the trees need return to the live log, before a writer deletes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.db.environment import Environment
from engine.format.entry.internal_db import ReservedFile
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from tests.support import corpus
from tests.support.damage.spoiled_trees import CONFIG, sound
from tests.support.environments.copies import state_of
from tests.support.harness import assert_valid, run


def clean(env: Path, *options: str, code: int = 0) -> Any:
    result = run("clean", env, *options, "--json")
    assert result.code == code, result.err
    assert_valid("clean", result.out)
    return result.json()


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """A sound environment whose first file is reserved, although records lead into it."""
    storage = sound()
    with Environment(storage, CONFIG) as opened:
        cleaner = opened.engine.cleaner
        assert cleaner is not None
        cleaner.records.put_reserved(0, ReservedFile(0, -1, -1, ()))
        # As after cleaning: nothing counts what is in the file.
        opened.engine.utilization.leave(0)
        cleaner.records.remove_summaries(0)
    path = tmp_path / "env"
    path.mkdir()
    for name, data in storage.contents().items():
        (path / name).write_bytes(data)
    return path


def records(env: Path) -> dict[str, int]:
    with Environment(OverlayStorage(DiskStorage(env)), CONFIG) as opened:
        return {name: opened.open_database(name).count() for name in opened.database_names()}


def logs(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


def findings(env: Path) -> list[str]:
    return [one["code"] for one in run("verify", env, "--space", "--json").json()["findings"]]


def test_a_file_that_is_in_use_is_put_back(env: Path) -> None:
    first = "00000000.jdb"
    before, logs_before = state_of(env), logs(env)
    assert findings(env) == ["JE-SPACE-005"]
    plan = clean(env, "--reactivate", "-n")
    assert (plan["reactivated"], plan["deleted"], plan["dry_run"], state_of(env)) == ([first], [], True, before)
    done = clean(env, "--reactivate")
    assert (done["reactivated"], done["deleted"], done["files"]) == (
        [first],
        [],
        len(list_log_files(DiskStorage(env)).files),
    )
    assert logs_before.keys() <= logs(env).keys()
    assert findings(env) == []
    counted = records(env)
    # Any writer would have deleted the file, and now it stays until the cleaner has logged its records again.
    assert first in [one["file"] for one in clean(env, "--max-files", "1")["cleaned"]]
    assert not (env / first).exists()
    assert records(env) == counted
    assert run("verify", env, "--full").code == 0
    assert [run("undo", env).code, run("undo", env).code] == [0, 0]
    assert logs(env) == logs_before


@pytest.mark.parametrize("name", ["reserved-halted", "rep-one-halted"])
def test_files_that_are_not_needed_stay_reserved(name: str, tmp_path: Path) -> None:
    """As JE left them; nothing is written, and the files of a stand-alone environment are not deleted."""
    env = corpus.copy(corpus.path() / "je-healthy" / name / "env", tmp_path / name)
    before = state_of(env)
    done = clean(env, "--reactivate")
    assert (done["reactivated"], done["deleted"], done["ended"]) == ([], [], "no reserved file is in use")
    assert any(one["state"] == "reserved" for one in done["kept"])
    assert state_of(env) == before


def test_what_does_not_go_together(env: Path) -> None:
    for options in (("--reserved",), ("--target", "50%"), ("--free", "1MiB"), ("--max-files", "1")):
        assert run("clean", env, "--reactivate", *options).code == 2
