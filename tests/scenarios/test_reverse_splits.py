"""A branch is pruned, its range goes to a neighbour, which reaches the log before the ancestor (T-29, D-14).

Example: IN 339 has slots 332 → 334 and 357 → 338. Branch 338 is emptied and pruned; the removal of its slot is in
memory only. 377 goes into the branch of 334, whose nodes are evicted, logged NO. A crash. Recovery puts 334 back into
the old 339: a scan passes 377, but a search for it goes to 338, so that neither undo nor redo would find it.
"""

from __future__ import annotations

import pytest

from engine.format.header import Provisional
from engine.storage.memory import MemoryStorage
from tests.scenarios.script import Script
from tests.support.environments.workload import contents, open_env
from tests.support.logs.entries import node_flags


def key(number: int) -> bytes:
    return b"%04d" % number


def pruned() -> Script:
    """A tree of four levels or so, all in the log, whose branches between 100 and 180 are then pruned."""
    script = Script(max_entries=4, node_max_entries=4)
    script.txn(*((key(number), b"v" * 20) for number in range(0, 200, 2)))
    script.checkpoint(minimize=True)
    script.txn(*((key(number), None) for number in range(100, 200, 2)))
    assert script.env.compress() > 0
    return script


@pytest.mark.parametrize("ending", ["open", "committed", "aborted"])
@pytest.mark.parametrize("how", ["evicted", "checkpointed"])
def test_a_record_in_a_range_that_was_taken_over(ending: str, how: str) -> None:
    """Wherever the log ends, the record is where a search looks for it, or nowhere."""
    script = pruned()
    changes = [(key(131), b"over")]
    if ending == "committed":
        script.txn(*changes)
    else:
        txn = script.env.begin()
        for changed, data in changes:
            script.write(changed, data, txn)
    if how == "evicted":
        script.env.engine.evict()
    else:
        script.checkpoint()
    if ending == "aborted":
        txn.abort()
        script.env.engine.evict()
    script.env.sync()
    image = {path: data for path, data in script.storage.contents().items() if path.endswith(".jdb")}
    with open_env(MemoryStorage(image)) as env, env.open_database("db") as db:
        assert dict(db.items()) == script.state["db"]
        assert all(db.get(found) == data for found, data in script.state["db"].items())
        assert all(db.get(found) is None for found, _ in changes if found not in script.state["db"])
    assert contents_are_cut_anywhere(script)


def contents_are_cut_anywhere(script: Script) -> bool:
    if script.env.engine.txns.registered:
        for txn in list(script.env.engine.txns.registered.values()):
            script.env.engine.abort(txn)
    return script.check(5) > 8


def test_the_path_is_logged_before_the_range_is_used() -> None:
    """As after a split: YES up to the root, which is NO; once, and only when somebody inserts."""
    script = pruned()
    assert script.env.engine.writer is not None
    after = script.env.engine.writer.last_lsn
    assert node_flags(script.env, after, script.db.state.id) == []
    script.txn((key(131), b"first"))
    flags = node_flags(script.env, after, script.db.state.id)
    assert flags[-1][0] == "IN"
    assert flags[-1][2] is Provisional.NO
    assert {flag for _, _, flag in flags[:-1]} <= {Provisional.YES}
    after = script.env.engine.writer.last_lsn
    script.txn((key(0), b"elsewhere"))
    assert node_flags(script.env, after, script.db.state.id) == []
    assert contents(script.env) == script.state
