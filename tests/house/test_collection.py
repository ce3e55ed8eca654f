"""Each process collects the same tests: ``pytest-xdist`` runs none of them if two of its workers differ in one name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import harness

ROOT: Final = Path(__file__).resolve().parents[2]


def test_names_of_tests_depend_neither_on_the_clock_nor_on_hashes(request: pytest.FixtureRequest) -> None:
    """This process collected its tests at another second, and with another seed of hashes, than the one started here.

    A parameter that a decorator computes is part of the name of its test: a time in it makes two tests of one.
    """
    # In a worker, the name of a test ends with its group.
    here = {re.sub(r"@\w+$", "", item.nodeid) for item in request.session.items}
    modules = sorted({name.partition("::")[0] for name in here})
    options = ("-n", "0", "-o", "addopts=", "-q", "--collect-only", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *modules],
        cwd=ROOT, env={**harness.environment(), "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert here - set(done.stdout.splitlines()) == set()
