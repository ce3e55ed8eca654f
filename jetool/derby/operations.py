"""Derby's operations as ``dump-log --type`` names them: one by one, or by group."""

from __future__ import annotations

from typing import Final

from engine.derby.format.operations import registry

GROUPS: Final = ("page", "container", "transaction", "txn", "ckpt", "clr")


def names() -> list[str]:
    """The names of all operations."""
    return [line.name for line in registry.BY_NAME.values()]


def named(name: str) -> set[str]:
    """The operations that a name or the name of a group stands for, all in lower case; none for an unknown one."""
    if name in GROUPS:
        return {word for word, line in registry.BY_NAME.items() if name in _groups_of(line)}
    return {name} if name in registry.BY_NAME else set()


def _groups_of(line: registry.OperationType) -> list[str]:
    """The groups of an operation of Derby: its family, and the groups that JE has too."""
    name = line.name.lower()
    more = {
        "txn": name in ("beginxact", "endxact"),
        "ckpt": name == "checkpoint",
        "clr": name.endswith("undo"),
    }
    return [line.family, *(group for group, belongs in more.items() if belongs)]


def listing() -> str:
    """The list that ``--type list`` prints for a Derby database."""
    lines = [
        f"{line.number:>3}  {line.name:<28} {' '.join(_groups_of(line))}"
        for line in sorted(registry.BY_NAME.values(), key=lambda line: line.number)
    ]
    return "\n".join([" no  operation                    groups", *lines, "", f"groups: {' '.join(GROUPS)}"])
