"""``jetool load`` from files and datasets: calls the pipeline with the options of the user.

``dump_files`` loads JE dumps and standard input; this module loads everything else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.errors import NotFoundError, RefusedError, plural
from engine.log.files import list_log_files
from engine.pipeline.load.plan import LoadResult
from engine.rescue.repair.access import stamped_beside
from engine.storage.disk import DiskStorage
from engine.storage.sidecar import access_of
from jetool.frame.environments import lead_if_replicated, open_to_write, require_database, require_place
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog
    from engine.pipeline.load.bulk import Backend
    from engine.pipeline.load.input.recipe import Recipe, RecipeRequest
    from engine.pipeline.load.input.sources import Layout, OpenSource
    from engine.pipeline.load.session import LoadSession


class LoadRequest(NamedTuple):
    """The options of a load.

    Attributes:
        env, sources, db: the directory of the environment, paths of the sources, name of the database.
        create: create the database if it does not exist.
        engine: ``spark``, ``local``, or ``auto`` to choose by the sources.
        source_format, delimiter, header: how the sources are read.
        key, value, key_format, data_format, value_format, order_by: how a source record becomes key and data.
        on_duplicate: which record stays if several have the same key: ``last``, ``first``, ``error``.
        overwrite: whether records replace existing records with the same keys.
        batch: records per transaction if records are merged into a database.
        partitions: number of writing tasks; None to choose it automatically.
        rejects: directory for bad records; None for one beside the environment.
        resume: whether to continue an interrupted merge.
        standard_input: the file with the bytes of standard input, which is the source ``-``.
    """

    env: str
    sources: tuple[str, ...]
    db: str
    create: bool
    engine: str
    source_format: str | None
    delimiter: str | None
    header: bool
    key: tuple[str, ...]
    value: tuple[str, ...] | None
    key_format: str | None
    data_format: str | None
    value_format: str | None
    order_by: str | None
    on_duplicate: str
    overwrite: bool
    batch: int
    partitions: int | None
    rejects: str | None
    resume: bool
    standard_input: str | None = None

    def paths(self) -> tuple[str, ...]:
        """The sources as files and datasets."""
        return tuple(self.standard_input or one if one == "-" else one for one in self.sources)

    def subject(self) -> str:
        """The identity of a load, which is equal for a run and its resumption."""
        # Options that do not change the result may differ when a load is resumed.
        same = self._replace(
            create=False, partitions=None, resume=False, batch=0, engine="", rejects=None, standard_input=None
        )
        return repr(tuple(same))


class LoadReport(NamedTuple):
    """What came of it.

    Attributes:
        loaded: counts.
        refused: number of records whose keys already existed.
        created: whether the database was created.
        value_schema: the Avro schema of the values, if they are Avro.
    """

    loaded: LoadResult
    refused: int
    created: bool
    value_schema: str | None


class _Work(NamedTuple):
    """The backend, the opened source, and the recipe for its records."""

    backend: Backend
    opened: OpenSource
    recipe: Recipe


def is_installed() -> bool:
    """Whether the packages that the pipeline needs are installed."""
    from engine.pipeline.python_side import missing_columns

    return not missing_columns()


def load(run: Run, request: LoadRequest) -> LoadReport:
    """Load.

    Raises:
        JetoolError: nothing was changed, unless the error's consequence states otherwise.
    """
    from engine.pipeline.python_side import require_columns

    require_columns("this load")
    from engine.pipeline.load import bulk
    from engine.pipeline.load.input import sources
    from engine.pipeline.load.session import LoadSession, LoadStorage

    # Check this before opening the environment: a typing error must not cause a recovery or any change.
    layout = sources.layout_of(request.paths(), request.source_format, request.delimiter, header=request.header)
    request = request._replace(engine=_engine(run, request, layout))
    if request.rejects is not None:
        require_place(request.rejects, "--rejects")
    list_log_files(DiskStorage(request.env))
    with ExitStack() as stack:
        backend = stack.enter_context(_backend(run, request))
        opened, recipe = bulk.open_source(backend, layout, wanted(request), request.on_duplicate)
        work = _Work(backend, opened, recipe)
        check = partial(_check, request)
        env = stack.enter_context(open_to_write(run, request.env, through=LoadStorage, check=check))
        lead_if_replicated(env)
        session = LoadSession(env, DiskStorage(request.env), request.db, DatabaseOptions(), create=request.create)
        if session.bulk and request.resume:
            raise _nothing_to_resume(request)
        if run.dry_run:
            return _count(request, work)
        return (_bulk if session.bulk else _merge)(run, request, work, session)


def _check(request: LoadRequest, catalog: Catalog) -> None:
    """Compare the options with the recovered databases, before anything is changed."""
    from engine.pipeline.load import database_merge

    if not request.create:
        require_database(request.env, request.db, "--create makes it")(catalog)
    if not request.resume:
        return
    try:
        database_merge.resume(DiskStorage(request.env), request.subject())
    except NotFoundError as error:
        found = catalog.by_name(request.db)
        if found is None or not found.has_root:
            raise _nothing_to_resume(request) from error
        raise


def _nothing_to_resume(request: LoadRequest) -> RefusedError:
    return RefusedError(
        f"database {request.db!r} holds no records",
        file=request.env,
        consequence="a load into it is all or nothing; there is nothing to resume",
        hint="leave out --resume",
    )


def _engine(run: Run, request: LoadRequest, layout: Layout) -> str:
    """Who reads the sources: ``spark`` or ``local``."""
    from engine.pipeline.load.input import splits
    from engine.pipeline.settings import starts_spark

    if request.engine != "auto":
        return request.engine
    # Spark options imply that the user wants Spark.
    size = None if run.master is not None or run.conf else splits.local_bytes(layout)
    if size is None or starts_spark(size, shuffles=False):
        return "spark"
    run.messages.notice(
        "the source is read without Spark", found=plural(size, "byte"), hint="--engine spark reads it with Spark"
    )
    return "local"


def _bulk(run: Run, request: LoadRequest, work: _Work, session: LoadSession) -> LoadReport:
    """Append finished files to the log, all or none."""
    from engine.pipeline.load import bulk

    # The environment stays open and locked throughout: no other process may log after this point.
    with bulk.staging_directory(session.storage) as directory:
        found = bulk.read_source(*work, directory, rejects_directory(request), access_of(request.env))
        loaded = bulk.write_files(session, work.backend, found, request.on_duplicate, request.partitions, run.listener)
    return LoadReport(loaded, 0, not session.exists, _value_schema(work))


def _merge(run: Run, request: LoadRequest, work: _Work, session: LoadSession) -> LoadReport:
    """Merge the records into a database that is not empty."""
    from engine.pipeline.load import bulk, database_merge, stage

    env, storage = session.env, session.storage
    if request.resume:
        state = database_merge.resume(storage, request.subject())
    else:
        stage.clean(storage)
        directory = stage.make(storage)
        try:
            found = bulk.read_source(*work, directory, rejects_directory(request), access_of(request.env))
        except BaseException:
            # Nothing is merged yet, so drop the staged data.
            stage.clean(storage)
            raise
        state = database_merge.State(request.subject(), found, None, 0, 0, 0)
        # Save the state before the first record: from here on an interrupted merge can be resumed.
        database_merge.save(storage, state)
    db = env.open_database(request.db) if session.exists else env.create_database(request.db, session.options)
    with db:
        loaded, refused = database_merge.merge_into(
            env, db, storage, state, request.on_duplicate, request.batch, run.listener, overwrite=request.overwrite
        )
    # Remove the runs only after the whole merge, because a resumed merge reads them.
    stage.clean(storage)
    return LoadReport(loaded, refused, not session.exists, _value_schema(work))


def _count(request: LoadRequest, work: _Work) -> LoadReport:
    """A dry run: read, check and count in a temporary directory."""
    from engine.pipeline.load import bulk
    from engine.pipeline.load.runs import Merge

    # Use a directory outside the environment: a dry run leaves no file in the environment.
    with tempfile.TemporaryDirectory(prefix="jetool-load-") as directory:
        found = bulk.read_source(*work, Path(directory), Path(directory) / "rejects", access_of(directory))
        merge = Merge([one.path for one in found.runs], None, None, request.on_duplicate)
        records = sum(len(table) for table in merge.tables())
        duplicates = found.duplicates + merge.duplicates
        loaded = LoadResult(found.read, records, found.rejected, duplicates, 0, 0, None)
    return LoadReport(loaded, 0, False, _value_schema(work))


@contextmanager
def _backend(run: Run, request: LoadRequest) -> Iterator[Backend]:
    if request.engine == "local":
        from engine.pipeline.load.local_backend import LocalBackend

        with LocalBackend(run.jobs, run.listener) as local:
            yield local
        return
    from engine.pipeline.load.spark_backend import SparkBackend
    from jetool.frame.spark_session import session

    with ExitStack() as stack:
        # Spark starts when it is first needed; the stack stops it.
        yield SparkBackend(lambda quick: stack.enter_context(session(run, quick=quick)), run.listener)


def _value_schema(work: _Work) -> str | None:
    from engine.pipeline.load.input import values
    from engine.pipeline.load.input.recipe import AVRO

    if work.recipe.value_format != AVRO:
        return None
    return values.avro_schema([work.opened.schema.field(name) for name in dict.fromkeys(work.recipe.values)])


def wanted(request: LoadRequest) -> RecipeRequest:
    """The options about keys and values, as a request for a recipe."""
    from engine.pipeline.load.input.recipe import RecipeRequest

    return RecipeRequest(
        request.key, request.value, request.key_format, request.data_format, request.value_format, request.order_by
    )


def rejects_directory(request: LoadRequest) -> Path:
    """Where rejected records go."""
    if request.rejects is not None:
        return Path(request.rejects)
    return Path(stamped_beside(request.env, ".jetool-rejects"))
