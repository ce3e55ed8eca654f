"""Binary payloads of frontends: encoded here field by field as the products write them, and read back.

The writer below is independent of the layouts: each payload spells out the bytes of one release.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents.embedded import with_documents
from engine.contents.journals import BYTES, FIELDS, JSON, TEXT, decode_journal
from engine.contents.operations import DORIS, OPERATIONS, PRODUCTS, STARROCKS, operation_name
from engine.contents.payloads import payload_fields

ZEROS = 97


def i64(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def i32(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def text(*words: str) -> bytes:
    return b"".join(struct.pack(">i", len(word.encode())) + word.encode() for word in words)


def document(value: Any) -> bytes:
    """As Gson writes it for Doris: indented."""
    return text(json.dumps(value, indent=2))


YES, NO = b"\1", b"\0"
REPLICA = i64(10002, 10454, 10456, 10455, 10459, 10040, 10460, -1, 0, -1, -1) + i32(9) + i64(-1, 0, -1, 0) + i32(-1)
TABLETS = i64(10040) + i32(1) + i64(7) + i32(8) + YES + YES + i32(2) + 2 * REPLICA + NO
HEARTBEATS = [
    {"clazz": "BackendHbResponse", "beId": 10040, "type": "BACKEND", "status": "OK"},
    {"clazz": "FrontendHbResponse", "name": "fe1", "type": "FRONTEND", "status": "OK"},
]
OLD_HEARTBEATS = (
    i32(3)
    + text("FRONTEND", "OK", "fe1")
    + i32(9030, 9020)
    + i64(4064)
    + text("BACKEND", "BAD")
    + i64(10040)
    + i32(9060, 8040, 8060)
    + text("BROKER", "OK", "hdfs", "10.0.0.9")
    + i32(8000)
)
COMMIT = {"tableId": 10070, "idToPartitionCommitInfo": {"10072": {"partitionId": 10072, "version": 2}}}
HEAD = i64(9010) + text("label_63a8") + i64(10002)
KAFKA = text("ROUTINE_LOAD_TASK") + i64(1, 2, 3, 4, 5) + text("KAFKA") + i32(1) + i32(0) + i64(77)
PULSAR = text("ROUTINE_LOAD_TASK") + i64(1, 2, 3, 4, 5) + text("PULSAR") + i32(1) + text("p-0") + i64(78)
BROKER_LOAD = (
    text("BATCH_LOAD_JOB")
    + i64(31)
    + text("FINISHED", "http://be/log")
    + i32(1)
    + text("k", "v")
    + i32(0)
    + i32(100)
    + i64(1, 2)
    + text("FINISHED")
    + YES
    + text("USER_CANCEL", "why\nso")
)


def doris_transaction(attachment: bytes = NO, reason: str = "") -> bytes:
    return (
        HEAD
        + i32(1)
        + document(COMMIT)
        + i32(1)
        + text("192.168.31.1")
        + i32(5, 3)
        + i64(1, 2, 3, 4)
        + text(reason)
        + i32(2)
        + i64(11, 12)
        + attachment
        + i64(-1, 43200000)
        + i32(1)
        + i64(10421)
    )


def starrocks_transaction(attachment: bytes = NO) -> bytes:
    commits = i32(2) + i64(5) + YES + i32(1) + text('{"partitionId":6}') + i64(7) + NO
    return (
        HEAD
        + commits
        + i32(2)
        + text("fe1")
        + i32(3, 7)
        + i64(1, 3, 4)
        + text('{"normal":[1],"abnormal":[]}')
        + i32(0)
        + attachment
        + i64(-1, 600000)
        + i32(0)
    )


DATABASE = (
    i64(-1, -1, 10002) + text("__internal_schema") + i32(0) + i64(1 << 50) + text("cluster", "NORMAL", "") + i32(0)
)
META = i64(-1, -1)
INDEX = META + i64(10071) + text("NORMAL") + i64(0) + i32(1) + document({"clazz": "Tablet", "id": 1}) + i64(-1, -1)
HASH = text("HASH", "HASH") + i32(1) + document({"name": "id"}) + i32(2)
PARTITION = (
    META + i64(10072) + text("p20240612", "NORMAL") + INDEX + i32(1) + INDEX + i32(0) + i64(1, 2, 3, 4, 5, 6) + HASH
)
DATE = text("DATEV2") + NO + struct.pack(">h", 3) + i64(132)
TIME = text("DATETIMEV2") + NO + struct.pack(">h", 2) + i64(132) + i32(3)
RANGE = YES + YES + i32(2) + DATE + TIME + YES + NO + i32(1) + text("INT") + YES
LIST = i32(1) + i32(2) + text("VARCHAR") + NO + text("eu") + text("NULL_TYPE") + NO + text("INT")
ADD_PARTITION = i64(10002, 10070) + PARTITION + RANGE + i32(0) + document({"m": "HDD"}) + document({"a": 3}) + NO + YES
TABLE_HEAD = (
    text("__internal_schema", "OLAP")
    + META
    + i64(10070)
    + text("audit_log")
    + i32(2)
    + document({"name": "id"})
    + document({"name": "time"})
    + text("do not modify")
    + document({"constraints": {}})
    + i64(17)
    + text("NORMAL")
    + i32(1)
    + text("audit_log")
    + i64(10071)
    + document({"indexId": 10071})
    + text("DUP_KEYS")
)
TABLE_TAIL = (
    HASH
    + i32(1)
    + PARTITION
    + YES
    + i32(1)
    + text("id")
    + struct.pack(">d", 0.05)
    + NO
    + i64(10071)
    + YES
    + document({"indexes": []})
    + YES
    + document({"properties": {}})
)
PROPERTIES = i32(1) + i64(10072) + YES + document({"allocMap": {}}) + NO
ITEMS = i32(1) + document({"name": "time"}) + i32(1) + i64(10072) + RANGE + i32(0)
COLUMN_EXPRESSION = i32(1) + i32(1) + NO + text("time")
TABLE_21 = (
    TABLE_HEAD
    + text("RANGE", "RANGE")
    + PROPERTIES
    + COLUMN_EXPRESSION
    + NO
    + ITEMS
    + TABLE_TAIL
    + NO
    + document({"idToPartition": {}})
)
TABLE_20 = (
    TABLE_HEAD + text("UNPARTITIONED", "UNPARTITIONED") + PROPERTIES + TABLE_TAIL + document({"idToPartition": {}})
)
BACKEND = (
    i64(10001)
    + text("be1")
    + i32(9050, 9060, 8040, -1)
    + YES
    + NO
    + i64(5, 6)
    + i32(1)
    + text("/data", "/data")
    + i64(1, 2, 3)
    + text("ONLINE", "default_cluster")
    + i32(0, 1, 8060)
)
LINK = text("c", "db") + i64(3)
CLUSTER = (
    i64(10001)
    + text("default_cluster")
    + i64(2, 8, 9)
    + i32(1)
    + text("db1")
    + i32(1)
    + i64(5)
    + i32(1)
    + text("l")
    + LINK
    + i32(1)
    + i64(6)
    + LINK
)
PRIVILEGES = (
    YES + text("'u'", "%") + NO + YES + text("db", "*") + NO + YES + i64(6) + YES + text('{"password":"eA=="}') + NO
)
DELETION = i64(1, 2, 3, 4, 0) + i32(1) + REPLICA + text("t", "p") + i32(1) + text("k = 1") + i64(99) + NO

# The operation, its payload, fields that it must have.
PAYLOADS: list[tuple[int, bytes, dict[str, Any]]] = [
    (1, DATABASE + document({"k": {}}) + i64(1 << 30) + document({"p": {}}), {"id": 10002, "dbProperties": {"p": {}}}),
    (1, DATABASE + i64(1 << 30), {"fullQualifiedName": "__internal_schema", "replicaQuotaSize": 1 << 30}),
    (1, document({"id": 5}) + i32(1) + document({"t": 1}), {"database": {"id": 5}, "tables": [{"t": 1}]}),
    (3, text("db", "") + i64(7) + text("c", "NORMAL", "DATA"), {"quota": 7, "quotaType": "DATA"}),
    (6, text("db", "new") + i64(0) + text("c", "NORMAL", "NONE"), {"newDbName": "new"}),
    (5, i64(1, -1, -1), {"dbId": 1, "partitionId": -1}),
    (10, TABLE_21, {"name": "audit_log", "keysType": "DUP_KEYS", "tempPartitions": {"idToPartition": {}}}),
    (10, TABLE_20, {"partitions": [payload_fields(12, ADD_PARTITION, 0)[0]["partition"]]}),  # type: ignore[index]
    (11, i64(1, 2) + YES + NO, {"forceDrop": True, "indexId": None}),
    (24, i64(1, 2) + NO + YES + i64(3), {"indexId": 3}),
    (12, ADD_PARTITION + YES, {"isTempPartition": True, "isMutable": True, "dataProperty": {"m": "HDD"}}),
    (
        12,
        i64(1, 2) + PARTITION + NO + NO + LIST + document({}) + document({}) + NO + NO + NO,
        {
            "range": {"lower": None, "upper": None},
            "list": [[{"type": "VARCHAR", "value": "eu"}, {"type": "NULL_TYPE", "value": "INT"}]],
        },
    ),
    (14, i64(1, 2, 3) + YES + text("SSD") + i64(9) + b"\0\3" + NO, {"replicationNum": 3, "isInMemory": False}),
    (19, i64(1, 2, -1, -1) + text("new", "", ""), {"newTableName": "new"}),
    (42, REPLICA, {"opType": "TABLET_INFO", "schemaHash": -1, "replicaId": 10460}),
    (29, i64(1, 2, 3, 4, 5, 6, 7, 0) + YES, {"checkedVersion": 7, "isConsistent": True}),
    (37, i64(8) + text("FINISHED"), {"id": 8, "state": "FINISHED"}),
    (
        38,
        text('{"jobId":1}') + i32(1) + text("be1") + i32(9060) + text("/s"),
        {"snapshotPaths": [{"hostname": "be1", "port": 9060, "path": "/s"}]},
    ),
    (41, DELETION, {"deleteConditions": ["k = 1"], "createTimeMs": 99}),
    (46, TABLETS, {"backendId": 10040, "bad": True, "tabletSchemaHash": [{"tabletId": 7, "schemaHash": 8}]}),
    (50, BACKEND, {"host": "be1", "isAlive": True, "brpcPort": 8060}),
    (56, text("FOLLOWER", "127.0.0.1") + i32(9010) + text("fe1"), {"role": "FOLLOWER", "editLogPort": 9010}),
    (59, i32(2) + document(HEARTBEATS[0]) + document(HEARTBEATS[1]), {"hbResults": HEARTBEATS}),
    (
        59,
        OLD_HEARTBEATS,
        {
            "hbResults": [
                {
                    "type": "FRONTEND",
                    "status": "OK",
                    "name": "fe1",
                    "queryPort": 9030,
                    "rpcPort": 9020,
                    "replayedJournalId": 4064,
                },
                {"type": "BACKEND", "status": "BAD", "beId": 10040, "bePort": 9060, "httpPort": 8040, "brpcPort": 8060},
                {"type": "BROKER", "status": "OK", "name": "hdfs", "host": "10.0.0.9", "port": 8000},
            ]
        },
    ),
    (62, PRIVILEGES, {"privs": 6, "role": None, "resourcePattern": None}),
    (63, text("'u'", "10.%") + NO, {"user": "'u'", "host": "10.%", "isDomain": False}),
    (69, text("u") + i32(1) + text("quota", "5"), {"properties": {"quota": "5"}}),
    (71, text("127.0.0.1") + i32(8030, 9020), {"host": "127.0.0.1", "rpcPort": 9020}),
    (74, CLUSTER, {"backendIdSet": [8, 9], "linkDbIds": [{"id": 6, "link": {"cluster": "c", "name": "db", "id": 3}}]}),
    (85, text("hdfs") + i32(1) + document({"ip": "10.0.0.9"}), {"brokerAddresses": [{"ip": "10.0.0.9"}]}),
    (88, i32(2) + i64(3, 4), {"backendIds": [3, 4]}),
    (
        89,
        i64(1) + text("r") + YES + text("s3://b") + text("b") + i32(1) + text("k", "v") + i64(9),
        {"isReadOnly": True, "storage": {"name": "b", "properties": {"k": "v"}}},
    ),
    (94, i64(1, 2, 3) + i32(2) + i32(1) + i64(10) + i32(0), {"backendsPerBucketSeq": [[10], []]}),
    (99, i64(1) + YES + i64(2, 3) + i32(0), {"groupId": {"dbId": 2, "grpId": 3}}),
    (
        100,
        doris_transaction(reason="errCode = 2\n\tat"),
        {
            "transactionStatus": "PRECOMMITTED",
            "preCommitTime": 2,
            "idToTableCommitInfos": [COMMIT],
            "sourceType": "INSERT_STREAMING",
            "reason": "errCode = 2\n\tat",
        },
    ),
    (
        100,
        doris_transaction(YES + KAFKA),
        {
            "txnCommitAttachment": {
                "sourceType": "ROUTINE_LOAD_TASK",
                "filteredRows": 1,
                "loadedRows": 2,
                "unselectedRows": 3,
                "receivedBytes": 4,
                "taskExecutionTimeMs": 5,
                "progress": {"dataSource": "KAFKA", "partitionIdToOffset": [{"partition": 0, "offset": 77}]},
            }
        },
    ),
    (100, doris_transaction(YES + BROKER_LOAD), {"timeoutMs": 43200000, "tableIdList": [10421]}),
    (100, starrocks_transaction(), {"sourceType": "LAKE_COMPACTION", "finishTime": 4}),
    (101, starrocks_transaction(YES + PULSAR), {"transactionStatus": "VISIBLE"}),
    (
        100,
        starrocks_transaction(YES + text("INSERT_STREAMING", '{"rows":3}')),
        {"txnCommitAttachment": {"sourceType": "INSERT_STREAMING", "attachment": {"rows": 3}}},
    ),
    (
        100,
        starrocks_transaction(YES + text("BACKEND_STREAMING") + i64(1, 2) + NO),
        {
            "txnCommitAttachment": {
                "sourceType": "BACKEND_STREAMING",
                "filteredRows": 1,
                "loadedRows": 2,
                "errorLogUrl": None,
            }
        },
    ),
    (123, i32(1) + document({"jobId": 4}), {"alterJobV2List": [{"jobId": 4}]}),
    (201, i64(8) + text("PAUSED"), {"state": "PAUSED"}),
    (231, BROKER_LOAD, {"progress": 100, "failMsg": {"cancelType": "USER_CANCEL", "msg": "why\nso"}}),
    (251, i64(1) + text("c", "ca.pem") + i64(2) + text("QUJD") + i64(3) + text("md5") + YES, {"content": "QUJD"}),
    (431, i64(24014), {"id": 24014}),
    (436, text(""), {"log": ""}),
    (481, text("db", "dict"), {"dictionaryName": "dict"}),
    (10101, text("OBSERVER", "fe2") + i32(9010) + text("fe2_9010_1"), {"nodeName": "fe2_9010_1"}),
    (10264, text("'u'", "%") + YES, {"isDomain": True}),
    (11020, text('{"id":1}') + i64(-3, 4), {"task": {"id": 1}, "loadIdHigh": -3}),
]
IDS = [
    f"{operation_name(DORIS, code) or operation_name(STARROCKS, code)}-{at}" for at, (code, *_) in enumerate(PAYLOADS)
]


@pytest.mark.parametrize(("code", "payload", "expected"), PAYLOADS, ids=IDS)
def test_payloads_of_the_products(code: int, payload: bytes, expected: dict[str, Any]) -> None:
    for padding in (0, ZEROS):
        found = decode_journal(struct.pack(">h", code) + payload + bytes(padding)).payload
        assert (found.kind, found.known, found.padding) == (FIELDS, True, padding)
        assert {name: found.value[name] for name in expected} == expected


@pytest.mark.parametrize(("code", "payload", "expected"), PAYLOADS, ids=IDS)
def test_a_layout_counts_only_if_it_consumes_the_payload(code: int, payload: bytes, expected: dict[str, Any]) -> None:
    assert payload_fields(code, payload, 0) is not None, expected
    assert payload_fields(code, payload + b"\1", 0) is None
    if code != 12:
        assert payload_fields(code, payload[:-1], 0) is None


def test_a_shorter_layout_of_an_older_release() -> None:
    """Doris 1.2 had no last field yet: without it, the same partition is one of that release."""
    assert "isMutable" not in payload_fields(12, ADD_PARTITION, 0)[0]  # type: ignore[index]
    assert payload_fields(12, ADD_PARTITION[:-1], 0) is None


def test_json_inside_an_unknown_structure_is_no_hex() -> None:
    """A table of a release whose layout is not known: columns and properties are shown as JSON, the rest in hex."""
    odd = i64(1) + b"\7" + document({"name": "id"}) + text("be1:9060") + text('["a"]') + bytes(50)
    found = decode_journal(struct.pack(">h", 13512) + odd).payload
    assert (found.kind, found.known) == (BYTES, False)
    assert found.value == {
        "parts": [
            {"hex": (i64(1) + b"\7").hex()},
            {"json": {"name": "id"}},
            {"hex": text("be1:9060").hex(), "readable": ["be1:9060"]},
            {"json": ["a"]},
            {"zeros": 50},
        ]
    }
    after = decode_journal(struct.pack(">h", 10) + text("db") + i32(7) + document({"c": 1})).payload
    assert after.kind == TEXT
    assert after.value == {TEXT: "db", "rest": {"parts": [{"hex": i32(7).hex()}, {"json": {"c": 1}}]}}
    second = decode_journal(struct.pack(">h", 126) + text('{"a":1}') + text('{"b":2}')).payload
    assert second.value == {JSON: {"a": 1}, "rest": {"parts": [{"json": {"b": 2}}]}}


def test_brackets_without_json_stay_hex() -> None:
    assert with_documents(b"") is None
    assert with_documents(text("{not json}") + text("[") + b"\0\0\0\x7f{}") is None
    assert with_documents(i32(-1) + b"{}") is None


def test_hostile_lengths_cost_no_more_than_the_payload() -> None:
    """Every bracket claims to begin a text that ends at the last byte: parsing all would be quadratic."""
    size = 200_000
    data = bytearray()
    while len(data) < size - 5:
        data += struct.pack(">i", size - len(data) - 4) + b"{"
    data = data[: size - 1] + b"}"
    assert with_documents(bytes(data)) is None
    counts = struct.pack(">h", 94) + i64(1, 2, 3) + i32(50_000) + i32(0) * 50_000
    assert len(decode_journal(counts).payload.value["backendsPerBucketSeq"]) == 50_000
    claim = struct.pack(">h", 88) + i32(2_000_000_000)
    assert decode_journal(claim).payload.known is False


@given(st.sampled_from(sorted({code for code, *_ in PAYLOADS})), st.binary(max_size=300))
def test_any_payload_is_printable(code: int, payload: bytes) -> None:
    found = decode_journal(struct.pack(">h", code) + payload).payload
    assert json.dumps(found.value, ensure_ascii=False).encode()


@given(st.sampled_from(PAYLOADS), st.data())
def test_changed_payloads_are_decoded_or_shown(payload: tuple[int, bytes, Any], data: st.DataObject) -> None:
    code, body, _ = payload
    at = data.draw(st.integers(0, max(len(body) - 1, 0)))
    changed = body[:at] + data.draw(st.binary(min_size=1, max_size=4)) + body[at + 1 :]
    found = decode_journal(struct.pack(">h", code) + changed).payload
    assert len(json.dumps(found.value, ensure_ascii=False).encode()) <= 16 * len(changed) + 1000


def test_operations_have_releases() -> None:
    """The releases of a product ascend, and a name ends where the next one of its code begins."""
    for product in PRODUCTS:
        last: dict[int, Any] = {}
        for one in OPERATIONS[product]:
            before = last.get(one.code)
            assert before is None or before.until == one.since
            assert one.until is None or _release(one.since) < _release(one.until)
            last[one.code] = one
    by_name = {(product, one.name): one for product in PRODUCTS for one in OPERATIONS[product]}
    assert by_name[DORIS, "ALTER_ROLE"][2:] == ("2.1", None)
    assert by_name[DORIS, "MODIFY_IN_MEMORY"] == (267, "MODIFY_IN_MEMORY", "1.1", "3.0")
    assert by_name[DORIS, "MODIFY_TABLE_PROPERTIES"] == (267, "MODIFY_TABLE_PROPERTIES", "3.0", None)
    assert by_name[STARROCKS, "HEARTBEAT"][2:] == ("1.19.0", "3.4.0")
    assert by_name[STARROCKS, "RENAME_PARTITION"][2:] == ("1.19.0", "3.4.0")
    assert by_name[STARROCKS, "UPSERT_TRANSACTION_STATE_V2"] == (12110, "UPSERT_TRANSACTION_STATE_V2", "3.0.3", None)
    assert by_name[STARROCKS, "CREATE_GROUP_PROVIDER"][2:] == ("3.5.0", None)


def _release(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
