"""Coverage-guided fuzzing of the change stream: messages, transactions, names of databases.

    python -m tests.fuzz.fuzz_changes [-max_total_time=SECONDS] [other libFuzzer options] [CORPUS_DIRECTORY]

Without a directory the corpus begins with what real masters sent and is thrown away at the end.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["engine"]):
    from tests.fuzz import fuzz_support
    from tests.support.groups import wire_seeds


def one_input(data: bytes) -> None:
    if data:
        wire_seeds.try_changes(data)


if __name__ == "__main__":
    fuzz_support.run(sys.argv, one_input, wire_seeds.write_changes)
