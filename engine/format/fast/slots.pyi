"""Decodes the slots of a full BIN into lists, all at once; exists only in the native build (``slots.c``).

General twin: ``bin.read_records``, which documents the layout. The lists have exactly one element per slot, without the
spare room of lists that grow.
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
        body: body of the entry.
        at, count, prefix, base, expiration_base: from its ``BINHead``: ``slots_at``, ``slots`` and the fields of the
            same name.
        has_sizes, in_hours: from its flags.

    Returns:
        None if the bytes are not valid slots, or more bytes follow; the twin reports what is wrong.
    """
