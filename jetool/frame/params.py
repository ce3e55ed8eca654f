"""Parameter types: addresses, times, keys and other values on the command line.

=========  ======================================================  ==========================
type       written                                                 value
=========  ======================================================  ==========================
``LSN``    ``0x1f/0x2a3c``, ``ckpt``, ``first-active``, ``end``    ``Address``
``PLACE``  the same, or Derby's instants: ``(1,41725)``            ``Address``
``LSNS``   ``A..B``, either end may be left out; ``A`` alone       ``AddressRange``
``VLSN``   ``17``                                                  int
``VLSNS``  ``A..B`` likewise; ``A`` alone is ``A..A``              ``VlsnRange``
``POINT``  ``lsn:0x1f/0x2a3c``, ``time:-15m``, ``commits:-3``      ``engine.rescue``'s ``Point``
``FILE``   ``0x1f``, ``0000001f.jdb``, ``0000001f``                int
``FILES``  the same, or Derby's ``log31.dat``                      ``FileNumber``
``FILE_RANGE``  ``FILES..FILES``, either end may be left out; ``A`` is one file   ``FileRange``
``TIME``   ``2026-11-21T14:01:01Z``, ``2026-11-21``, ``-15m``      int, ms since 1970 UTC
``KEY``    text, or ``0x`` and hex; --key-format changes the text  bytes
``DATA``   the same for --data-format                              bytes
``HOST``   ``db1.example.org:5001``, ``[::1]:5001``                host and port
``ZONE``   ``UTC``, ``local``, ``Europe/Berlin``, ``+01:00``       datetime.tzinfo
=========  ======================================================  ==========================

A bare decimal is no LSN (D-8): the same digits mean different places in hexadecimal and in decimal, and JE's own tools
have used both. A time without a zone is in the zone of ``--tz``. Parsing never touches a file, so symbolic addresses
stay symbolic; the engine resolves them.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

import click

from jetool.frame.param_types import places, times
from jetool.frame.param_types.times import given

_LEAST_RATE: Final = 1000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b|b|)", re.IGNORECASE)
_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_MOST_CACHE_PER_CENT: Final = 90


class DirectoryType(click.ParamType[str]):
    """A directory. The engine checks whether the directory exists, and the kind of its environment."""

    name = "DIR"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """Enable completion of directories."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


class DatabaseType(click.ParamType[str]):
    """The name of a database. The engine checks whether the database exists."""

    name = "NAME"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """Complete the databases of the environment on the command line."""
        from click.shell_completion import CompletionItem

        from jetool.frame.param_types.shell_completion import database_names

        # The option being completed has no value yet, so Click has left the words of the line unparsed.
        words = [*ctx.args, os.environ.get("JETOOL_HOME")]
        env = ctx.params.get("home") or ctx.params.get("env") or words[0]
        found = database_names(env) if isinstance(env, str) else []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


class BytesType(click.ParamType[bytes]):
    """A key or a datum.

    Arguments:
        name: the metavar.
        option: the parameter with the format; it must be eager.
    """

    def __init__(self, name: str, option: str) -> None:
        self.name = name
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Parse a text to bytes. Raises BadParameter."""
        if isinstance(value, bytes):
            return value
        from engine.inspect import key_formats

        style = given(ctx, self.option) or "utf8"
        try:
            return key_formats.parse(value, style)
        except ValueError as error:
            self.fail(f"{error} (--{self.option.replace('_', '-')} {style})", param, ctx)


def key_as_typed(key: bytes) -> str:
    """A key for a message as the user would type it: in the format of ``--key-format``, by default UTF-8.

    Results show keys in hex by default; a message shows the key as the user typed it.
    """
    from engine.inspect.key_formats import show

    style = given_key_format()
    shown = show(key, style)
    return f"0x{shown}" if style == "hex" else shown


def given_key_format() -> str:
    """The format in which keys are typed."""
    return given(click.get_current_context(silent=True), KEY.option) or "utf8"


class SizeType(click.ParamType[int]):
    """A number of bytes: ``5GiB``, ``200MB``, ``4096``."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text to a number of bytes. Raises BadParameter."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        bytes_ = int(float(found[1]) * _UNITS[(found[2] or "").lower()]) if found is not None else 0
        if bytes_ <= 0:
            self.fail(f"{value!r} is not a size; write 5GiB, 200MB or a number of bytes", param, ctx)
        return bytes_


class RateType(SizeType):
    """A number of bytes per second; below 1000 a transfer would not end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text to a number of bytes. Raises BadParameter."""
        rate = super().convert(value, param, ctx)
        if rate < _LEAST_RATE:
            self.fail(f"{value!r} is too slow; the least rate is {_LEAST_RATE} bytes per second", param, ctx)
        return rate


class CacheType(SizeType):
    """The memory of a cache: a size, or a share of the free memory as ``10%``."""

    name = "SIZE|N%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text to a number of bytes. Raises BadParameter."""
        text = str(value).strip()
        if not text.endswith("%"):
            return super().convert(value, param, ctx)
        from engine.db.memory import share_of_free

        number = text[:-1].strip()
        if not number.isdecimal() or not 1 <= int(number) <= _MOST_CACHE_PER_CENT:
            self.fail(f"{value!r} is not a share; write 1% to {_MOST_CACHE_PER_CENT}%", param, ctx)
        return share_of_free(int(number))


class PercentType(click.ParamType[int]):
    """Accept a percentage with or without the sign.

    Arguments:
        least, most: the range.
    """

    name = "PERCENT"

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text to a number. Raises BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value).strip().removesuffix("%")
        if not text.isdecimal() or not self._least <= int(text) <= self._most:
            self.fail(f"{value!r} is not between {self._least}% and {self._most}%", param, ctx)
        return int(text)


class HostPortType(click.ParamType[tuple[str, int]]):
    """A network address: host and port."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Host and port. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        # Split from the right, because an IPv6 address contains colons.
        host, _, port = str(value).strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            self.fail(f"{value!r} is not an address; write HOST:PORT, with a port from 1 to 65535", param, ctx)
        return host, int(port)


class NewDatabaseType(click.ParamType[tuple[str, bool, bool]]):
    """``NAME``, with ``:dups`` for sorted duplicates and ``:prefix`` for key prefixing after it."""

    name = "NAME[:dups][:prefix]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bool, bool]:
        """Name, duplicates, key prefixing. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        marks = set()
        # Look for ``:dups`` and ``:prefix`` only at the end, because a name may contain colons.
        while text.endswith((":dups", ":prefix")):
            text, _, mark = text.rpartition(":")
            marks.add(mark)
        if not text:
            self.fail(f"{value!r} has no name", param, ctx)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8, which names of databases are", param, ctx)
        return text, "dups" in marks, "prefix" in marks


class FieldsType(click.ParamType[tuple[str, ...]]):
    """Names of fields, separated by commas."""

    name = "A,B,C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names. BadParameter: the name is empty."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        if not names:
            self.fail("names no field", param, ctx)
        return names


DIRECTORY: Final = DirectoryType()
DATABASE: Final = DatabaseType()
LSN: Final = places.LSN
PLACE: Final = places.PlaceType()
LSNS: Final = places.LsnRangeType()
VLSN: Final = places.VLSN
POINT: Final = places.PointType()
VLSNS: Final = places.VlsnRangeType()
ZONE: Final = times.ZoneType()
TIME: Final = times.TIME
KEY: Final = BytesType("KEY", "key_format")
DATA: Final = BytesType("DATA", "data_format")
FILE: Final = places.FILE
FILES: Final = places.FILES
FILE_RANGE: Final = places.FileRangeType()
HOST: Final = HostPortType()
FIELDS: Final = FieldsType()
NEW_DATABASE: Final = NewDatabaseType()
