"""Where rendered bytes go: standard output, or a file that appears only when it is complete.

Rules:

* ``--output FILE``: the bytes go to a temporary file beside FILE. ``commit`` syncs it, renames it over FILE and syncs
  the directory; ``abandon`` removes it, after a kill the next run with the same FILE. So FILE is always either the old
  result or a complete new one.
* A target that is no regular file (``/dev/null``, a pipe) is written directly.
* A closed pipe and a full disk are told apart: the first ends the run quietly, the second is an error that says that
  the result is incomplete. Both can show as late as the last flush, so ``flush`` ends every run.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO, Final, Protocol

from engine.errors import StorageError

# What messages call it.
STDOUT: Final = "standard output"


class OutputClosedError(Exception):
    """The reader of standard output has gone away. Not an error of this program."""


class Sink(Protocol):
    """Takes bytes between ``open`` and one of ``commit`` and ``abandon``."""

    def open(self) -> None:
        """Get ready. StorageError when nothing can be written."""

    def write(self, data: bytes) -> None:
        """Take all of ``data``. OutputClosedError or StorageError when that cannot be done."""

    def flush(self) -> None:
        """Hand over what is buffered."""

    def commit(self) -> None:
        """The result is complete."""

    def abandon(self) -> None:
        """The result will not be complete. Raises nothing."""


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale.

    Arguments:
        before: called with what is about to be written (a progress bar on the same terminal has to go first).
    """

    def __init__(self, before: Callable[[bytes], None] | None = None) -> None:
        self._before = before

    def open(self) -> None:
        """Make sure that there is one: Python has None for a descriptor that was closed before the start."""
        if sys.stdout is None:
            raise StorageError(f"cannot write the results to {STDOUT}", found="it is closed")
        # Bytes, past Python's text layer: its encoding follows the locale.
        self._stream = sys.stdout.buffer
        self._live = sys.stdout.isatty()

    def write(self, data: bytes) -> None:
        """Write; at once when somebody is looking."""
        if self._before is not None and data:
            self._before(data)
        try:
            self._stream.write(data)
            if self._live:
                self._stream.flush()
        except OSError as error:
            raise output_failure(error, STDOUT) from error

    def flush(self) -> None:
        """Flush Python's buffer."""
        flush()

    def commit(self) -> None:
        """Flush, so that a failure shows in the exit code."""
        flush()

    def abandon(self) -> None:
        """What was printed cannot be taken back."""


class FileOutput:
    """A file that is replaced as a whole.

    Its temporary name is known before the file is made, so that ``abandon`` leaves nothing behind at any moment.

    Arguments:
        path: the file to write.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._temporary: str | None = None
        self._file: BinaryIO = io.BytesIO()

    def open(self) -> None:
        """Make the temporary file. StorageError when that is refused."""
        try:
            self._file = self._opened()
        except OSError as error:
            found = error.strerror or str(error)
            raise StorageError("cannot write", file=self._path, found=found, consequence="nothing was done") from error

    def _opened(self) -> BinaryIO:
        try:
            mode = os.stat(self._path).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            # A pipe or a device cannot be replaced by a rename.
            return open(self._path, "wb")  # noqa: PTH123 - a directory raises the error that the user needs
        # Only a run with --output pays for it.
        from engine.storage.unfinished import hold, remove_abandoned, unfinished_name

        self._path = os.path.realpath(self._path)  # a symbolic link stays a link
        # In the same directory, so that the rename stays within one file system.
        remove_abandoned(Path(self._path))
        self._temporary = str(unfinished_name(Path(self._path)))
        # Mode 0666 less the umask, as ``open`` would make FILE itself.
        number = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        hold(number)
        file = os.fdopen(number, "wb")
        if mode is not None:
            # A replaced file keeps its permissions.
            os.fchmod(number, stat.S_IMODE(mode))
        return file

    def write(self, data: bytes) -> None:
        """Write to the temporary file."""
        try:
            self._file.write(data)
        except OSError as error:
            raise output_failure(error, self._path) from error

    def flush(self) -> None:
        """Flush Python's buffer. The file still has its temporary name."""
        try:
            self._file.flush()
        except OSError as error:
            raise output_failure(error, self._path) from error

    def commit(self) -> None:
        """Sync, rename, sync the directory."""
        try:
            self._file.flush()
            if self._temporary is None:
                self._file.close()
                return
            # Before the rename: after a crash FILE must not be a name for bytes that never arrived.
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self._path)
            # From here on there is nothing for ``abandon`` to remove.
            self._temporary = None
            _sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise output_failure(error, self._path) from error

    def abandon(self) -> None:
        """Remove the temporary file; the old FILE, if there was one, stays."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                os.remove(self._temporary)
            self._temporary = None


def _sync_directory(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def flush() -> None:
    """Write out what Python still holds for the standard streams.

    Raises:
        OutputClosedError: the reader of standard output is gone.
        StorageError: standard output cannot be written (disk full).
    """
    if sys.stdout is None or sys.stderr is None:  # closed before the start: the first output fails
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise output_failure(error, STDOUT) from error
    drop_unwritten_messages()


def drop_unwritten_messages() -> None:
    """Flush standard error, and let go of what it does not take: Python would end with 120 for it."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def output_failure(error: OSError, name: str) -> Exception:
    """What to raise when writing results failed.

    Arguments:
        error: the refusal of the operating system.
        name: the target as the user would call it.
    """
    if isinstance(error, BrokenPipeError):
        return OutputClosedError()
    if name == STDOUT:
        # A full disk stays full: the rest of the buffer must not fail once more at exit.
        silence(sys.stdout)
    return StorageError(
        "cannot write the results" + (f" to {name}" if name == STDOUT else ""),
        file=None if name == STDOUT else name,
        found=error.strerror or str(error),
        consequence="what was written so far is incomplete",
    )


def silence(stream: IO[str]) -> None:
    """Point a stream's descriptor at /dev/null, so that what is left in its buffer is not tried again at exit."""
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # closed, or not a real file (tests)
        return
    null = os.open(os.devnull, os.O_WRONLY)
    # The descriptor, not the object: libraries hold it too.
    os.dup2(null, number)
    os.close(null)
