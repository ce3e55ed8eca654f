"""What the commands of ``jetool node`` share."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

import click

from engine.errors import NotFoundError, RefusedError, StorageError
from jetool.app import params
from jetool.app.command import group

node = group(
    "node",
    help="Nodes of a replication group: run one, ask them, change the master.",
    examples=(("Who is master", "jetool node status db1:5001 db2:5001 db3:5001 --secret-file /etc/jetool.secret"),),
)
_SECRET_HELP: Final = "File with the secret that all nodes share, 16 bytes or more; for its owner only (mode 0600)."
SECRET = click.option(
    "--secret-file", type=click.Path(dir_okay=False), required=True, metavar="FILE", help=_SECRET_HELP
)
# For a command that can do without it.
PERHAPS_SECRET = click.option(
    "--secret-file", type=click.Path(dir_okay=False), metavar="FILE",
    help=f"{_SECRET_HELP} In a group of JE there is none.",
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
    """The shared secret. Raises NotFoundError or StorageError when the file cannot be read.

    Raises:
        RefusedError: others than its owner can read or write it.
    """
    try:
        with Path(path).open("rb") as file:
            # Of the open file, not of its name, which could lead elsewhere by now.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise RefusedError(
                    "others can read the file with the secret",
                    file=path,
                    expected="permissions for its owner only",
                    found=f"mode {mode:04o}",
                    consequence="whoever has the secret can write to every node of the group",
                    hint=f"chmod 600 {path}, and a new secret if they may have read it",
                )
            return file.read(4096)
    except FileNotFoundError:
        raise NotFoundError("there is no such file with a secret", file=path) from None
    except OSError as error:
        raise StorageError("the secret cannot be read", file=path, found=error.strerror) from error
