"""The slots of a full BIN as lists, at once; there only in the native build (``slots.c``).

General twin: ``bin.read_records``, which has the layout. The lists are as long as the node has slots, without the room
that a list keeps that grew.
"""

def read_slots(
    body: bytes,
    at: int,
    count: int,
    prefix: bytes,
    base: int | None,
    has_sizes: bool,
    expiration_base: int,
    in_hours: bool,
    /,
) -> tuple[list[bytes], list[int], bytearray, list[bytes | None], list[int], list[int], int] | None:
    """Keys, LSNs, states, values, sizes and expirations as ``read_records`` appends them, and bytes of embedded data.

    Arguments:
        body: of the entry.
        at, count, prefix, base, expiration_base: of its ``BINHead``: ``slots_at``, ``slots`` and those of their name.
        has_sizes, in_hours: what its flags say.

    Returns:
        None where that is no such slots, or not all that is there; the twin says what is wrong with them.
    """
