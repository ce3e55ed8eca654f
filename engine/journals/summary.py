"""A summary of a frontend's journals, for reports over many nodes."""

from __future__ import annotations

from typing import NamedTuple

from engine.contents.journals import is_frontend, product_of
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.inspect.contents import EnvironmentSource
from engine.journals.extents import read_epochs, read_extents
from engine.storage.base import Storage


class JournalSummary(NamedTuple):
    """Journals of a frontend: product (None: not known), first and last id, how many, missing ids, highest epoch."""

    product: str | None
    first: int | None
    last: int | None
    journals: int
    missing: int
    epoch: int


def summarise(storage: Storage) -> JournalSummary | None:
    """Summarise the journals of an environment; None if it is not a frontend's, or cannot be opened.

    The environment is recovered in memory.
    """
    try:
        with Environment(storage, EnvironmentConfig(read_only=True)) as env:
            source = EnvironmentSource(env)
            return _journals(env, product_of(source)) if is_frontend(source.names) else None
    except JetoolError:
        # Other checks report why the environment cannot be opened.
        return None


def _journals(env: Environment, product: str | None) -> JournalSummary:
    own = read_extents(env)[0]
    missing = sum(one.missing for one in own.databases)
    missing += sum(passage.hole.length for passage in own.passages if passage.hole is not None)
    return JournalSummary(
        product=product,
        first=own.first,
        last=own.last,
        journals=own.journals,
        missing=missing,
        epoch=read_epochs(env).highest,
    )
