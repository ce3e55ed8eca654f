"""Names say what a thing is: a noun for each module and class, and no public class name twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import Final

from tests.support.modules import sources, tree_of

# Nouns that end as participles do; ``RestoreRequired`` is JE's own name, ``missing`` a command.
NOUN: Final = re.compile(r"(Finding|Listing|Standing|Feed)$")
KEPT: Final = {"RestoreRequired", "SyncupPing", "jetool.commands.missing"}


def public_classes() -> dict[str, list[str]]:
    """The modules of each public class by its name."""
    found = defaultdict(list)
    for module, path in sources().items():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def test_no_public_class_name_twice() -> None:
    classes = public_classes()
    assert len(classes) > 800
    assert {name: modules for name, modules in classes.items() if len(modules) > 1} == {}


def test_classes_are_called_by_nouns() -> None:
    found = {name for name in public_classes() if re.search(r"(ed|ing)$", name) and not NOUN.search(name)}
    assert found - KEPT == set()


def test_modules_are_called_by_nouns() -> None:
    assert {name for name in sources() if name.endswith("ing")} - KEPT == set()
