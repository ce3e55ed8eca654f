"""Merging runs into a database that holds records, through the engine.

Records are put in key order, in transactions of ``batch`` records. After each commit the last key is noted, durably, in
``merge.json`` beside the runs. So a merge that died can resume after that key. Records between the note and the last
commit are put again, which changes nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, UsageError, plural
from engine.events import Listener, counted
from engine.pipeline.load import stage
from engine.pipeline.load.bulk import ReadTotals
from engine.pipeline.load.plan import LoadResult
from engine.pipeline.load.runs import Merge, SortedRun
from engine.storage.base import Storage, write_synced
from engine.txn.payload import PutMode
from engine.txn.txn import Durability

_STATE: Final = "merge.json"


class State(NamedTuple):
    """The progress of a merge.

    Attributes:
        subject: the identity of the merge: name of the database, sources, options.
        found: what was read.
        after: the last key merged, or None before the first.
        records, refused, duplicates: counts so far; refused counts records whose keys already existed.
    """

    subject: str
    found: ReadTotals
    after: bytes | None
    records: int
    refused: int
    duplicates: int


def merge_into(
    env: Environment,
    db: Database,
    storage: Storage,
    state: State,
    keep: str,
    batch: int,
    listener: Listener,
    *,
    overwrite: bool,
) -> tuple[LoadResult, int]:
    """Put the records of all runs into a database.

    Arguments:
        env, db: open for writing.
        storage: where the note is written.
        state: where to begin.
        keep: which record stays if several have the same key.
        batch: records of a transaction.
        overwrite: records replace existing records with the same keys; otherwise the new records are refused.

    Returns:
        The result, and the number of refused records.

    Raises:
        JetoolError: an error of the merge; it states the number of records merged before.
    """
    # The smallest key after the last merged one.
    low = None if state.after is None else state.after + b"\0"
    merge = Merge([run.path for run in state.found.runs], low, None, keep)
    mode = PutMode.OVERWRITE if overwrite else PutMode.INSERT_ONLY
    total = sum(run.records for run in state.found.runs)
    # Only a transactional database has commits that the note can follow.
    durable = db.state.transactional
    try:
        for table in merge.tables():
            keys, values = table["key"].to_pylist(), table["value"].to_pylist()
            for at in range(0, len(keys), batch):
                done = _put(env, db, keys[at : at + batch], values[at : at + batch], mode)
                # Records put after the last note before a crash are refused when put again, so a resumed merge may
                # count too many refused records.
                state = state._replace(
                    after=keys[min(at + batch, len(keys)) - 1],
                    records=state.records + done,
                    refused=state.refused + min(batch, len(keys) - at) - done,
                    duplicates=merge.duplicates,
                )
                # Sync the records before the note is written: otherwise a crash could lose records that the note
                # counts.
                env.sync()
                if durable:
                    save(storage, state)
                seen = state.records + state.refused
                counted(listener, "merge", seen, total, seen)
    except JetoolError as error:
        error.consequence = f"{plural(state.records, 'record is', 'records are')} in the database and durable"
        error.hint = "remove the cause and run the same command with --resume"
        raise
    return _result(state), state.refused


def _result(state: State) -> LoadResult:
    found = state.found
    return LoadResult(
        read=found.read,
        records=state.records,
        rejected=found.rejected,
        duplicates=found.duplicates + state.duplicates,
        files=0,
        size=0,
        rejects=found.rejects,
    )


def _put(env: Environment, db: Database, keys: list[bytes], values: list[bytes], mode: PutMode) -> int:
    # The caller syncs once per batch.
    with env.begin(durability=Durability.NO_SYNC) as txn:
        return sum(db.put(key, value, txn, mode=mode) for key, value in zip(keys, values, strict=True))


def save(storage: Storage, state: State) -> None:
    """Save the progress of a merge, durably."""
    fields = state._replace(found=state.found._replace(rejects=None))._asdict()
    fields["found"] = state.found._asdict() | {
        "runs": [[run.path, run.records, run.size, run.duplicates] for run in state.found.runs],
        "rejects": None if state.found.rejects is None else str(state.found.rejects),
    }
    fields["after"] = None if state.after is None else state.after.hex()
    name = f"{stage.DIRECTORY}/{_STATE}"
    # A new file and a rename: a crash leaves the old note or the new note, never half a note.
    write_synced(storage, f"{name}.new", json.dumps(fields).encode())
    # The bytes must be durable before the name points to them.
    storage.rename(f"{name}.new", name)
    storage.sync_directory(stage.DIRECTORY)


def resume(storage: Storage, subject: str) -> State:
    """Read the progress of a merge that died.

    Raises:
        NotFoundError: no load was interrupted. UsageError: the interrupted load had another subject.
    """
    name = f"{stage.DIRECTORY}/{_STATE}"
    if storage.stat(name) is None:
        raise NotFoundError(
            "there is no load to resume",
            file=storage.root,
            hint="run the command without --resume; it starts from the beginning",
        )
    file = storage.open(name)
    fields = json.loads(file.read(0, file.size()))
    file.close()
    if fields["subject"] != subject:
        raise UsageError(
            "the interrupted load was a different load",
            expected=fields["subject"],
            found=subject,
            hint="give the same sources and options, or leave out --resume to give that one up",
        )
    found = fields.pop("found")
    # Samples are only needed to cut parts, and a merge has no parts.
    runs = [SortedRun(path, records, size, dropped, ()) for path, records, size, dropped in found.pop("runs")]
    rejects = found.pop("rejects")
    after = fields.pop("after")
    return State(
        found=ReadTotals(runs=runs, rejects=None if rejects is None else Path(rejects), **found),
        after=None if after is None else bytes.fromhex(after),
        **fields,
    )
