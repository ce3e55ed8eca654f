"""The rejects of a load: JSON lines with source file, line, column, reason and the record itself.

    {"file":"orders.csv","line":17,"column":3,"reason":"2 columns, expected 3","record":"4711,three crates"}

Tasks know a record's place in its split only. How many lines the splits before it have is known when all were read; so
the driver finishes the lines. Records of formats without lines have no line number.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from engine.errors import StorageError
from engine.pipeline.load.input.recipe import PLACE_BITS, TABLE, Recipe
from engine.pipeline.load.input.sorted_runs import PartRead
from engine.storage.sidecar import Access, give, make_directories

FILE: Final = "rejects.jsonl"


def write(recipe: Recipe, outcomes: list[PartRead], directory: Path, access: Access) -> Path | None:
    """Put all rejects into one file of a directory, which is made.

    A user who may not read the environment may not read them: ``access`` says who may.

    Returns:
        Path of the file; None when nothing was rejected.

    Raises:
        StorageError: it cannot be written.
    """
    paths = [outcome.rejects for outcome in outcomes if outcome.rejects is not None]
    if not paths:
        return None
    before = _lines_before(recipe, outcomes)
    target = directory / FILE
    try:
        make_directories(directory, access)
        # Closed to others from the first byte, and not through a link that somebody has put there.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            give(target, access.file, access)
            for path in sorted(paths):
                with Path(path).open(encoding="utf-8") as lines:
                    for line in lines:
                        out.write(_finished(recipe, before, line) + "\n")
    except OSError as error:
        raise StorageError("cannot write the rejects", file=str(target), found=error.strerror) from error
    return target


def _lines_before(recipe: Recipe, outcomes: list[PartRead]) -> dict[int, int]:
    """For every split, the lines of its file that stand before it."""
    counts = dict(sorted(pair for outcome in outcomes for pair in outcome.splits))
    before: dict[int, int] = {}
    origin, seen = -1, 0
    for split, lines in counts.items():
        # Splits are in order, so a new origin begins a new file, and lines count from one again.
        if split >> recipe.split_bits() != origin:
            origin, seen = split >> recipe.split_bits(), 0
        before[split] = seen
        seen += lines
    return before


def _finished(recipe: Recipe, before: dict[int, int], line: str) -> str:
    rank, column, reason, record = json.loads(line)
    split, place = rank >> PLACE_BITS, rank & ((1 << PLACE_BITS) - 1)
    file = recipe.files[split >> recipe.split_bits()]
    number = before[split] + place + 1 if recipe.form != TABLE else None
    found = {"file": file, "line": number, "column": column, "reason": reason, "record": record}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
