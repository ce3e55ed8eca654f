"""Options of the data sources. ``load`` refuses an unknown option, and a value that the option cannot have.

Spark itself ignores unknown options: a mistyped ``asOf`` would read the present.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from engine.errors import UsageError
from engine.pipeline.inventory import expand_existing

# Options in which Spark passes the arguments of ``load``, and the properties of CREATE TABLE ... USING.
_OF_SPARK: Final = frozenset(
    ("path", "paths", "owner", "provider", "location", "comment", "collation", "external", "is_managed_location")
)
_ENVIRONMENTS: Final = '.load("/data/*/je")'

# The name of an option and its text give its value.
OptionParser = Callable[[str, str], Any]


def chosen_options(source: str, given: Mapping[str, str], known: Mapping[str, OptionParser]) -> dict[str, Any]:
    """The values of the options that were given, by their names in ``known``.

    Arguments:
        source: name of the data source, for errors.
        given: Spark's options; case does not matter.
        known: every option of the source.

    Raises:
        UsageError: an unknown option, or a value that an option cannot have.
    """
    names = {name.lower(): name for name in known}
    found = {}
    for key, text in given.items():
        if key.lower() in _OF_SPARK:
            continue
        name = names.get(key.lower())
        if name is None:
            raise _unknown(source, key, known)
        found[name] = known[name](name, text)
    return found


def _unknown(source: str, key: str, known: Mapping[str, OptionParser]) -> UsageError:
    bare = {name.lower(): name for name in known}
    typed = key.lower().replace("_", "").replace("-", "")
    near = [name for name in bare if name.startswith(typed)] or get_close_matches(typed, bare, 1)
    return UsageError(
        f"{source} has no option {key!r}",
        found=f"its options are {', '.join(sorted(known, key=str.lower))}",
        consequence="nothing was read",
        hint=f'.option("{bare[near[0]]}", ...), which is the nearest' if near else "leave it out",
    )


def any_text(_: str, text: str) -> str:
    """An option with any value."""
    return text


def yes_or_no(name: str, text: str) -> bool:
    """An option that is true or false.

    Raises:
        UsageError: it is neither.
    """
    return bool(one_of("true", "false")(name, text) == "true")


def whole_number(name: str, text: str) -> int:
    """An option that counts something, from 1.

    Raises:
        UsageError: it is no such number.
    """
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"the option {name} has another value", expected="a whole number above 0", found=repr(text))
    return int(text)


def one_of(*words: str) -> OptionParser:
    """A parser for an option with a few possible values."""

    def parse(name: str, text: str) -> str:
        if text.lower() not in words:
            raise UsageError(f"the option {name} has another value", expected=" or ".join(words), found=repr(text))
        return text.lower()

    return parse


def loaded_paths(given: Mapping[str, str]) -> list[str]:
    """The arguments of ``load``: a list of texts, or one text with commas between them."""
    words = json.loads(given["paths"]) if given.get("paths") else given.get("path", "").split(",")
    return [word.strip() for word in words if word.strip()]


def environments_of(given: Mapping[str, str]) -> list[str]:
    """The environments that ``load`` was called with.

    Raises:
        UsageError: no path was given, or a URL. NotFoundError: a directory does not exist, or a glob matches nothing.
    """
    patterns = [pattern.removeprefix("file://") for pattern in loaded_paths(given)]
    if not patterns:
        raise UsageError("load needs the path of an environment", hint=_ENVIRONMENTS)
    foreign = next((pattern for pattern in patterns if "://" in pattern), None)
    if foreign is not None:
        raise UsageError(
            "logs are read as files of this machine",
            found=foreign,
            hint="mount or copy it where every executor finds it",
        )
    return expand_existing(patterns)
