"""The index of every replicated environment that real JE wrote: stored buckets, recovered and merged, equal JE's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.format.entry.internal_db import VLSNBucketRecord
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, NodeRecord
from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN, format_lsn
from engine.vlsn.database import buckets_from
from engine.vlsn.ghost import Bucket
from engine.vlsn.limits import BucketLimits
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.tracker import VLSNRecoveryTracker
from tests.support.environments.indexes import index_lsns
from tests.support.logs.reallog import RealLog
from tests.vlsn.memorydb import MemoryDatabase

GROUPS = [
    "je-18.3.20/ha-group", "je-18.3.20/ha-rollback", "je-18.3.20/ha-rollback-begun", "je-18.3.20/ha-rollback-ckpt",
    "je-18.3.20/ha-rollback-hidden", "je-18.3.20/ha-rollback-thrice", "je-25.3.17/ha-group", "je-25.3.17/ha-rollback",
    "je-7.5.11/ha-group", "je-7.5.11/ha-rollback",
]  # fmt: skip
SCRIPTED = [
    "rollback-before-ckpt", "rollback-four-periods", "rollback-four-periods-literal", "rollback-open-ended",
    "rollback-straddle", "vlsn-range",
]  # fmt: skip
ENVIRONMENTS = [f"{group}/node{number}" for group in GROUPS for number in (1, 2, 3)]
ENVIRONMENTS += [f"je-18.3.20/{name}" for name in SCRIPTED]


def stored_index(log: RealLog) -> MemoryDatabase:
    """The records of ``_jeVlsnMapDb`` as recovery finds them: those in its last full BIN, and all LNs after that."""
    lns, bins, db_ids = [], [], set()
    for lsn in sorted(log.entries):
        entry = log.entries[lsn]
        record: object = entry.record()
        if isinstance(record, LN):
            lns.append((lsn, record))
            if isinstance(record.content, NameLN) and record.key == b"_jeVlsnMapDb":
                db_ids.add(record.content.db_id)
        elif isinstance(record, NodeRecord) and entry.type_name == "BIN":
            bins.append((lsn, record))
    (db_id,) = db_ids
    records: dict[bytes, bytes | None] = {}
    last_bin = NULL_LSN
    if any(node.db_id == db_id for _, node in bins):
        last_bin, node = next((lsn, node) for lsn, node in reversed(bins) if node.db_id == db_id)
        slots = [slot for slot in node.slots if not slot.state & (KNOWN_DELETED | PENDING_DELETED)]
        records = {node.full_key(slot): log.read_ln(slot.lsn).ln.data for slot in slots}
    for lsn, ln in lns:
        if ln.db_id == db_id and lsn > last_bin:
            records[ln.key] = ln.data
    return MemoryDatabase({key: data for key, data in records.items() if data is not None})


def recovered(log: RealLog, limits: BucketLimits) -> VLSNRecoveryTracker:
    """Pass 1 as far as it concerns VLSNs."""
    tracker = VLSNRecoveryTracker(limits)
    for entry in reversed(log.backward(log.checkpoint().ckpt_start_lsn)):
        if entry.replicated and not entry.invisible:
            tracker.track(entry.vlsn, entry.lsn, entry.type_number)
        elif entry.type_name == "RollbackStart":
            record: object = entry.record()
            assert isinstance(record, RollbackStart)
            tracker.roll_back(record)
    return tracker


def as_json(bucket: Bucket) -> dict[str, Any]:
    record = bucket.record()
    assert isinstance(record, VLSNBucketRecord)
    offsets = [
        [record.first_vlsn + at * record.stride, f"0x{offset:x}"] for at, offset in enumerate(record.offsets) if offset
    ]
    return {"offsets": offsets, "lastVlsn": bucket.last, "lastLsn": format_lsn(bucket.last_lsn)}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_merged_index_equals_that_of_je(corpus: Path, name: str) -> None:
    environment = corpus / "je" / name
    log = RealLog(environment / "env")
    expected = json.loads((environment / "expected/vlsn-index.json").read_text())
    limits = BucketLimits()
    database = stored_index(log)
    index = open_index(database, limits, recovered(log, limits))
    assert index.range._asdict() == {
        "first": expected["range"]["first"],
        "last": expected["range"]["last"],
        "last_sync": expected["range"]["lastSync"],
        "last_txn_end": expected["range"]["lastTxnEnd"],
    }
    assert [as_json(bucket) for bucket in buckets_from(database, 1)] == expected["buckets"]
    check_against_log(index_lsns(environment), index)
    problems = index.verify()
    if name.endswith("literal"):
        assert problems == ["the last transaction end 67 lies after the range 1..65"]
    else:
        assert problems == []


def check_against_log(lsns: dict[int, int], index: Any) -> None:
    """Every mapping is that of the log, and every VLSN lies between its neighbours."""
    for vlsn, lsn in lsns.items():
        assert index.lsn(vlsn) in (NULL_LSN, lsn)
        assert index.lte_lsn(vlsn) <= lsn <= index.gte_lsn(vlsn)
    assert dict(index.mappings()).items() <= lsns.items()
