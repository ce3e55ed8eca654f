"""Man pages: generated from the commands, up to date, and roff that formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from jetool.app import cli, manpages, table
from jetool.app.command import Command
from tests import harness
from tests.harness import REPOSITORY
from tests.tools import needs

MAN = REPOSITORY / "man"


def write(directory: Path) -> dict[str, str]:
    found = dict(manpages.pages(directory))
    for name, text in found.items():
        (directory / name).write_text(text)
    return found


def test_pages_in_the_repository_are_up_to_date() -> None:
    assert manpages.drift(MAN) == [], "run: python -m jetool.app.manpages --write man"


def test_every_command_has_a_page_with_all_that_help_says() -> None:
    for name, command in cli.commands():
        page = (MAN / f"jetool-{name.replace(' ', '-')}.1").read_text()
        listed = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        for option in (option for param in listed for option in param.opts):
            assert manpages.escape(option) in page
        for _, line in command.examples:
            assert f".nf\n{manpages.escape(line)}\n.fi" in page
        for code, text in command.exits.items():
            assert f"\\fB{code}\\fR\n{manpages.escape(text[0].upper() + text[1:])}." in page


def test_page_of_the_program_lists_all_commands() -> None:
    page = (MAN / "jetool.1").read_text()
    for row in table.COMMANDS:
        assert f"\\fBjetool\\-{manpages.escape(row.name)}\\fR(1)" in page
    for name in ("ADDRESSES", "ENVIRONMENT", "EXIT STATUS"):
        assert f".SH {name}\n" in page


@pytest.mark.usefixtures("samples")
def test_groups_and_their_commands_have_pages(tmp_path: Path) -> None:
    found = write(tmp_path)
    assert "\\fBjetool\\-nest\\-inner\\fR(1)" in found["jetool-nest.1"]
    assert "jetool nest inner" in found["jetool-nest-inner.1"]
    assert "Also called old\\-sample." in found["jetool-sample.1"]
    assert isinstance(cli.load(table.COMMANDS[0]), Command)


@pytest.mark.usefixtures("samples")
def test_hand_written_sections_come_before_see_also(tmp_path: Path) -> None:
    (tmp_path / "jetool-sample.1.extra").write_text(".SH NOTES\nBy hand.\n")
    assert write(tmp_path)["jetool-sample.1"].index("By hand.") < write(tmp_path)["jetool-sample.1"].index("SEE ALSO")


def test_drift_is_found(tmp_path: Path) -> None:
    assert manpages.drift(tmp_path) == sorted(f"{name} is missing" for name, _ in manpages.pages(tmp_path))
    write(tmp_path)
    assert manpages.drift(tmp_path) == []
    (tmp_path / "jetool-schema.1").unlink()
    (tmp_path / "jetool-gone.1").write_text("")
    with (tmp_path / "jetool.1").open("a") as page:
        page.write("edited\n")
    assert manpages.drift(tmp_path) == [
        "jetool-gone.1 belongs to no command",
        "jetool-schema.1 is missing",
        "jetool.1 differs from its command",
    ]


def test_command_line_writes_and_checks(tmp_path: Path) -> None:
    def call(*words: str) -> int:
        command = [sys.executable, "-m", "jetool.app.manpages", *words]
        return subprocess.run(command, env=harness.environment(), capture_output=True, timeout=60).returncode

    assert call("--check", str(tmp_path)) == 1
    assert call("--write", str(tmp_path / "new")) == 0
    (tmp_path / "new" / "jetool.1").write_text("x")
    assert call("--check", str(tmp_path / "new")) == 1


def test_text_cannot_become_a_request() -> None:
    assert manpages.escape(".SH x\n'y \\n -z") == "\\&.SH x\n\\(aqy \\en \\-z"


@pytest.mark.usefixtures("samples")
def test_pages_format_without_complaint(tmp_path: Path) -> None:
    needs("groff")
    for name in write(tmp_path):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", str(tmp_path / name)], capture_output=True, timeout=60)
        assert done.stderr == b"", name
        assert done.stdout
