"""The corpus: real environments, and what the programs that wrote them say of them, in one archive of this repository.

``tests/golden/README.md`` tells what is in it. ``path()`` is where it lies unpacked: in the system's temporary
directory, under a name with the user and the archive's SHA-256, once per machine. Processes that want it at the same
time wait for a lock. It is unpacked beside its place and renamed, so it is there whole or not at all. The first member
of the archive, ``SHA256SUMS``, has the digest of every other; each process checks all of them at its first call
(0.3 s), and a copy that differs is thrown away and unpacked again. Nothing may change it: it is read-only, which root
does not notice, and ``tests.conftest`` refuses writes and fails the run when something has changed.

Tests copy what they change (``copy``).

    python -m tests.support.corpus                   unpack and print where it is
    python -m tests.support.corpus list              names and digests, as sha256sum has them
    python -m tests.support.corpus pack DIRECTORY    make the archive from a directory
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parents[1] / "golden" / "environments.tar.xz"
SUMS = "SHA256SUMS"


@cache
def archive_members(archive: Path) -> dict[str, bytes]:
    """The files of a small archive beside the corpus, by name."""
    found = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member)
            if content is not None:
                found[member.name] = content.read()
    return found


@cache
def path() -> Path:
    """The directory with the corpus, whole and checked. Never changed: ``copy`` what is to be changed."""
    return unpacked(location(), ARCHIVE)


@cache
def location(archive: Path = ARCHIVE) -> Path:
    """Where the corpus is unpacked to; it need not be there yet."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return Path(tempfile.gettempdir()).resolve() / f"jetool-corpus-{os.getuid()}-{digest[:16]}"


def unpacked(target: Path, archive: Path) -> Path:
    """Make ``target`` hold what the archive holds, unless it does so already.

    Raises:
        PermissionError: the directory is another user's.
    """
    expected = sums_of(archive)
    with _locked(target, fcntl.LOCK_SH):
        if digests(target) == expected:
            return target
    with _locked(target, fcntl.LOCK_EX):
        if digests(target) == expected:
            return target
        with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as scratch:
            whole = Path(scratch) / "corpus"
            with tarfile.open(archive) as opened:
                # The first releases of Python 3.11 have no filters; the archive is the project's own.
                if hasattr(tarfile, "data_filter"):
                    opened.extraction_filter = tarfile.data_filter
                opened.extractall(whole)
            assert digests(whole) == expected, f"{archive} does not hold what its {SUMS} says"
            if os.path.lexists(target):
                _set_modes(target, 0o755, 0o644)
                target.rename(Path(scratch) / "spoiled")
            # A directory moves to another parent only while it is writable.
            whole.rename(target)
            _set_modes(target, 0o555, 0o444)
    return target


@contextmanager
def _locked(target: Path, how: int) -> Iterator[None]:
    with target.with_name(f"{target.name}.lock").open("a") as lock:
        fcntl.flock(lock, how)
        yield


def _set_modes(directory: Path, of_directories: int, of_files: int) -> None:
    for where, _, files in os.walk(directory):
        Path(where).chmod(of_directories)
        for name in files:
            (Path(where) / name).chmod(of_files)


def sums_of(archive: Path) -> dict[str, str]:
    """The digest of every file in an archive, from its first member."""
    with tarfile.open(archive) as opened:
        first = opened.next()
        assert first is not None
        assert first.name == SUMS
        file = opened.extractfile(first)
        assert file is not None
        text = file.read()
    rows = (line.split("  ", 1) for line in text.decode().splitlines())
    return {name: digest for digest, name in rows} | {SUMS: hashlib.sha256(text).hexdigest()}


def digests(directory: Path) -> dict[str, str]:
    """The digest of every file below a directory; anything but a file or a directory is one that never agrees."""
    return {name: _digest(directory / name) for name in _names(directory)}


def _digest(file: Path) -> str:
    if file.is_symlink() or not file.is_file():
        return "no file"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _names(directory: Path) -> Iterator[str]:
    for where, directories, files in os.walk(directory):
        below = Path(where)
        linked = [name for name in directories if (below / name).is_symlink()]
        for name in (*files, *linked):
            yield (below / name).relative_to(directory).as_posix()


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file."""
    stats = ((name, (directory / name).lstat()) for name in _names(directory))
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats}


def copy(source: Path, target: Path) -> Path:
    """A copy of a directory that may be changed; returns ``target``."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    _set_modes(target, 0o755, 0o644)
    return target


def pack(directory: Path, archive: Path) -> None:
    """Make an archive of all files below a directory: the same files give the same archive."""
    archive.write_bytes(lzma.compress(as_tar(directory), preset=9))


def as_tar(directory: Path) -> bytes:
    """All files below a directory in the order of their names, without times and owners; ``SHA256SUMS`` first."""
    found = digests(directory)
    found.pop(SUMS, None)
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as opened:
        for name in (SUMS, *sorted(found)):
            data = text.encode() if name == SUMS else (directory / name).read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o444
            opened.addfile(member, io.BytesIO(data))
    return made.getvalue()


def main(words: list[str]) -> None:
    if words[:1] == ["pack"] and len(words) == 2:
        pack(Path(words[1]), ARCHIVE)
        print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")
    elif words == ["list"]:
        print(*(f"{digest}  {name}" for name, digest in sums_of(ARCHIVE).items()), sep="\n")
    elif not words:
        print(path())
    else:
        sys.exit(f"usage:{(__doc__ or '').rpartition('change (``copy``).')[2]}".rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
