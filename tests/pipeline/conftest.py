"""One Spark session for all tests of this package: starting one takes seconds.

Every test that uses it is in the group ``spark`` (``pytest --dist loadgroup``), so that one worker starts one JVM.
Commands that the tests run in this process find the session and use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.pipeline.session import Session, open_session
from engine.pipeline.settings import SparkSettings
from tests.support.cluster import standalone
from tests.support.tools import needs

CONF = (
    ("spark.driver.memory", "700m"),
    ("spark.sql.shuffle.partitions", "2"),
    ("spark.sql.adaptive.enabled", "false"),
)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        names = getattr(item, "fixturenames", ()) if here in item.path.parents else ()
        if "session" in names:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "cluster" in names:
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A small session in local mode with two threads, quick to start."""
    needs("Spark", "Java")
    scratch = tmp_path_factory.mktemp("spark")
    conf = (*CONF, ("spark.local.dir", str(scratch)))
    with open_session(SparkSettings("local[2]", conf, 2, quick=True)) as opened:
        yield opened


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a standalone cluster with two workers; tests that use it are in the group ``cluster``."""
    needs("Spark", "Java")
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url
