"""Count the entries of a log by type, and print what is damaged.

python examples/entries_by_type.py tests/golden/je-17/corrupt-middle
"""

from __future__ import annotations

import sys
from collections import Counter

from engine.format.lsn import format_lsn
from engine.log.entry import Damage
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage

storage = DiskStorage(sys.argv[1])
counts: Counter[str] = Counter()
for item in scan_log(storage, list_log_files(storage), marker=True).entries():
    if isinstance(item, Damage):
        print(f"damage in {item.path} at {format_lsn(item.lsn)}: {item.length} bytes, {item.reason}")
    else:
        counts[item.type_name] += 1
for name, count in counts.most_common(5):
    print(f"{count:>6}  {name}")
