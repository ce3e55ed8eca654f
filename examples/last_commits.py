"""Print the last three commits of a log, newest first, reading no more of it than needed.

python examples/last_commits.py tests/golden/je-17/txn-crash
"""

from __future__ import annotations

import sys
from itertools import islice

from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.format.lsn import format_lsn
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage

storage = DiskStorage(sys.argv[1])
scan = scan_log(storage, list_log_files(storage), types=frozenset({COMMIT}))
commits = (item for item in scan.backward() if isinstance(item, LogEntry))
for entry in islice(commits, 3):
    record = entry.record()
    assert isinstance(record, TxnEnd)
    print(f"{format_lsn(entry.lsn)}  transaction {record.id}, its last LN at {format_lsn(record.last_lsn)}")
