"""A fast path for JSON lines of records, Commits and Aborts, which make up most of a log.

General twin: ``rows.entry_row``, whose row ``jetool.output.jsonl`` renders. A test compares both.
"""

from __future__ import annotations

from typing import Any, Final

from engine.format.entry.ln import (
    ABORT_KNOWN_DELETED,
    EMBEDDED,
    HAS_ABORT_DATA,
    HAS_ABORT_EXPIRATION,
    HAS_ABORT_KEY,
    HAS_ABORT_VLSN,
    HAS_EXPIRATION,
    HAS_PRIOR_FILE,
    HAS_PRIOR_SIZE,
    LN,
)
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import EXTINCT_SCAN_LNS, type_name
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from jetool.commands.dump_log.rows import BodyView
from jetool.output.shape import Style, time_text

_RARE_FLAGS: Final = HAS_ABORT_KEY | HAS_ABORT_DATA | HAS_ABORT_VLSN | HAS_ABORT_EXPIRATION | HAS_EXPIRATION
_RARE_FLAGS2: Final = 0xFF & ~(HAS_PRIOR_SIZE | HAS_PRIOR_FILE)
_WORDS: Final = ("false", "true")


class EntryJsonLines:
    """Makes lines.

    Arguments:
        view, style: which parts of bodies to print, and how.
    """

    __slots__ = ("_data", "_labels", "_tz")

    def __init__(self, view: BodyView, style: Style) -> None:
        self._data = view.data
        self._tz = style.tz
        self._labels: dict[int, str] = {}

    def line(self, entry: LogEntry, record: tuple[Any, ...] | None) -> str | None:
        """An entry as one object; None: use the general path."""
        if entry.checksum_ok is not True or entry.type_number in EXTINCT_SCAN_LNS:
            return None
        if isinstance(record, LN):
            txn = "null" if record.txn_id is None else record.txn_id
            head, body = f'"db":{record.db_id},"txn":{txn},', self._ln(record)
        elif isinstance(record, TxnEnd):
            head, body = f'"db":null,"txn":{record.id},', self._txn_end(record)
        else:
            return None
        return None if body is None else f"{self._head(entry)}{head}{body}}}"

    def _head(self, entry: LogEntry) -> str:
        lsn, number, version, flags, prev, size, vlsn, checksum, _, _ = entry
        label = self._labels.get(version << 16 | flags << 8 | number)
        if label is None:
            label = self._labels[version << 16 | flags << 8 | number] = (
                f'"type":"{type_name(number)}","version":{entry.own_version},"provisional":"{entry.provisional.value}",'
                f'"replicated":{_WORDS[entry.replicated]},"invisible":{_WORDS[entry.invisible]},"vlsn":'
            )
        file, offset = lsn >> 32, lsn & 0xFFFFFFFF
        shown = "null" if vlsn == NULL_VLSN else vlsn
        return (
            f'{{"rec":"entry","lsn":"0x{file:x}/0x{offset:x}","file":{file},"offset":{offset},{label}{shown},'
            f'"prev":{prev},"size":{size},"checksum":{checksum},"checksum_ok":true,'
        )

    def _ln(self, record: LN) -> str | None:
        flags, flags2, data = record.flags, record.flags2, record.data
        if (
            flags & _RARE_FLAGS
            or flags2 & _RARE_FLAGS2
            or record.expiration
            or record.modification_time
            or record.creation_time
            or record.node_id is not None
            or record.content is not None
            or record.tail is not None
        ):
            return None
        last, abort = _lsn(record.last_lsn), _lsn(record.abort_lsn)
        if last is None or abort is None:
            return None
        text = (
            f'"last_lsn":{last},"abort_lsn":{abort},"abort_known_deleted":{_WORDS[bool(flags & ABORT_KNOWN_DELETED)]},'
            f'"embedded":{_WORDS[bool(flags & EMBEDDED)]},"expiration":null,'
        )
        if flags2 & HAS_PRIOR_SIZE:
            text += f'"prior_size":{record.prior_size},'
        if flags2 & HAS_PRIOR_FILE:
            text += f'"prior_file":{record.prior_file},'
        text += f'"key_hex":"{record.key.hex()}",'
        if self._data:
            text += '"data_hex":null,' if data is None else f'"data_hex":"{data.hex()}",'
        return text + (
            '"data_size":null,"deleted":true' if data is None else f'"data_size":{len(data)},"deleted":false'
        )

    def _txn_end(self, record: TxnEnd) -> str | None:
        last_lsn, _, time, master, dtvlsn, term = record
        last = _lsn(last_lsn)
        if last is None:
            return None
        shown = "null" if dtvlsn == NULL_VLSN else dtvlsn
        return (
            f'"last_lsn":{last},"time":"{time_text(time, self._tz)}","master":{master},"dtvlsn":{shown},'
            f'"master_term":{term}'
        )


def _lsn(lsn: int) -> str | None:
    """An LSN as JSON; None for a transient one."""
    if lsn == NULL_LSN:
        return "null"
    return f'"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"' if lsn >= 0 else None
