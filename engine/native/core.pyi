"""The inner loops in C: the contract of ``engine.native.core``, which only the native build has.

Arguments and results are buffers and numbers: bytes, bytearrays, lists, dicts and arrays of these. No function takes an
object of the engine, but ``records_of``, which makes tuples of a class that it is given. Every function has a twin in
Python with the same results, named below; where a function cannot decide, it returns None and the caller uses the twin.
``engine.native`` hands the functions out.

The constants of the format are only in ``engine.format``; each part reads them from there with its first call.
"""

from array import array
from collections.abc import Set
from typing import Any, TypeVar, final

_Record = TypeVar("_Record", bound=tuple[Any, ...])
# What has the buffer protocol: bytes, arrays, and numpy's arrays.
_Buffer = Any

# Walks over headers. Twins: ``check_plain``, ``follow_links``, ``sift`` and ``pick_open`` of
# ``engine.format.fast.loops``, which documents rules and results. On a log of 50 MB the first three take 0.05, 0.11 and
# 0.11 of the time of their twins: a header costs no object, and the checksum of an entry is computed sixteen bytes at a
# time if the processor can (SSE2, which every x86-64 has).

def walk(
    data: bytes,
    pos: int,
    base: int,
    prev_offset: int,
    last_vlsn: int,
    with_vlsn: int,
    slots: array[int],
    tallies: array[int],
    /,
) -> tuple[int, int, int]:
    """Check entries as ``loops.check_plain`` does.

    Arguments:
        data, pos, base, prev_offset, last_vlsn, with_vlsn: see ``loops.check_plain``.
        slots: by ``type | flags << 8`` the slot of ``tallies`` in which the pair is counted; 0 for pairs that stop the
            walk. Like ``tallies``, an array of 64-bit numbers ("q").
        tallies: entries, bytes of items, smallest item and largest item of each slot; increased.

    Returns:
        See ``check_plain``.
    """

def follow(
    data: bytes, pos: int, end: int, base: int, prev_offset: int, last_vlsn: int, lengths: list[int], /
) -> tuple[int, int, int, int, int]:
    """See ``loops.follow_links``: same arguments and result."""

def sift(
    data: bytes, pos: int, until: int, actions: list[int], lengths: list[int], found: list[int], tallies: array[int], /
) -> int:
    """See ``loops.sift``: same arguments and result."""

def pick_open(
    data: bytes,
    actions: list[int],
    lengths: list[int],
    flag_bytes: int,
    has_abort_lsn: int,
    chunks: dict[int, array[int]],
    bits: int,
    found: list[int],
    /,
) -> int:
    """See ``loops.pick_open``: same arguments and result."""

def sift_expirations(
    data: bytes, kinds: bytes, layout: tuple[int, int, int, bool], lengths: list[int], found: list[int], /
) -> int:
    """Find entries that may hold expiring records; twin: ``engine.format.fast.expiration_scan.sift``.

    For a log without expirations no object is made at all: 300 MB take 0.05 s, the compiled twin takes 0.5 s.
    """

# Lines of entries. A line is made from a layout that the caller brings, a tuple of lists, bytes and texts, so that the
# words of an output stand in one place.

def entry_lines(
    data: bytes,
    pos: int,
    end: int,
    lsn: int,
    layout: tuple[Any, ...],
    texts: tuple[dict[int, tuple[str, str] | None], dict[int, tuple[str, str] | None]],
    most_bytes: int,
    /,
) -> tuple[bytes, int, int, tuple[int, int] | None]:
    """See ``engine.format.fast.entry_lines.entry_lines_plain``, its twin: same arguments and result.

    Raises:
        TypeError, ValueError, IndexError: the layout or the texts are not what their contract says.
    """

def txn_rows(
    data: bytes, positions: list[int], at: int, lengths: list[int], version: int, lsn: int, /
) -> tuple[int, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes] | None:
    """See ``engine.format.fast.txn_rows.txn_rows_plain``, its twin: same arguments, and the same values as a tuple.

    A million transactions of two entries each take 0.1 s; the twin takes 5 s.

    Returns:
        None for a log version with other bodies.
    """

# Blocks of entries that a load writes.

def encode_lns(
    out: _Buffer,
    previous: _Buffer,
    keys: tuple[_Buffer, _Buffer],
    values: tuple[_Buffer, _Buffer],
    heads: tuple[bytes, bytes],
    most_embedded: int,
    /,
) -> int | None:
    """Write the LNs of many records one after the other; twin: ``LNBlock`` of ``engine.pipeline.load.blocks``.

    The twin makes a matrix of equal entries and takes their checksums by a matrix product. This function takes a fifth
    of its time.

    Arguments:
        out: where the entries go, from its beginning.
        previous: for each entry the offset of the previous one. All arrays are of 64-bit numbers ("q").
        keys, values: a column, as bytes and ends: string i goes from ends[i] to ends[i + 1].
        heads: what precedes the length of the data in a body: of ordinary data, and of embedded data.
        most_embedded: the longest data that is embedded.

    Returns:
        Bytes that were written; None if ``out`` is too short, an end is not in its column, or a number is out of range.
    """

# Nodes. A list has exactly one element per slot, without the spare room of lists that grow.

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
) -> tuple[list[bytes], list[int], bytearray, list[bytes | None], list[int], list[int], int, int] | None:
    """Decode the slots of a BIN or a delta; twin: ``engine.format.fast.bin.read_records``, which documents the layout.

    Arguments:
        body: body of the entry.
        at, count, prefix, base, expiration_base: from its ``BINHead``: ``slots_at``, ``slots`` and the fields of the
            same name.
        has_sizes, in_hours: from its flags.

    Returns:
        Keys, LSNs, states, values, sizes and expirations as ``read_records`` appends them, bytes of embedded data, and
        the position after the slots. None if the bytes are not valid slots; the twin reports what is wrong.
    """

def find(keys: list[Any], key: Any, /) -> int | None:
    """The index of a key; if it is missing, ``~`` of its insertion point, a negative number. Twin: ``bisect_left``.

    Most of the cost of a search is waiting for the memory of the keys; ``bisect`` touches each of them twice and calls
    into their type. None if something is not bytes.

    Example: in ``[b"b", b"d"]`` the key ``b"d"`` is found at 1; ``b"c"`` is missing, with insertion point 1: -2.
    """

def covering(keys: list[Any], key: Any, /) -> int | None:
    """The last index whose key is not above a key; 0 if every key is above it. Twin: ``bisect_right``."""

def ascends(keys: list[Any], first: int, /) -> bool | None:
    """Whether the keys from an index on are strictly ascending. Twin: a comparison of neighbours."""

def live_slot(
    keys: list[Any],
    lsns: list[int],
    states: bytearray,
    values: list[bytes | None],
    expirations: list[int],
    key: Any,
    /,
) -> tuple[int, bytes | None] | None:
    """A live record of a BIN that does not expire: its slot, and its data if in memory. Twin: ``BIN.slot_for``.

    The lists are apart in memory, and are prefetched together. For a missing key the slot is ``~`` of its insertion
    point, as in ``find``. None means that the twin is needed: a key is not bytes, or the record is deleted or may
    expire.
    """

def records_of(
    kind: type[_Record], keys: list[Any], data: list[bytes | None], lsns: list[int], chosen: list[int], /
) -> list[_Record]:
    """Tuples of key, data and LSN of chosen slots, except those without data. Twin: a loop in ``engine.db.scan``.

    Arguments:
        kind: a class of named tuples of these three.
        data: of the chosen slots; keys and LSNs are those of all slots.

    Raises:
        IndexError: a slot does not exist.
    """

def merged_rows(
    columns: list[tuple[list[Any], array[int], array[int]]], places: array[int], bound: Any, /
) -> list[tuple[bytes, int, int, None]] | None:
    """The rows of sorted runs up to a bound. Twin: ``engine.recovery.redo_batch.merged_plain``.

    64 runs, steps of 1,000 rows: 0.3 of the time of the twin (compiled by mypyc), which sorts the rows of every step.

    Arguments, result: see the twin. None if a key is not bytes.

    Raises:
        TypeError, ValueError: the columns or the places are not what their contract says.
    """

# Maps of files. A ``pread`` of one record costs more than a microsecond, most of it for the system call; a copy from a
# map costs a twentieth of that. ``engine.storage.disk`` tries the map first and reads in the ordinary way if the result
# is None. A plain map would have three problems:
#
# * A file that shrinks while it is mapped ends the process by SIGBUS. Here the copy is guarded, and the result is None,
#   as for a page that the disk cannot read; the ``pread`` that follows reports the error.
# * Reading a page from disk blocks with the interpreter's lock held. So the first read of a chunk of 64 KiB returns
#   None: ``pread`` waits without the lock and leaves the chunk in the page cache.
# * Pages that were read count as memory of the process. Chunks are counted over all maps. At the limit of
#   ``keep_at_most`` (initially 0) a read of another chunk returns None. After many of these, four for each chunk of the
#   limit, all maps release their pages, which stay in the system's page cache.

@final
class FileMap:
    """A map of an open file with its current length.

    Example: the LN at 5/0x82c of 66 bytes in a file of 10,000,000 bytes. The first read at 0x82c returns None, and so
    do the first reads of the other 152 chunks; every later one in 0x0 to 0xffff is a copy.

    Arguments:
        handle: a file descriptor, which must stay open until ``close``: ``values_at`` reads by it.

    Raises:
        OSError: the system cannot map the file.
    """

    def __new__(cls, handle: int, /) -> FileMap: ...
    @property
    def size(self) -> int:
        """Size of the file when the map was made."""

    def read(self, offset: int, length: int, /) -> bytes | None:
        """Bytes of the file; None if not all of them are available here: read the file instead."""

    def close(self) -> None:
        """Unmap. Closing twice is harmless; reads return None from then on."""

def keep_at_most(size_bytes: int, /) -> None:
    """Limit the memory that all maps of the process hold."""

def most_bytes() -> int:
    """The limit, in whole chunks."""

def kept_bytes() -> int:
    """The memory that they hold now, in whole chunks."""

def value_at(files: dict[int, tuple[FileMap, int]], lsn: int, size: int, db_id: int, /) -> bytes | None:
    """The data of a user's record, straight from the map of its log file: no copy of the whole entry, no record.

    Twins: ``is_user_entry`` and ``plain_data`` in ``engine.format.fast.ln``. The same conditions are checked (type,
    size, checksum, visible, database, no uncommon field); if one fails, or the bytes are not in a map, the result is
    None.

    Example: the LN at 5/0x82c of 142 bytes in database 3, in a map of file 5 of version 17. ``value_at({5: (map, 17)},
    0x50000082c, 142, 3)`` is its data; with database 4, or a size of 141, it is None.

    Arguments:
        files: by file number the map, and the log version.
        size: size of the entry in bytes.
    """

def values_at(
    files: dict[int, tuple[FileMap, int]],
    lsns: list[int],
    sizes: list[int],
    chosen: list[int],
    db_id: int,
    in_memory: bool = False,
    /,
) -> list[bytes | None]:
    """Like ``value_at``, for chosen slots of a node.

    The memory of entries that are in maps is prefetched at once. All others are read from their files, forward and
    neighbours by one call, without the interpreter's lock.

    Arguments:
        lsns, sizes: of all slots.
        chosen: indexes of the slots.
        in_memory: read no file; entries that are not in maps are None.

    Raises:
        IndexError: a slot does not exist.
    """

@final
class ReadAhead:
    """``values_at`` in two steps: a thread reads the files between ``begin`` and ``finish``.

    The thread needs no lock of the interpreter, so it reads while Python prints records. It starts with the first
    ``begin`` and ends with the object. Twin: ``values_at`` at the time of ``finish``.

    Example: after ``begin({5: (map, 17)}, [0x50000082c, 0x5000008ba], [142, 142])`` and other work, ``finish(3)``
    returns the data of both records, which are in database 3.
    """

    def __new__(cls) -> ReadAhead: ...
    def begin(self, files: dict[int, tuple[FileMap, int]], lsns: list[int], sizes: list[int], /) -> bool:
        """Begin to read; forgets what was begun before.

        Returns:
            False if there is no thread for it: the process has 16 of them, the system gives none, or the object comes
            from before a fork. Then ``finish`` returns an empty list.

        Raises:
            ValueError: not every LSN has a size.
        """

    def finish(self, db_id: int, /) -> list[bytes | None]:
        """The data of the records, as ``values_at`` returns them; may wait for the thread."""

    def begin_raw(self, handles: list[int], offsets: list[int], length: int, /) -> bool:
        """Begin to read bytes of files; forgets what was begun before. Twin: ``os.pread`` in ``finish_raw``.

        Arguments:
            handles, offsets: a descriptor, which stays open until ``finish_raw``, and an offset for each read.
            length: bytes of each read.

        Returns:
            As ``begin``.

        Raises:
            ValueError: not every descriptor has an offset, or all reads are more than 4 MiB.
        """

    def finish_raw(self) -> list[bytes | None]:
        """What was read, shorter at the end of a file; None where reading failed. May wait for the thread."""

def queue_slots(
    lsns: list[int],
    sizes: list[int],
    states: bytearray,
    expirations: list[int],
    keys: list[Any],
    not_plain: int,
    end_lsn: int,
    files: Set[int],
    queues: dict[int, bytearray],
    /,
) -> list[int]:
    """Queue the plain slots of a BIN. Twin: ``engine.format.fast.queued_slots.queue_slots_plain``."""

def unlike_slots(
    data: bytes, start: int, queue: bytes | bytearray, version: int, db_id: int, obsolete: array[int] | bytes, /
) -> list[int]:
    """The queued slots whose entries are not plainly right. Twin: ``queued_slots.unlike_slots_plain``.

    The data are not a map of a file: they do not change during the call.
    """

def tally_slots(
    lsns: list[int],
    sizes: list[int],
    states: bytearray,
    expirations: list[int],
    not_counted: int,
    tally: dict[int, list[int]],
    /,
) -> None:
    """Count the records of a BIN by log file. Twin: ``engine.format.fast.queued_slots.tally_slots_plain``."""

def unpacked_offsets(count: int, raw: bytes, /) -> tuple[int, ...] | None:
    """Obsolete offsets of a FileSummaryLN. Twin: ``engine.format.entry.ln_content.unpacked_offsets_plain``.

    None: they are not that many, or not encoded as JE does; the twin reports it.
    """
