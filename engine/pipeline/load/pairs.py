"""Makes sorted runs in this process from records that are already keys and values, such as those of a JE dump.

The counterpart of ``input.sorted_runs`` for tasks and columns. No record is rejected, and the rank of a record is its
number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from engine.pipeline.load.bulk import ReadTotals
from engine.pipeline.load.runs import SCHEMA, Merge, RunWriter, SortedRun
from engine.pipeline.python_side import release_arrow, settle_arrow

# Size of a run; the reader also holds the records of a run as objects.
_RUN_BYTES: Final = 24 << 20


class PairRuns:
    """Makes runs of records.

    Arguments:
        directory: where runs are written.
        keep: which record stays if several have the same key (``runs``).

    Attributes:
        read: records so far.
    """

    def __init__(self, directory: Path, keep: str) -> None:
        settle_arrow()
        self._writer = RunWriter(str(directory), _RUN_BYTES, keep)
        self._keep = keep
        self._runs: list[SortedRun] = []
        self.read = 0

    def add(self, keys: list[bytes], values: list[bytes]) -> None:
        """Take records in their order."""
        ranks = np.arange(self.read, self.read + len(keys))
        columns = [pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), pa.array(ranks)]
        self._runs += self._writer.add(pa.table(columns, schema=SCHEMA))
        self.read += len(keys)

    def finish(self) -> ReadTotals:
        """All runs."""
        self._runs += self._writer.finish()
        # Free the memory: from now on other processes work, and this process waits for them.
        release_arrow()
        return ReadTotals(self.read, 0, sum(run.duplicates for run in self._runs), self._runs, None)

    def different_keys(self) -> int:
        """The number of keys, after ``finish``."""
        return sum(len(table) for table in Merge([run.path for run in self._runs], None, None, self._keep).tables())
