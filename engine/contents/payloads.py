"""Binary payloads of journals: the layouts by operation (fe-journals.md 3.4).

Before a release of a frontend writes an operation as JSON it writes a fixed structure, often with JSON inside. A
payload names neither its release nor its layout, so every layout of the operation is tried, and one counts only if it
**consumes the payload exactly**: nothing may follow but the zero bytes of a Doris frontend's buffer.

    payload_fields(46, value, 2)      # {"backendId": 10040, "tabletSchemaHash": [], "bad": True, ...}

Names of fields are those of the products' classes. A layout comes before another that fits the same bytes and reads
less of them.
"""

from __future__ import annotations

from typing import Final

from engine.contents.base import Fields, Json
from engine.contents.layouts import (
    Part,
    absent,
    document,
    double,
    each,
    flag,
    int16,
    int32,
    int64,
    joined,
    many,
    named,
    nothing,
    optional,
    properties,
    record,
    tagged,
    text,
)
from engine.errors import FormatError

_REPLICA_OPERATIONS: Final = (
    "ADD CROND_DELETE DELETE CLONE LOAD ROLLUP SCHEMA_CHANGE CLEAR_ROLLUPINFO DEFAULT_OP TABLET_INFO"
)
_REPLICA: Final = record(
    **each(
        int64, "dbId tableId partitionId indexId tabletId backendId replicaId version versionHash dataSize rowCount"
    ),
    opType=named(_REPLICA_OPERATIONS),
    **each(int64, "lastFailedVersion lastFailedVersionHash lastSuccessVersion lastSuccessVersionHash"),
    schemaHash=int32,
)
_BACKEND_TABLETS: Final = record(
    backendId=int64,
    tabletSchemaHash=many(record(tabletId=int64, schemaHash=int32)),
    bad=flag,
    replicaPersistInfos=optional(many(_REPLICA)),
    extended=flag,
)
_CONSISTENCY: Final = record(
    **each(int64, "dbId tableId partitionId indexId tabletId lastCheckTime checkedVersion checkedVersionHash"),
    isConsistent=flag,
)

# Heartbeats.
_HEARTBEAT_HEAD: Final = record(status=text)
_HEARTBEAT: Final = tagged(
    "type",
    {
        "FRONTEND": joined(_HEARTBEAT_HEAD, record(name=text, queryPort=int32, rpcPort=int32, replayedJournalId=int64)),
        "BACKEND": joined(_HEARTBEAT_HEAD, record(beId=int64, **each(int32, "bePort httpPort brpcPort"))),
        "BROKER": joined(_HEARTBEAT_HEAD, record(name=text, host=text, port=int32)),
    },
)
_HEARTBEATS: Final = (record(hbResults=many(document)), record(hbResults=many(_HEARTBEAT)))

# Transactions.
_OFFSETS: Final = tagged(
    "dataSource",
    {
        "KAFKA": record(partitionIdToOffset=many(record(partition=int32, offset=int64))),
        "PULSAR": record(partitionToBacklogNum=many(record(partition=text, backlog=int64))),
    },
)
_LOAD_FINAL: Final = record(
    id=int64,
    loadingStatus=record(state=text, trackingUrl=text, stats=properties, counters=properties),
    progress=int32,
    loadStartTimestamp=int64,
    finishTimestamp=int64,
    jobState=text,
    failMsg=optional(record(cancelType=text, msg=text)),
)
_ROWS: Final = record(filteredRows=int64, loadedRows=int64)
_ATTACHMENT: Final = tagged(
    "sourceType",
    {
        "ROUTINE_LOAD_TASK": joined(
            _ROWS, record(**each(int64, "unselectedRows receivedBytes taskExecutionTimeMs"), progress=_OFFSETS)
        ),
        "BATCH_LOAD_JOB": _LOAD_FINAL,
        "FRONTEND": _LOAD_FINAL,
        "BACKEND_STREAMING": joined(_ROWS, record(errorLogUrl=optional(text))),
        "INSERT_STREAMING": record(attachment=document),
        "FRONTEND_STREAMING": record(attachment=document),
    },
)
_SOURCES: Final = (
    "UNKNOWN FRONTEND BACKEND_STREAMING INSERT_STREAMING ROUTINE_LOAD_TASK BATCH_LOAD_JOB DELETE LAKE_COMPACTION "
    "FRONTEND_STREAMING"
)
_TABLE_COMMIT: Final = record(tableId=int64, idToPartitionCommitInfo=optional(many(document)))


def _transaction(commits: Part, fifth_status: str, times: Part) -> Part:
    """A TransactionState: the products differ in the form of commit information, and in the times."""
    return joined(
        record(
            transactionId=int64,
            label=text,
            dbId=int64,
            idToTableCommitInfos=many(commits),
            coordinatorType=named("UNKNOWN FE BE"),
            coordinator=text,
            transactionStatus=named(f"UNKNOWN PREPARE COMMITTED VISIBLE ABORTED {fifth_status}"),
            sourceType=named(_SOURCES),
        ),
        times,
        record(
            reason=text,
            errorReplicas=many(int64),
            txnCommitAttachment=optional(_ATTACHMENT),
            callbackId=int64,
            timeoutMs=int64,
            tableIdList=many(int64),
        ),
    )


_TRANSACTIONS: Final = (
    _transaction(document, "PRECOMMITTED", record(**each(int64, "prepareTime preCommitTime commitTime finishTime"))),
    _transaction(_TABLE_COMMIT, "PREPARED", record(**each(int64, "prepareTime commitTime finishTime"))),
)

# Nodes.
_FRONTEND: Final = record(role=text, host=text, editLogPort=int32, nodeName=text)
_DISK: Final = record(
    rootPath=text, **each(int64, "totalCapacityB dataUsedCapacityB diskAvailableCapacityB"), state=text
)
_BACKEND: Final = record(
    id=int64,
    host=text,
    **each(int32, "heartbeatPort bePort httpPort beRpcPort"),
    isAlive=flag,
    isDecommissioned=flag,
    lastUpdateMs=int64,
    lastStartTime=int64,
    disks=many(record(path=text, disk=_DISK)),
    cluster=text,
    **each(int32, "backendState decommissionType brpcPort"),
)
_LINK: Final = record(cluster=text, name=text, id=int64)
_CLUSTER: Final = record(
    id=int64,
    name=text,
    backendIdSet=many(int64, int64),
    dbNames=many(text),
    dbIds=many(int64),
    linkDbNames=many(record(name=text, link=_LINK)),
    linkDbIds=many(record(id=int64, link=_LINK)),
)

# Users.
_USER: Final = record(user=text, host=text, isDomain=flag)
_PRIVILEGES: Final = record(
    userIdent=optional(_USER),
    tblPattern=optional(record(db=text, tbl=text)),
    resourcePattern=optional(document),
    privs=optional(int64),
    passwd=optional(document),
    role=optional(text),
)

# Databases, tables and partitions.
_META: Final = record(signature=int64, lastCheckTime=int64)
_DATABASE_HEAD: Final = joined(
    _META,
    record(
        id=int64,
        fullQualifiedName=text,
        tables=nothing,
        dataQuotaBytes=int64,
        **each(text, "clusterName dbState attachDbName"),
        functions=nothing,
    ),
)
_DATABASES: Final = (
    joined(_DATABASE_HEAD, record(encryptKey=document, replicaQuotaSize=int64, dbProperties=document)),
    joined(_DATABASE_HEAD, record(replicaQuotaSize=int64)),
    record(database=document, tables=many(document)),
)
_INTEGER: Final = record(value=int64)
_DATE: Final = record(form=int16, packed=int64)
_DATE_V2: Final = record(form=int16, packed=int64, scale=int32)
_TEXT: Final = record(value=text)
_LITERALS: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _INTEGER),
    **dict.fromkeys(("DATE", "DATETIME", "DATEV2"), _DATE),
    "DATETIMEV2": _DATE_V2,
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING", "LARGEINT"), _TEXT),
}


def _partition_key(fields: Fields) -> Json:
    """One column of a bound: its type, whether it is MAXVALUE, otherwise its value."""
    kind = text(fields)
    if flag(fields):
        return {"type": kind, "max": True}
    part = _TEXT if kind == "NULL_TYPE" else _LITERALS.get(kind)
    if part is None:
        raise FormatError("field of a record", expected="a known type of a partition column")
    return {"type": kind, **part(fields)}


_KEY: Final = many(_partition_key)
_BOUND: Final = record(closed=flag, key=_KEY)
_RANGE: Final = record(lower=optional(_BOUND), upper=optional(_BOUND))
_LIST: Final = many(_KEY)
_INDEX: Final = joined(
    _META,
    record(
        id=int64, state=text, rowCount=int64, tablets=many(document), rollupIndexId=int64, rollupFinishedVersion=int64
    ),
)
_DISTRIBUTION: Final = tagged(
    "distribution",
    {
        "HASH": record(type=text, distributionColumns=many(document), bucketNum=int32),
        "RANDOM": record(type=text, bucketNum=int32),
    },
)
_PARTITION: Final = joined(
    _META,
    record(
        id=int64,
        name=text,
        state=text,
        baseIndex=_INDEX,
        rollups=many(_INDEX),
        shadowIndexes=many(_INDEX),
        **each(
            int64,
            "visibleVersion visibleVersionTime visibleVersionHash nextVersion nextVersionHash committedVersionHash",
        ),
        distributionInfo=_DISTRIBUTION,
    ),
)
_ADD_PARTITION: Final = record(
    dbId=int64,
    tableId=int64,
    partition=_PARTITION,
    range=_RANGE,
    list=_LIST,
    dataProperty=document,
    replicaAllocation=document,
    isInMemory=flag,
    isTempPartition=flag,
)
_ADD_PARTITIONS: Final = (joined(_ADD_PARTITION, record(isMutable=flag)), _ADD_PARTITION)
_PARTITION_PROPERTIES: Final = record(
    type=text,
    partitions=many(record(id=int64, dataProperty=absent(document), replicaAllocation=document, isInMemory=flag)),
)
_COLUMN_REFERENCE: Final = 1


def _expression(fields: Fields) -> Json:
    """A partition expression that is a column; FormatError for a call of a function, whose layout is not known."""
    if int32(fields) != _COLUMN_REFERENCE or flag(fields):
        raise FormatError("field of a record", expected="a column without the name of its table")
    return {"column": text(fields)}


_AUTOMATIC: Final = record(expressions=many(_expression), isAutoCreatePartitions=flag)


def _items(part: Part) -> Part:
    item = record(id=int64, item=part)
    return record(partitionColumns=many(document), items=many(item), tempItems=many(item))


def _partitions(automatic: Part) -> Part:
    whole = joined(_PARTITION_PROPERTIES, automatic)
    return tagged(
        "partitioning",
        {"UNPARTITIONED": whole, "RANGE": joined(whole, _items(_RANGE)), "LIST": joined(whole, _items(_LIST))},
    )


def _table(automatic: Part, generator: Part) -> Part:
    """An OlapTable: the releases differ in automatic partitions and in columns that count by themselves."""
    return joined(
        record(dbName=text),
        tagged("type", {"OLAP": _META}),
        record(
            id=int64,
            name=text,
            fullSchema=many(document),
            comment=text,
            attributes=document,
            createTime=int64,
            state=text,
            indexes=many(record(name=text, id=int64, meta=document)),
            keysType=text,
            partitionInfo=_partitions(automatic),
            defaultDistributionInfo=_DISTRIBUTION,
            partitions=many(_PARTITION),
            bloomFilter=optional(record(columns=many(text), fpp=double)),
            colocateGroup=optional(text),
            baseIndexId=int64,
            tableIndexes=optional(document),
            tableProperty=optional(document),
        ),
        generator,
        record(tempPartitions=document),
    )


_NONE: Final = record()
_TABLES: Final = (_table(_AUTOMATIC, record(autoIncrementGenerator=optional(document))), _table(_NONE, _NONE))

_TABLE_INFO: Final = record(
    **each(int64, "dbId tableId indexId partitionId"), **each(text, "newTableName newRollupName newPartitionName")
)
_DATABASE_INFO: Final = record(dbName=text, newDbName=text, quota=int64, **each(text, "clusterName dbState quotaType"))
_DROP: Final = record(dbId=int64, tableId=int64, forceDrop=flag, indexId=optional(int64))
_RECOVER: Final = record(**each(int64, "dbId tableId partitionId"))
_MODIFY_PARTITION: Final = record(
    **each(int64, "dbId tableId partitionId"),
    dataProperty=optional(record(storageMedium=text, cooldownTimeMs=int64)),
    replicationNum=int16,
    isInMemory=flag,
)
_DELETE: Final = record(
    **each(int64, "dbId tableId partitionId partitionVersion partitionVersionHash"),
    replicaInfos=many(_REPLICA),
    tableName=text,
    partitionName=text,
    deleteConditions=many(text),
    createTimeMs=int64,
    extended=flag,
)
_GROUP: Final = record(dbId=int64, grpId=int64)
_COLOCATION: Final = joined(record(tableId=int64), record(groupId=_GROUP, backendsPerBucketSeq=many(many(int64))))

# Jobs and files.
_STATE: Final = record(id=int64, state=text)
_REPOSITORY: Final = record(
    id=int64,
    name=text,
    isReadOnly=flag,
    location=text,
    storage=record(name=text, properties=properties),
    createTime=int64,
)
_SMALL_FILE: Final = record(
    dbId=int64, catalog=text, name=text, id=int64, content=text, size=int64, md5=text, isContent=flag
)
_EXPORT_UPDATE: Final = record(update=document, snapshotPaths=many(record(hostname=text, port=int32, path=text)))

_LAYOUTS: Final[dict[int, tuple[Part, ...]]] = {
    1: _DATABASES,
    **dict.fromkeys((3, 6), (_DATABASE_INFO,)),
    **dict.fromkeys((5, 17, 18), (_RECOVER,)),
    10: _TABLES,
    **dict.fromkeys((11, 24), (_DROP,)),
    12: _ADD_PARTITIONS,
    14: (_MODIFY_PARTITION,),
    **dict.fromkeys((19, 110, 120, 122), (_TABLE_INFO,)),
    **dict.fromkeys((28, 42, 43, 45), (_REPLICA,)),
    29: (_CONSISTENCY,),
    37: (_STATE,),
    38: (_EXPORT_UPDATE,),
    41: (_DELETE,),
    46: (_BACKEND_TABLETS,),
    **dict.fromkeys((50, 51, 52), (_BACKEND,)),
    **dict.fromkeys((55, 56, 57, 92, 10101), (_FRONTEND,)),
    59: _HEARTBEATS,
    **dict.fromkeys((62, 64, 65, 66, 67, 68, 10064, 10065), (_PRIVILEGES,)),
    **dict.fromkeys((63, 10264), (_USER,)),
    69: (record(user=text, properties=properties),),
    71: (record(host=text, httpPort=int32, rpcPort=int32),),
    74: (_CLUSTER,),
    **dict.fromkeys((85, 86), (record(brokerName=text, brokerAddresses=many(document)),)),
    88: (record(backendIds=many(int64)),),
    **dict.fromkeys((89, 460), (_REPOSITORY,)),
    **dict.fromkeys(range(94, 99), (_COLOCATION,)),
    99: (record(tableId=int64, groupId=optional(_GROUP), properties=properties),),
    **dict.fromkeys((100, 101), _TRANSACTIONS),
    123: (record(alterJobV2List=many(document)),),
    **dict.fromkeys((201, 202), (_STATE,)),
    231: (joined(record(sourceType=text), _LOAD_FINAL),),
    **dict.fromkeys((251, 252), (_SMALL_FILE,)),
    **dict.fromkeys((431, 433), (record(id=int64),)),
    436: (record(log=text),),
    481: (record(dbName=text, dictionaryName=text),),
    11020: (record(task=document, loadIdHigh=int64, loadIdLow=int64),),
}


def payload_fields(code: int, data: bytes, at: int) -> tuple[Json, int] | None:
    """The payload of an operation by the layout that consumes it exactly, up to zero bytes after it.

    Arguments:
        at: where the payload begins in ``data``.

    Returns:
        The fields, and where they end; None if the operation has no layout, or no layout fits.
    """
    padded = None
    for layout in _LAYOUTS.get(code, ()):
        fields = Fields(data, at)
        try:
            found = layout(fields)
        except (FormatError, ValueError, RecursionError):
            continue
        if not fields.left:
            return found, fields.at
        if padded is None and not data[fields.at :].strip(b"\0"):
            padded = found, fields.at
    return padded
