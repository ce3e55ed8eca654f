"""One module forks."""

from __future__ import annotations

import ast

from tests.support.modules import sources, tree_of


def test_one_module_forks() -> None:
    found = {
        name
        for name, path in sources().items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty") and ast.unparse(node.value) == "os"
    }
    assert found == {"engine.workers.process"}
