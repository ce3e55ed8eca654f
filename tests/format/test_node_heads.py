"""The head of a node without the rest is what the general codec reads, or nothing."""

from __future__ import annotations

import random

from engine.errors import FormatError
from engine.format.entry.node import decode_node
from engine.format.entry_types import TREE_NODES
from engine.format.fast.bin import decode_node_head
from engine.format.versions import EXPIRATION, LONG_LSNS_ONLY
from tests.support.logs.golden_logs import entries, golden_files, read


def agreed(body: bytes, version: int, number: int) -> bool:
    """Whether a head is read; it has to be that of the node, and there is none where the general way refuses."""
    head = decode_node_head(body, len(body), version, number)
    try:
        node = decode_node(body, version, number, with_slots=False)
    except (FormatError, IndexError):
        assert head is None
        return False
    if head is None:
        return False
    lsns = node.prev_full_lsn, node.prev_delta_lsn
    assert head == (node.db_id, *lsns, node.node_id, node.identifier_key, node.flags, node.level)
    # The first bytes are enough, or say that they are not.
    for length in (8, 24, 40):
        assert decode_node_head(body[:length], len(body), version, number) in (None, head)
    return True


def test_heads_are_those_of_the_nodes() -> None:
    rng = random.Random(1)
    by_version: dict[int, dict[bytes, int]] = {}
    for file in golden_files():
        for entry in entries(read(file.data)):
            if entry.type_number in TREE_NODES:
                by_version.setdefault(entry.version, {})[entry.body] = entry.type_number
    assert len(by_version) == 5
    for version, bodies in by_version.items():
        for body, number in rng.sample(sorted(bodies.items()), min(60, len(bodies))):
            assert agreed(body, version, number) == (EXPIRATION <= version < LONG_LSNS_ONLY)
            for _ in range(5):
                spoilt = bytearray(body)
                spoilt[rng.randrange(min(40, len(spoilt)))] = rng.randrange(256)
                agreed(bytes(spoilt), version, number)
                agreed(body[: rng.randrange(len(body))], version, number)
