"""Values of the replication group's database, ``_jeRepGroupDB`` (je-log-format.md 11.4).

Key ``$$GROUP_KEY$$`` is the record of the group; every other key (``t_str``) is the name of a node.

=================================  ==================================================
group                              node
=================================  ==================================================
t_str name                         t_str name, t_int id
t_long, t_long UUID                [format 3: t_byte group format version] t_byte type
t_int format version               t_bool quorum acknowledged, t_bool removed
t_int change version               t_str host, t_int port
t_int last node id                 t_long local CBVLSN, t_long barrier time
[format 3: t_str least JE version]  t_int change version, [format 3: t_str JE version]
=================================  ==================================================

A node record states its own format: a first byte above 1 is the format version, otherwise it is the type in format 2.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format import tuples
from engine.format.bytecursor import ByteReader, ByteWriter

GROUP_KEY: Final = "$$GROUP_KEY$$"
# The names of the node types, indexed by their on-disk ids.
NODE_TYPES: Final = ("monitor", "electable", "secondary", "arbiter", "external")
_FORMAT_WITH_VERSIONS: Final = 3
_HIGHEST_TYPE_OF_FORMAT_2: Final = 1


class RepGroup(NamedTuple):
    """A replication group; ``min_je_version`` is None up to format 2."""

    name: str | None
    uuid_high: int
    uuid_low: int
    format_version: int
    change_version: int
    last_node_id: int
    min_je_version: str | None


class GroupNode(NamedTuple):
    """A member of the group.

    Attributes:
        format_version: 2, or the version stated in the record.
        type: index into NODE_TYPES.
        local_cbvlsn: -1 since JE 7.5.
        barrier_time: milliseconds since 1970.
        je_version: None in format 2.
    """

    name: str | None
    id: int
    format_version: int
    type: int
    quorum_ack: bool
    removed: bool
    host: str | None
    port: int
    local_cbvlsn: int
    barrier_time: int
    change_version: int
    je_version: str | None


def decode_group(data: bytes) -> RepGroup:
    """Decode the group record."""
    reader = ByteReader(data)
    name, high, low = tuples.read_string(reader), tuples.read_long(reader), tuples.read_long(reader)
    version, change, last_id = tuples.read_int(reader), tuples.read_int(reader), tuples.read_int(reader)
    least = tuples.read_string(reader) if version >= _FORMAT_WITH_VERSIONS else None
    reader.finish()
    return RepGroup(name, high, low, version, change, last_id, least)


def encode_group(record: RepGroup) -> bytes:
    """Encode the group record."""
    writer = tuples.write_string(ByteWriter(), record.name)
    tuples.write_long(tuples.write_long(writer, record.uuid_high), record.uuid_low)
    for number in (record.format_version, record.change_version, record.last_node_id):
        tuples.write_int(writer, number)
    if record.format_version >= _FORMAT_WITH_VERSIONS:
        tuples.write_string(writer, record.min_je_version)
    return writer.getvalue()


def decode_group_node(data: bytes) -> GroupNode:
    """Decode a node record.

    Raises:
        FormatError: the record is malformed, or its type is unknown.
    """
    reader = ByteReader(data)
    record = read_group_node(reader)
    reader.finish()
    return record


def read_group_node(reader: ByteReader) -> GroupNode:
    """Read a node record that may be followed by other data.

    Raises:
        FormatError: the record is malformed, or its type is unknown.
    """
    name, node_id = tuples.read_string(reader), tuples.read_int(reader)
    version, node_type = 2, tuples.read_byte(reader)
    # A value above the highest type of format 2 is the version of the record.
    if node_type > _HIGHEST_TYPE_OF_FORMAT_2:
        version, node_type = node_type, tuples.read_byte(reader)
    if not 0 <= node_type < len(NODE_TYPES):
        raise FormatError("type of a group member", expected=f"0..{len(NODE_TYPES) - 1}", found=str(node_type))
    ack, removed = tuples.read_bool(reader), tuples.read_bool(reader)
    host, port = tuples.read_string(reader), tuples.read_int(reader)
    cbvlsn, barrier, change = tuples.read_long(reader), tuples.read_long(reader), tuples.read_int(reader)
    je_version = tuples.read_string(reader) if version >= _FORMAT_WITH_VERSIONS else None
    return GroupNode(name, node_id, version, node_type, ack, removed, host, port, cbvlsn, barrier, change, je_version)


def encode_group_node(record: GroupNode) -> bytes:
    """Encode a node record."""
    writer = tuples.write_int(tuples.write_string(ByteWriter(), record.name), record.id)
    if record.format_version >= _FORMAT_WITH_VERSIONS:
        tuples.write_byte(writer, record.format_version)
    tuples.write_bool(tuples.write_byte(writer, record.type), record.quorum_ack)
    tuples.write_string(tuples.write_bool(writer, record.removed), record.host)
    tuples.write_long(tuples.write_int(writer, record.port), record.local_cbvlsn)
    tuples.write_int(tuples.write_long(writer, record.barrier_time), record.change_version)
    if record.format_version >= _FORMAT_WITH_VERSIONS:
        tuples.write_string(writer, record.je_version)
    return writer.getvalue()
