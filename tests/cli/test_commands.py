"""What holds for every command: a complete help, examples that parse, a schema that is one, a place in the table."""

from __future__ import annotations

import shlex
import subprocess
import sys

import click
import jsonschema_rs
import pytest

from jetool.frame import cli, exits, schemas, table
from jetool.frame.command import Command
from jetool.frame.groups import CommandGroup
from tests.support.harness import REPOSITORY, run

COMMANDS = dict(cli.commands())
GROUPS = [row.name for row in table.COMMANDS if isinstance(cli.load(row), CommandGroup)]


@pytest.fixture(params=sorted(COMMANDS))
def named(request: pytest.FixtureRequest) -> tuple[str, Command]:
    return request.param, COMMANDS[request.param]


def test_every_module_is_in_the_table() -> None:
    commands = REPOSITORY / "jetool" / "commands"
    modules = {path.stem for path in commands.glob("*.py") if not path.stem.startswith("derby_")} - {"__init__"}
    packages = {f"{path.parent.name}.command" for path in commands.glob("*/command.py")}
    assert modules | packages == {row.module for row in table.COMMANDS}


def test_commands_are_there_without_spark() -> None:
    """A light installation has no pyspark, pyarrow or numpy; every command still has its help."""
    code = (
        "import sys\n"
        "for name in ('pyspark', 'py4j', 'pyarrow', 'numpy', 'pandas'):\n    sys.modules[name] = None\n"
        "from jetool.frame import cli, table\n"
        "print(sum(bool(cli.load(row).help) for row in table.COMMANDS))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{len(table.COMMANDS)}\n", "")


def test_names_and_aliases_are_unique_and_groups_are_known() -> None:
    names = [name for row in table.COMMANDS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    assert {row.group for row in table.COMMANDS} <= set(table.GROUPS)
    order = [table.GROUPS.index(row.group) for row in table.COMMANDS]
    assert order == sorted(order)


def test_help_ends_with_examples_and_exit_codes(named: tuple[str, Command]) -> None:
    name, command = named
    result = run(*name.split(), "--help")
    assert result.code == 0
    assert result.err == ""
    epilog = result.text[result.text.index("\nExamples:") :]
    assert len(command.examples) >= 2
    for text, line in command.examples:
        assert f"  {text}:\n      {line}\n" in epilog
    for code in {*command.exits, *exits.ALWAYS}:
        assert f"\n  {code} " in epilog[epilog.index("\nExit codes:") :]


def test_help_says_what_the_command_and_its_parameters_do(named: tuple[str, Command]) -> None:
    name, command = named
    assert command.help, f"{name} has no docstring"
    for param in command.params:
        text = param.help if isinstance(param, click.Option | click.Argument) else None
        assert text, f"{param.name} of {name} has no help"
        assert text[0].isupper(), f"{param.name} of {name}: {text}"
        assert "." in text, f"{param.name} of {name}: {text}"


def test_examples_parse(named: tuple[str, Command]) -> None:
    for _, line in named[1].examples:
        words = shlex.split(line.replace('eval "$(', "").replace(')"', ""), comments=True)
        assert words[0] == "jetool"
        words = words[1 : words.index("|")] if "|" in words else words[1:]
        verb, *inner = named[0].split()
        left_out = getattr(cli.root().get_command(click.Context(cli.root()), verb), "default", None)
        assert words[: 1 + len(inner)] == [verb, *inner] or (words[0] == verb and inner == [left_out])
        context: click.Context | None = cli.root().make_context("jetool", words)
        command: click.Command = cli.root()
        rest = words
        while context is not None and isinstance(command, CommandGroup):
            if command.default is not None and command.get_command(context, rest[0]) is None:
                rest = [command.default, *rest]
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            context, command = found.make_context(found.name, rest, parent=context), found
        assert isinstance(command, Command)


def test_exit_codes_are_in_the_table(named: tuple[str, Command]) -> None:
    assert set(named[1].exits) <= set(exits.TABLE)
    assert all(named[1].exits.values())


def test_schema_is_a_schema(named: tuple[str, Command]) -> None:
    name, command = named
    schema = schemas.of(name, command)
    if schema is None:
        assert not set(command.formats) & {"json", "ndjson"}
        return
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == schemas.DRAFT
    printed = run("schema", *name.split())
    assert printed.code == 0
    assert printed.json() == schema


@pytest.mark.parametrize("name", GROUPS)
def test_groups_list_their_commands(name: str) -> None:
    result = run(name, "--help")
    assert result.code == 0
    for words in COMMANDS:
        if words.startswith(f"{name} "):
            assert words.split()[1] in result.text


def test_only_the_output_package_prints() -> None:
    for path in (REPOSITORY / "jetool").rglob("*.py"):
        if path.parent.name != "output":
            text = path.read_text()
            assert "stdout.write" not in text, path
            assert "click.echo" not in text, path
