"""Resolving user input for the engine: addresses, entry types, databases."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import click

from engine.errors import NotFoundError, UsageError
from engine.format.entry_types import BY_NAME, ENTRY_TYPES, GROUPS
from engine.format.lsn import format_lsn
from engine.inspect.survey import survey
from engine.log.files import LogFiles
from engine.storage.base import Storage
from jetool.frame.param_types.places import Address
from jetool.output.shape import instant_text

_LIST: Final = "list"


class EntryTypes(NamedTuple):
    """Entry types given by the user. They are parsed before the kind of the environment is known.

    Attributes:
        words: the words as typed; empty for ``list``.
        numbers: numbers of JE's entry types.
        only_derby: words without a meaning for JE.
    """

    words: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()
    only_derby: tuple[str, ...] = ()


class EntryTypesParam(click.ParamType[EntryTypes]):
    """Entry types of JE or operations of Derby by name, case-insensitive, or by group; several are separated by commas.

    ``list`` gives no words.
    """

    name = "TYPE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> EntryTypes:
        """Parse a text to types. Raises BadParameter."""
        if isinstance(value, EntryTypes):
            return value
        numbers: set[int] = set()
        words = [word.strip() for word in str(value).split(",")]
        only_derby = []
        for word in words:
            name = word.lower()
            if name == _LIST:
                return EntryTypes()
            found = _je_types(name)
            if not found:
                # Load Derby's registry only for a word that is not a JE type.
                from engine.derby.format.operations import names as operations

                if not operations.named(name):
                    self.fail(f"{word!r} is not an entry type, operation or group; --type list prints them", param, ctx)
                only_derby.append(word)
            numbers |= found
        return EntryTypes(tuple(words), frozenset(numbers), tuple(only_derby))

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """Types and groups that begin with the typed text."""
        from click.shell_completion import CompletionItem

        from engine.derby.format.operations import names as operations

        # Offer both kinds, since ENV may not have been typed yet.
        names = [
            *GROUPS,
            *operations.GROUPS,
            *(kind.name for kind in ENTRY_TYPES),
            *operations.names(),
            _LIST,
        ]
        return [CompletionItem(name) for name in dict.fromkeys(names) if name.lower().startswith(incomplete.lower())]


def _je_types(name: str) -> set[int]:
    if name in GROUPS:
        return {kind.number for kind in ENTRY_TYPES if name in kind.groups}
    return {BY_NAME[name].number} if name in BY_NAME else set()


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
        NotFoundError: the address is ``ckpt`` or ``first-active``, and the log holds no checkpoint.
        UsageError: the address is written as an instant of Derby's log.
    """
    if address.is_instant and address.lsn is not None:
        raise UsageError(
            f"{instant_text(address.lsn)} is an instant of a Derby log, and this is a JE environment",
            hint=f"as an LSN it would be {format_lsn(address.lsn)}",
        )
    if address.lsn is not None:
        return address.lsn
    # Only a symbolic address needs a survey of the log.
    found = survey(storage, files)
    if address.symbol == "end":
        return found.last_lsn
    if found.checkpoint is None:
        raise NotFoundError(
            f"no CkptEnd in the log, so there is no {address.symbol}", file=storage.root, hint="name an LSN"
        )
    record = found.checkpoint.record
    return record.ckpt_start_lsn if address.symbol == "ckpt" else record.first_active_lsn
