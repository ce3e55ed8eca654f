"""Service ``JetoolRecords``: reads and writes records through a node in a group of JE.

Nodes of JE accept every caller that reaches their port, but offer no writes of records. This service accepts only
callers on the same machine, and over TLS those with a trusted certificate.
"""

from __future__ import annotations

from typing import Final

from engine.rep.peers import PeerError
from engine.rep.records import RecordHost, answer
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.wire.records import RECORDS, VERSION, RecordRequest

_PLACES: Final = 16


class RecordRequests:
    """The service.

    Arguments:
        host: the node.

    Attributes:
        services: by name.
    """

    def __init__(self, host: RecordHost) -> None:
        self._host = host
        self.services = {RECORDS.service: Service(self._serve, _PLACES, trusted=True)}

    def _serve(self, caller: Caller) -> None:
        asked = caller.receive(RECORDS, VERSION, RecordRequest)
        reply = answer(self._host, asked)
        if reply is None:
            raise PeerError(f"{caller.peer} asks for something else", found=f"message {asked.kind}")
        caller.send(RECORDS, VERSION, reply)
