"""Paths of sources: whether they are local, and the format according to their names.

The module does not import pyarrow, since the options of ``load`` use it in an installation without Spark too.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Final

FORMATS: Final = ("csv", "tsv", "jsonl", "parquet", "orc", "avro")
_ENDINGS: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".orc": "orc",
    ".avro": "avro",
}
_STREAMS: Final = (".gz", ".bz2", ".zst", ".lz4")
_PACKED: Final = (*_STREAMS, ".snappy", ".deflate")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def ending_of(path: str) -> str | None:
    """The format of a path by its name; for a directory, by the names of its files."""
    bare = path.rstrip("/")
    if is_local(path) and Path(local(path)).is_dir():
        return next((known for file in files_of(path) if (known := ending_of(file)) is not None), None)
    # ``a.csv.gz``: the format stands before the compression.
    for packed in _PACKED:
        bare = bare.removesuffix(packed)
    return _ENDINGS.get("." + bare.rpartition(".")[2].lower())


def is_local(path: str) -> bool:
    """Whether a path is on this machine."""
    return not _SCHEME.match(path) or path.startswith("file:")


def local(path: str) -> str:
    """A path without the scheme of local files."""
    return re.sub(r"^file:(//)?", "", path)


def files_of(path: str) -> list[str]:
    """The files of a local path, in order; names that begin with a dot or an underscore are skipped."""
    found = []
    for match in sorted(glob.glob(local(path))):
        if Path(match).is_dir():
            inside = sorted(entry for entry in Path(match).rglob("*") if entry.is_file())
            found += [str(entry) for entry in inside if not entry.name.startswith(("_", "."))]
        else:
            found.append(match)
    return found


def is_packed(path: str) -> bool:
    """Whether a file is compressed, by its name."""
    return path.endswith(_PACKED)


def is_stream(path: str) -> bool:
    """Whether pyarrow can read a file: uncompressed, or with a supported compression."""
    return not is_packed(path) or path.endswith(_STREAMS)


def is_plain(path: str) -> bool:
    """Whether the files of a local path can be read separately: no directory name holds the value of a column."""
    root = Path(local(path))
    return not any("=" in part for file in files_of(path) for part in Path(file).parts[len(root.parts) : -1])
