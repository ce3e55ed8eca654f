"""What the commands of ``jetool node`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.errors import NotFoundError, StorageError
from jetool.app import params
from jetool.app.command import group

node = group(
    "node",
    help="Nodes of a replication group: run one, ask them, change the master.",
    examples=(("Who is master", "jetool node status db1:5001 db2:5001 db3:5001 --secret-file /etc/jetool.secret"),),
)
SECRET = click.option(
    "--secret-file", type=click.Path(dir_okay=False), required=True, metavar="FILE",
    help="File with the secret that all nodes share, 16 bytes or more.",
)  # fmt: skip


class Peers(click.ParamType[tuple[tuple[str, int], ...]]):
    """Addresses with commas between them."""

    name = "HOST:PORT,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        """The addresses. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        return tuple(params.HOST.convert(part, param, ctx) for part in str(value).split(",") if part.strip())


def read_secret(path: str) -> bytes:
    """The shared secret. Raises NotFoundError or StorageError when the file cannot be read."""
    try:
        return Path(path).read_bytes()[:4096]
    except FileNotFoundError:
        raise NotFoundError("there is no such file with a secret", file=path) from None
    except OSError as error:
        raise StorageError("the secret cannot be read", file=path, found=error.strerror) from error
