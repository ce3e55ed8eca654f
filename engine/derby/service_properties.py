"""``service.properties``: how Derby finds a database, and which entries it needs to start it (R-DRB-76).

The file is written once, when the database is created. Derby does not find a database without this file (XJ004), and
does not start a database whose file lacks the service or a container of the catalogue (XCY03, XJ040). A change of the
file goes through ``service.propertiesold``: the old file is used while the new one is absent or lacks its last line.

The format is that of Java: ``key=value``, ``key: value`` or ``key value``, backslash escapes, Latin-1.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from engine.errors import plural
from engine.storage.base import Stat, Storage

PROPERTIES: Final = "service.properties"
OLD_PROPERTIES: Final = "service.propertiesold"
STORE_PROPERTY: Final = "jetool.store"
PROTOCOL: Final = "derby.serviceProtocol"
SQL_SERVICE: Final = "org.apache.derby.database.Database"
STORE_SERVICE: Final = "org.apache.derby.iapi.store.raw.RawStoreFactory"
CATALOGUE: Final = "SysconglomeratesIdentifier"
PROPERTIES_ID: Final = "derby.storage.propertiesId"
# Containers that Derby uses to start, or for each statement.
_USED_AT_ONCE: Final = (
    PROPERTIES_ID,
    CATALOGUE,
    "SysconglomeratesIndex3Identifier",
    "SystablesIdentifier",
    "SystablesIndex1Identifier",
    "SyscolumnsIdentifier",
    "SyscolumnsIndex1Identifier",
    "SysschemasIdentifier",
    "SysschemasIndex1Identifier",
    "SysschemasIndex2Identifier",
)
# Derby reads these numbers at start too, but opens the containers only when a statement needs them.
_USED_LATER: Final = (
    "SysconglomeratesIndex1Identifier",
    "SysconglomeratesIndex2Identifier",
    "SystablesIndex2Identifier",
)
_OPTIONAL: Final = ("SyscolumnsIndex2Identifier",)

_LARGEST: Final = 1 << 20
_LAST_LINE: Final = "#--- last line"
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_KEY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ServiceProperties(NamedTuple):
    """The properties that Derby uses.

    Attributes:
        path: the file, or None.
        values: the properties in the file; empty if the file cannot be read.
        problem: why the file is missing or unreadable, else None.
        restored: whether ``service.propertiesold`` counts.
    """

    path: str | None
    values: dict[str, str]
    problem: str | None
    restored: bool

    @property
    def is_page_store(self) -> bool:
        """Whether the properties are those of a page store of jetool."""
        return STORE_PROPERTY in self.values

    def number(self, name: str) -> int | None:
        """A property that names a container; None if it is absent or not a number."""
        text = self.values.get(name, "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None

    def start_problem(self) -> str | None:
        """Why Derby does not find or start the database, as far as this file shows; else None."""
        if self.problem is not None:
            return self.problem
        found = self.values.get(PROTOCOL)
        if found is None:
            return f"{self.path} does not name the service ({PROTOCOL})"
        expected = STORE_SERVICE if self.is_page_store else SQL_SERVICE
        if found != expected:
            return f"{self.path} names the service {found}, not {expected}"
        if self.is_page_store:
            return None
        lacking = [name for name in (*_USED_AT_ONCE, *_USED_LATER) if self.number(name) is None]
        if lacking:
            more = f"; {plural(len(lacking) - 1, 'more is', 'more are')} missing" if len(lacking) > 1 else ""
            return f"{self.path} does not name a container of the catalogue ({lacking[0]}{more})"
        numbers = [self.number(name) for name in (*_USED_AT_ONCE, *_USED_LATER)]
        if len(set(numbers)) < len(numbers):
            return f"{self.path} names the same container for two parts of the catalogue"
        return None

    def misnamed(self, catalogue: set[int]) -> list[tuple[str, bool]]:
        """Properties that name no container of the catalogue, each with whether Derby uses it at start.

        Arguments:
            catalogue: the containers that the catalogue names.
        """
        return [
            (f"{name}={self.values[name]}", name in _USED_AT_ONCE)
            for name in (*_USED_AT_ONCE, *_USED_LATER, *_OPTIONAL)
            if self.number(name) not in (None, *catalogue)
        ]


def read_properties(storage: Storage) -> ServiceProperties:
    """Read the properties that Derby would use; nothing is renamed or removed."""
    current, old = _file(storage, PROPERTIES), _file(storage, OLD_PROPERTIES)
    # Like Derby on its next start, undo an unfinished change of the properties.
    if old is not None and (current is None or not _is_whole(_text(storage, PROPERTIES))):
        return ServiceProperties(OLD_PROPERTIES, parse(_text(storage, OLD_PROPERTIES)), None, restored=True)
    if current is None:
        problem = f"{PROPERTIES} is {'a directory' if storage.stat(PROPERTIES) else 'missing'}"
        return ServiceProperties(None, {}, problem, restored=False)
    if current.size_bytes > _LARGEST:
        problem = f"{PROPERTIES} is no properties file: it has {plural(current.size_bytes, 'byte')}"
        return ServiceProperties(PROPERTIES, {}, problem, restored=False)
    return ServiceProperties(PROPERTIES, parse(_text(storage, PROPERTIES)), None, restored=False)


def parse(text: str) -> dict[str, str]:
    """The properties in a text."""
    found = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        # Java accepts no key from a line that ends in a lone backslash.
        if match is not None:
            key, value = match.groups()
            found[_unescaped(key)] = _unescaped(value)
    return found


def _logical_lines(text: str) -> list[str]:
    """Logical lines, without comments and blank lines; a line that ends in an odd number of backslashes continues."""
    lines: list[str] = []
    open_line = False
    for raw in _LINE_ENDS.split(text):
        line = raw.lstrip(_BLANKS)
        if not open_line and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if goes_on else line
        if open_line:
            lines[-1] += part
        else:
            lines.append(part)
        open_line = goes_on
    return lines


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)


def _is_whole(text: str) -> bool:
    lines = [line for line in _LINE_ENDS.split(text) if line.strip()]
    return bool(lines) and lines[-1].startswith(_LAST_LINE)


def _file(storage: Storage, path: str) -> Stat | None:
    found = storage.stat(path)
    return None if found is None or found.is_directory else found


def _text(storage: Storage, path: str) -> str:
    file = storage.open(path)
    try:
        return file.read(0, _LARGEST).decode("latin-1")
    finally:
        file.close()
