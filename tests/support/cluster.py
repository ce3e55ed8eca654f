"""A standalone Spark cluster on this machine: a master and workers, on the loopback address."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.pipeline import java
from tests.support import harness
from tests.support.waiting import PATIENCE_S

_WAIT_S = 4 * PATIENCE_S
_END_S = 30
_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[str]:
    """Start it, give its URL, stop it.

    Arguments:
        directory: an empty one; logs and the workers' files go there.
        workers: how many, each with one core and 1 GiB.
    """
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = _start(directory, "master", started, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = _told(started[0], master, r"(spark://127\.0\.0\.1:[1-9]\d*)")
        for name in (f"worker{number + 1}" for number in range(workers)):
            words = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--work-dir", str(directory / name))
            worker = _start(directory, name, started, *words, "--webui-port", "0", url)
            _told(started[-1], worker, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(directory: Path, name: str, started: list[subprocess.Popen[bytes]], *words: str) -> Path:
    import pyspark  # only where Spark is installed

    home = Path(pyspark.__file__).parent
    role = "master.Master" if name == "master" else "worker.Worker"
    environment = harness.environment() | {
        "JAVA_HOME": str(java.find().home_for_spark(directory)),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _FLAGS,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    # The daemons have no need of this package: executors get it from the driver, as on a real cluster.
    environment.pop("PYTHONPATH", None)
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{role}", *words]
        started.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=directory))
    return log


def _told(daemon: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a daemon says; an error when it says nothing of the kind, or has ended."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        ended = daemon.poll() is not None or time.monotonic() > deadline
        said = log.read_text(errors="replace")
        found = re.search(pattern, said)
        if found:
            return found[0]
        assert not ended, f"{log.name}, exit code {daemon.poll()}: {said[-2000:]}"
        time.sleep(0.1)
