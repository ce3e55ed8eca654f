"""A range of journal ids, as commands print it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from engine.fields import Int, record


@record()
class IdRange(NamedTuple):
    """A range of journal ids that includes both ends."""

    first: Annotated[Int, "the first id"]
    last: Annotated[Int, "the last id"]

    @property
    def length(self) -> int:
        """The number of ids."""
        return self.last - self.first + 1
