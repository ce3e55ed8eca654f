"""``jetool journal``: code that its commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NamedTuple, ParamSpec, TypeAlias

import click

from engine.contents.frontend_files import FrontendFiles
from engine.contents.journals import STAR_MANAGER, product_of
from engine.contents.operations import PRODUCTS, operation_name
from engine.db.environment import Environment
from engine.errors import UsageError
from engine.fields import Text
from engine.inspect.contents import EnvironmentSource
from engine.journals.extents import JournalExtents, read_extents
from engine.journals.images import ImageFile, read_images
from engine.journals.metadata import read_metadata
from engine.journals.reader import JournalReader
from engine.storage.disk import DiskStorage
from jetool.frame import exits
from jetool.frame.environments import READ_EXITS, open_to_read
from jetool.frame.groups import group
from jetool.frame.options import Run

P = ParamSpec("P")
UNNAMED: Final = "?"
UnseenReason: TypeAlias = Annotated[
    Text | None, "the part of the log that was not read, or is wrong; null when all was read"
]
JOURNAL_EXITS: Final = {
    **READ_EXITS,
    exits.NOT_FOUND: "no environment, no database of journals in it, no such journal",
}


def home_of(env: str) -> str:
    """The directory of the environment: the given one, or its subdirectory ``bdb``, where a frontend keeps it."""
    inner = os.path.join(env, "bdb")
    try:
        named = any(name.endswith(".jdb") for name in os.listdir(env))
    except OSError:
        return env
    return inner if not named and os.path.isdir(inner) else env


journal = group(
    "journal",
    help="The journals of a Doris or StarRocks frontend: its operations by id, read without starting the "
    "frontend. ENV is its directory meta/bdb, or meta itself; the image directory in meta is read too.",
    examples=(
        ("What a frontend has, the same as jetool journal list", "jetool journal /data/fe/meta"),
        ("Would it come up, and with which journals", "jetool journal check /data/fe/meta"),
        ("Which of three to start from", "jetool journal compare /copies/fe1 /copies/fe2 /copies/fe3"),
    ),
    home=home_of,
    place_default="list",
)


class Journals(NamedTuple):
    """A frontend's environment, opened for reading.

    Attributes:
        home: the directory of the environment.
        env: the environment.
        families: the journal databases by family, the frontend's own first.
        product: one of ``PRODUCTS``; None if unknown.
        files: facts from the files beside the environment; None if there are none.
    """

    home: str
    env: Environment
    families: tuple[JournalExtents, ...]
    product: str | None
    files: FrontendFiles | None

    def extents(self, star_manager: bool) -> JournalExtents:
        """One family of journals. UsageError if the family does not exist."""
        family = STAR_MANAGER if star_manager else self.families[0].family
        found = next((one for one in self.families if one.family == family), None)
        if found is None:
            raise UsageError("the environment has no journals of a StarManager", hint="leave out --starmgr")
        return found

    def reader(self, star_manager: bool = False) -> JournalReader:
        """A reader of one family."""
        return JournalReader(self.env, self.extents(star_manager))

    @property
    def image(self) -> int | None:
        """The id up to which the newest image goes; None if there is no image."""
        return self.files.images[-1] if self.files is not None and self.files.images else None

    def image_files(self) -> tuple[ImageFile, ...]:
        """The files of the images, each read to its end."""
        return read_images(_images(self.home))


class IdRangeType(click.ParamType[tuple[int, int | None]]):
    """A range of ids: ``A..B``, either end may be left out; ``A-B``, as holes are printed; ``A`` is one journal."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        """First and last id. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        words = str(value)
        first, dots, last = words.partition(".." if ".." in words else "-")
        ends = [first, last] if dots else [first, first]
        if any(end and not (end.isascii() and end.isdigit() and len(end) < 20) for end in ends) or ends == ["", ""]:
            self.fail(f"{value!r} is no range of ids; write A..B, A.., ..B or A", param, ctx)
        low, high = int(ends[0] or 0), int(ends[1]) if ends[1] else None
        if high is not None and high < low:
            self.fail(f"{value!r} ends before it starts", param, ctx)
        return low, high


IDS: Final = IdRangeType()


@contextmanager
def open_journals(run: Run, env: str, product: str | None) -> Iterator[Journals]:
    """Open a frontend's environment to read its journals.

    Arguments:
        product: the product given by the user; None: determine it from the journals.

    Raises:
        JetoolError: as ``open_to_read``. NotFoundError: the environment has no journals.
    """
    home = home_of(env)
    with open_to_read(run, home) as found:
        families = read_extents(found)
        files = read_metadata(_images(home))
        known = product if product is not None else product_of(EnvironmentSource(found))
        yield Journals(home, found, families, known, files)


def _images(home: str) -> DiskStorage:
    """The directory of the images, beside the environment."""
    return DiskStorage(os.path.join(os.path.dirname(os.path.abspath(home)), "image"))


def product_option(function: Callable[P, int]) -> Callable[P, int]:
    """The option ``--product``: the product whose operations are assumed."""
    text = "The product whose operations are assumed.  [default: detected by operations that only one product has]"
    return click.option("--product", type=click.Choice(tuple(PRODUCTS)), help=text)(function)


def star_option(function: Callable[P, int]) -> Callable[P, int]:
    """The flag ``--starmgr`` (parameter ``star_manager``)."""
    text = "The journals of the StarManager inside StarRocks (databases starmgr_N), not the frontend's own."
    return click.option("--starmgr", "star_manager", is_flag=True, help=text)(function)


def operation_text(product: str | None, code: int) -> str:
    """An operation by name, or ``?`` for one without."""
    return operation_name(product, code) or UNNAMED
