"""Types of entries are named, and sets of them derived, in ``engine.format.entry_types`` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.format.entry_types import BY_NUMBER

ROOT = Path(__file__).parent.parent.parent
REGISTRY = "engine/format/entry_types.py"
# The first argument of each line.
CONSTANTS = set(re.findall(r"^    EntryType\((\w+),", (ROOT / REGISTRY).read_text("utf-8"), re.MULTILINE))
# Variables that hold a type; ``number`` often does.
HOLDERS = re.compile(r"_?(type_number|entry_type)")
PERHAPS = re.compile(r"number")
# Functions whose first argument is a type.
TAKERS = {"log", "log_in_stream", "decode_body", "encode_body", "type_name", "is_valid_type", "codec_of"}
NAMED_AS_SET = re.compile(r"_?([A-Z]+_)*(TYPES|LNS|NODES|ENDS|LN_KINDS)")

# Where a rule does not hold, and why.
EXCEPTIONS = {
    ("engine/format/entry/group_db.py", "set"): "types of group members, which are words",
}


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value in BY_NUMBER


def is_constant(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in CONSTANTS


def members(node: ast.AST) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.Set, ast.List)) else []


def holds_type(node: ast.AST, names: re.Pattern[str] = HOLDERS) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return names.fullmatch(name) is not None


def comparisons(node: ast.Compare) -> Iterator[str]:
    """Numbers that stand for types, and types that are listed where they are compared."""
    for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            sides = (left, right)
            if any(map(holds_type, sides)) and any(map(is_number, sides)):
                yield "number"
        elif isinstance(operator, (ast.In, ast.NotIn)):
            listed = members(right)
            if len(listed) > 1 and all(map(is_constant, listed)):
                yield "set"
            if listed and all(map(is_number, listed)) and (holds_type(left) or holds_type(left, PERHAPS)):
                yield "number"


def assignment(name: str, value: ast.expr) -> Iterator[str]:
    """A constant of a module that is a type, or a set of types."""
    bare = name.lstrip("_")
    if (bare in CONSTANTS or bare.endswith("_TYPE")) and is_number(value):
        yield "constant"
    for node in ast.walk(value):
        listed = members(node)
        if sum(map(is_constant, listed)) > 1 or (NAMED_AS_SET.fullmatch(name) and listed):
            yield "set"
        if isinstance(node, ast.comprehension):
            used = {part.id for part in ast.walk(node.iter) if isinstance(part, ast.Name)}
            if used & {"BY_NUMBER", "ENTRY_TYPES"} and not isinstance(value, (ast.Dict, ast.DictComp)):
                yield "derived"


def complaints(source: str) -> list[tuple[int, str]]:
    """Lines that break a rule, and which: number, constant, set, derived."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found += [(node.lineno, rule) for rule in comparisons(node)]
        elif isinstance(node, ast.Call) and node.args and is_number(node.args[0]):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += [(node.lineno, "number")] if called in TAKERS else []
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            found += [(statement.lineno, rule) for rule in assignment(statement.target.id, statement.value)]
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found += [(statement.lineno, rule) for rule in assignment(statement.targets[0].id, statement.value)]
    return found


def test_sources_ask_the_registry() -> None:
    found, met = [], set()
    for package in ("engine", "jetool"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            # The page store has operations, and no types of entries.
            if name == REGISTRY or name.startswith("engine/derby/"):
                continue
            for line, rule in complaints(path.read_text("utf-8")):
                if (name, rule) in EXCEPTIONS:
                    met.add((name, rule))
                else:
                    found.append(f"{name}:{line}: {rule}")
    assert found == []
    assert met == set(EXCEPTIONS), "exceptions that nothing needs"


@pytest.mark.parametrize(
    ("planted", "rules"),
    [
        ("if entry.type_number == 17: pass", ["number"]),
        ("def f(n):\n    return 20 != n.type_number", ["number"]),
        ("if number in (17, 18): pass", ["number"]),
        ("if raw.type_number not in {3, 4}: pass", ["number"]),
        ("if raw.type_number in (COMMIT, ABORT): pass", ["set"]),
        ("lsn = writer.log(34, body)", ["number"]),
        ("_ENDS: Final = frozenset((COMMIT, ABORT))", ["set"]),
        ("KEPT = (INS_LN, UPD_LN, 5)", ["set"]),
        ("MORE: Final = LNS | {COMMIT, entry_types.ABORT}", ["set"]),
        ("_MAP_LNS: Final = frozenset((3, 4))", ["set"]),
        ("DELTA_TYPE: Final = 37", ["constant"]),
        ("_COMMIT = 17", ["constant"]),
        ("_MINE: Final = frozenset(t.number for t in BY_NUMBER.values() if t.family == LN)", ["derived"]),
        # What may stand anywhere.
        ("_LOOKED_AT: Final = TXN_FATES | ROLLBACKS | {MATCHPOINT}", []),
        ("_WORDS: Final = {COMMIT: 'committed', ABORT: 'aborted'}", []),
        ("USER: Final = LeafKind(INS_LN, UPD_LN)", []),
        ("if entry.type_number in TXN_ENDS or entry.type_number == PREPARE: pass", []),
        ("if number == 0 or version in (6, 7): pass", []),
    ],
)
def test_what_is_refused(planted: str, rules: list[str]) -> None:
    assert [rule for _, rule in complaints(planted)] == rules
