"""Code that the commands of ``jetool node`` share."""

from __future__ import annotations

from typing import Any

import click

from jetool.frame import params
from jetool.frame.groups import group

node = group(
    "node",
    help="Nodes of a replication group: run one, read and write through it, change the master.",
    examples=(("Another master", "jetool node transfer-master db1:5001 --to-node n2 --yes"),),
)


class Peers(click.ParamType[tuple[tuple[str, int], ...]]):
    """Addresses separated by commas."""

    name = "HOST:PORT,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        """The addresses. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        return tuple(params.HOST.convert(part, param, ctx) for part in str(value).split(",") if part.strip())
