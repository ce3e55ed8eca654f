"""Verify a log from Python and act on the codes of the findings.

python examples/is_it_whole.py tests/golden/je-17/corrupt-middle
"""

from __future__ import annotations

import sys

from engine.format.lsn import format_lsn
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.verify.environment import verify_environment
from engine.verify.report import ERROR

storage = DiskStorage(sys.argv[1])
report = verify_environment(storage, list_log_files(storage))
for finding in report.findings:
    print(f"{finding.severity} {finding.code} {finding.file} {format_lsn(finding.lsn)}")
print(f"{report.entries} good entries in {report.files} files; not checked: {', '.join(report.not_checked)}")
sys.exit(1 if report.count(ERROR) else 0)
