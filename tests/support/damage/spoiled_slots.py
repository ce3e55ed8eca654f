"""Slots of trees in memory that lead elsewhere."""

from __future__ import annotations

from engine.db.environment import Environment
from tests.support.damage.spoiled_trees import (
    leaf,
    soil,
    upper,
)

# The slot that tests look at.
INDEX = 1


def branch_to_record(env: Environment) -> None:
    """A branch leads to a record."""
    redirect(env, leaf(env, number=5).lsns[0])


def redirect(env: Environment, lsn: int) -> None:
    """A branch of an upper node leads there."""
    node = upper(env)
    kid = node.kids[2]
    if kid is not None:
        kid.dirty = False
    node.lsns[2], node.kids[2] = lsn, None
    soil(node)


def missing_file(env: Environment) -> None:
    """A slot leads to a file that is not there."""
    point_to(env, 77 << 32 | 100)


def point_to(env: Environment, lsn: int, size: int | None = None) -> None:
    """A slot leads there."""
    node = leaf(env)
    node.lsns[INDEX] = lsn
    if size is not None:
        node.sizes[INDEX] = size
    soil(node)
