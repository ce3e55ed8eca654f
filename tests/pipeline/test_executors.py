"""A cluster without executors ends the job with words, by a deadline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.pipeline.executors import TIMEOUT
from tests.support import harness
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

# Both kinds end the same way: the cluster tries for ever.
NOT_THERE = {
    "more memory than any worker has": "spark.executor.memory=64g",
    "executors that end at once": "spark.executor.extraJavaOptions=-XX:NewSize=abc",
}

ENDED = """
from engine.errors import JobError
from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings

def work():
    context._jsc.sc().stop()
    return context.parallelize([1], 1).count()

with open_session(SparkSettings(conf=(("spark.driver.memory", "512m"),), quick=True)) as session:
    context = session.context
    try:
        session.run(work, "work")
    except JobError as error:
        print(error.what, "|", error.hint)
"""


@pytest.mark.parametrize("setting", NOT_THERE.values(), ids=NOT_THERE)
def test_no_executor_comes(setting: str, cluster: str, tmp_path: Path, corpus: Path) -> None:
    env = corpus / "je" / "je-18.3.20" / "corrupt-middle" / "env"
    rows = tmp_path / "out"
    conf = ("--conf", setting, "--conf", f"{TIMEOUT}=3s", "--conf", "spark.driver.memory=512m")
    words = (sys.executable, "-m", "jetool", "fleet", "report", env, "--parquet", rows, "--master", cluster, *conf)
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * PATIENCE_S, env=harness.environment())
    assert (done.returncode, done.stdout) == (7, "")
    assert "error: the cluster has started no executor: expected at least one within 3 s" in done.stderr
    assert f"found none, at {cluster}" in done.stderr
    assert not rows.exists()


def test_an_application_that_the_cluster_ends(tmp_path: Path) -> None:
    needs("Spark", "Java")
    done = subprocess.run(
        [sys.executable, "-c", ENDED],
        capture_output=True, text=True, timeout=4 * PATIENCE_S, env=harness.environment(TMPDIR=str(tmp_path)),
    )  # fmt: skip
    assert done.stdout.startswith("the cluster has ended the application before the job was done | the logs of"), done
