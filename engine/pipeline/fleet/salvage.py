"""The newest committed version of every record that can still be had of damaged environments, and what cannot.

Where recovery in memory works and every record can be read, the records are those of recovery: *tree*. Everywhere else
they are put together from the log (*log*), per database and key:

1. The newest LN whose transaction committed, or that had none, is the version of the record; a deletion removes it.
   LNs that a rollback took back do not count, nor those of transactions that aborted or have no end.
2. A slot of a BIN that leads to a newer version, which no LN in the log is, speaks for a lost LN: embedded data is the
   version; a deleted slot removes the record; else the record's newest version is *lost*, and an older one, if there is
   one, stands in for it.
3. A record that the newest complete version of its BIN lacks, although an older one had it, has been deleted, unless
   an LN is newer still.

Nodes of one replication group hold the same records. The newest node that recovers gives them; what the damaged ones
have beyond its last VLSN comes on top. Where none recovers, the version with the highest VLSN counts.

What is lost is listed with the reason. A deletion whose LN is lost, and whose BIN is, cannot be known: such a record is
there again. Nothing is written to the sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, plural
from engine.events import SILENT, Listener
from engine.format.vlsn import NULL_VLSN
from engine.log.files import list_log_files
from engine.pipeline.failures import explained
from engine.pipeline.fleet.node_streams import collect_stream
from engine.pipeline.fleet.salvage_tasks import LOG, RECORDS, ROWS, ends_task, fold, scan_task, unfold
from engine.pipeline.inventory import EnvironmentListing, pack, parts_of
from engine.pipeline.sources import register
from engine.pipeline.tables import new_directory
from engine.pipeline.worker import settle_worker
from engine.rescue.salvage import scan
from engine.storage.disk import DiskStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from engine.pipeline.session import Session

FORMS: Final = ("parquet", "json", "csv")
_RAW_FORMS: Final = ("parquet",)
_KEY: Final = ["env", "db", "key"]


class Health(NamedTuple):
    """One environment before salvage.

    Attributes:
        survey: what is few in its log; None when not even that can be had.
        group: UUID of its replication group; "" when it has none.
        last_vlsn: of its stream; NULL_VLSN without one.
        problem: why recovery is of no use; empty when all records can be read.
    """

    env: str
    survey: scan.LogSurvey | None
    group: str
    last_vlsn: int
    problem: str


class SalvageReport(NamedTuple):
    """What came of it.

    Attributes:
        health: of each environment, in the order of naming.
        records: how many records each environment gave, and whether by ``TREE`` or ``LOG``.
        lost: keys whose newest version cannot be read.
        stood_in: those of them for which an older version stands in.
    """

    health: list[Health]
    records: dict[tuple[str, str], int]
    lost: int
    stood_in: int


def salvage_fleet(
    session: Session, fleet: Sequence[EnvironmentListing], to: str, form: str, listener: Listener = SILENT
) -> SalvageReport:
    """Write the datasets ``to/records`` and ``to/lost``.

    Arguments:
        session: Spark.
        fleet: the environments.
        to: a directory that is not there, or is empty; it appears when it is complete.
        form: of ``FORMS``.
        listener: hears the steps ``look`` and ``salvage``.

    Raises:
        RefusedError: the directory holds something. StorageError: it cannot be written. JobError: Spark gave up.
    """
    spark = session.spark
    register(spark)
    envs = [listed.member.env for listed in fleet if listed.files is not None]
    size = sum(file.size_bytes for listed in fleet if listed.files is not None for file in listed.files.files)
    with explained("the salvage failed", consequence="nothing was written"), session.shuffling(size):
        looked = spark.sparkContext.parallelize(envs, len(envs)).map(check)
        health: list[Health] = session.run(looked.collect, "look", listener)
        plan = _Plan(session, fleet, health)
        frame = plan.records().persist()
        lost = plan.lost().persist()
        try:
            # The directory gets its name when both datasets are whole.
            with new_directory(to) as staging:
                session.run(lambda: _save(frame, f"{staging}/records", form), "salvage", listener)
                session.run(lambda: _save(lost, f"{staging}/lost", form), "salvage", listener)
                counted = frame.groupBy("environment", "from").count().collect()
                numbers = lost.groupBy(lost["stood_in"]).count().collect()
        finally:
            # Persisted frames outlive the job unless they are given back.
            for kept in (frame, lost, *plan.kept):
                kept.unpersist()
    by_kind = {row[0]: row[1] for row in numbers}
    records = {(row[0], row[1]): row[2] for row in counted}
    return SalvageReport(health, records, sum(by_kind.values()), by_kind.get(True, 0))


def check(env: str) -> Health:
    """Look whether recovery and every record can be read; runs on an executor."""
    settle_worker()
    try:
        survey = scan.survey_log(env)
        stream = collect_stream(parts_of(env, list_log_files(DiskStorage(env))))
    except JetoolError as error:
        return Health(env, None, "", NULL_VLSN, str(error))
    group = stream.group.uuid if stream.group is not None and stream.facts.last != NULL_VLSN else ""
    return Health(env, survey, group, stream.facts.last, _problem(env))


def _problem(env: str) -> str:
    """Why the records of recovery are not all; empty when they are."""
    try:
        with Environment(env, EnvironmentConfig(read_only=True)) as opened:
            tail = opened.engine.tail
            if tail is not None and tail.commits_at_risk:
                stand = plural(tail.commits_at_risk, "committed transaction stands", "committed transactions stand")
                return f"{stand} after damage in the last file"
            for name in opened.database_names():
                with opened.open_database(name) as db:
                    # Walks the whole tree: damage below any node shows here.
                    db.count()
    except JetoolError as error:
        return str(error)
    return ""


class _Plan:
    """The data frames of one salvage.

    Arguments:
        session, fleet, health: as for ``salvage_fleet``.

    Attributes:
        kept: frames that Spark keeps.
    """

    def __init__(self, session: Session, fleet: Sequence[EnvironmentListing], health: Sequence[Health]) -> None:
        self._spark = session.spark
        known = [one for one in health if one.survey is not None]
        self._bases = _bases(known)
        self._trees = [one for one in known if not one.problem and one.env in self._bases.values()]
        self._logs = [one for one in known if one.problem]
        self._files = {one.member.env: one.files for one in fleet if one.files is not None}
        self._floor = {one.env: one.last_vlsn for one in self._trees}
        self.kept: list[DataFrame] = []
        self._resolved = self._keep(self._resolve())

    def records(self) -> DataFrame:
        """Live records of everything, the newest of each."""
        from pyspark.sql import functions as f

        versions = self._named(self._resolved.where("lsn is not null"))
        # Of a group with a node that recovers, only what lies beyond the last VLSN of that node.
        beyond = versions.where("floor is null or vlsn > floor")
        logged = beyond.select("source", "env", "db", "dups", "key", "data", "vlsn", "lsn", "deleted", "from")
        rows = self._tree_rows().unionByName(logged)
        newest = rows.groupBy("source", "db", "key").agg(f.expr("max_by(struct(*), struct(vlsn, lsn))").alias("row"))
        live = newest.select("row.*").where("not deleted")
        shown = live.select("source", "env", "db", "dups", "key", "data", "vlsn", "from")
        return shown.mapInArrow(unfold, RECORDS)

    def lost(self) -> DataFrame:
        """Keys whose newest version cannot be read, unless another node gave the record."""
        from pyspark.sql import functions as f

        rows = self._named(self._resolved.where("lost"))
        given = self._tree_rows().select("source", "db", "key").distinct()
        # Another node of the group may have given the record.
        left = rows.join(given, ["source", "db", "key"], "left_anti")
        return left.select(
            f.col("env").alias("environment"), "db", "key", f.col("lost_lsn").alias("lsn"),
            f.lit("the newest version cannot be read").alias("reason"), f.expr("not deleted").alias("stood_in"),
        )  # fmt: skip

    def _tree_rows(self) -> DataFrame:
        """Records of recovery, as versions with the last VLSN of their node."""
        from pyspark.sql import functions as f

        empty = self._spark.createDataFrame([], ROWS)
        if not self._trees:
            return empty
        paths = ",".join(one.env for one in self._trees)
        # What stands after damage comes from the log.
        read = self._spark.read.format("jerecords").option("onDamage", "ignore").load(paths)
        dbs = self._dbs(self._trees)
        rows = read.withColumnRenamed("environment", "env").join(f.broadcast(dbs), ["env", "db"], "left")
        folded = rows.select(
            f.coalesce("source", "env").alias("source"), "env", "db", f.coalesce("dups", f.lit(False)).alias("dups"),
            "key", "data", f.coalesce("floor", f.lit(NULL_VLSN)).alias("vlsn"),
        )  # fmt: skip
        return folded.mapInArrow(fold, ROWS)

    def _named(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        named = rows.withColumnRenamed("db", "id").join(f.broadcast(self._dbs(self._logs)), ["env", "id"])
        return named.withColumn("from", f.lit(LOG))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Compute a frame once; ``kept`` is for the caller to give back."""
        self.kept.append(frame.persist())
        return self.kept[-1]

    def _dbs(self, of: Sequence[Health]) -> DataFrame:
        """Databases: where their records belong together, and the VLSN up to which a base gives all of them."""
        rows = []
        for one in of:
            assert one.survey is not None
            for db_id, db in one.survey.dbs.items():
                # Only replicated databases, whose ids are negative, hold the same records on every node.
                shared = bool(one.group) and db_id < 0
                base = self._bases.get(one.group) if shared else None
                floor = self._floor.get(base) if base is not None else None
                rows.append((one.env, db_id, db.name, db.duplicates, one.group if shared else one.env, floor))
        kinds = "env string, id bigint, db string, dups boolean, source string, floor bigint"
        return self._spark.createDataFrame(rows, kinds)

    def _resolve(self) -> DataFrame:
        """One row for each record of each damaged log: its newest version that can be had, and whether one is lost."""
        from pyspark.sql import functions as f

        spark, surveys = self._spark, {one.env: one.survey for one in self._logs if one.survey is not None}
        tasks = pack([parts_of(env, self._files[env]) for env in surveys])
        frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        rows = frame.mapInArrow(partial(scan_task, tasks, surveys), scan.VERSION_SCHEMA)
        rows = self._keep(rows)
        ends = frame.mapInArrow(partial(ends_task, tasks), scan.END_SCHEMA).distinct()
        lns = rows.where("kind = 'ln'").join(ends, ["env", "txn"], "left")
        # Rule 1: outside transactions, or committed.
        best = lns.where("txn is null or committed").groupBy(_KEY).agg(
            f.expr("max_by(struct(lsn, data, deleted, vlsn), lsn)").alias("ln")
        )  # fmt: skip
        # Rule 3: the newest complete version of each BIN.
        nodes = rows.where("kind = 'node'").groupBy("env", "db", "node").agg(f.max("bin_lsn").alias("node_lsn"))
        slots = rows.where("kind = 'slot'").groupBy(_KEY).agg(
            f.expr("max_by(struct(lsn, data, deleted, embedded, vlsn), struct(lsn, bin_lsn))").alias("slot"),
            f.max("bin_lsn").alias("seen_lsn"), f.expr("max_by(node, bin_lsn)").alias("node"),
        )  # fmt: skip
        slots = slots.join(nodes, ["env", "db", "node"], "left")
        here = rows.where("kind in ('ln', 'void')").select("env", f.col("lsn").alias("slot_lsn"))
        # A slot that leads to an LN in the log speaks for nothing lost.
        legible = here.distinct().withColumn("legible", f.lit(True))
        slots = slots.withColumn("slot_lsn", f.col("slot.lsn")).join(legible, ["env", "slot_lsn"], "left")
        return best.join(slots, _KEY, "full").select(*_KEY, *_verdict())


def _verdict() -> list[Any]:
    """What is the version of a record, in columns of the join of LNs and slots."""
    from pyspark.sql import functions as f

    # Rule 3.
    gone = "(node_lsn > seen_lsn and node_lsn > coalesce(ln.lsn, -1))"
    # Rule 2.
    by_slot = f"(not {gone} and slot is not null and legible is null and slot.lsn > coalesce(ln.lsn, -1))"
    lost = f"({by_slot} and not slot.deleted and not slot.embedded)"
    use_slot = f"({by_slot} and not {lost})"
    return [
        f.expr(f"coalesce({lost}, false)").alias("lost"),
        f.expr("slot.lsn").alias("lost_lsn"),
        f.expr(f"if(coalesce({use_slot}, false), slot.lsn, ln.lsn)").alias("lsn"),
        f.expr(f"if(coalesce({use_slot}, false), slot.data, ln.data)").alias("data"),
        f.expr(f"if(coalesce({use_slot}, false), slot.vlsn, ln.vlsn)").alias("vlsn"),
        f.expr(
            f"coalesce({gone}, false) or coalesce(if(coalesce({use_slot}, false), slot.deleted, ln.deleted), true)"
        ).alias("deleted"),
    ]


def _bases(health: Sequence[Health]) -> dict[str, str]:
    """Which environment gives the records: of a group its newest node that recovers, else each for itself."""
    found: dict[str, str] = {}
    best: dict[str, int] = {}
    for one in health:
        if one.problem:
            continue
        key = one.group or one.env
        if key not in found or one.last_vlsn > best[key]:
            found[key], best[key] = one.env, one.last_vlsn
    return found


def _save(frame: DataFrame, path: str, form: str) -> None:
    """Write a data frame; bytes as hex where a form has no bytes."""
    from pyspark.sql import functions as f

    if form not in _RAW_FORMS:
        for name, kind in frame.dtypes:
            if kind == "binary":
                frame = frame.withColumn(name, f.lower(f.hex(name)))
    frame.write.options(**({"header": "true", "escape": '"'} if form == "csv" else {})).format(form).save(path)
