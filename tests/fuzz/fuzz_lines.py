"""Coverage-guided fuzzing of the text messages of JE's replication protocol, and how its connections begin.

    python -m tests.fuzz.fuzz_lines [-max_total_time=SECONDS] [other libFuzzer options] [CORPUS_DIRECTORY]

Without a directory the corpus begins with what real nodes sent and is thrown away at the end.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["engine"]):
    from tests.fuzz import fuzz_support
    from tests.support.groups import wire_seeds


def one_input(data: bytes) -> None:
    if len(data) >= 2:
        wire_seeds.try_lines(data)


if __name__ == "__main__":
    fuzz_support.run(sys.argv, one_input, wire_seeds.write_lines)
