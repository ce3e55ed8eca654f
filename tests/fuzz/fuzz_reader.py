"""Coverage-guided fuzzing of the log reader (atheris, which is libFuzzer).

    python -m tests.fuzz.fuzz_reader [-max_total_time=SECONDS] [other libFuzzer options] [CORPUS_DIRECTORY]

An input is a file number and the bytes of a file. A mutator sets the checksums of most entries right, so that inputs
get past them. Without a directory the corpus begins with pieces of the golden logs and is thrown away at the end.
"""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["engine"]):
    from tests.fuzz import fuzz_support


def one_input(data: bytes) -> None:
    if data:
        fuzz_support.try_file(data[1:], data[0] & 0x7F, is_last=data[0] < 0x80)


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    mutated = bytearray(atheris.Mutate(data, max_size))
    return bytes(fuzz_support.with_right_checksums(mutated, random.Random(seed)))[:max_size]


if __name__ == "__main__":
    fuzz_support.run(sys.argv, one_input, fuzz_support.write_files, mutate)
