"""What a monitor needs from a part of a log: commits, the last VLSN, the last checkpoint, counters of files.

Plain entries stay in their buffers; only a handful per checkpoint is decoded, and one Commit per buffer.
"""

from __future__ import annotations

from typing import Final

from engine.format import tuples
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import FileSummary
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import (
    CKPT_END,
    COMMIT,
    FILE_SUMMARY_LNS,
    RESERVED_FILE_LNS,
    TXN_ENDS,
)
from engine.format.fast.loops import keeping
from engine.format.header import TYPE_AT
from engine.format.vlsn import NULL_VLSN
from engine.inspect.checkpoint_interval import CheckpointSurvey, decoded_as
from engine.inspect.database_name import summary_of
from engine.log.entry import Damage, LogEntry, Stretch

_RARE: Final = FILE_SUMMARY_LNS | RESERVED_FILE_LNS | {CKPT_END}
_PICKED: Final = keeping(_RARE | TXN_ENDS)


class LogTally:
    """Counts of consecutive entries.

    Attributes:
        commits: Commits among them.
        last_end: the last Commit or Abort; None without one.
        vlsn: VLSN of the last replicated entry that is visible; NULL_VLSN without one.
        checkpoint: the last readable CkptEnd; None without one.
        summaries: by file number the newest counters; None where the file has left the log.
        reserved: by file number, whether the latest record marks the file as reserved.
        damages: stretches of damage with good entries after them.
    """

    def __init__(self) -> None:
        self.commits = self.damages = 0
        self.last_end: TxnEnd | None = None
        self.vlsn = NULL_VLSN
        self.checkpoint: CheckpointSurvey | None = None
        self.summaries: dict[int, FileSummary | None] = {}
        self.reserved: dict[int, bool] = {}

    def add(self, item: Stretch | LogEntry | Damage) -> None:
        """Count the next part of the log."""
        if isinstance(item, Stretch):
            self._add_stretch(item)
        elif isinstance(item, Damage):
            self.damages += item.length > 0 and item.has_next
        else:
            if item.replicated and not item.invisible:
                self.vlsn = item.vlsn
            if item.type_number in TXN_ENDS:
                self.commits += item.type_number == COMMIT
                self.last_end = decoded_as(item, TxnEnd) or self.last_end
            elif item.type_number in _RARE:
                self._note(item)

    def join_earlier(self, earlier: LogTally) -> None:
        """Combine with the part of the log directly before this part."""
        self.commits += earlier.commits
        self.damages += earlier.damages
        self.last_end = self.last_end or earlier.last_end
        self.vlsn = earlier.vlsn if self.vlsn == NULL_VLSN else self.vlsn
        self.checkpoint = self.checkpoint or earlier.checkpoint
        self.summaries = earlier.summaries | self.summaries
        self.reserved = earlier.reserved | self.reserved

    def join_later(self, later: LogTally) -> None:
        """Combine with the part of the log directly after this part."""
        self.commits += later.commits
        self.damages += later.damages
        self.last_end = later.last_end or self.last_end
        self.vlsn = self.vlsn if later.vlsn == NULL_VLSN else later.vlsn
        self.checkpoint = later.checkpoint or self.checkpoint
        self.summaries |= later.summaries
        self.reserved |= later.reserved

    def _add_stretch(self, stretch: Stretch) -> None:
        data = stretch.data
        last = -1
        for pos in stretch.positions(_PICKED):
            number = data[pos + TYPE_AT]
            if number in TXN_ENDS:
                self.commits += number == COMMIT
                last = pos
            else:
                self._note(stretch.entry_at(pos))
        if last >= 0:
            self.last_end = decoded_as(stretch.entry_at(last), TxnEnd) or self.last_end
        if stretch.last_vlsn != NULL_VLSN:
            self.vlsn = stretch.last_vlsn

    def _note(self, item: LogEntry) -> None:
        if item.type_number == CKPT_END:
            record = decoded_as(item, CkptEnd)
            self.checkpoint = self.checkpoint if record is None else CheckpointSurvey(item.lsn, record)
        elif item.type_number in FILE_SUMMARY_LNS:
            summary = summary_of(item)
            if summary is not None:
                self.summaries[summary[0]] = summary[1]
        else:
            ln = decoded_as(item, LN)
            if ln is not None and len(ln.key) == tuples.LONG_KEY_BYTES:
                self.reserved[tuples.parse_long_key(ln.key)] = ln.data is not None
