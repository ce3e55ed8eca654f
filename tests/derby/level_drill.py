"""All levels of ``verify`` on mutated Derby databases: a stronger level finds at least what a weaker one finds.

As ``tests.verify.level_drill``; databases of ``tests.derby.mutations``.

    python -m tests.derby.level_drill 1 2000         seeds 1 to 2,000, in two processes
    python -m tests.derby.level_drill 1 2000 1       in one
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.derby.mutations import mutation
from tests.verify.level_drill import Outcome, main, outcome, written

# Each level with the levels that it includes.
INCLUDED: Final[dict[str, tuple[str, ...]]] = {
    "--tail": (),
    "--quick": ("--tail",),
    "--log": ("--tail", "--quick"),
    "": ("--log",),
    "--full": ("",),
}
_KEYS: Final = ("code", "severity", "file", "instant", "container", "page", "message")


def of_seed(seed: int) -> Outcome:
    """The outcome for the mutation of a seed."""
    chosen = mutation(seed)
    with tempfile.TemporaryDirectory(prefix="jetool-levels-") as place:
        return outcome(seed, f"{chosen.source}: {chosen.what}", written(Path(place), chosen.files), INCLUDED, _KEYS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], of_seed))
