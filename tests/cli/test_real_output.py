"""Real output of every command that reads an environment, held against the schema that it publishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetool.frame import cli, exits
from jetool.frame.command import Command
from tests.support import corpus
from tests.support.harness import assert_valid, run

# One environment per version of JE, and those whose output has further parts: damage, a torn tail, rollbacks.
ENVIRONMENTS = ("corrupt-middle", "torn-cut-mid", "ha-rollback", "rollback-four-periods")


def reads_an_environment(command: Command) -> bool:
    names = {param.name for param in command.params}
    needed = {param.name for param in command.params if param.required}
    return needed == {"env"} and "dry_run" not in names and command.outputs().form != "text"


# Those that serve Derby databases only; their tests are with them.
ONLY_DERBY = ("txns",)
# It ends with 4 where there is no group; its tests are with it.
NEEDS_A_GROUP = ("group show",)
# They end with 4 where there are no such records; their tests are with them.
NEED_CONTENTS = (
    *("journal check", "journal list", "journal show", "journal stats"),
    *("ldap check", "ldap export", "ldap changelog", "ldap changes"),
)
# It needs another environment or a place in the log; its tests are with it.
NEEDS_MORE = ("diff",)
# It has no end; its tests are with it.
ENDLESS = ("watch",)
# They need --db where there are several databases; their tests are with them.
NEED_A_DATABASE = ("cache-size", "dump", "scan")
OTHERS = (*ONLY_DERBY, *NEEDS_A_GROUP, *NEED_A_DATABASE, *NEED_CONTENTS, *NEEDS_MORE, *ENDLESS)
COMMANDS = [name for name, command in cli.commands() if reads_an_environment(command) and name not in OTHERS]


def environments() -> list[Path]:
    """Environments by name, and the first of each version of JE."""
    found = sorted(path for path in (corpus.path() / "je").glob("je-*/*/env"))
    firsts = {path.parent.parent.name: path for path in reversed(found)}
    return sorted({*firsts.values(), *(path for path in found if path.parent.name in ENVIRONMENTS)})


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_valid(name: str) -> None:
    assert environments()
    for path in environments():
        for form in ("json", "ndjson"):
            result = run(*name.split(), path, "--format", form)
            assert result.code in (exits.DONE, exits.FINDINGS), (path, result.err)
            assert_valid(name, result.out, form)
