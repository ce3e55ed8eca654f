"""Print the transactions that logged most, by a reader of one's own: a class that gets every entry of the log.

It does what a class for DbPrintLog -c does, which extends DumpFileReader. The entries come in the order of the log.

python examples/longest_transactions.py tests/golden/je-17/txn-crash
"""

from __future__ import annotations

import sys
from collections import Counter

from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import LNS, TXN_ENDS
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage


class TransactionReader:
    """Counts the bytes of each transaction until it ends."""

    def __init__(self) -> None:
        self.logged_bytes: Counter[int] = Counter()
        self.ended: dict[int, str] = {}

    def __call__(self, entry: LogEntry) -> None:
        """Read one entry."""
        record = entry.record()
        if isinstance(record, LN) and record.txn_id is not None:
            self.logged_bytes[record.txn_id] += entry.total_bytes
        elif isinstance(record, TxnEnd):
            self.ended[record.id] = entry.type_name

    def summarize(self) -> None:
        """Print the three largest transactions."""
        for txn, size in self.logged_bytes.most_common(3):
            print(f"transaction {txn}: {size} bytes, {self.ended.get(txn, 'open')}")


storage = DiskStorage(sys.argv[1])
reader = TransactionReader()
# Entries of other types are passed over without being decoded. Without ``types`` all of them are read.
for item in scan_log(storage, list_log_files(storage), types=LNS | TXN_ENDS).entries():
    if isinstance(item, Damage):
        print(f"damaged: {item.where}", file=sys.stderr)
    else:
        reader(item)
reader.summarize()
