"""Coverage-guided fuzzing of the entry codecs (atheris, which is libFuzzer).

    python -m tests.fuzz.fuzz_bodies [-max_total_time=SECONDS] [other libFuzzer options] [CORPUS_DIRECTORY]

An input is a type byte, a version byte and a body. Without a directory the corpus begins with bodies of the golden logs
and is thrown away at the end.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["engine"]):
    from tests.fuzz import fuzz_support


def one_input(data: bytes) -> None:
    if len(data) >= 2:
        version = data[1] if 6 <= data[1] <= 26 else 6 + data[1] % 21
        fuzz_support.try_body(data[0] % 48, version, data[2:])


if __name__ == "__main__":
    fuzz_support.run(sys.argv, one_input, fuzz_support.write_bodies)
