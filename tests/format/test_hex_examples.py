"""The worked examples of je-log-format.md section 18: fields as the page says them, and the same bytes when encoded.

18.1 are entries of JE 18.3.20 with their headers, 18.3 older and newer ones, mostly bodies alone. The records of
internal databases at the end of 18.1 are data of ordinary LNs and have no codec here.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import adler32

import pytest

from engine.format.bytecursor import sorted_pack
from engine.format.codecs import decode_body, encode_body
from engine.format.describe import describe, describe_slots
from engine.format.entry.ln_content import FileSummary, FileSummaryLN, NameLN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import BY_NAME
from engine.format.header import Provisional, decode_header, encode_entry, provisional_of

NULL = -1


class Example(NamedTuple):
    """An entry as the page writes it: header and body in hexadecimal, and what they say.

    Attributes:
        header: "" where the page shows a body alone.
        fields: attributes of the record, or of ``record.content`` after a dot.
    """

    name: str
    version: int
    type_name: str
    header: str
    body: str
    fields: dict[str, Any]


JE_UTILIZATION = "0e 5f 6a 65 55 74 69 6c 69 7a 61 74 69 6f 6e"

EXAMPLES = [
    Example(
        "file header", 17, "FileHeader", "d8 02 c0 3d 19 00 00 00 00 00 18 00 00 00",
        "32 73 56 f8 a1 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 11 00 00 00",
        {"time": 1795167777586, "file_num": 0, "last_entry_in_prev_file": 0, "log_version": 17},
    ),
    Example(
        "first DbTree", 17, "DbTree", "69 08 f2 bb 10 00 00 00 00 00 24 00 00 00",
        "01 00 00 00 00 00 00 00 00 ff ff ff ff ff ff ff 00 00 00 00 00 78 09 11 00 01 00 00 00 00 78 09 11 00 04 11",
        {"last_local_db_id": 1, "last_replicated_db_id": -256, "mapping_db.db_id": 0, "mapping_db.root_exists": False,
         "mapping_db.flags": 0, "mapping_db.btree_comparator": b"", "mapping_db.max_entries": 128,
         "mapping_db.created_at_version": 17, "mapping_db.triggers": (), "naming_db.db_id": 1,
         "naming_db.max_entries": 128, "flags": 4, "initial_log_version": 17},
    ),
    Example(
        "empty BIN", 17, "BIN", "30 10 f7 0b 0d 80 26 00 00 00 20 00 00 00",
        f"01 ff ff ff 02 {JE_UTILIZATION} 04 00 79 8a ff 78 09 01 ff ff ff ff",
        {"db_id": 1, "prev_full_lsn": NULL, "prev_delta_lsn": NULL, "expiration_base": -1, "node_id": 2,
         "identifier_key": b"_jeUtilization", "flags": 4, "n_entries": 0, "level": 0x10001, "max_entries": 128,
         "base_file": -1, "slots": (), "is_root": False, "height": 1},
    ),
    Example(
        "its root IN", 17, "IN", "29 11 6c fd 0c 00 58 00 00 00 33 00 00 00",
        f"01 ff ff 01 {JE_UTILIZATION} 01 01 79 8b ff 78 09 01 00 00 00 00 {JE_UTILIZATION} 00 58 00 00 02",
        {"db_id": 1, "node_id": 1, "is_root": True, "n_entries": 1, "level": 0x10002, "max_entries": 128,
         "base_file": 0, "slots.0.key": b"_jeUtilization", "slots.0.lsn": 0x58, "slots.0.state": 2, "height": 2},
    ),
    Example(
        "NameLN_TX", 17, "NameLN_TX", "07 08 e1 89 05 00 86 00 00 00 1e 00 00 00",
        f"00 00 01 01 ff 00 02 00 {JE_UTILIZATION} 01 00 78 09 00 00 00",
        {"flags": 0, "flags2": 0, "db_id": 1, "txn_id": 1, "last_lsn": NULL, "data": b"", "content": NameLN(2, 0),
         "key": b"_jeUtilization", "tail.operation": 1, "tail.config.flags": 0, "tail.config.max_entries": 128,
         "tail.config.btree_comparator": b"", "tail.config.duplicate_comparator": b"", "tail.config.triggers": ()},
    ),
    Example(
        "MapLN", 17, "MapLN", "d7 06 77 71 04 00 15 01 00 00 1e 00 00 00",
        f"00 00 00 00 02 {JE_UTILIZATION} 00 00 00 00 78 09 11 00 00 32",
        {"flags": 0, "flags2": 0, "db_id": 0, "txn_id": None, "data": b"", "content.database.db_id": 2,
         "content.database.name": "_jeUtilization", "content.database.root_exists": False,
         "content.database.flags": 0, "content.database.max_entries": 128, "content.database.created_at_version": 17,
         "content.deleted": 0, "key": b"2"},
    ),
    Example(
        "Commit", 17, "Commit", "bf 04 fb 26 11 00 3d 01 00 00 0c 00 00 00", "78 50 01 7d bb 72 56 f8 a1 01 00 00",
        {"last_lsn": 0xC7, "id": 1, "time": 1795167777586, "master_id": 0, "dtvlsn": 0},
    ),
    Example(
        "INS_LN_TX", 17, "INS_LN_TX", "9e 05 f0 2b 21 00 17 06 00 00 10 00 00 00",
        "02 00 06 07 ff 05 77 6f 72 6c 64 68 65 6c 6c 6f",
        {"flags": 2, "embedded": True, "flags2": 0, "db_id": 6, "txn_id": 7, "last_lsn": NULL, "abort_lsn": NULL,
         "data": b"world", "key": b"hello"},
    ),
    Example(
        "UPD_LN_TX", 17, "UPD_LN_TX", "b2 09 a5 85 23 00 a5 06 00 00 19 00 00 00",
        "2a 00 06 79 cf 05 08 ff 05 77 6f 72 6c 64 05 61 67 61 69 6e 68 65 6c 6c 6f",
        {"flags": 0x2A, "embedded": True, "db_id": 6, "abort_lsn": 0x646, "txn_id": 8, "last_lsn": NULL,
         "abort_data": b"world", "data": b"again", "key": b"hello", "abort_known_deleted": False},
    ),
    Example(
        "DEL_LN_TX", 17, "DEL_LN_TX", "48 06 a9 3c 1f 00 c0 06 00 00 10 00 00 00",
        "20 01 06 79 ed 05 08 79 49 06 41 ff 6c 6f 6e 67",
        {"flags": 0x20, "flags2": 1, "db_id": 6, "abort_lsn": 0x664, "txn_id": 8, "last_lsn": 0x6C0, "prior_size": 65,
         "data": None, "key": b"long"},
    ),
    Example(
        "Abort", 17, "Abort", "f0 04 40 33 12 00 e7 06 00 00 0d 00 00 00", "79 70 06 08 7d 0b 74 56 f8 a1 01 00 00",
        {"last_lsn": 0x6E7, "id": 8, "time": 1795167777922, "master_id": 0, "dtvlsn": 0},
    ),
    Example(
        "BIN", 17, "BIN", "1d 0d 26 52 0d 80 0c 08 00 00 2a 00 00 00",
        "06 79 7b 05 ff ff 08 05 68 65 6c 6c 6f 04 01 79 8a ff 78 09 01 00 00 00 00 "
        "0b 68 65 6c 6c 6f 77 6f 72 6c 64 05 00 46 06 00 12",
        {"db_id": 6, "prev_full_lsn": 0x5F2, "prev_delta_lsn": NULL, "expiration_base": -1, "node_id": 8,
         "identifier_key": b"hello", "flags": 4, "n_entries": 1, "level": 0x10001, "max_entries": 128, "base_file": 0,
         "slots.0.key": b"hello", "slots.0.data": b"world", "slots.0.lsn": 0x646, "slots.0.state": 0x12,
         "slots.0.log_size": None},
    ),
    Example(
        "NewBINDelta", 17, "NewBINDelta", "3e 11 15 35 25 80 bf 06 00 00 34 00 00 00",
        f"01 79 90 02 ff ff 02 {JE_UTILIZATION} 0c 01 79 8a ff 01 01 00 00 00 00 04 74 65 73 74 00 93 05 00 02 22 "
        "05 78 09 04 28 98 c0 20",
        {"db_id": 1, "prev_full_lsn": 0x307, "prev_delta_lsn": NULL, "expiration_base": -1, "node_id": 2, "flags": 0x0C,
         "n_entries": 1, "max_entries": 1, "base_file": 0, "slots.0.key": b"test", "slots.0.lsn": 0x593,
         "slots.0.state": 2, "slots.0.log_size": 34, "full_bin_entries": 5, "full_bin_max_entries": 128,
         "bloom_filter": b"\x28\x98\xc0\x20"},
    ),
    Example(
        "FileSummaryLN", 17, "FileSummaryLN", "7a 07 14 c1 0b 00 dc 04 00 00 42 00 00 00",
        "00 00 02 00 1b 00 00 00 3b 05 00 00 0a 00 00 00 4c 02 00 00 09 00 00 00 bc 01 00 00 50 00 00 00 04 00 00 00 "
        "00 00 00 00 00 00 00 00 00 00 00 00 04 04 58 00 2e 00 6d 00 22 00 00 00 00 00 7f ff ff e3",
        {"flags": 0, "flags2": 0, "db_id": 2, "data": b"",
         "content": FileSummaryLN(NULL, FileSummary(27, 1339, 10, 588, 9, 444, 80, 4, 0, 0, 0),
                                  (0x58, 0x86, 0xF3, 0x115)),
         "key": bytes.fromhex("00000000 7fffffe3")},
    ),
    Example(
        "CkptStart", 17, "CkptStart", "10 08 6a 5b 13 00 cd 02 00 00 11 00 00 00",
        "7d c5 72 56 f8 a1 01 01 08 72 65 63 6f 76 65 72 79", {"time": 1795167777596, "id": 1, "invoker": "recovery"},
    ),
    Example(
        "CkptEnd", 17, "CkptEnd", "d3 0c 82 0c 14 00 11 05 00 00 24 00 00 00",
        "08 72 65 63 6f 76 65 72 79 7d c8 72 56 f8 a1 01 79 71 02 01 79 01 04 79 71 02 06 f7 05 88 89 05 f6 00 00 01",
        {"invoker": "recovery", "time": 1795167777599, "ckpt_start_lsn": 0x2E8, "flags": 1, "root_lsn": 0x478,
         "first_active_lsn": 0x2E8, "last_local_node_id": 6, "last_replicated_node_id": -9, "last_local_db_id": 5,
         "last_replicated_db_id": -256, "last_local_txn_id": 5, "last_replicated_txn_id": -10,
         "last_local_extinction_id": 0, "last_replicated_extinction_id": 0, "id": 1},
    ),
    Example(
        "expiration in days", 17, "INS_LN_TX", "d0 06 7b 59 21 00 74 08 00 00 14 00 00 00",
        "82 00 06 0c ff 79 b5 50 01 73 6b 65 79 2f 30 30 30 30 30 31",
        {"flags": 0x82, "db_id": 6, "txn_id": 12, "expiration": 20780, "data": b"s", "key": b"key/000001"},
    ),
    Example(
        "expiration in hours", 17, "INS_LN_TX", "",
        "82 00 06 0c ff 86 6d 9b 07 01 73 6b", {"expiration": -498660, "data": b"s", "key": b"k"},
    ),
    Example(
        "replicated Commit", 17, "Commit", "a7 06 50 42 11 28 44 07 00 00 0d 00 00 00 07 00 00 00 00 00 00 00",
        "79 cd 06 f3 7d 5b fe 57 f8 a1 01 01 07", {"last_lsn": 0x744, "id": -13, "master_id": 1, "dtvlsn": 7},
    ),
    Example(
        "invisible INS_LN_TX", 17, "INS_LN_TX", "e4 08 3d 8b 21 38 f1 62 00 00 13 00 00 00 96 01 00 00 00 00 00 00",
        "02 00 88 8b 88 4f ff 04 74 31 2d 30 61 63 74 69 76 65 30",
        {"flags": 2, "db_id": -258, "txn_id": -198, "last_lsn": NULL, "data": b"t1-0", "key": b"active0"},
    ),
    Example(
        "RollbackStart", 17, "RollbackStart", "7d 08 72 68 1c 00 eb 77 00 00 12 00 00 00",
        "79 1e 01 79 6d 61 7d d9 14 58 f8 a1 01 02 88 4f 88 50",
        {"matchpoint_vlsn": 405, "matchpoint_lsn": 0x61E4, "active_txn_ids": (-198, -199)},
    ),
    Example(
        "RollbackEnd", 17, "RollbackEnd", "07 07 da 3b 1d 00 1e 78 00 00 0d 00 00 00",
        "79 6d 61 79 a7 77 7d e5 14 58 f8 a1 01", {"matchpoint_lsn": 0x61E4, "rollback_start_lsn": 0x781E},
    ),
    # 18.3
    Example(
        "v6 file header", 6, "FileHeader", "d9 02 29 3f 19 06 00 00 00 00 18 00 00 00",
        "75 38 54 f8 a1 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 06 00 00 00",
        {"file_num": 0, "last_entry_in_prev_file": 0, "log_version": 6},
    ),
    Example(
        "v6 DbTree", 6, "DbTree", "",
        "01 00 00 00 00 ff ff ff 00 00 20 00 00 78 09 78 09 06 00 01 00 20 00 00 78 09 78 09 06 00 00",
        {"last_local_db_id": 1, "last_replicated_db_id": -256, "mapping_db.db_id": 0, "mapping_db.root_exists": False,
         "mapping_db.flags": 0x20, "mapping_db.max_entries": 128, "mapping_db.max_dup_entries": 128,
         "mapping_db.created_at_version": 6, "mapping_db.utilization": (), "naming_db.db_id": 1, "flags": 0},
    ),
    Example(
        "v6 MapLN", 6, "MapLN", "", "00 04 00 02 00 20 00 00 78 09 78 09 06 00 00 01 32",
        {"db_id": 0, "node_id": 4, "data": b"", "content.database.db_id": 2, "content.database.name": None,
         "content.deleted": 0, "key": b"2"},
    ),
    Example(
        "v6 LN_TX", 6, "LN_TX", "02 05 59 36 01 06 2c 06 00 00 11 00 00 00",
        "03 ff 00 06 ff 18 00 6b 65 79 2f 30 30 30 30 30 30",
        {"db_id": 3, "abort_lsn": NULL, "flags": 0, "txn_id": 6, "last_lsn": NULL, "node_id": 24, "data": b"",
         "key": b"key/000000"},
    ),
    Example(
        "v6 DelDupLN_TX", 6, "DelDupLN_TX", "",
        "04 7a 88 46 01 00 78 e9 ff 79 08 04 ff 02 64 30 07 64 61 74 61 30 5f 30",
        {"db_id": 4, "abort_lsn": 0x146FF, "flags": 0, "txn_id": 352, "last_lsn": NULL, "data": None, "key": b"d0",
         "tail": b"data0_0"},
    ),
    Example(
        "v6 DIN", 6, "DIN", "",
        "04 ff 79 0e 04 07 64 61 74 61 31 5f 30 01 01 02 78 09 01 00 00 00 00 07 64 61 74 61 31 5f 30 00 8c 47 01 00 "
        "02 64 31 01 02 64 31 7a fe 46 01 02",
        {"db_id": 4, "prev_full_lsn": NULL, "identifier_key": b"data1_0", "is_root": True, "n_entries": 1, "level": 2,
         "max_entries": 128, "base_file": 0, "slots.0.key": b"data1_0", "slots.0.lsn": 0x1478C, "slots.0.state": 0,
         "dup_key": b"d1", "dup_count.key": b"d1", "dup_count.lsn": 0x14775, "dup_count.state": 2},
    ),
    Example(
        "v6 BINDelta", 6, "BINDelta", "",
        "03 7a ed 8c 02 02 0a 6b 65 79 2f 30 30 30 30 30 30 7a 91 ac 02 02 "
        "0a 6b 65 79 2f 30 30 30 30 35 30 7a dd ac 02 02",
        {"db_id": 3, "last_full_lsn": 0x28D64, "slots.0": (b"key/000000", 0x2AD08, 2),
         "slots.1": (b"key/000050", 0x2AD54, 2)},
    ),
    Example(
        "v8 INS_LN_TX", 8, "INS_LN_TX", "", "03 ff 00 07 ff 00 6b 65 79 2f 30 30 30 30 30 30",
        {"db_id": 3, "abort_lsn": NULL, "flags": 0, "txn_id": 7, "last_lsn": NULL, "data": b"", "key": b"key/000000"},
    ),
    Example(
        "v8 BINDelta", 8, "BINDelta", "", "02 7a 73 1e 02 ff 01 08 00 00 00 00 7f ff f5 06 7a aa 26 02 02",
        {"db_id": 2, "last_full_lsn": 0x21EEA, "prev_delta_lsn": NULL,
         "slots.0": (bytes.fromhex("00000000 7ffff506"), 0x22721, 2)},
    ),
    Example(
        "v15 UPD_LN_TX", 15, "UPD_LN_TX", "",
        "2a 05 79 0e 07 78 e8 ff 00 08 60 b4 20 bb 38 51 d9 d4 6b 65 79 2f 30 30 30 30 30 30",
        {"flags": 0x2A, "db_id": 5, "abort_lsn": 0x785, "txn_id": 351, "last_lsn": NULL, "abort_data": b"",
         "data": bytes.fromhex("60b420bb3851d9d4"), "key": b"key/000000"},
    ),
    Example(
        "v26 INS_LN_TX", 26, "INS_LN_TX", "",
        "02 00 01 06 7d 19 b6 5a f8 a1 01 00 0a 6b 65 79 2f 30 30 30 30 30 30 00 0a ff",
        {"flags": 2, "flags2": 0, "flags3": 1, "db_id": 6, "creation_time": 0, "key": b"key/000000", "data": b"",
         "txn_id": 10, "last_lsn": NULL},
    ),
    Example(
        "v26 before image", 26, "UPD_LN_TX_WITH_BEFORE_IMAGE", "",
        "22 41 00 08 7d 81 bd 5a f8 a1 01 00 0a 6b 65 79 2f 30 30 30 31 32 30 0c 5c df 35 ba 37 22 bd 97 cb 41 b6 05 "
        "79 40 86 79 17 03 7a ec ce 01 3d 79 b6 50",
        {"flags": 0x22, "flags2": 0x41, "flags3": 0, "db_id": 8, "creation_time": 0, "key": b"key/000120",
         "data": bytes.fromhex("5cdf35ba3722bd97cb41b605"), "prior_size": 61, "tail": 20781},
    ),
    Example(
        "v26 IN", 26, "IN", "3c 08 62 ae 0c 00 fe 00 00 00 1d 00 00 00",
        "00 ff 00 ff 00 03 01 32 05 ff 01 7a 8b ff 01 78 09 01 32 fe 00 00 00 00 00 00 00 02 22",
        {"db_id": 0, "prev_full_lsn": NULL, "prev_full_size": 0, "prev_delta_lsn": NULL, "prev_delta_size": 0,
         "node_id": 3, "identifier_key": b"2", "flags": 5, "compact_max_key_size": -1, "level": 0x20002,
         "max_entries": 128, "slots.0.key": b"2", "slots.0.lsn": 0xFE, "slots.0.state": 2, "slots.0.log_size": 34},
    ),
    Example(
        "v26 empty BIN", 26, "BIN", "", "00 ff 00 ff 00 ff ff ff 04 01 32 04 ff 00 7a 8a ff 01 78 09",
        {"db_id": 0, "expiration_base": -1, "creation_base": -1, "modification_base": -1, "node_id": 4,
         "identifier_key": b"2", "flags": 4, "compact_max_key_size": -1, "slots": (), "level": 0x20001,
         "max_entries": 128},
    ),
    Example(
        "v26 Commit", 26, "Commit", "", "78 53 01 7d da b5 5a f8 a1 01 ff 00 00",
        {"last_lsn": 202, "id": 1, "master_id": -1, "dtvlsn": 0, "master_term": 0},
    ),
]  # fmt: skip

# What a header of the page says beside type, size and checksum: flags, prevOffset, VLSN.
HEADERS = {
    "empty BIN": (0x80, 0x26, NULL),
    "INS_LN_TX": (0, 0x617, NULL),
    "replicated Commit": (0x28, 0x744, 7),
    "invisible INS_LN_TX": (0x38, 0x62F1, 406),
    "v6 LN_TX": (6, 0x62C, NULL),
}
# Total sizes that the page gives.
SIZES = {
    "file header": 38, "first DbTree": 50, "empty BIN": 46, "its root IN": 65, "NameLN_TX": 44, "MapLN": 44,
    "Commit": 26, "INS_LN_TX": 30, "UPD_LN_TX": 39, "DEL_LN_TX": 30, "BIN": 56, "NewBINDelta": 66, "FileSummaryLN": 80,
    "CkptStart": 31, "CkptEnd": 50, "replicated Commit": 35, "invisible INS_LN_TX": 41, "v6 LN_TX": 31, "v26 IN": 43,
}  # fmt: skip


def at_path(record: Any, path: str) -> Any:
    for part in path.split("."):
        record = record[int(part)] if part.isdigit() else getattr(record, part)
    return record


def by_name(name: str) -> Example:
    return next(example for example in EXAMPLES if example.name == name)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example(example: Example) -> None:
    body = bytes.fromhex(example.body)
    number = BY_NAME[example.type_name.lower()].number
    record = decode_body(number, example.version, body)
    assert {path: at_path(record, path) for path in example.fields} == example.fields
    assert encode_body(number, example.version, record) == body
    assert describe(record)
    if not example.header:
        return
    raw = bytes.fromhex(example.header) + body
    header = decode_header(raw, 0, example.version)
    assert (header.type_number, header.item_size) == (number, len(body))
    assert encode_entry(header, body, example.version) == raw, "the checksum is right"
    assert len(raw) == SIZES.get(example.name, len(raw))
    if example.name in HEADERS:
        assert (header.flags, header.prev_offset, header.vlsn) == HEADERS[example.name]


def test_checksum_of_the_commit() -> None:
    example = by_name("Commit")
    raw = bytes.fromhex(example.header + example.body)
    assert adler32(raw[4:]) == 0x26FB04BF
    assert len(raw[4:]) == 22


def test_invisible_checksum_is_that_of_the_visible_entry() -> None:
    example = by_name("invisible INS_LN_TX")
    raw = bytes.fromhex(example.header + example.body)
    assert adler32(raw[4:5] + b"\x28" + raw[6:]) == int.from_bytes(raw[:4], "little")


def test_provisional_of_the_examples() -> None:
    assert provisional_of(bytes.fromhex(by_name("empty BIN").header)[5]) is Provisional.YES
    assert provisional_of(bytes.fromhex(by_name("its root IN").header)[5]) is Provisional.NO


def test_slots_as_users_see_them() -> None:
    node = decode_body(13, 17, bytes.fromhex(by_name("BIN").body))
    assert isinstance(node, NodeRecord)
    (slot,) = describe_slots(node, delta=False)
    shown = {field.name: field.value for field in slot}
    assert (shown["key"], shown["data"], shown["lsn"]) == (b"hello", b"world", 0x646)
    assert (shown["embedded"], shown["dirty"], shown["known_deleted"]) == (True, False, False)


def test_keys_of_internal_databases() -> None:
    # Database extinction, scan 3 (18.1); expiration and extinction keys are sorted packed (10.2, 10.4).
    assert sorted_pack(3) == b"\x82"
