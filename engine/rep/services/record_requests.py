"""Services for records: ``JetoolRecords`` reads and writes them through a node in a group of JE; ``LDiff`` compares.

Nodes of JE accept every caller that reaches their port, but offer no writes of records. ``JetoolRecords`` accepts only
callers on the same machine, and over TLS those with a trusted certificate.
"""

from __future__ import annotations

from typing import Final

from engine.rep.peers import PeerError
from engine.rep.records import RecordHost, answer
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.services.record_blocks import RecordBlocks
from engine.rep.wire.records import RECORDS, VERSION, RecordRequest

_PLACES: Final = 16


class RecordRequests:
    """The services.

    Arguments:
        host: the node.

    Attributes:
        services: by name.
    """

    def __init__(self, host: RecordHost) -> None:
        self._host = host
        own = Service(self._serve, _PLACES, trusted=True)
        self.services = {RECORDS.service: own, **RecordBlocks(host).services}

    def _serve(self, caller: Caller) -> None:
        asked = caller.receive(RECORDS, VERSION, RecordRequest)
        reply = answer(self._host, asked)
        if reply is None:
            raise PeerError(f"{caller.peer} asks for something else", found=f"message {asked.kind}")
        caller.send(RECORDS, VERSION, reply)
