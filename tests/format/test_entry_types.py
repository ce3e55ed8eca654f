"""The registry is the table of je-log-format.md section 5; names of fields and their kinds are said once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from engine.errors import FormatError
from engine.format import entry_types
from engine.format.codecs import decode_body
from engine.format.describe import SHAPES, describe, describe_slots
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import BY_NAME, BY_NUMBER, DELTA_TYPE, ENTRY_TYPES, GROUPS, is_valid_type, type_name
from engine.format.fields import KINDS, FieldValue, RecordField, shape
from engine.format.versions import HIGHEST_TYPE, JE_RELEASES, NEWEST_VERSION, OLDEST_VERSION, is_supported
from tests.support.logs.golden_logs import EXPECTED, VERSIONS, entries, golden_files, read

ROOT = Path(__file__).parent.parent.parent
SOURCE = Path(ROOT / "engine/format/entry_types.py").read_text("utf-8")

# Number, name, transactional (t), replicable (r) or matchpoint (m), first version, last version written (0: still).
TABLE = """
1 LN_TX tr 1 7; 2 LN r 1 7; 3 MapLN_TX t 1 7; 4 MapLN - 1 0; 5 NameLN_TX tr 1 0; 6 NameLN r 1 0;
7 DelDupLN_TX tr 1 7; 8 DelDupLN r 1 7; 9 DupCountLN_TX t 1 7; 10 DupCountLN - 1 7; 11 FileSummaryLN - 1 0;
12 IN - 1 0; 13 BIN - 1 0; 14 DIN - 1 7; 15 DBIN - 1 7; 16 DbTree - 1 0; 17 Commit tm 1 0; 18 Abort tm 1 0;
19 CkptStart - 1 0; 20 CkptEnd - 1 0; 21 INDelete - 1 7; 22 BINDelta - 1 8; 23 DupBINDelta - 1 7;
24 Trace r 1 0; 25 FileHeader - 1 0; 26 INDupDelete - 1 7; 27 Prepare t 1 17; 28 RollbackStart - 7 0;
29 RollbackEnd - 7 0; 30 Matchpoint m 7 0; 31 DEL_LN_TX tr 8 0; 32 DEL_LN r 8 0; 33 INS_LN_TX tr 8 0;
34 INS_LN r 8 0; 35 UPD_LN_TX tr 8 0; 36 UPD_LN r 8 0; 37 NewBINDelta - 9 0; 38 ImmutableFile - 11 0;
39 RestoreRequired - 14 0; 40 ReservedFileLN - 15 0; 41 ExtinctScanLN - 16 0; 42 ExtinctScanLN_TX tr 16 0;
43 Erased - 17 0; 44 UPD_LN_TX_WITH_BEFORE_IMAGE tr 25 0; 45 DEL_LN_TX_WITH_BEFORE_IMAGE tr 25 0
"""

# How many type numbers each version knows.
HIGHEST = {
    **dict.fromkeys(range(1, 7), 27), 7: 30, 8: 36, 9: 37, 10: 37, 11: 38, 12: 38, 13: 38, 14: 39, 15: 40, 16: 42,
    **dict.fromkeys(range(17, 25), 43), 25: 45, 26: 45,
}  # fmt: skip


def test_registry_is_the_table() -> None:
    rows = []
    for entry_type in ENTRY_TYPES:
        letters = "t" * entry_type.transactional
        letters += "m" if entry_type.sync_point else "r" * entry_type.replicable
        rows.append(
            f"{entry_type.number} {entry_type.name} {letters or '-'} {entry_type.since} {entry_type.until or 0}"
        )
        assert not entry_type.sync_point or entry_type.replicable
    assert rows == [" ".join(row.split()) for row in TABLE.split(";")]


def test_look_up() -> None:
    assert len(BY_NUMBER) == len(BY_NAME) == 45
    assert BY_NAME["newbindelta"].number == 37
    assert (type_name(33), type_name(99)) == ("INS_LN_TX", "type 99")
    assert {group for entry_type in ENTRY_TYPES for group in entry_type.groups} == set(GROUPS)
    assert {t.name for t in ENTRY_TYPES if "txn" in t.groups} == {"Commit", "Abort", "Prepare"}


def test_versions() -> None:
    assert (OLDEST_VERSION, NEWEST_VERSION) == (1, 26)
    known = [*range(1, 6), *VERSIONS]
    assert HIGHEST_TYPE == HIGHEST
    assert list(JE_RELEASES) == known
    assert [version for version in range(40) if is_supported(version)] == known
    for version in known:
        valid = [number for number in range(256) if is_valid_type(number, version)]
        assert valid == list(range(1, HIGHEST[version] + 1))
        assert all(BY_NUMBER[number].since <= version for number in valid)
        assert all(BY_NUMBER[number].since > version for number in BY_NUMBER if number not in valid)


@pytest.mark.parametrize("number", [0, 46, 255, -1])
def test_unknown_types(number: int) -> None:
    with pytest.raises(FormatError, match="unknown entry type"):
        decode_body(number, 17, b"")


def test_a_message_names_the_type() -> None:
    with pytest.raises(FormatError, match="Commit: field runs past the end of the entry"):
        decode_body(17, 17, b"")
    with pytest.raises(FormatError, match="FileHeader: the body does not fit its type"):
        decode_body(25, 17, b"123")


def test_shapes_know_their_classes() -> None:
    for record, fields in SHAPES.items():
        assert len(fields) == len(record._fields)  # type: ignore[attr-defined]
        assert {field.kind for field in fields} <= KINDS
        assert len({field.name for field in fields}) == len(fields)


@pytest.mark.parametrize("text", ["a:int", "a:int b:int c:int", "b:int a:int", "a:int b:nonsense", "a b"])
def test_a_shape_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        shape(type("Pair", (tuple,), {"_fields": ("a", "b")}), text)


def test_shape_with_another_name() -> None:
    fields = shape(type("Pair", (tuple,), {"_fields": ("a", "b")}), "a=shown:int b:lsn")
    assert fields == (RecordField("shown", "int"), RecordField("b", "lsn"))


FITS: dict[str, type | tuple[type, ...]] = {
    "int": int, "hex": int, "bool": (bool, int), "text": str, "bytes": bytes, "lsn": int, "vlsn": int, "time": int,
    "expiration": int, "level": int, "ints": tuple, "lsns": tuple, "offsets": tuple, "byteses": tuple, "record": tuple,
    "records": tuple,
}  # fmt: skip


def assert_described(fields: list[FieldValue]) -> None:
    assert fields
    assert len({field.name for field in fields}) == len(fields), "each name once"
    for field in fields:
        assert field.kind in KINDS
        assert field.value is None or isinstance(field.value, FITS[field.kind]), field
        if field.kind == "record" and field.value is not None:
            assert_described(describe(field.value))  # type: ignore[arg-type]
        elif field.kind == "records":
            for record in field.value:  # type: ignore[attr-defined]
                assert_described(describe(record))


@pytest.mark.parametrize("environment", EXPECTED)
def test_fields_of_real_entries(environment: str) -> None:
    for file in golden_files(environment):
        for entry in entries(read(file.data, number=file.number, is_last=file.is_last)):
            record = entry.record()
            assert_described(describe(record, delta=entry.type_number == DELTA_TYPE))
            if isinstance(record, NodeRecord):
                for slot in describe_slots(record, delta=entry.type_number == DELTA_TYPE):
                    assert_described(slot)


# The named sets, as je-log-format.md section 5 has their types.
SETS = """
LNS 1-11 31-36 40-42 44 45; TRANSACTIONAL 1 3 5 7 9 17 18 27 31 33 35 42 44 45; USER_LNS 1 2 7 8 31-36 44 45;
PLAIN_LNS 2 8 32 34 36; COMMON_LNS 31-36; COMMON_PUTS 33-36; INSERTIONS 33 34; DELETIONS 31 32 45;
REPLACEMENTS 31 32 35 36 44 45; DEL_DUP_LNS 7 8; MAP_LNS 3 4; NAME_LNS 5 6; DUP_COUNT_LNS 9 10; FILE_SUMMARY_LNS 11;
RESERVED_FILE_LNS 40; EXTINCT_SCAN_LNS 41 42; REDO_LNS 1 2 5-8 11 31-36 40-42 44 45; UNDO_LNS 1 5 7 31 33 35 42 44 45;
STREAM_LNS 1 2 5-8 31-36 42 44 45; STREAM_RECORDS 1 2 7 8 31-36 44 45;
NODE_ENTRIES 12-15 22 23 37; NODES 12-15 37; OLD_DELTAS 22 23; DELTAS 22 37;
DUP_NODE_ENTRIES 14 15 23; TREE_NODE_ENTRIES 12 13 22 37; DUP_NODES 14 15; TREE_NODES 12 13 37; FULL_NODES 12 13;
BOTTOM_NODES 13 15 37;
BINS 13 37; TXN_ENDS 17 18; TXN_FATES 17 18 27; CKPT_ENDS 19-20; FULL_BOTTOM_NODES 13 15; CKPT_ENTRIES 16 19 20;
ROLLBACKS 28 29; SYNC_POINTS 17 18 30;
STREAM_MARKS 20 28; STREAM_ENTRIES 1 2 5-8 17 18 24 28 30-36 42 44 45; TIMED_ENTRIES 17-20 24 25 27-30;
RARE_ENTRIES 11 20 28 29 40 43; OWN_ENTRIES 11 24 25 40; DURABLE_ENTRIES 2 8 17 20 32 34 36
"""


def test_named_sets() -> None:
    wanted = {}
    for row in SETS.split(";"):
        name, *runs = row.split()
        ends = [[int(end) for end in run.split("-")] for run in runs]
        wanted[name] = {number for end in ends for number in range(end[0], end[-1] + 1)}
    found = {name: set(value) for name, value in vars(entry_types).items() if isinstance(value, frozenset)}
    assert found == wanted
    # Each is used somewhere.
    sources = [path.read_text("utf-8") for package in ("engine", "jetool") for path in (ROOT / package).rglob("*.py")]
    words = Counter(word for source in sources for word in re.findall(r"\w+", source))
    assert [name for name in wanted if words[name] < 2] == []


def test_constants_are_the_lines() -> None:
    constants = {name: value for name, value in vars(entry_types).items() if isinstance(value, int) and name.isupper()}
    named = {n: name for name, n in constants.items() if f"EntryType({name}, " in SOURCE}
    assert sorted(named) == sorted(BY_NUMBER)
