"""Small reads of a file through a map of it; there only in the native build (``file_map.c``).

A ``pread`` of one record costs more than a microsecond, most of it on the way into the kernel and back; a copy from a
map costs a tenth of one. ``disk`` asks the map first and reads as ever where it answers None. General twin: ``pread``.

A map would bring three troubles of its own:

* a file that shrinks under it ends the process by SIGBUS. The copy is guarded, and the answer is None, as for a page
  that the disk cannot read; the ``pread`` that follows says what is wrong;
* a page that has to be read from disk is waited for with the interpreter's lock held. So the first read of a chunk of
  64 KiB answers None: ``pread`` waits without the lock and leaves the chunk in the page cache;
* what was read counts as memory of the process. Chunks are counted over all maps. Where they would be more than
  ``keep_at_most`` allows (nothing at first), all maps let go of their pages, which stay in the system's page cache.

Example: the LN at 5/0x82c of 66 bytes in a file of 10,000,000 bytes. The first read at 0x82c answers None, and so do
those of the other 152 chunks; every later one in 0x0 to 0xffff is a copy.
"""

from typing import final

@final
class FileMap:
    """A map of an open file as long as it is now.

    Arguments:
        handle: a file descriptor, which may be closed afterwards.

    Raises:
        OSError: the system makes no map of it.
    """

    def __new__(cls, handle: int, /) -> FileMap: ...
    @property
    def size(self) -> int:
        """Bytes of the file when the map was made."""

    def read(self, offset: int, length: int, /) -> bytes | None:
        """Bytes of the file; None: not all of them are to be had here, ask the file."""

    def close(self) -> None:
        """Unmap. Closing twice is harmless; reads answer None from then on."""

def keep_at_most(size_bytes: int, /) -> None:
    """Bound what all maps of the process hold."""

def most_bytes() -> int:
    """The bound, in whole chunks."""

def kept_bytes() -> int:
    """What they hold now, in whole chunks."""
