"""Decodes the bytes received over a connection: it takes bytes as they arrive and returns complete messages.

An inbox holds only the bytes not taken yet. It allocates for received bytes, not for announced lengths, and refuses a
length above the limit of the message as soon as the six bytes of the frame have arrived.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError
from engine.rep.wire import services
from engine.rep.wire.batches import Arrived, split_stream
from engine.rep.wire.lines import LONGEST_LINE, Envelope, LineTable, TextMessage
from engine.rep.wire.messages import FRAME, Message, Table
from engine.rep.wire.services import Status

_LINE_END: Final = b"\n"


class Inbox:
    """The bytes from one side that have not been taken yet.

    Arguments:
        from_client: whether that side is the client.
    """

    def __init__(self, *, from_client: bool) -> None:
        self._from_client = from_client
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        """Bytes that have come."""
        self._bytes += data

    def service(self) -> str | None:
        """The service requested by a client; None while bytes are missing.

        Raises:
            FormatError: the bytes are not a request for a service.
        """
        return self._named(services.split_request(bytes(self._bytes[: services.LONGEST_NAME * 2])))

    def mechanisms(self) -> str | None:
        """The authentication mechanisms of a client; None while bytes are missing."""
        beginning = bytes(self._bytes[: services.LONGEST_NAME * 2])
        return self._named(services.split_request(beginning, services.AUTHENTICATE_PREFIX))

    def mechanism(self) -> str | None:
        """The mechanism chosen by a node; None while bytes are missing."""
        return self._named(services.split_mechanism(bytes(self._bytes[: services.LONGEST_MECHANISM * 2])))

    def status(self) -> Status | None:
        """A node's answer; None while it is missing.

        Raises:
            FormatError: the bytes are not an answer of a node.
        """
        if not self._bytes:
            return None
        status = services.decode_status(self._bytes[0])
        del self._bytes[:1]
        return status

    def message(self, table: Table, version: int) -> Message | None:
        """The next binary message; None while bytes are missing.

        Raises:
            FormatError: the side does not send such a message, or it is malformed or too long.
        """
        if len(self._bytes) < FRAME.size:
            return None
        op, length = FRAME.unpack_from(self._bytes)
        limit = table.limit(op, version, client=self._from_client)
        # Check the length before waiting for that many bytes.
        if not 0 <= length <= limit:
            raise FormatError(f"message {op} of {table.service}", expected=f"0..{limit} bytes", found=str(length))
        end = FRAME.size + length
        if len(self._bytes) < end:
            return None
        found = table.decode(op, bytes(self._bytes[FRAME.size : end]), version, client=self._from_client)
        del self._bytes[:end]
        return found

    def stream(self, version: int) -> list[Arrived]:
        """All complete messages received from a feeder; entries come without their messages.

        Raises:
            FormatError: as ``message``.
        """
        if len(self._bytes) >= FRAME.size and len(self._bytes) < FRAME.size + FRAME.unpack_from(self._bytes)[1]:
            # For a long message in many pieces only the length is checked again, not the bytes.
            return split_stream(bytes(self._bytes[: FRAME.size]), version)[0]
        found, taken = split_stream(bytes(self._bytes), version)
        del self._bytes[:taken]
        return found

    def line(self, table: LineTable) -> tuple[Envelope, TextMessage] | None:
        """The next line; None while its end is missing.

        Raises:
            FormatError: the message is too long, or not a message of that side.
        """
        end = self._bytes.find(_LINE_END, 0, LONGEST_LINE)
        if end < 0:
            if len(self._bytes) >= LONGEST_LINE:
                raise FormatError("line of a message", expected=f"up to {LONGEST_LINE} bytes", found="more")
            return None
        line = bytes(self._bytes[: end + 1])
        del self._bytes[: end + 1]
        return table.decode(line, client=self._from_client)

    def raw(self, most: int) -> bytes:
        """Received bytes of a file, unframed, at most ``most``."""
        data = bytes(self._bytes[:most])
        del self._bytes[:most]
        return data

    def _named(self, found: tuple[str, int] | None) -> str | None:
        if found is None:
            return None
        name, end = found
        del self._bytes[:end]
        return name
