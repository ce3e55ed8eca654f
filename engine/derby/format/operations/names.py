"""Operations by name or by group, for the selection of records."""

from __future__ import annotations

from typing import Final

from engine.derby.format.operations import registry

GROUPS: Final = ("page", "container", "transaction", "txn", "ckpt", "clr")


def names() -> list[str]:
    """The names of all operations."""
    return [line.name for line in registry.BY_NAME.values()]


def named(name: str) -> set[str]:
    """The operations with a name or in a named group, in lower case; empty for an unknown name."""
    if name in GROUPS:
        return {word for word, line in registry.BY_NAME.items() if name in groups_of(line)}
    return {name} if name in registry.BY_NAME else set()


def groups_of(line: registry.OperationType) -> list[str]:
    """The groups of an operation: its Derby family, and the groups that JE has too."""
    name = line.name.lower()
    more = {
        "txn": name in ("beginxact", "endxact"),
        "ckpt": name == "checkpoint",
        "clr": name.endswith("undo"),
    }
    return [line.family, *(group for group, belongs in more.items() if belongs)]
