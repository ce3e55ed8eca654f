"""Recovery for writing of every environment that real JE left behind: same records, again after closing, nothing lost.

A log is continued in its own version, an older one in 17 (``engine.format.versions.continued_in``).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError
from engine.storage.memory import MemoryStorage
from tests.recovery.test_real_environments import FIXTURES, MANIFESTS, digest

CASES = MANIFESTS


def copy_of(env: Path) -> MemoryStorage:
    files = {str(path.relative_to(env)): path.read_bytes() for path in env.rglob("*") if path.is_file()}
    storage = MemoryStorage(files)
    for path in env.iterdir():
        if path.is_dir():
            storage.make_directory(path.name)
    return storage


def digests(env: Environment) -> dict[str, tuple[int, str]]:
    found = {}
    for name in env.database_names():
        state = env.engine.catalog.by_name(name)
        assert state is not None
        found[name] = digest(env.engine.ctx, state, env.engine.now_ms())
    return found


@pytest.mark.parametrize("manifest", CASES, ids=lambda path: str(path.parent.relative_to(FIXTURES)))
def test_recovered_closed_and_opened_again(manifest: Path) -> None:
    said = json.loads(manifest.read_text())
    storage = copy_of(manifest.parent / "env")
    config = EnvironmentConfig(halt_on_commit_after_bad=False)
    if said["onOpen"]["forWriting"] != "ok":
        before = {path: data for path, data in storage.contents().items() if path != "je.lck"}
        with pytest.raises(JetoolError):
            Environment(storage, config)
        assert {path: data for path, data in storage.contents().items() if path != "je.lck"} == before
        return
    expected = {db["name"]: (db["records"], db["sha256"]) for db in said["databases"]}
    env = Environment(storage, config)
    open_txns = bool(env.engine.recovery.resurrected)
    if not (env.replicated and open_txns):
        assert digests(env) == expected
    env.close()
    with Environment(storage, EnvironmentConfig(read_only=True)) as again:
        assert again.engine.recovery.last_entry_is_ckpt_end
        assert digests(again) == expected
    with Environment(storage, config):
        pass
    with Environment(storage, EnvironmentConfig(read_only=True)) as again:
        assert digests(again) == expected


@pytest.mark.parametrize("release", ["je-7.5.11", "je-18.3.20", "je-3.3.98"])
def test_commits_behind_a_bad_entry_are_counted(release: str) -> None:
    """D-5: the interlock names the place and the number of commits; without it JE's own result comes out."""
    case = FIXTURES / release / "corrupt-middle"
    base = copy_of(FIXTURES / release / "torn-base" / "env")
    storage = copy_of(case / "env")
    with Environment(storage, EnvironmentConfig(read_only=True)) as damaged:
        tail = damaged.engine.tail
    assert tail is not None
    assert tail.damage is not None
    from engine.format.entry_types import COMMIT
    from engine.log.entry import LogEntry
    from engine.log.files import list_log_files
    from engine.log.reader import FileReader

    last = list_log_files(base).files[-1]
    with FileReader(base, last, is_last=True) as reader:
        commits = [e.lsn for e in reader.entries() if isinstance(e, LogEntry) and e.type_number == COMMIT]
    expected = sum(1 for lsn in commits if lsn > tail.damage.lsn)
    assert tail.commits_at_risk == expected > 0
    before = storage.contents()
    with pytest.raises(RefusedError, match=f"{expected} committed transactions"):
        Environment(storage)
    after = storage.contents()
    after.pop("je.lck")
    assert after == before


def test_vlsn_ranges_equal_those_of_je() -> None:
    """R-VLSN-75, E-REC-3: after recovery the index has the range that JE's has."""
    checked = 0
    for manifest in CASES:
        file = manifest.parent / "expected" / "vlsn-index.json"
        if not file.exists() or json.loads(manifest.read_text())["onOpen"]["forWriting"] != "ok":
            continue
        said = json.loads(file.read_text())["range"]
        with Environment(copy_of(manifest.parent / "env")) as env:
            assert env.engine.vlsn_index is not None
            assert tuple(env.engine.stream_range) == (
                said["first"],
                said["last"],
                said["lastSync"],
                said["lastTxnEnd"],
            )
        checked += 1
    if MANIFESTS:
        assert checked >= 30
