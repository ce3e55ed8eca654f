r"""Text messages: one line in each direction, with fields between bars (je-ha-protocol.md 12.1).

    version|group|id of the sender|OP[|payload...]\n

A message is a frozen record whose field types define the encoding, as in ``engine.rep.wire.messages``; the part before
the operation is its ``Envelope``. A sender that is not a member has the id ``NO_CHECK``. Groups, names and texts that
are sent contain neither bars nor line ends, and a line is only sent if it decodes to an equal message.

Never sent from here: ``X``, which shuts down the election agents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, NamedTuple, TypeVar, dataclass_transform, get_type_hints

from engine.errors import FormatError
from engine.rep.wire.values import ascii_bytes

NO_CHECK: Final = -(1 << 31)
# A group of a thousand members takes about 200 KiB.
LONGEST_LINE: Final = 1 << 20
SEPARATOR: Final = "|"
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_VERSION: Final = re.compile(r"\d{1,3}(?:\.\d{1,3})?", re.ASCII)
_LONG: Final = range(-(1 << 63), 1 << 63)
_ENVELOPE: Final = 3
C = TypeVar("C")
T = TypeVar("T")


class Token(Generic[T]):
    """How one type of field is read and written.

    Arguments:
        read: decodes the value of a field.
        write: makes the field.
        rest: the value includes all following words and bars, except the words that later fields need.
        optional: the field may be absent at the end.
    """

    def __init__(
        self, read: Callable[[str], T], write: Callable[[T], str], *, rest: bool = False, optional: bool = False
    ) -> None:
        self.read = read
        self.write = write
        self.rest = rest
        self.optional = optional


class Envelope(NamedTuple):
    """The sender, the version of the service's protocol, and the group."""

    version: str
    group: str
    sender: int


class MessageField(NamedTuple):
    """A field of a message class."""

    name: str
    token: Token[Any]


class TextMessage:
    """One message; subclasses are made by ``text_message``."""

    __slots__ = ()
    OP: ClassVar[str]
    SLOTS: ClassVar[tuple[MessageField, ...]]


@dataclass_transform(kw_only_default=True, frozen_default=True)
def text_message(op: str) -> Callable[[type[C]], type[C]]:
    """Class decorator: make a class a message of this operation."""

    def made(cls: type[C]) -> type[C]:
        record: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        hints = get_type_hints(cls, include_extras=True)
        record.OP = op
        record.SLOTS = tuple(
            MessageField(name, hint.__metadata__[0]) for name, hint in hints.items() if hasattr(hint, "__metadata__")
        )
        return record  # type: ignore[no-any-return]

    return made


class LineTable:
    """The messages of one text service.

    Arguments:
        service: the name of the service.
        version: the highest supported version of its protocol.
        client, server: classes that the side may send.
        received_only: classes that this program never sends.
    """

    def __init__(
        self,
        service: str,
        version: str,
        client: Iterable[type[TextMessage]],
        server: Iterable[type[TextMessage]] = (),
        received_only: Iterable[type[TextMessage]] = (),
    ) -> None:
        self.service = service
        self.version = version
        answers: tuple[type[TextMessage], ...] = (*server, OkReply, FailReply, ProtocolErrorReply)
        self._by_op = {True: {one.OP: one for one in client}, False: {one.OP: one for one in answers}}
        self._received_only = frozenset(received_only)

    def classes(self) -> list[tuple[type[TextMessage], bool]]:
        """Each class, and whether the client sends it."""
        return [(one, client) for client, known in self._by_op.items() for one in known.values()]

    def encode(self, envelope: Envelope, sent: TextMessage, *, client: bool) -> bytes:
        """The line of a message, with its end.

        Raises:
            FormatError: this side must not send the message, or one of its values cannot be sent.
        """
        kind = type(sent)
        if self._by_op[client].get(kind.OP) is not kind or kind in self._received_only:
            raise FormatError(f"{kind.__name__} is not sent to {self.service}")
        line = encode_line(envelope, sent)
        if self.decode(line, client=client) != (envelope, sent):
            raise FormatError(f"{kind.__name__} does not survive its encoding", found=str(sent)[:200])
        return line

    def decode(self, line: bytes, *, client: bool) -> tuple[Envelope, TextMessage]:
        """The message of a line.

        Raises:
            FormatError: that side does not send such a message, or its fields are wrong. Invalid bytes raise no error
                other than FormatError.
        """
        if len(line) > LONGEST_LINE:
            raise FormatError("line of a message", expected=f"up to {LONGEST_LINE} bytes", found=str(len(line)))
        words = line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r").split(SEPARATOR)
        if len(words) <= _ENVELOPE or _VERSION.fullmatch(words[0]) is None:
            raise FormatError("line of a message", expected="version, group, sender, operation", found=_shown(words))
        envelope = Envelope(words[0], words[1], _read_number(words[2]))
        kind = self._by_op[client].get(words[_ENVELOPE])
        if kind is None:
            side = "client" if client else "server"
            raise FormatError(f"the {side} of {self.service} sends no such message", found=words[_ENVELOPE][:80])
        return envelope, kind(**_fields(kind, words[_ENVELOPE + 1 :]))


def encode_line(envelope: Envelope, sent: TextMessage) -> bytes:
    """The line of a message, unchecked; used by ``LineTable.encode`` and for playing recordings."""
    words = [envelope.version, envelope.group, str(envelope.sender), sent.OP]
    for name, token in sent.SLOTS:
        value = getattr(sent, name)
        if value is None and token.optional:
            continue
        try:
            words.append(token.write(value))
        except (AttributeError, TypeError, ValueError) as error:
            raise FormatError(f"{type(sent).__name__}: {name} cannot travel", found=str(error)) from error
    for word in words:
        if not word.isascii() or not (word.isprintable() or not word):
            raise FormatError(f"{type(sent).__name__}: a field", expected="printable ASCII", found=repr(word[:80]))
    return SEPARATOR.join(words).encode("ascii") + b"\n"


def _fields(kind: type[TextMessage], words: list[str]) -> dict[str, Any]:
    """Fields by name, from the words after the operation."""
    values: dict[str, Any] = {}
    slots = list(kind.SLOTS)
    if slots and slots[-1].token.optional and len(words) < len(slots):
        slots.pop()
    for index, (name, token) in enumerate(slots):
        after = len(slots) - index - 1
        taken = len(words) - after if token.rest else 1
        if taken < 1 or taken > len(words):
            raise FormatError(f"{kind.__name__}: fields", expected=str(len(kind.SLOTS)), found=_shown(words))
        try:
            values[name] = token.read(SEPARATOR.join(words[:taken]))
        except FormatError as error:
            raise FormatError(f"{kind.__name__}, {name}: {error}") from error
        del words[:taken]
    if words:
        raise FormatError(f"{kind.__name__}: fields left over", found=_shown(words))
    return values


def _shown(words: list[str]) -> str:
    return repr(SEPARATOR.join(words)[:80])


def _read_number(word: str) -> int:
    # Java writes neither a plus sign nor leading zeros, so a number that was read is written in the same form.
    if _NUMBER.fullmatch(word) is None or int(word) not in _LONG or str(int(word)) != word:
        raise FormatError("number", expected="a decimal number of 64 bits", found=repr(word[:80]))
    return int(word)


def _write_number(number: int) -> str:
    if number not in _LONG:
        raise ValueError(number)
    return str(number)


def _write_field(text: str) -> str:
    if SEPARATOR in text:
        raise ValueError(f"a bar in {text[:80]!r}")
    ascii_bytes(text)
    return text


def choice(*choices: str) -> Token[str]:
    """A field type: one of the given words."""

    def checked(word: str) -> str:
        if word not in choices:
            raise FormatError("word of a message", expected=", ".join(choices), found=repr(word[:80]))
        return word

    return Token(checked, checked)


def or_empty(token: Token[T]) -> Token[T | None]:
    """A field type like the given one, but None for an empty field."""
    return Token(
        lambda word: token.read(word) if word else None, lambda value: "" if value is None else token.write(value)
    )


FIELD: Final[Token[str]] = Token(str, _write_field)
SENTENCE: Final[Token[str]] = Token(str, str, rest=True)
NUMBER: Final[Token[int]] = Token(_read_number, _write_number)
TRUTH: Final[Token[bool]] = Token(
    lambda word: choice("true", "false").read(word) == "true", lambda value: str(bool(value)).lower()
)
OPTIONAL_NUMBER: Final[Token[int]] = Token(_read_number, _write_number, optional=True)

# Of every service.
BAD_FORMAT: Final = "BAD_FORMAT"
VERSION_MISMATCH: Final = "VERSION_MISMATCH"
GROUP_MISMATCH: Final = "GROUP_MISMATCH"
NOT_A_MEMBER: Final = "NOT_A_MEMBER"
PROBLEMS: Final = (BAD_FORMAT, VERSION_MISMATCH, GROUP_MISMATCH, NOT_A_MEMBER)


@text_message("OK")
class OkReply(TextMessage):
    """The request was executed."""


@text_message("FAIL")
class FailReply(TextMessage):
    """The request failed, with the reason."""

    text: Annotated[str, SENTENCE]


@text_message("PE")
class ProtocolErrorReply(TextMessage):
    """The line was refused; the envelope of the answer has the node's own version, group and id."""

    problem: Annotated[str, choice(*PROBLEMS)]
    text: Annotated[str, SENTENCE]
