"""What the fuzz targets share: one call that may only end in the errors that it documents, and a seed corpus."""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS.parent)]

from engine.errors import FormatError, UnsupportedError
from engine.format.codecs import decode_body, readable_body
from engine.format.describe import describe, describe_slots
from engine.format.entry.node import NodeRecord, decode_node
from engine.format.header import has_vlsn
from engine.log.check import check_file
from engine.log.entry import Damage, LogEntry
from tests.support.logs.golden_logs import EXPECTED, golden_files, open_bytes, read, right_checksum

NODES = (12, 13, 14, 15, 37)


def try_body(number: int, version: int, body: bytes) -> bool:
    """Decode a body and describe what comes out; True when it decodes. Anything but FormatError is a bug."""
    try:
        record = decode_body(number, version, body)
    except FormatError:
        return False
    describe(record, delta=number == 37)
    if isinstance(record, NodeRecord):
        describe_slots(record, delta=number == 37)
        layout, readable = readable_body(number, version, version, body)
        decode_node(readable, layout, number, with_slots=False)
    return True


def try_file(data: bytes, number: int = 0, *, is_last: bool = True) -> int:
    """Read a file in both ways and decode every body; checks that they agree. Returns the bytes accounted for."""
    try:
        reader = open_bytes(data, number=number, is_last=is_last)
    except UnsupportedError:
        return len(data)
    found = check_file(open_bytes(data, number=number, is_last=is_last))
    at = entries = 0
    damages = []
    for item in reader.entries():
        assert item.lsn == number << 32 | at
        if isinstance(item, Damage):
            damages.append(item)
            at += item.length
            continue
        entries += 1
        at += (22 if has_vlsn(item.flags, item.version) else 14) + item.item_size
        try_body(item.type_number, item.version, item.body)
    assert (entries, damages) == (found.entries, [seen.damage for seen in found.damages])
    return at


def golden_bodies() -> list[tuple[int, int, bytes]]:
    """Type, version and body: of each type and version in the golden logs the first entry and the largest small one."""
    seeds: dict[tuple[int, int, str], tuple[int, int, bytes]] = {}
    for environment in EXPECTED:
        for file in golden_files(environment):
            for item in read(file.data, number=file.number, is_last=file.is_last):
                if isinstance(item, LogEntry) and len(item.body) < 2_000:
                    seed = (item.type_number, item.version, item.body)
                    seeds.setdefault((*seed[:2], "first"), seed)
                    if len(item.body) > len(seeds.get((*seed[:2], "largest"), seed)[2]):
                        seeds[*seed[:2], "largest"] = seed
    return list(seeds.values())


def write_bodies(directory: Path) -> None:
    """Seeds for the body target."""
    for index, (number, version, body) in enumerate(golden_bodies()):
        (directory / f"body-{index:03}").write_bytes(bytes((number, version)) + body)


def write_files(directory: Path) -> None:
    """Seeds for the reader target: the beginning of each golden file, cut at an entry."""
    for index, file in enumerate(golden_files()):
        ends = [item.lsn & 0xFFFFFFFF for item in read(file.data, number=file.number) if isinstance(item, LogEntry)]
        whole = max(end for end in ends if end <= 2_500)
        (directory / f"file-{index:03}").write_bytes(bytes((file.number,)) + file.data[:whole])


def with_right_checksums(data: bytearray, chance: random.Random) -> bytearray:
    """The input of the reader target with the checksums of most entries that its sizes lead to made right."""
    version = data[35] if len(data) > 38 else 17
    at = 1
    while at + 14 <= len(data):
        size = int.from_bytes(data[at + 10 : at + 14], "little")
        length = 22 if has_vlsn(data[at + 5], version) else 14
        end = at + length + size
        if end > len(data):
            break
        if chance.random() < 0.9:
            data[at : at + 4] = right_checksum(bytes(data[at:end]), version).to_bytes(4, "little")
        at = end
    return data


def run(
    arguments: list[str],
    target: Callable[[bytes], None],
    write_seeds: Callable[[Path], None],
    mutate: Callable[[bytes, int, int], bytes] | None = None,
) -> None:
    """Give the target to libFuzzer. Without a corpus directory in the arguments, seeds are made in a temporary one."""
    import atheris

    with tempfile.TemporaryDirectory(prefix="jetool-fuzz-") as directory:
        if all(argument.startswith("-") for argument in arguments[1:]):
            write_seeds(Path(directory))
            arguments = [*arguments, directory]
        # A limit of memory for the process and of seconds for one input: both end the run with an error.
        defaults = ["-rss_limit_mb=600", "-timeout=10", "-max_len=4096", f"-artifact_prefix={tempfile.gettempdir()}/"]
        options = {"custom_mutator": mutate} if mutate is not None else {}
        atheris.Setup([arguments[0], *defaults, *arguments[1:]], target, **options)
        atheris.Fuzz()
