"""Which code serves a verb is chosen in one place, by the kind of the environment."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetool.commands import derby_verbs as derby
from jetool.frame import cli, table
from jetool.frame.verbs import SHARED, Verbs
from tests.support import harness
from tests.support.harness import REPOSITORY, run
from tests.support.modules import is_derbys
from tests.support.waiting import PATIENCE_S

COMMANDS = REPOSITORY / "jetool" / "commands"
# What the schema of a command says of Derby's rows is imported here, and nowhere else.
OUTPUTS = "_outputs"


def parameters(function: object) -> tuple[list[str], bool]:
    """The names of a function's parameters after the first, and whether it takes others by name."""
    assert callable(function)
    found = list(inspect.signature(function).parameters.values())
    named = [one.name for one in found if one.kind is not one.VAR_KEYWORD and one.name not in ("self", "run")]
    return named, len(named) + 1 < len([one for one in found if one.name != "self"])


@pytest.mark.parametrize("name", sorted(SHARED))
def test_both_kinds_take_what_the_protocol_says(name: str) -> None:
    row = next(row for row in table.COMMANDS if row.name.replace("-", "_") == name)
    command = cli.load(row)
    wanted, more = parameters(getattr(Verbs, name))
    assert sorted(parameters(command.callback)[0]) == sorted(wanted)
    options = {param.name for param in command.params}
    assert set(wanted) <= options
    served, takes_all = parameters(getattr(derby, name))
    assert set(served) <= set(wanted)
    assert takes_all or (sorted(served) == sorted(wanted) and not more)


def branches(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """What a module of a command says of kinds: imports of Derby's code, and questions after the kind."""
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else inside
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            if isinstance(node, ast.ImportFrom):
                modules += [f"{node.module}.{alias.name}" for alias in node.names]
            if any(module.startswith("engine.derby") or is_derbys(module) for module in modules) and name != OUTPUTS:
                yield f"line {node.lineno}: import of {modules[0]}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kinds":
            # The option of ``create`` names both.
            if node.attr not in ("JE", "DERBY", "not_for"):
                yield f"line {node.lineno}: kinds.{node.attr}"
        elif isinstance(node, ast.Compare) and "kinds." in ast.unparse(node) and "file.kind" not in ast.unparse(node):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        yield from branches(node, name)


OF_JE = [path for path in sorted(COMMANDS.rglob("*.py")) if not is_derbys(str(path.relative_to(REPOSITORY)))]


@pytest.mark.parametrize("path", OF_JE, ids=lambda path: str(path.relative_to(COMMANDS)))
def test_no_command_asks_for_the_kind(path: Path) -> None:
    assert list(branches(ast.parse(path.read_text()))) == []


def test_what_counts_as_a_branch() -> None:
    lines = (
        "if kinds.kind_of(disk) == kinds.DERBY: pass", "kinds.is_derby(env)", "store == kinds.DERBY",
        "from jetool.commands.page_store import verbs", "import engine.derby.log",
        "from jetool.commands.recover import derby", "from jetool.commands.crash.derby_rows import DerbyCrash",
    )  # fmt: skip
    for line in lines:
        assert list(branches(ast.parse(line))), line
    assert not list(branches(ast.parse("def _outputs():\n    from jetool.commands.crash import derby_rows")))


def test_a_je_environment_needs_nothing_of_derby(tmp_path: Path) -> None:
    env = tmp_path / "env"
    assert run("create", env, "--db", "d").code == 0
    lines = [
        ["info", str(env)], ["dump-log", str(env), "--type", "Commit", "--limit", "1"], ["dbs", str(env)],
        ["put", str(env), "k", "v", "--db", "d"], ["txns", str(env)], ["verify", str(env)], ["recover", str(env)],
        ["crash", str(env), "-n"], ["undo", str(env), "-n"], ["create", str(tmp_path / "other")],
        *([name, "--help"] for name in ("create", "dump-log", "crash")),
    ]  # fmt: skip
    code = (
        "import json, sys\nfrom jetool.frame import cli\nfrom tests.support import modules\n"
        f"for words in json.loads({json.dumps(json.dumps(lines))}):\n"
        "    cli.run(words)\n"
        "    found = [n for n in sys.modules if n.startswith('engine.derby') or modules.is_derbys(n)]\n"
        "    assert not found, (words, found)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=harness.environment(), capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode()
