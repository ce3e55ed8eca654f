"""Targets of rendered bytes: standard output, or a file that appears only when it is complete.

Rules:

* ``--output FILE``: the bytes go to a temporary file beside FILE. ``commit`` syncs it, renames it over FILE and syncs
  the directory; ``abandon`` removes it; after a kill, the next run with the same FILE removes it. So FILE is always
  either the old result or a complete new one.
* A target that is not a regular file (``/dev/null``, a pipe) is written directly.
* A closed pipe ends the run quietly; a full disk is an error, because the result is incomplete. Either error may appear
  only at the last flush, so every run ends with ``flush``.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, BinaryIO, Final, Protocol

from engine.errors import StorageError

# What messages call it.
STDOUT: Final = "standard output"


class OutputClosedError(Exception):
    """The reader of standard output has gone away. This is not an error of this program."""


class Sink(Protocol):
    """Receives bytes between ``open`` and ``commit`` or ``abandon``."""

    def open(self) -> None:
        """Get ready. StorageError if the target cannot be written."""

    def write(self, data: bytes) -> None:
        """Take all of ``data``. OutputClosedError or StorageError if that fails."""

    def flush(self) -> None:
        """Flush the buffer."""

    def commit(self) -> None:
        """The result is complete."""

    def abandon(self) -> None:
        """Discard an incomplete result. Raises nothing."""


class StandardOutput:
    """Standard output, in UTF-8 regardless of the locale.

    Arguments:
        before: called with the bytes before they are written, to erase a progress bar on the same terminal.
    """

    def __init__(self, before: Callable[[bytes], None] | None = None) -> None:
        self._before = before

    def open(self) -> None:
        """Check that the stream exists: Python has None for a descriptor that was closed before the start."""
        if sys.stdout is None:
            raise StorageError(f"cannot write the results to {STDOUT}", found="it is closed")
        # Write bytes, bypassing Python's text layer, whose encoding depends on the locale.
        self._stream = sys.stdout.buffer
        self._live = sys.stdout.isatty()

    def write(self, data: bytes) -> None:
        """Write; flush immediately on a terminal."""
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
        """Flush, so that a failure affects the exit code."""
        flush()

    def abandon(self) -> None:
        """Printed output cannot be removed."""


class FileOutput:
    """A file that is replaced as a whole.

    The temporary name is chosen before the temporary file is created, so that ``abandon`` can always remove the file.

    Arguments:
        path: the file to write.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._temporary: str | None = None
        self._file: BinaryIO = io.BytesIO()

    def open(self) -> None:
        """Make the temporary file. StorageError if that fails."""
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
        # Imported here, because only runs with --output need them.
        from pathlib import Path

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
            # Sync before the rename, because after a crash FILE must not have missing bytes.
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self._path)
            # From here on there is nothing for ``abandon`` to remove.
            self._temporary = None
            _sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise output_failure(error, self._path) from error

    def abandon(self) -> None:
        """Remove the temporary file; an old FILE stays."""
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
    """Flush Python's buffers of the standard streams.

    Raises:
        OutputClosedError: the reader of standard output has closed it.
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
    """Flush standard error, and drop what cannot be written: otherwise Python would exit with 120."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def output_failure(error: OSError, name: str) -> Exception:
    """The exception to raise after a failure to write results.

    Arguments:
        error: the error of the operating system.
        name: the name of the target for the user.
    """
    if isinstance(error, BrokenPipeError):
        return OutputClosedError()
    if name == STDOUT:
        # The disk is still full, so prevent a second failure of the buffer at exit.
        silence(sys.stdout)
    return StorageError(
        "cannot write the results" + (f" to {name}" if name == STDOUT else ""),
        file=None if name == STDOUT else name,
        found=error.strerror or str(error),
        consequence="the output written so far is incomplete",
    )


def silence(stream: IO[str]) -> None:
    """Redirect a stream's descriptor to /dev/null, so that the rest of its buffer causes no error at exit."""
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # closed, or not a real file (tests)
        return
    null = os.open(os.devnull, os.O_WRONLY)
    # Use the descriptor, not the object, because libraries use it too.
    os.dup2(null, number)
    os.close(null)
