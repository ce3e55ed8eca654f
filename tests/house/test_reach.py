"""Nobody reaches through an environment into its parts.

``Environment`` has methods; ``Environment.engine`` is the door for insiders, who take the engine and use its parts one
step deep. So outside ``engine.db``

* ``env.x.y`` is refused, but for ``env.engine.y``: a part is not taken through the face;
* ``engine.x.y.z`` and ``env.engine.x.y`` are refused: what is wanted there is a method of the engine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.modules import ROOT, sources, tree_of

ENVIRONMENTS = frozenset(("env", "_env", "environment", "_environment"))
ENGINES = frozenset(("engine", "_engine"))


def chains(tree: ast.AST) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each longest row of attributes, ``a.b.c``; what a call or an index has returned begins another row."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in inner:
            names: list[str] = []
            at: ast.expr = node
            while isinstance(at, ast.Attribute):
                inner.add(at)
                names.append(at.attr)
                at = at.value
            names.append(at.id if isinstance(at, ast.Name) else "")
            yield node.lineno, tuple(reversed(names))


def reaches(names: tuple[str, ...]) -> bool:
    """Whether a row of attributes goes through an environment or its engine into a part."""
    for index, name in enumerate(names):
        after = names[index + 1 :]
        if name in ENGINES and (index > 0 or after):
            through_face = index > 0 and name == "engine" and names[index - 1] != "self"
            return len(after) > (1 if through_face else 2)
        if name in ENVIRONMENTS and len(after) > 1 and after[0] not in ENGINES:
            return True
    return False


def offences() -> list[str]:
    """Where it happens."""
    found = []
    for module, path in sources().items():
        if module.startswith("engine.db."):
            continue
        for line, names in chains(tree_of(path)):
            if reaches(names):
                found.append(f"{path.relative_to(ROOT)}:{line}: {'.'.join(names)}")
    return found


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("env.checkpoint()", False),
        ("self._env.engine.home", False),
        ("engine.records.put(state)", False),
        ("self._engine.records.put(state)", False),
        ("env.home.strip()", True),
        ("self._env.ctx.latch", True),
        ("env.engine.ctx.latch", True),
        ("engine.ctx.access.read(lsn)", True),
    ],
)
def test_what_is_refused(text: str, refused: bool) -> None:
    """The check itself."""
    assert any(reaches(names) for _, names in chains(ast.parse(text))) is refused


def test_nobody_reaches_through() -> None:
    """There is no exception."""
    assert offences() == []
