"""What a machine may lack: the only reasons for which a test may be skipped, each with a name.

``needs("Java")`` skips a test, or a whole module, unless the tool is there. A name in ``JETOOL_EXPECT_TOOLS``
(``Spark,native build``) makes that a failure, for machines that must have the tool. ``tests.conftest`` turns any other
skip into a failure and ends the run with the numbers for each tool.
"""

from __future__ import annotations

import os
import shutil
import socket
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

DERBY_JAR = Path(os.environ.get("DERBY_JAR", "/usr/share/java/derby.jar"))
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
EXHAUSTIVE = "JETOOL_EXHAUSTIVE"
_REASON = "needs "


class Tool(NamedTuple):
    """Something that not every machine has.

    Attributes:
        there: whether this machine has it.
        hint: how to get it.
    """

    there: Callable[[], bool]
    hint: str


def _modules(*names: str) -> Callable[[], bool]:
    return lambda: all(find_spec(name) is not None for name in names)


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(map(shutil.which, names))


def _java() -> bool:
    from engine.errors import UnsupportedError
    from engine.pipeline import java

    try:
        java.find()
    except UnsupportedError:
        return False
    return True


def _native_build() -> bool:
    from engine.native import is_native

    return is_native()


def _compiler() -> bool:
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return has_headers and shutil.which(os.environ.get("CC", "cc")) is not None


def _ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


TOOLS = {
    "Spark": Tool(_modules("pyspark", "pandas", "pyarrow", "numpy"), "pip install '.[spark]'"),
    "Java": Tool(_java, "pip install '.[spark]', or a Java runtime of 17 or later"),
    "JDK": Tool(_program("javac"), "apt-get install default-jdk-headless"),
    "Derby": Tool(DERBY_JAR.exists, "apt-get install libderby-java, or DERBY_JAR"),
    "Derby's languages": Tool(DERBY_JAR.with_name("derbyLocale_ja_JP.jar").exists, "apt-get install libderby-java"),
    "browser": Tool(_program(*BROWSERS), "apt-get install chromium-headless-shell"),
    "MkDocs": Tool(_modules("mkdocs", "material"), "pip install '.[docs]'"),
    "C compiler": Tool(_compiler, "apt-get install gcc, and the headers of Python"),
    "native build": Tool(_native_build, "a wheel built where there is a C compiler"),
    "atheris": Tool(_modules("atheris"), "pip install '.[dev]'"),
    "bash": Tool(_program("bash"), "apt-get install bash"),
    "zsh": Tool(_program("zsh"), "apt-get install zsh"),
    "fish": Tool(_program("fish"), "apt-get install fish"),
    "groff": Tool(_program("groff"), "apt-get install groff"),
    "IPv6": Tool(_ipv6, "the address ::1"),
    "fsspec": Tool(_modules("fsspec"), "pip install '.[remote]'"),
    "fastavro": Tool(_modules("fastavro"), "pip install '.[avro]'"),
    "pyarrow": Tool(_modules("pyarrow"), "pip install '.[parquet]'"),
    "S3 server": Tool(_modules("s3fs", "moto", "flask"), "pip install s3fs 'moto[server]'"),
    "JETOOL_EXHAUSTIVE=1": Tool(lambda: bool(os.environ.get(EXHAUSTIVE)), "a fifth of the time; .ci/run runs them"),
    "two cores": Tool(lambda: (os.cpu_count() or 1) > 1, "more processors"),
}


def needs(*names: str) -> None:
    """Skip the test, or the module that is being imported, at the first of these tools that is not there."""
    for name in names:
        tool = TOOLS[name]
        if tool.there():
            continue
        if name in os.environ.get("JETOOL_EXPECT_TOOLS", "").split(","):
            pytest.fail(f"{name} is expected (JETOOL_EXPECT_TOOLS) and not there: {tool.hint}", pytrace=False)
        pytest.skip(f"{_REASON}{name}: {tool.hint}", allow_module_level=True)


def named_in(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The tool for which something was skipped; None where none is named."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    name, colon, _ = reason.removeprefix("Skipped: ").removeprefix(_REASON).partition(": ")
    return name if colon and name in TOOLS else None


def summary(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> str:
    """How many tests, and whole modules that could not be imported, were skipped for each tool."""
    found = list(reports)
    tests = Counter(named_in(report) for report in found if isinstance(report, pytest.TestReport))
    modules = Counter(named_in(report) for report in found if not isinstance(report, pytest.TestReport))
    parts = []
    for name in sorted({*tests, *modules}, key=str):
        counts = [f"{tests[name]}"] if tests[name] else []
        counts += [f"{modules[name]} module{'s' * (modules[name] > 1)}"] if modules[name] else []
        parts.append(f"{' and '.join(counts)} {'needs' if tests[name] + modules[name] == 1 else 'need'} {name}")
    return ", ".join(parts)
