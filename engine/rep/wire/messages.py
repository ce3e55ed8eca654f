"""Binary messages: message classes, and the tables of messages that each side of a service may send.

A message is a frozen record whose field types define the encoding, in wire order:

    @message(104)
    class HeartbeatResponse(Message):
        syncup_vlsn: Annotated[int, LONG]
        txn_end_vlsn: Annotated[int, LONG]
        id: Annotated[int | None, INT, Since(11)] = None

A field that does not exist in the agreed version is None.

=====  ======  ==========================================
bytes  type    frame (je-ha-protocol.md section 3)
=====  ======  ==========================================
2      i16     operation code
4      i32     length of the body
n              the fields, one after the other
=====  ======  ==========================================

An unknown code, a wrong type or a wrong order can end the process of a live master (je-ha-protocol.md section 17). So
bytes to send are only made by ``Table.encode``: it accepts messages of the classes that this side may send, in the
agreed version, and returns the bytes only if they decode to an equal message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, dataclass_transform, get_type_hints

from engine.errors import FormatError, plural
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.rep.wire.values import AnyValue

FRAME: Final = Struct("<hi")
# Limit of most messages, which are short; longer ones are refused.
SHORT_BODY: Final = 1 << 17
C = TypeVar("C")


class Since(NamedTuple):
    """The first protocol version that has a field."""

    version: int


class Column(NamedTuple):
    """A field of a message class."""

    name: str
    value: AnyValue
    since: int


class Message:
    """One message; subclasses are made by ``message``."""

    __slots__ = ()
    OP: ClassVar[int]
    SINCE: ClassVar[int]
    LIMIT: ClassVar[int]
    COLUMNS: ClassVar[tuple[Column, ...]]


@dataclass_transform(kw_only_default=True, frozen_default=True)
def message(op: int, *, since: int = 0, limit: int = SHORT_BODY) -> Callable[[type[C]], type[C]]:
    """Class decorator: make a class a message.

    Arguments:
        op: the operation code of the message.
        since: the first protocol version that has it.
        limit: the longest accepted body.
    """

    def made(cls: type[C]) -> type[C]:
        record: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        columns = []
        for name, hint in get_type_hints(cls, include_extras=True).items():
            marks = getattr(hint, "__metadata__", ())
            if marks:
                first = next((mark.version for mark in marks if isinstance(mark, Since)), 0)
                columns.append(Column(name, marks[0], first))
        record.OP, record.SINCE, record.LIMIT, record.COLUMNS = op, since, limit, tuple(columns)
        return record  # type: ignore[no-any-return]

    return made


class Table:
    """The messages of one service.

    Arguments:
        service: the name of the service.
        client, server: classes that the side may send.
        received_only: classes that only real nodes send.
    """

    def __init__(
        self,
        service: str,
        client: Iterable[type[Message]],
        server: Iterable[type[Message]],
        received_only: Iterable[type[Message]] = (),
    ) -> None:
        self.service = service
        self._by_op = {True: {one.OP: one for one in client}, False: {one.OP: one for one in server}}
        self._received_only = frozenset(received_only)

    def classes(self) -> list[tuple[type[Message], bool]]:
        """Each class, and whether the client sends it."""
        return [(one, client) for client, known in self._by_op.items() for one in known.values()]

    def encode(self, sent: Message, version: int, *, client: bool) -> bytes:
        """The frame of a message.

        Arguments:
            sent: the message.
            version: the agreed version.
            client: whether the client sends it.

        Raises:
            FormatError: this side must not send the message in this version, or one of its values cannot be sent.
        """
        kind = type(sent)
        if self._by_op[client].get(kind.OP) is not kind or kind in self._received_only or version < kind.SINCE:
            raise FormatError(f"{kind.__name__} is not sent to {self.service} in version {version}")
        frame = encode_frame(sent, version)
        if self.decode(kind.OP, frame[FRAME.size :], version, client=client) != sent:
            raise FormatError(f"{kind.__name__} does not survive its encoding", found=str(sent)[:200])
        return frame

    def limit(self, op: int, version: int, *, client: bool) -> int:
        """The longest body of a message with this code.

        Raises:
            FormatError: that side does not send such a message.
        """
        return self._kind(op, version, client).LIMIT

    def decode(self, op: int, body: bytes, version: int, *, client: bool) -> Message:
        """The message of a frame.

        Raises:
            FormatError: that side does not send such a message, or the body does not fit its fields. No bytes raise
                another error.
        """
        kind = self._kind(op, version, client)
        if len(body) > kind.LIMIT:
            raise FormatError(f"{kind.__name__} is too long", expected=plural(kind.LIMIT, "byte"), found=str(len(body)))
        reader = ByteReader(body)
        try:
            values = {name: value.read(reader) for name, value, since in kind.COLUMNS if version >= since}
            reader.finish()
        except FormatError as error:
            raise FormatError(f"{kind.__name__}: {error.what}", expected=error.expected, found=error.found) from error
        except (ValueError, OverflowError, IndexError, struct.error) as error:
            raise FormatError(f"{kind.__name__}: the body does not fit its fields", found=str(error)) from error
        return kind(**values)

    def _kind(self, op: int, version: int, client: bool) -> type[Message]:
        kind = self._by_op[client].get(op)
        if kind is None or version < kind.SINCE:
            side = "client" if client else "server"
            raise FormatError(f"the {side} of {self.service} sends no such message", found=f"code {op}")
        return kind


def encode_frame(sent: Message, version: int) -> bytes:
    """The frame of a message, unchecked; used by ``Table.encode`` and for playing recordings."""
    writer = ByteWriter()
    kind = type(sent)
    for name, value, since in kind.COLUMNS:
        if version >= since:
            try:
                value.write(writer, getattr(sent, name))
            except FormatError as error:
                raise FormatError(f"{kind.__name__}, {name}: {error}") from error
            except (AttributeError, OverflowError, TypeError, ValueError, struct.error) as error:
                raise FormatError(f"{kind.__name__}: {name} cannot travel", found=str(error)) from error
    body = writer.getvalue()
    if len(body) > kind.LIMIT:
        raise FormatError(f"{kind.__name__} is too long", expected=plural(kind.LIMIT, "byte"), found=str(len(body)))
    return FRAME.pack(kind.OP, len(body)) + body
