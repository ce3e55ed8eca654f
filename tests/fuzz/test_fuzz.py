"""Decoders under random, mutated and hostile bytes: only FormatError, bounded memory and time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.format.codecs import decode_body, encode_body
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.legacy import DeltaSlot, OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import FileSummary, FileSummaryLN
from engine.format.entry.node import NodeRecord, Slot
from engine.format.entry.rollback import RollbackStart
from engine.format.entry_types import BY_NUMBER
from engine.format.versions import (
    EMBEDDED_RECORDS,
    EXPIRATION,
    EXTINCTION,
    LN_KEY_FIRST,
    LONG_LSNS_ONLY,
    NEWEST_VERSION,
    NODE_SIZES,
    OLDEST_VERSION,
    PRIOR_VERSION,
    TWO_PART_DUPLICATES,
)
from tests.fuzz.fuzz_support import golden_bodies, try_body, try_file, with_right_checksums
from tests.support.logs.golden_logs import VERSIONS, GoldenFile, golden_files
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

BODIES = golden_bodies()
NUMBER = st.one_of(st.sampled_from(list(BY_NUMBER)), st.integers(-1, 300))
VERSION = st.one_of(st.sampled_from(VERSIONS), st.integers(0, 40))

# Packed integers and raw bytes that make a count or a length as large, or as negative, as it can be.
HOSTILE = [bytes.fromhex(text) for text in (
    "7b ff ff ff 7f", "7b ff ff ff ff", "7f ff ff ff ff ff ff ff 7f", "81 ff ff ff ff ff ff ff ff", "85 ff ff ff ff",
    "ff", "80", "fe", "ff ff ff ff", "ff ff ff 7f", "7c 00 00 00 00 01", "77", "00",
)]  # fmt: skip


@settings(max_examples=400)
@given(NUMBER, VERSION, st.binary(max_size=300))
def test_random_bodies(number: int, version: int, body: bytes) -> None:
    assert isinstance(try_body(number, version, body), bool)


@st.composite
def mutated_bodies(draw: st.DrawFn) -> tuple[int, int, bytes]:
    number, version, original = draw(st.sampled_from(BODIES))
    body = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        kind = draw(st.sampled_from(("set", "insert", "cut", "hostile", "repeat")))
        if kind == "set" and at < len(body):
            body[at] = draw(st.integers(0, 255))
        elif kind == "insert":
            body[at:at] = draw(st.binary(max_size=8))
        elif kind == "cut":
            del body[at : at + draw(st.integers(1, 20))]
        elif kind == "hostile":
            new = draw(st.sampled_from(HOSTILE))
            body[at : at + len(new)] = new
        elif kind == "repeat":
            body += body[at:]
    # The body of one version read as another is a mutation too.
    return number, draw(st.one_of(st.just(version), st.sampled_from(VERSIONS))), bytes(body)


@settings(max_examples=600)
@given(mutated_bodies())
def test_mutated_bodies(case: tuple[int, int, bytes]) -> None:
    assert isinstance(try_body(*case), bool)


def test_a_hostile_number_at_every_place() -> None:
    decoded = tried = 0
    for number, version, body in BODIES:
        for at in range(min(len(body), 120)):
            for new in HOSTILE:
                decoded += try_body(number, version, body[:at] + new + body[at + 1 :])
                decoded += try_body(number, version, body[:at] + new + body[at + len(new) :])
                tried += 2
    assert tried > 50_000
    assert 0 < decoded < tried


def test_every_body_cut_short() -> None:
    tried = [
        try_body(number, version, body[:length]) for number, version, body in BODIES for length in range(len(body))
    ]
    # What goes by the end of the body has no mark of its own end.
    assert 0 < sum(tried) < len(tried) / 10


def test_every_body_as_every_type_and_version() -> None:
    # One of each layout: where a feature begins, the oldest and the newest.
    versions = (
        OLDEST_VERSION, TWO_PART_DUPLICATES, 9, EMBEDDED_RECORDS, EXPIRATION, PRIOR_VERSION, EXTINCTION, LONG_LSNS_ONLY,
        LN_KEY_FIRST, NODE_SIZES, NEWEST_VERSION,
    )  # fmt: skip
    tried = [try_body(number, version, body) for *_, body in BODIES for number in BY_NUMBER for version in versions]
    assert 0 < sum(tried) < len(tried) / 2


def peak_bytes(number: int, version: int, body: bytes) -> int:
    """The memory that decoding and describing a body takes at its highest."""
    # The first call of its kind may import modules.
    try_body(number, version, body)
    tracemalloc.start()
    try:
        try_body(number, version, body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_numbers_alone_take_no_memory() -> None:
    """A small body that claims to hold millions of things is refused before anything is built."""
    for number, version, body in BODIES:
        if len(body) < 150:
            for at in range(0, len(body), 3):
                for new in HOSTILE[:4]:
                    hostile = body[:at] + new + body[at + 1 :]
                    assert peak_bytes(number, version, hostile) < 200_000, (number, version, hostile.hex())


COUNT = 20_000
SMALLEST = {
    # Bodies of as many as possible of the smallest elements: type, version, record.
    "slots": (12, 17, NodeRecord(
        1, -1, 0, -1, 0, -1, -1, -1, 1, b"", 0, None, -1, COUNT, 0x10002, 128, 0,
        (Slot(b"", 1, 0, None, None, None, None, None, None),) * COUNT, 0, 0, None, None, None,
    )),
    "delta slots": (22, 8, OldDelta(1, -1, -1, (DeltaSlot(b"", 1, 0),) * COUNT)),
    "transactions": (28, 17, RollbackStart(1, 1, 1, (-11,) * COUNT)),
    "offsets": (11, 17, LN(0, 0, 0, 0, -1, None, -1, None, None, -1, 0, 0, 0, 0, 0, 0, 0, -1, None, b"", FileSummaryLN(
        -1, FileSummary(*[0] * 11), tuple(range(1000, 1000 + COUNT))), b"k" * 8, None)),
    "scans": (20, 26, CkptEnd("x", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, (), (1000,) * COUNT)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALLEST)
def test_memory_is_proportional_to_the_body(name: str) -> None:
    number, version, record = SMALLEST[name]
    body = encode_body(number, version, record)
    assert decode_body(number, version, body) == record
    # The description of a slot is the widest thing there is: seven fields of some hundred bytes each, from six on disk.
    assert peak_bytes(number, version, body) < 160 * len(body)


@given(st.binary(max_size=200), st.integers(0, 255), st.booleans())
def test_random_files(data: bytes, number: int, is_last: bool) -> None:
    assert try_file(data, number, is_last=is_last) == len(data)


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.sampled_from([f for f in golden_files() if len(f.data) < 21_000]))
def test_mutated_files_with_right_checksums(chance: random.Random, file: GoldenFile) -> None:
    """Damage inside bodies and headers that no checksum betrays: crafted files get through to the decoders."""
    data = bytearray(file.data)
    for _ in range(chance.randint(1, 30)):
        at = chance.randrange(38, len(data))
        new = chance.choice(HOSTILE) if chance.random() < 0.5 else bytes((chance.randrange(256),))
        data[at : at + len(new)] = new
    whole = with_right_checksums(bytearray(b"\0") + data, chance)
    assert try_file(bytes(whole[1:]), file.number) == len(data)


@pytest.mark.parametrize(
    "target", ["fuzz_bodies", "fuzz_reader", "fuzz_wire", "fuzz_lines", "fuzz_changes", "fuzz_contents"]
)
def test_coverage_guided(target: str, tmp_path: Path) -> None:
    """The same short run of each libFuzzer target; FUZZ_SECONDS makes it longer, and another one each time."""
    needs("atheris")
    seeds, found = tmp_path / "seeds", tmp_path / "found"
    seeds.mkdir()
    found.mkdir()
    seconds = int(os.environ.get("FUZZ_SECONDS", "0"))
    # The reader takes a whole log in each.
    least = 300 if target == "fuzz_reader" else 2000
    words = [
        sys.executable,
        "-m",
        f"tests.fuzz.{target}",
        *((f"-max_total_time={seconds}",) if seconds else (f"-runs={least}", "-seed=1")),
        f"-timeout={PATIENCE_S}",
        f"-artifact_prefix={found}/",
    ]
    # A process begins with the peak memory of the one that started it, which libFuzzer counts: here that of a shell.
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *words],
        capture_output=True, text=True, timeout=seconds + 4 * PATIENCE_S, check=False, cwd=Path(__file__).parents[2],
        # libFuzzer ends the process before anything is cleared away.
        env={**os.environ, "TMPDIR": str(seeds)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(found.iterdir()) == []
    runs = int(done.stderr.rpartition("Done ")[2].split()[0])
    assert runs >= (100 if seconds else least), "the target did not get anywhere"
