"""Shell completion, asked of the real shell where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetool.frame.param_types.shell_completion import database_names
from tests.support import harness
from tests.support.harness import run
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

# Loads the script, then asks bash for completions as the Tab key would.
ASK = r"""
eval "$(jetool completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
compopt() { local IFS=' '; echo "compopt $*"; }
_jetool_completion jetool
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A directory with a ``jetool`` for PATH."""
    script = tmp_path / "jetool"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m jetool "$@"\n')
    script.chmod(0o755)
    return tmp_path


def complete(program: Path, *words: str) -> list[str]:
    env = harness.environment(PATH=f"{program}:{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", *words], env=env, capture_output=True, timeout=PATIENCE_S, text=True
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


def test_bash_completes_commands_options_and_values(program: Path) -> None:
    needs("bash")
    assert complete(program, "jetool", "sch") == ["schema"]
    assert "completion" in complete(program, "jetool", "")
    assert "--format" in complete(program, "jetool", "schema", "--fo")
    assert complete(program, "jetool", "schema", "--format", "") == ["text", "json"]
    assert complete(program, "jetool", "completion", "") == ["bash", "zsh", "fish"]
    assert complete(program, "jetool", "schema", "--color", "a") == ["auto", "always"]
    assert "--version" in complete(program, "jetool", "--v")
    assert complete(program, "jetool", "--home", "") == ["compopt -o dirnames", ""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_accepted_by_its_shell(shell: str, tmp_path: Path) -> None:
    result = run("completion", shell)
    assert result.code == 0
    assert f"_JETOOL_COMPLETE={shell}_complete" in result.text
    needs(shell)
    script = tmp_path / "script"
    script.write_bytes(result.out)
    subprocess.run([shell, "-n", str(script)], check=True, timeout=PATIENCE_S)


def test_completion_loads_one_command_at_most() -> None:
    code = (
        "import sys; from jetool.frame import cli; assert cli.run([]) == 0\n"
        "loaded = [n for n in sys.modules if n.startswith('jetool.commands.')]\n"
        "assert not loaded, loaded"
    )
    env = harness.environment(_JETOOL_COMPLETE="bash_complete", COMP_WORDS="jetool sch", COMP_CWORD="1")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=PATIENCE_S, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["plain,schema"]), done.stderr


def test_unknown_shell_is_a_usage_error() -> None:
    assert run("completion", "tcsh").code == 2
    assert run("completion").code == 2


def test_databases_of_the_environment_on_the_line_are_offered(program: Path, tmp_path: Path) -> None:
    needs("bash")
    env = tmp_path / "env"
    assert run("create", env, "--db", "orders", "--db", "old", "--db", "users").code == 0
    assert complete(program, "jetool", "scan", str(env), "--db", "o") == ["old", "orders"]
    assert complete(program, "jetool", "get", "-h", str(env), "--db", "u") == ["users"]
    assert complete(program, "jetool", "scan", str(tmp_path / "nothing"), "--db", "o") == [""], "printf prints no more"


def test_tables_of_a_page_store_are_offered(tmp_path: Path) -> None:
    assert run("create", tmp_path / "store", "--store", "derby", "--db", "b", "--db", "a").code == 0
    assert database_names(str(tmp_path / "store")) == ["a", "b"]
