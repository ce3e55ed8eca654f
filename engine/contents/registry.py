"""The kinds of contents by name: kinds of this project, and kinds that other packages add.

A package adds one by an entry point of the group ``jetool.contents``::

    [project.entry-points."jetool.contents"]
    orders = "my_package.orders:CONTENTS"

where ``CONTENTS`` implements ``engine.contents.base.Contents``. An entry point is loaded when it is named, or when an
environment is to be recognised. An entry point that cannot be loaded is an error if it was named; otherwise it is
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from engine.contents.base import Contents, DecodedRecord, Decoder, Source, unknown
from engine.contents.before_images import BEFORE_IMAGE_CONTENTS, BEFORE_IMAGES_DATABASE, BeforeImageDecoder
from engine.contents.dpl import DPL
from engine.contents.heritrix import HERITRIX
from engine.contents.journals import FRONTENDS
from engine.contents.nosql import NOSQL
from engine.contents.opendj import OPENDJ
from engine.contents.qpid import QPID
from engine.contents.serial import SERIAL
from engine.errors import FormatError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "jetool.contents"
AUTO: Final = "auto"
_ALL: Final[tuple[Contents, ...]] = (*FRONTENDS, OPENDJ, NOSQL, QPID, HERITRIX, SERIAL, DPL, BEFORE_IMAGE_CONTENTS)
_BEFORE_IMAGES: Final = BeforeImageDecoder()
OWN: Final = {one.name: one for one in _ALL}


@cache
def others() -> dict[str, EntryPoint]:
    """The entry points of other packages, by name; looked up once."""
    # Most commands decode nothing, and listing the installed packages takes time.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in OWN}


def _other_names() -> Iterator[str]:
    yield from sorted(others())


def names() -> list[str]:
    """The names of all kinds, our own first."""
    return [*OWN, *_other_names()]


def find(name: str) -> Contents:
    """The kind with a name.

    Raises:
        UsageError: no decoder has this name, or the package that adds it cannot be loaded.
    """
    if name in OWN:
        return OWN[name]
    point = others().get(name)
    if point is None:
        raise UsageError(f"no decoder {name!r}", hint=f"there are {', '.join(names())}, and {AUTO}")
    try:
        found: Contents = point.load()
    except Exception as error:
        # A foreign package may raise anything; the error must name the package.
        raise UsageError(f"the decoder {name!r} cannot be loaded", found=f"{type(error).__name__}: {error}") from error
    return found


def recognise(source: Source) -> Contents | None:
    """The kind of an environment; None if no decoder knows it."""
    # The entry points of other packages are looked up last: listing the installed packages takes time.
    for name in chain(OWN, _other_names()):
        try:
            kind = find(name)
            if kind.recognises(source):
                return kind
        except (FormatError, UsageError, ValueError, LookupError):
            # A kind that cannot be loaded, or that fails on damaged records, does not recognise the environment.
            continue
    return None


def decode(decoder: Decoder, database: str, key: bytes, data: bytes) -> DecodedRecord:
    """A decoded record; key and data remain bytes if the decoder fails. Before-images are decoded in every kind."""
    if database == BEFORE_IMAGES_DATABASE:
        decoder = _BEFORE_IMAGES
    try:
        return decoder.decode(database, key, data)
    except (FormatError, ValueError, LookupError, RecursionError, OverflowError):
        return unknown(key, data)
