"""Keys and data that callers pass, as bytes: checked before a lock is taken or a node changes.

Keys and data are ``bytes``; ``bytearray`` and ``memoryview`` are copied, so that a later change to them cannot reach a
node. Everything else is refused: ``str`` has no single encoding, and None is not the empty key.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from engine.errors import ArgumentError

BytesLike: TypeAlias = bytes | bytearray | memoryview
# A log entry has a signed size of four bytes; everything in it besides key and data takes less than this.
MOST_BYTES: Final = (1 << 31) - (1 << 12)


def bytes_of(value: object, what: str) -> bytes:
    """Key or data as bytes.

    Arguments:
        what: the name of the argument in the message.

    Raises:
        ArgumentError: the value has another type, or is longer than a log entry can be.
    """
    if type(value) is not bytes:
        if not isinstance(value, BytesLike):
            raise ArgumentError(
                f"wrong type for the {what}",
                expected="bytes, bytearray or memoryview",
                found="None" if value is None else type(value).__name__,
                consequence=f"encode it, as in {what.split()[-1]}.encode()"
                if isinstance(value, str)
                else "nothing was changed",
            )
        value = bytes(value)
    if len(value) > MOST_BYTES:
        raise ArgumentError(
            f"the {what} is too long",
            expected=f"{MOST_BYTES} bytes at most",
            found=str(len(value)),
            consequence="nothing was changed",
        )
    return value
