"""The fixture environments: real logs of five JE releases, and what JE's own tools say of them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Collection, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import pytest

from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from tests.support import corpus
from tests.support.logs.printlog import parse, parse_tail

FIXTURES = corpus.path() / "je"


class Environment(NamedTuple):
    """One environment.

    Attributes:
        name: release, case and node, such as ``je-18.3.20/ha-group/node1``.
        path: the directory that holds ``env`` and ``expected``.
    """

    name: str
    path: Path

    @property
    def release(self) -> str:
        return self.name.partition("/")[0].removeprefix("je-")

    def read(self) -> Iterator[LogEntry | Damage]:
        """Every entry and every stretch of damage, the marker file last."""
        storage = DiskStorage(self.path / "env")
        found = list_log_files(storage)
        files = found.files if found.marker is None else (*found.files, found.marker)
        for file in files:
            with FileReader(storage, file, is_last=file == found.files[-1]) as reader:
                yield from reader.entries()

    def good_entries(self) -> list[LogEntry]:
        """Entries up to the first damage, where JE stops."""
        found = takewhile(lambda item: not isinstance(item, Damage), self.read())
        return [item for item in found if isinstance(item, LogEntry)]

    def header_rows(self) -> list[dict[str, str]]:
        """The rows of ``entries.csv``: the header of every entry that JE read."""
        return list(csv.DictReader(self.expected("entries.csv").decode("ascii").splitlines()))

    @property
    def is_printed_whole(self) -> bool:
        """Whether all of DbPrintLog's output is there; of damaged copies only the tail was kept."""
        return (self.path / "expected" / "printlog.xml.gz").exists()

    def printed(self) -> list[Element]:
        """The entries as DbPrintLog printed them: all, or those of which the tail has the whole line."""
        if self.is_printed_whole:
            return parse(self.expected("printlog.xml"))
        return parse_tail(self.expected("printlog-tail.txt"))

    def expected(self, name: str) -> bytes:
        """A file of ``expected``, unpacked when it is stored packed."""
        path = self.path / "expected" / name
        if path.exists():
            return path.read_bytes()
        return gzip.decompress(path.with_name(name + ".gz").read_bytes())


def environments(*releases: str, cases: Collection[str] = ()) -> list[Any]:
    """Parameters for pytest: the environments of these releases and cases (none named: of all), the largest first."""
    paths = [path.parent for path in FIXTURES.glob("**/env")]
    found = [Environment(str(path.relative_to(FIXTURES)), path) for path in paths]
    chosen = [environment for environment in found if not releases or environment.release in releases]
    chosen = [environment for environment in chosen if not cases or environment.path.name in cases]
    chosen.sort(key=lambda environment: (-_log_bytes(environment), environment.name))
    return [pytest.param(environment, id=environment.name) for environment in chosen]


def named(name: str) -> Environment:
    """One environment."""
    return Environment(name, FIXTURES / name)


def _log_bytes(environment: Environment) -> int:
    return sum(path.stat().st_size for path in environment.path.glob("env/**/*.jdb"))
