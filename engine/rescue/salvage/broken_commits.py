"""Committed transactions that have lost a record to damage.

A Commit, and each record of a transaction, names the record before it. If that place is damaged, the record which stood
there is lost, although its transaction is known to have committed, and nothing else may name it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from engine.errors import FormatError
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, TXN_ENDS, USER_LNS
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.storage.base import Storage

_WANTED: Final = USER_LNS | TXN_ENDS


def count_broken_commits(storage: Storage, files: LogFiles, damages: Sequence[Damage]) -> int:
    """The number of committed transactions with a record in damaged bytes.

    Arguments:
        damages: stretches of damage in this log.
    """
    stretches = sorted((one.lsn, one.end_lsn) for one in damages if one.length)
    if not stretches:
        return 0
    starts = [start for start, _ in stretches]

    def is_bad(lsn: int) -> bool:
        at = bisect_right(starts, lsn) - 1
        return at >= 0 and lsn < stretches[at][1]

    broken, count = set[int](), 0
    # Nothing before the damage can point into it.
    for item in scan_log(storage, files, types=_WANTED, marker=True).between(starts[0]).entries():
        if not isinstance(item, LogEntry) or item.invisible:
            continue
        try:
            record = item.record()
        except FormatError:
            continue
        if isinstance(record, TxnEnd):
            is_broken = record.id in broken or is_bad(record.last_lsn)
            broken.discard(record.id)
            count += is_broken and item.type_number == COMMIT
        elif isinstance(record, LN) and record.txn_id is not None and is_bad(record.last_lsn):
            broken.add(record.txn_id)
    return count
