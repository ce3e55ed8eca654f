"""Lines of ``provenance.ndjson``, one per saved record, built directly as text with the same result as the shape's
encoder.

There are as many lines as records, and lines repeat most of their content. So the text before the key, the environment
and log file, the origin, and the second of the time are rendered once and reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.fields import shape_of
from engine.format.lsn import NULL_LSN, file_of
from engine.format.vlsn import NULL_VLSN
from engine.log.files import log_file_name
from engine.rescue.salvage.results import SalvagedRecord
from jetool.commands.salvage.rows import Provenance
from jetool.output import jsonl
from jetool.output.shape import time_text

_SECOND_MS: Final = 1000
_MOST_SECONDS: Final = 4096
_MILLISECONDS: Final = [f'.{ms:03d}Z"' for ms in range(_SECOND_MS)]
_LATEST_MS: Final = 253_402_300_799_999


class ProvenanceLines:
    """Lines about the records of one database.

    Arguments:
        number: of the database.
        source, name: source and database name as printed in the lines.
    """

    def __init__(self, number: int, source: str, name: str) -> None:
        self.number = number
        head = jsonl.line({"rec": shape_of(Provenance).rec, "source": source, "db": name})
        self._head = f'{head[:-1].decode("ascii", "surrogateescape")},"key_hex":"'
        # The text between the key and the offset, by environment and file number.
        self._places: dict[str, dict[int, str]] = {}
        self._seconds: dict[int, str] = {}

    def lines(self, records: Sequence[SalvagedRecord]) -> bytes:
        """The lines of records."""
        head, seconds, milliseconds = self._head, self._seconds, _MILLISECONDS
        if len(seconds) > _MOST_SECONDS:
            seconds.clear()
        lines = []
        for record in records:
            # A plain tuple, because unpacking a named tuple needs an iterator.
            _, key, _, _, env, origin, lsn, vlsn, txn, time_ms, stood_in, confirmed = record[:]
            places = self._places.get(env)
            if places is None:
                places = self._places[env] = {}
            # Inlined file_of and offset_of.
            file = lsn >> 32
            place = places.get(file)
            if place is None:
                place = places[file] = self._place(env, lsn)
            offset = "null" if lsn == NULL_LSN else hex(lsn & 0xFFFFFFFF) + '"'
            if time_ms is None:
                time = "null"
            elif 0 <= time_ms <= _LATEST_MS:
                second = time_ms // _SECOND_MS
                before = seconds.get(second)
                if before is None:
                    before = seconds[second] = f'"{time_text(second * _SECOND_MS)[:-5]}'
                time = before + milliseconds[time_ms % _SECOND_MS]
            else:
                time = f'"{time_text(time_ms)}"'
            lines.append(
                f'{head}{key.hex()}{place}{offset},"from":"{origin}","vlsn":{"null" if vlsn == NULL_VLSN else vlsn}'
                f',"txn":{"null" if txn is None else txn},"time":{time}'
                f',"stood_in":{"true" if stood_in else "false"},"confirmed":{"true" if confirmed else "false"}}}\n'
            )
        return "".join(lines).encode("ascii", "surrogateescape")

    @staticmethod
    def _place(env: str, lsn: int) -> str:
        """The text between the key and the offset of an LSN."""
        environment = jsonl.line(env).decode("ascii", "surrogateescape")
        if lsn == NULL_LSN:
            return f'","environment":{environment},"file":"-","lsn":'
        number = file_of(lsn)
        return f'","environment":{environment},"file":"{log_file_name(number)}","lsn":"{number:#x}/'
