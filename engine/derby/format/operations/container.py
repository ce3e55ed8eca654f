"""Operations on whole containers and files.

A container is one file, ``seg0/cHEX.dat``. ``version`` is the container version before the operation; drop raises it,
create and remove leave it (R-DRB-35).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.derby.format import codec
from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError, plural

CREATE: Final = 1
DROP: Final = 2
REMOVE: Final = 4
KIND_NAMES: Final = {CREATE: "create", DROP: "drop", REMOVE: "remove"}

# The header (derby-log-format.md 12.1) is in the create record, so that recovery can make the file again (R-DRB-33).
CREATION_HEADER_SIZE: Final = 80


class ContainerOperation(NamedTuple):
    """A container is created, dropped or removed. Only a creation has ``header``."""

    segment: int
    container: int
    version: int
    kind: int
    header: bytes | None


class ContainerUndo(NamedTuple):
    """CLR of a creation (the container is removed) or of a drop (the mark is cleared)."""

    segment: int
    container: int
    version: int


class RemoveFile(NamedTuple):
    """A stored file (a jar) is removed, at commit or at once."""

    name: str
    generation: int
    at_once: bool


class EncryptContainer(NamedTuple):
    """A container is rewritten with another key."""

    segment: int
    container: int


class EncryptContainerUndo(NamedTuple):
    """CLR of the rewriting."""


def read_container(cursor: FieldCursor) -> ContainerOperation:
    """The fields of operation 242."""
    segment, container, version = cursor.clong(), cursor.clong(), cursor.clong()
    kind = cursor.byte()
    if kind not in KIND_NAMES:
        raise FormatError("unknown container operation", expected="1, 2 or 4", found=str(kind))
    # R-DRB-33: only a creation must be repeatable without the file.
    header = cursor.byte_array() if kind == CREATE else None
    if header is not None and len(header) != CREATION_HEADER_SIZE:
        raise FormatError("a creation without a whole header", expected="80 bytes", found=plural(len(header), "byte"))
    return ContainerOperation(segment, container, version, kind, header)


def write_container(out: bytearray, operation: ContainerOperation) -> None:
    """Append the fields of operation 242."""
    codec.put_clong(out, operation.segment)
    codec.put_clong(out, operation.container)
    codec.put_clong(out, operation.version)
    out.append(operation.kind)
    if operation.kind == CREATE:
        codec.put_byte_array(out, operation.header or b"")
