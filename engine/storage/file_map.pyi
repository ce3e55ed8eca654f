"""Small reads of a file through a memory map; exists only in the native build (``file_map.c``).

A ``pread`` of one record costs more than a microsecond, most of it for the system call; a copy from a map costs a tenth
of that. ``disk`` tries the map first and reads in the ordinary way if the result is None. General twin: ``pread``.

A plain map would have three problems:

* A file that shrinks while it is mapped ends the process by SIGBUS. Here the copy is guarded, and the result is None,
  as for a page that the disk cannot read; the ``pread`` that follows reports the error.
* Reading a page from disk blocks with the interpreter's lock held. So the first read of a chunk of 64 KiB returns None:
  ``pread`` waits without the lock and leaves the chunk in the page cache.
* Pages that were read count as memory of the process. Chunks are counted over all maps. If they exceed the limit of
  ``keep_at_most`` (initially 0), all maps release their pages, which stay in the system's page cache.

Example: the LN at 5/0x82c of 66 bytes in a file of 10,000,000 bytes. The first read at 0x82c returns None, and so do
the first reads of the other 152 chunks; every later one in 0x0 to 0xffff is a copy.
"""

from typing import final

@final
class FileMap:
    """A map of an open file with its current length.

    Arguments:
        handle: a file descriptor, which may be closed afterwards.

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
