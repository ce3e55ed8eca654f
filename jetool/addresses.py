"""Turning what the user named into what the engine takes: addresses, entry types, databases."""

from __future__ import annotations

from typing import Any, Final

import click

from engine.errors import NotFoundError
from engine.format.entry_types import BY_NAME, ENTRY_TYPES, GROUPS
from engine.log.files import LogFiles
from engine.log.survey import survey
from engine.storage.base import Storage
from jetool.params import Address

_LIST: Final = "list"


class EntryTypesParam(click.ParamType[frozenset[int]]):
    """Entry types by name, case-insensitive, or by group; several with commas. ``list`` gives the empty set."""

    name = "TYPE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """Numbers of the types. Raises BadParameter."""
        if isinstance(value, frozenset):
            return value
        numbers: set[int] = set()
        for word in str(value).split(","):
            name = word.strip().lower()
            if name == _LIST:
                return frozenset()
            if name in GROUPS:
                numbers.update(kind.number for kind in ENTRY_TYPES if name in kind.groups)
            elif name in BY_NAME:
                numbers.add(BY_NAME[name].number)
            else:
                self.fail(f"{word!r} is no entry type or group; --type list prints them", param, ctx)
        return frozenset(numbers)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """Types and groups that begin as what was typed."""
        from click.shell_completion import CompletionItem

        names = [*GROUPS, *(kind.name for kind in ENTRY_TYPES), _LIST]
        return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


TYPES: Final = EntryTypesParam()


def types_text() -> str:
    """The list that ``--type list`` prints."""
    lines = [
        f"{kind.number:>3}  {kind.name:<28} {' '.join(kind.groups):<16} since version {kind.since}"
        + (f", written until {kind.until}" if kind.until else "")
        for kind in ENTRY_TYPES
    ]
    return "\n".join([" no  type                         groups", *lines, "", f"groups: {' '.join(GROUPS)}"])


def resolve(address: Address, storage: Storage, files: LogFiles) -> int:
    """The LSN of an address.

    Raises:
        NotFoundError: the log holds no checkpoint that ``ckpt`` or ``first-active`` could name.
    """
    if address.lsn is not None:
        return address.lsn
    found = survey(storage, files)
    if address.symbol == "end":
        return found.last_lsn
    if found.checkpoint is None:
        raise NotFoundError(
            f"no CkptEnd in the log, so there is no {address.symbol}", file=storage.root, hint="name an LSN"
        )
    record = found.checkpoint.record
    return record.ckpt_start_lsn if address.symbol == "ckpt" else record.first_active_lsn
