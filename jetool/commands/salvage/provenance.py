"""Lines of ``provenance.ndjson``, one for every record that is saved: the same as those of the shape, without a row."""

from __future__ import annotations

from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.rescue.salvage.results import SalvagedRecord
from jetool.commands.salvage.rows import PROVENANCE
from jetool.output import jsonl
from jetool.output.shape import time_text


class ProvenanceLines:
    """Lines about the records of one database.

    Arguments:
        number: of the database.
        source, name: as the lines have them.
    """

    def __init__(self, number: int, source: str, name: str) -> None:
        self.number = number
        head = jsonl.line({"rec": PROVENANCE.rec, "source": source, "db": name})
        self._head = f'{head[:-1].decode("ascii", "surrogateescape")},"key_hex":"'
        self._environments: dict[str, str] = {}

    def line(self, record: SalvagedRecord) -> bytes:
        """The line of a record."""
        _, key, _, _, env, origin, lsn, vlsn, txn, time_ms, stood_in = record
        environment = self._environments.get(env)
        if environment is None:
            found = jsonl.line(env).decode("ascii", "surrogateescape")
            environment = self._environments[env] = f'","environment":{found},"file":"'
        place = '-","lsn":null'
        if lsn != NULL_LSN:
            number = file_of(lsn)
            place = f'{number:08x}.jdb","lsn":"{number:#x}/{offset_of(lsn):#x}"'
        time = "null" if time_ms is None else f'"{time_text(time_ms)}"'
        text = (
            f'{self._head}{key.hex()}{environment}{place},"from":"{origin}"'
            f',"vlsn":{"null" if vlsn == NULL_VLSN else vlsn},"txn":{"null" if txn is None else txn}'
            f',"time":{time},"stood_in":{"true" if stood_in else "false"}}}\n'
        )
        return text.encode("ascii", "surrogateescape")
