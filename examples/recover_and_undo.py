"""Preview a recovery, run it, and undo it from Python, on a copy of an environment.

python examples/recover_and_undo.py tests/golden/je-17/txn-crash
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from engine.format.lsn import format_lsn
from engine.rescue.repair.recovery import RepairOptions, plan_recovery, recover
from engine.rescue.repair.undo import undo_repair

with tempfile.TemporaryDirectory() as scratch:
    env = str(Path(scratch) / "env")
    shutil.copytree(sys.argv[1], env)

    plan = plan_recovery(env)
    print(f"{plan.tail.commits_at_risk} committed transactions stand after a bad entry")
    preview = recover(plan, RepairOptions(dry_run=True))
    print(f"the log ends at {format_lsn(plan.tail.end_lsn)}, after a recovery at {format_lsn(preview.end_lsn)}")
    # RefusedError: committed transactions would be cut off, or another process has the environment open.
    done = recover(plan, RepairOptions(lock_timeout_s=5))
    print(f"recovered; the log ends at {format_lsn(done.end_lsn)}, {done.saved_bytes} bytes were saved for undo")
    undone = undo_repair(env)
    print(f"undone: {undone.command}; {', '.join(undone.files)} as before")
