"""``--fields``: which fields, in which order."""

from __future__ import annotations

from collections.abc import Sequence

from jetool.output.shape import Shape
from jetool.output.values import Row


def check(selected: Sequence[str] | None, shapes: Sequence[Shape]) -> None:
    """Refuse names that no record has.

    Arguments:
        selected: the names of ``--fields``, or None.
        shapes: the shapes that can be printed; a name must be in one of them.

    Raises:
        UsageError: a name is unknown; the message lists those that are known.
    """
    known = list(dict.fromkeys(name for shape in shapes for name in shape.names()))
    wrong = [name for name in selected or () if name not in known]
    if wrong:
        from engine.errors import UsageError

        raise UsageError(f"no field {', '.join(wrong)}", hint=f"--fields takes {','.join(known)}")


def pick(row: Row, selected: Sequence[str] | None) -> Row:
    """The selected fields of a row, in that order. Fields that the row does not have are left out."""
    if selected is None:
        return row
    by_name = {field[0]: field for field in row}
    return [by_name[name] for name in selected if name in by_name]


def columns(shapes: Sequence[Shape], selected: Sequence[str] | None) -> list[str]:
    """The columns of CSV and of text: what was selected, or the fields of all shapes, each once.

    Where rows of several shapes can occur the first column is ``rec``, the name of the shape.
    """
    if selected is not None:
        return list(selected)
    names = list(dict.fromkeys(name for shape in shapes for name in shape.names()))
    return (["rec"] if len(shapes) > 1 else []) + names
