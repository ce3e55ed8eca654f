"""Times and time zones."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final

import click

_AGO: Final = re.compile(r"-?(\d{1,9})([smhd])")
_OFFSET: Final = re.compile(r"([+-])(\d{2}):?(\d{2})")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def given(ctx: click.Context | None, name: str) -> Any:
    """The value of an eager option. None if it was not given, for which Click has a marker during parsing."""
    value = ctx.params.get(name) if ctx else None
    return value if isinstance(value, str | tzinfo) else None


class ZoneType(click.ParamType[tzinfo]):
    """A time zone."""

    name = "ZONE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """Parse a text to a zone. Raises BadParameter."""
        if isinstance(value, tzinfo):
            return value
        if value.upper() in ("UTC", "Z"):
            return UTC
        if value == "local":
            return _local_zone()
        offset = _OFFSET.fullmatch(value)
        if offset and int(offset[2]) < 24 and int(offset[3]) < 60:
            minutes = int(offset[2]) * 60 + int(offset[3])
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(value)
        except (OSError, ValueError, LookupError):  # no such file, a path that leaves the database, not found
            self.fail(
                f"{value!r} is not a time zone; write UTC, local, +01:00 or a name such as Europe/Berlin", param, ctx
            )


def _local_zone() -> tzinfo:
    """The zone of ``TZ`` or of the machine with its rules, or the current offset if the rules are not found."""
    from zoneinfo import ZoneInfo

    try:
        named = os.environ.get("TZ")
        if named is not None:
            return ZoneInfo(named.removeprefix(":")) if named else UTC
        with open("/etc/localtime", "rb") as file:  # noqa: PTH123 - a zone file, not a file of the engine
            return ZoneInfo.from_file(file, key="local")
    except (OSError, ValueError, LookupError):
        return datetime.now().astimezone().tzinfo or UTC


class TimeType(click.ParamType[int]):
    """A point in time."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds since 1970-01-01 UTC. Raises BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        if ago:
            return int(time.time() * 1000) - int(ago[1]) * _UNIT_MS[ago[2]]
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                # ``--tz`` is eager, so it is parsed first, whatever the order of the words.
                moment = moment.replace(tzinfo=given(ctx, "tz") or UTC)
            # Use only integers: ``timestamp()`` would round through a float.
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time; write ISO-8601 (2026-11-21T14:01:01Z), or 15m, 2h, 3d ago", param, ctx)


TIME: Final = TimeType()
