"""Service ``JetoolRecords``: records of a running node of jetool in a group of JE. Nodes of JE do not have it.

The service has one request and one answer; ``engine.rep.records`` defines their content.
"""

from __future__ import annotations

from typing import Annotated, Final

from engine.rep.wire.messages import Message, Table, message
from engine.rep.wire.values import BYTES, INT

VERSION: Final = 1
# A record, its key and the name of its database.
_LONGEST: Final = 160 << 20


@message(1, limit=_LONGEST)
class RecordRequest(Message):
    """The operation and its record."""

    kind: Annotated[int, INT]
    payload: Annotated[bytes, BYTES]


@message(2, limit=_LONGEST)
class RecordAnswer(Message):
    """The result of a request."""

    kind: Annotated[int, INT]
    payload: Annotated[bytes, BYTES]


RECORDS: Final = Table("JetoolRecords", client=(RecordRequest,), server=(RecordAnswer,))
