"""Makes Spark sessions; no other module does.

    with open_session(SparkSettings(cores=2)) as session:
        session.run(lambda: frame.write.parquet(path), "export", listener)

Rules:

* pyspark is imported here, only when a session is opened. If a package is missing, the error gives the pip command that
  installs it.
* The JVM is a child of this process and ends with it, even if this process is killed (its standard input is a pipe that
  then closes). Ctrl-C does not reach it; ``Session.run`` cancels the job instead.
* The output, errors and log of the JVM are written to files in the session's scratch directory.
* Executors run this Python and this package. In local mode they find it by ``PYTHONPATH``; a cluster gets it as a zip.
* The second session on a machine writes Spark's classes into an archive, with which later sessions start in half the
  time (``class_archive``).
* If the process already has a Spark context (a notebook, a test suite), the session uses it and leaves it running.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import engine
from engine.errors import UnsupportedError, UsageError
from engine.events import SILENT, Listener
from engine.pipeline import failures, java, job_run, settings, sources
from engine.pipeline.class_archive import ClassArchive, archive_for
from engine.pipeline.job_run import Tally
from engine.pipeline.python_side import require
from engine.pipeline.scratch import Scratch
from engine.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")

_OLDEST: Final = (4, 3)
_START: Final = "start spark"
_STOP: Final = "stop spark"
_STOP_WAIT_S: Final = 20
# The JVM writes its archive of classes when it ends.
_WRITE_WAIT_S: Final = 120
_UNCHANGED: Final = "nothing was read or changed"


class _Started(NamedTuple):
    """A started context, and the archive that its JVM reads or writes."""

    context: SparkContext
    archive: ClassArchive


class Session:
    """A running Spark session.

    Attributes:
        context: pyspark's context, for jobs over plain values.
        cores: tasks that run at a time, as far as Spark knows.
        local: everything runs on this machine.
    """

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.cores = context.defaultParallelism
        self.local = settings.is_local(context.master or "")

    @cached_property
    def spark(self) -> SparkSession:
        """Pyspark's session, for data frames. It is made on first use, since that takes a second."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    @contextmanager
    def shuffling(self, size: int) -> Iterator[None]:
        """Choose the number of shuffle partitions for ``size_bytes``; a setting of the user is kept."""
        conf = self.spark.conf
        if self.context.getConf().contains(settings.SHUFFLE_PARTITIONS):
            yield
            return
        before = str(conf.get(settings.SHUFFLE_PARTITIONS))
        conf.set(settings.SHUFFLE_PARTITIONS, str(settings.shuffle_partitions(size, self.cores)))
        try:
            yield
        finally:
            conf.set(settings.SHUFFLE_PARTITIONS, before)

    def tally(self) -> Tally:
        """A counter that tasks of a job add to; the driver gets its value whenever a task ends."""
        counter: Tally = self.context.accumulator(0)
        return counter

    def run(self, action: Callable[[], T], step: str, listener: Listener = SILENT, records: Tally | None = None) -> T:
        """Run an action that starts Spark jobs, with progress; an interrupt cancels the jobs.

        Arguments:
            action: what to run; it runs in a thread of its own.
            step: name of the step; ``done`` and ``total`` count tasks.
            listener: receives the progress.
            records: counts the records of the job's tasks; None if Spark's readers and writers count them.

        Returns:
            What ``action`` returns.

        Raises:
            KeyboardInterrupt: after the jobs have been cancelled.
            Exception: whatever ``action`` raises; see ``failures.explained``.
        """
        return job_run.run(self.context, action, step, listener, records)


@contextmanager
def open_session(wanted: SparkSettings, listener: Listener = SILENT) -> Iterator[Session]:
    """Start Spark, or use the session of this process; stop what was started at the end.

    Arguments:
        wanted: master, settings, cores.
        listener: receives progress of the steps ``start spark`` and ``stop spark``.

    Raises:
        UnsupportedError: pyspark or Java is missing or too old.
        UsageError: Spark does not accept the master or a setting.
        JobError: Spark did not start.
    """
    with job_run.waiting(_START, listener):
        # Loading pyspark alone may take a second.
        _require_pyspark()
        from pyspark import SparkContext

    # ``getOrCreate`` would make a missing session with other settings.
    active = SparkContext._active_spark_context
    if active is not None:
        _require_same_master(active, wanted)
        yield Session(active)
        return
    scratch = Scratch()
    try:
        with job_run.waiting(_START, listener):
            started = _start(wanted, scratch.path)
        archive = started.archive
        try:
            yield Session(started.context)
        except BaseException:
            with job_run.waiting(_STOP, listener):
                _stop(started.context, _given_up_s(archive))
            archive.drop()
            raise
        if not archive.is_written:
            with job_run.waiting(_STOP, listener):
                _stop(started.context, _STOP_WAIT_S)
            return
        with job_run.waiting("make later starts faster", listener):
            ended_well = _stop(started.context, _WRITE_WAIT_S)
            # A killed JVM may leave half of an archive.
            if ended_well:
                archive.keep()
            else:
                archive.drop()
    finally:
        scratch.remove()


def _require_pyspark() -> None:
    require("pyspark", "pandas", "pyarrow", "numpy")
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if not _OLDEST <= version < (_OLDEST[0] + 1,):
        raise UnsupportedError(
            "this version of pyspark is not supported",
            expected=java.REQUIREMENTS[0],
            found=pyspark.__version__,
            consequence=_UNCHANGED,
            hint=java.pip_command(),
        )


def _require_same_master(active: SparkContext, wanted: SparkSettings) -> None:
    if wanted.master is not None and wanted.master != active.master:
        raise UsageError(
            "this process has a Spark session already, with another master",
            expected=wanted.master,
            found=str(active.master),
            hint="leave the master out, or stop that session first",
        )


def _start(wanted: SparkSettings, scratch: Path) -> _Started:
    """Launch the JVM and make the context."""
    from pyspark import SparkConf, SparkContext, java_gateway

    conf = settings.configuration(wanted, scratch)
    runtime = java.find()
    log = scratch / "jvm.log"
    (scratch / "log4j2.properties").write_text(settings.LOG_CONFIGURATION % (scratch / "spark.log"))
    local = settings.is_local(conf.get("spark.master", ""))
    changes = {"JAVA_HOME": str(runtime.home_for_spark(scratch)), **_python(local=local), **_spark_home()}
    before = signal.getsignal(signal.SIGINT)
    context, archive = None, ClassArchive(None)
    try:
        # pyspark's launcher takes these from the environment only.
        with _environment(changes), log.open("wb") as out:
            archive = archive_for(runtime, conf, quick=wanted.quick)
            # These flags come before the user's, which therefore take precedence.
            conf[settings.JAVA_OPTIONS] = f"{archive.flags} {conf[settings.JAVA_OPTIONS]}".lstrip()
            # The launcher reads spark-defaults.conf; no JVM is running yet that could do it.
            pairs = SparkConf(loadDefaults=False).setAll(list(conf.items()))
            launch: Callable[..., Any] = java_gateway.launch_gateway
            context = SparkContext(conf=pairs, gateway=launch(pairs, {"stdout": out, "stderr": subprocess.STDOUT}))
        sources.ship_package(context)
        return _Started(context, archive)
    except Exception as error:
        # Make the error before the JVM is stopped, since the JVM is asked for the causes.
        told = failures.of_start(error, conf, failures.tail_of(log) or failures.tail_of(scratch / "spark.log"))
        _stop_jvm(_given_up_s(archive))
        archive.drop()
        raise told from error
    except BaseException:
        _stop_jvm(_given_up_s(archive))
        archive.drop()
        raise
    finally:
        if context is not None and before is not None:  # pyspark has put its own handler there
            signal.signal(signal.SIGINT, before)


def _python(*, local: bool) -> dict[str, str]:
    """The Python of the executors, and where it finds this package."""
    root = str(Path(engine.__path__[0]).resolve().parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    changes = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths)}
    if local:
        return changes | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # The path of this Python may not exist on a cluster.
    return changes | {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}


def _spark_home() -> dict[str, str]:
    """The Spark in the pyspark package, unless ``SPARK_HOME`` names a Spark of the same version."""
    import pyspark

    own = Path(pyspark.__file__).parent
    named = os.environ.get("SPARK_HOME")
    # Jars of another version are incompatible with this pyspark.
    if named and list(Path(named).glob(f"jars/spark-core_*-{pyspark.__version__}.jar")):
        return {}
    conf = Path(named) / "conf" if named else None
    keep = {} if conf is None or "SPARK_CONF_DIR" in os.environ else {"SPARK_CONF_DIR": str(conf)}
    return {"SPARK_HOME": str(own), **keep}


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the JVM to inherit; restore those of this process afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _stop(context: SparkContext, wait_s: int) -> bool:
    """Stop the context and wait until its JVM has ended; kill it after a timeout. Returns whether it ended normally.

    The thread that receives accumulators checks once a second whether to stop. Do not wait for it, and suppress its
    error when the JVM closes the connection.
    """
    inner: Any = context
    # Remove the accumulator server, so that ``stop`` does not wait for its thread.
    receiver, inner._accumulatorServer = inner._accumulatorServer, None
    with contextlib.suppress(Exception):  # the JVM may have died; the error was already reported
        context.stop()
    if receiver is not None:
        receiver.handle_error = lambda *_: None
        threading.Thread(target=receiver.shutdown, name="stop accumulators", daemon=True).start()
    return _stop_jvm(wait_s)


def _given_up_s(archive: ClassArchive) -> int:
    """Time for the JVM of a failed session to end, since its archive is not needed."""
    return 0 if archive.is_written else _STOP_WAIT_S


def _stop_jvm(wait_s: int) -> bool:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    # Otherwise the next session would use a JVM that has ended.
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is None:
        return False
    process = gateway.proc
    with contextlib.suppress(Exception):  # it may have died
        gateway.shutdown()
    # The JVM ends when its input is closed.
    process.stdin.close()
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
    return bool(process.wait() == 0)
