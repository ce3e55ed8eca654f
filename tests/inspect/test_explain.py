"""Why recovery applies or ignores each entry: the words agree with what recovery does to real environments."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.entry.ln import LN
from engine.inspect import explain as x
from engine.inspect.explain import ACTIONS, Explainer
from engine.inspect.fates import COMMITTED, Fate, read_fates
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from jetool.frame import exits
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.harness import assert_valid, run

Rows = list[tuple[LogEntry, x.EntryExplanation]]


def explained(env: Path) -> Rows:
    storage = DiskStorage(env)
    files = list_log_files(storage)
    explainer = Explainer(storage, files)
    log = scan_log(storage, files)
    return [(item, explainer.explain(item)) for item in log.entries() if isinstance(item, LogEntry)]


def of(name: str) -> Rows:
    return explained(named(f"je-18.3.20/{name}").path / "env")


def whole() -> list[Any]:
    """Environments of JE 18 that JE opens."""
    found: list[Any] = environments()
    return [p for p in found if _opens(p.values[0])]


def _opens(fixture: Fixture) -> bool:
    path = fixture.path / "expected" / "recovery.json"
    return fixture.name.startswith("je-18") and path.exists() and "exception" not in json.loads(path.read_text())


@pytest.mark.parametrize("environment", whole())
def test_every_entry_has_a_reason_that_the_log_bears_out(environment: Fixture) -> None:
    env = environment.path / "env"
    storage = DiskStorage(env)
    try:
        rows = explained(env)
    except JetoolError:
        # A comparator of the application, a restore marker: recovery says so, and there is nothing to explain.
        assert run("dump-log", env, "--explain").code in (exits.REFUSED, exits.UNSUPPORTED, exits.INCOMPLETE)
        return
    fates = read_fates(storage, list_log_files(storage))
    for entry, (action, why) in rows:
        assert action in ACTIONS
        assert why
        record: object = entry.record()
        if not isinstance(record, LN):
            assert action not in (x.REDO, x.UNDO, x.ROLL_BACK, x.RESURRECT)
            continue
        committed = record.txn_id is None or _is_committed(fates.txns[record.txn_id])
        if action == x.REDO:
            assert committed
        if action == x.UNDO:
            assert not committed
        if action == x.IN_FRONT:
            assert committed
        assert not (entry.invisible and action in (x.REDO, x.UNDO, x.RESURRECT))


@pytest.mark.parametrize("environment", whole())
def test_what_becomes_invisible_is_what_recovery_marks(environment: Fixture) -> None:
    """``roll back`` of an entry that is visible: exactly those that opening for writing marks, JE's list too."""
    storage = DiskStorage(environment.path / "env")
    try:
        rows = explained(environment.path / "env")
    except JetoolError:
        return
    marked = {entry.lsn for entry, (action, _) in rows if action == x.ROLL_BACK and not entry.invisible}
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        assert marked == set(env.engine.recovery.rolled_back)


def _is_committed(fate: Fate) -> bool:
    return fate.fate == COMMITTED and not fate.after_end


def actions(rows: Rows, *types: str) -> Counter[str]:
    return Counter(action for entry, (action, _) in rows if not types or entry.type_name in types)


def test_nodes_before_ckpt_end() -> None:
    """R-REC-24: counted once the CkptEnd that should follow is missing, and not when it is there."""
    crashed = of("ckpt-crash-mid")
    late = [e for e, _ in crashed if e.provisional.value == "before_ckpt_end"]
    reasons = {explanation.action for entry, explanation in crashed if entry in late}
    assert reasons & {x.REPLAY, x.PROVISIONAL_NODE}
    for entry, explanation in of("multi-ckpt"):
        if entry.provisional.value == "yes":
            assert explanation.action in (x.PROVISIONAL_NODE, x.IN_FRONT, x.UNREAD)


def test_open_prepared_and_rolled_back_transactions() -> None:
    assert actions(of("xa-prepared"))[x.RESURRECT] > 0
    assert actions(of("txn-crash"))[x.UNDO] > 0
    assert actions(of("rollback-open-ended"))[x.ROLL_BACK] == 5
    assert actions(of("ha-rollback/node1"))[x.INVISIBLE] + actions(of("ha-rollback/node1"))[x.ROLL_BACK] == 10


def test_what_stands_behind_the_end() -> None:
    rows = of("corrupt-middle")
    assert actions(rows, "Commit")[x.BEHIND] == 3
    assert all(action != x.BEHIND for _, (action, _) in of("torn-base"))


def test_a_removed_database() -> None:
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True))
    with env.create_database("t") as db:
        env.checkpoint(force=True)
        db.put(b"k", b"1")
    env.remove_database("t")
    env.sync()
    env.engine.crash()
    assert explained_here(storage, b"k")[0].action == x.GONE


def test_what_was_written_here() -> None:
    """The example of the docstring."""
    storage = MemoryStorage()
    with Environment(storage, EnvironmentConfig(create=True)) as env:
        env.create_database("t").close()
    env = Environment(storage, EnvironmentConfig())
    with env.open_database("t") as db:
        db.put(b"k", b"1")
        txn = env.begin()
        db.put(b"l", b"2", txn=txn)
        env.sync()
        env.engine.crash()
    lns = explained_here(storage, b"k", b"l")
    assert [one.action for one in lns] == [x.REDO, x.UNDO]
    assert "has no end in the log: the record goes" in lns[1].why


def explained_here(storage: MemoryStorage, *keys: bytes) -> list[x.EntryExplanation]:
    """The records of some keys, in log order."""
    files = list_log_files(storage)
    explainer = Explainer(storage, files)
    log = list(scan_log(storage, files, marker=True).good_entries())
    records = [(entry, entry.record()) for entry in log if entry.type_name == "INS_LN_TX"]
    return [explainer.explain(entry) for entry, record in records if isinstance(record, LN) and record.key in keys]


def test_the_command() -> None:
    env = named("je-18.3.20/txn-crash").path / "env"
    result = run("dump-log", env, "--from", "ckpt", "--explain", "--format", "ndjson")
    assert_valid("dump-log", result.out, "ndjson")
    lines = result.lines()[:-1]
    assert all(line["recovery"] in ACTIONS and line["why"] for line in lines)
    assert "recovery" not in run("dump-log", env, "--from", "ckpt", "--limit", "1", "--format", "ndjson").lines()[0]
    text = run("dump-log", env, "--tail", "3", "--explain").text
    assert text.count("undo: ") == 3
    assert run("dump-log", env, "--explain", "--reverse", "--limit", "2").code == exits.DONE
    for words in (("--stats",), ("--follow",), ("--format", "xml")):
        assert run("dump-log", env, "--explain", *words).code == exits.USAGE
    refused = run("dump-log", named("je-18.3.20/rollback-overlap").path / "env", "--explain")
    assert refused.code == exits.INCOMPLETE
