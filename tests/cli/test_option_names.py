"""One meaning for each option, whatever the command; renamed options are still understood."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from jetool.frame import cli
from jetool.frame.command import Command
from jetool.frame.options import RenamedOption
from tests.support.harness import REPOSITORY, run

# Options whose help differs between commands, and the one meaning that all of these texts have.
AGREED: Final = {
    "--accept-loss": "continue although committed transactions will be lost",
    "--address": "the address of the node",
    "--as": "the form of the result",
    "--base": "only below this DN",
    "--create": "create the database if it does not exist",
    "--db": "the database",
    "--dry-run": "print the result and change nothing",
    "--engine": "who reads: Spark, or this machine without it",
    "--explain": "why recovery treats each record as it does",
    "--file-max": "je.log.fileMax: the largest log file",
    "--files": "only these log files",
    "--follow": "do not end; go on with what is appended",
    "--force": "do it although a check says otherwise",
    "--format": "the output format; commands have different defaults",
    "--from": "the start of a range",
    "--full": "all checks",
    "--group": "the name of the replication group",
    "--html": "write a page",
    "--internal": "JE's own databases too",
    "--je": "the release of JE",
    "--limit": "at most N results",
    "--log-version": "the version of a new log",
    "--listen": "the address at which this process listens",
    "--no-overwrite": "a record that exists is not replaced",
    "--node": "the name of a node",
    "--out": "the directory that is written",
    "--partitions": "the number of tasks, and of files",
    "--prefix": "only keys that begin with this",
    "--quick": "only the end of the log",
    "--rate": "at most this many bytes per second",
    "--replicated": "about the replication stream",
    "--reverse": "the last first",
    "--rounds": "stop after N repetitions",
    "--since": "from this time on",
    "--tail": "the last N results",
    "--timeout": "the longest wait for another node, in seconds",
    "--to": "the end of a range",
    "--txn": "only this transaction",
    "--until": "up to this time",
    "--vlsn": "a VLSN, or a range of them",
    "-n": "print the result and change nothing",
    "-o": "the output format; commands have different defaults",
    "-s": "the database",
}
# Options with one word for different things, and why they stay: the words are those of the records that they are about.
DIFFERENT: Final = {
    "--after": "journal truncate: the last journal that stays; stream: the copy after which the stream begins",
    "--count": "dbs: count the records; watch: the number of samples, as of vmstat and ping",
    "--data": "delete: the data item; dump-log: show the data; verify: check the data",
    "--key": "load: the columns of the key; dump-log: the key",
    "--stats": "info: add figures; dump-log: count by a group, by default the type",
}
# The options that had two meanings each.
ONCE: Final = ("--master", "--node", "--to", "--from", "--tail", "--type")
# Lists of formats, names of databases and places in a log are written in several ways.
WRITTEN_DIFFERENTLY: Final = {"--format", "-o", "--db", "-s", "--from", "--to", "--vlsn", "--out", "--listen", "--je"}


def _options() -> Iterator[tuple[str, Command, click.Option]]:
    for name, command in cli.commands():
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                yield name, command, param


def _texts() -> dict[str, set[str]]:
    found = defaultdict(set)
    for _, _, option in _options():
        for word in option.opts:
            found[word].add(option.help or "")
    return found


def test_an_option_with_several_texts_has_one_meaning() -> None:
    several = {word for word, texts in _texts().items() if len(texts) > 1}
    assert several == AGREED.keys() | DIFFERENT.keys()
    assert not AGREED.keys() & DIFFERENT.keys()


def test_an_option_takes_the_same_everywhere() -> None:
    """A flag is nowhere an option with a value, and a number nowhere a name."""
    found = defaultdict(set)
    for _, _, option in _options():
        for word in option.opts:
            found[word].add("flag" if option.is_flag else option.metavar or option.type.name)
    several = {word: kinds for word, kinds in found.items() if len(kinds) > 1}
    assert several.keys() <= WRITTEN_DIFFERENTLY | DIFFERENT.keys(), several
    assert not [word for word in several if "flag" in several[word] and word not in DIFFERENT]


def test_the_six_options_mean_one_thing() -> None:
    assert not DIFFERENT.keys() & set(ONCE)
    assert {word for word in ONCE if len(_texts()[word]) > 1} <= AGREED.keys()


def _renamed() -> list[tuple[str, RenamedOption, str]]:
    return [(name, one, old) for name, _, one in _options() if isinstance(one, RenamedOption) for old in one.old]


RENAMED: Final = _renamed()


def test_the_renamed_options() -> None:
    assert {(name, old, one.opts[0]) for name, one, old in RENAMED} == {
        ("load", "--from", "--input-format"),
        ("export", "--to", "--out"),
        ("stream", "--to", "--out"),
        ("missing", "--to", "--out"),
        ("salvage", "--to", "--out"),
        ("fleet salvage", "--to", "--out"),
        ("dump-log", "--key-prefix", "--prefix"),
        ("dump-log", "--node", "--node-id"),
        ("verify", "--tail", "--end"),
        ("node run", "--master", "--lead"),
        ("node run", "--type", "--node-type"),
        ("node transfer-master", "--to", "--to-node"),
    }


@pytest.mark.parametrize(("name", "option", "old"), RENAMED, ids=lambda value: value if isinstance(value, str) else "")
def test_an_old_spelling_is_parsed_and_not_shown(name: str, option: RenamedOption, old: str) -> None:
    command = next(command for one, command in cli.commands() if one == name)
    value = (
        [] if option.is_flag else [next(iter(option.type.choices)) if isinstance(option.type, click.Choice) else "7"]
    )
    parser_of = command.make_parser(click.Context(command))
    by_new = parser_of.parse_args([option.opts[0], *value])[0]
    by_old = command.make_parser(click.Context(command)).parse_args([old, *value])[0]
    assert by_old == by_new
    assert by_new[option.name]
    page = run(*name.split(), "--help").text
    assert option.opts[0] in page
    shown = [line.split()[0].rstrip(",") for line in page.splitlines() if line.strip().startswith("-")]
    # verify --tail and dump-log --tail are two commands; in one command the old word is gone.
    assert old not in shown


@pytest.mark.parametrize(("name", "option", "old"), RENAMED, ids=lambda value: value if isinstance(value, str) else "")
def test_messages_use_the_new_spelling(name: str, option: RenamedOption, old: str) -> None:
    command = next(command for one, command in cli.commands() if one == name)
    assert command.callback is not None
    source = Path(inspect.getfile(inspect.unwrap(command.callback)))
    # A command is a module, or a package with its helpers.
    sources = [source] if source.parent.name == "commands" else sorted(source.parent.glob("*.py"))
    texts = [
        node.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != old
    ]
    assert any(option.opts[0] in text for text in texts)
    assert [text for text in texts if re.search(rf"(?<![\w-]){old}(?![\w-])", text)] == []


def test_a_command_by_its_old_options() -> None:
    env = REPOSITORY / "tests/golden/je-17/txn-crash"
    new = run("dump-log", env, "--prefix", "acc", "--node-id", "7", "--json")
    assert run("dump-log", env, "--key-prefix", "acc", "--node=7", "--json").out == new.out
    assert run("verify", env, "--tail").out == run("verify", env, "--end").out != b""
