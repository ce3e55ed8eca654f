"""Man pages: generated from the commands, up to date, and roff that formats."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from engine.format.entry_types import ENTRY_TYPES
from engine.format.versions import HIGHEST_TYPE, JE_RELEASES
from jetool.frame import cli, manpages, manual, table
from jetool.frame.command import Command
from jetool.frame.manual import escape
from tests.support import harness
from tests.support.manuals import MAN, calls_in
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S


def write(directory: Path) -> dict[str, str]:
    found = dict(manpages.pages(directory))
    for name, text in found.items():
        (directory / name).write_text(text)
    return found


def test_pages_in_the_repository_are_up_to_date() -> None:
    assert manpages.drift(MAN) == [], "run: python -m jetool.frame.manpages --write man"


def test_every_command_has_a_page_with_all_that_help_says() -> None:
    for name, command in cli.commands():
        page = (MAN / f"jetool-{name.replace(' ', '-')}.1").read_text()
        listed = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        for option in (option for param in listed for option in param.opts):
            assert escape(option) in page
        for _, line in command.examples:
            assert f".nf\n{escape(line)}\n.fi" in page
        for code, text in command.exits.items():
            assert f"\\fB{code}\\fR\n{escape(text[0].upper() + text[1:])}." in page


def test_page_of_the_program_lists_all_commands() -> None:
    page = (MAN / "jetool.1").read_text()
    for row in table.COMMANDS:
        assert f"\\fBjetool\\-{escape(row.name)}\\fR(1)" in page
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
    (tmp_path / "jetool-sample.1.extra").write_text("## Notes\n\nBy hand.\n")
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
        command = [sys.executable, "-m", "jetool.frame.manpages", *words]
        return subprocess.run(command, env=harness.environment(), capture_output=True, timeout=PATIENCE_S).returncode

    assert call("--check", str(tmp_path)) == 1
    assert call("--write", str(tmp_path / "new")) == 0
    (tmp_path / "new" / "jetool.1").write_text("x")
    assert call("--check", str(tmp_path / "new")) == 1


def test_text_cannot_become_a_request() -> None:
    assert escape(".SH x\n'y \\n -z") == "\\&.SH x\n\\(aqy \\en \\-z"


@pytest.mark.usefixtures("samples")
def test_pages_format_without_complaint(tmp_path: Path) -> None:
    needs("groff")
    for name in write(tmp_path):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", str(tmp_path / name)], capture_output=True, timeout=PATIENCE_S
        )
        assert done.stderr == b"", name
        assert done.stdout


# Pages of man5 and man7.

MARKDOWN = sorted(MAN.glob("*.md"))


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_pages_name_commands_and_options_that_exist(path: Path) -> None:
    lines = [one.words for one in calls_in(path)]
    assert len(lines) >= 3
    for words in lines:
        row = next(row for row in table.COMMANDS if row.name == words[0])
        found: click.Command = cli.load(row)
        rest = words[1:]
        if isinstance(found, click.Group) and rest:
            left_out = getattr(found, "default", None)
            rest = rest if left_out is None or rest[0] in found.commands else [left_out, *rest]
            found, rest = found.commands[rest[0]], rest[1:]
        known = {name for param in found.params for name in (*param.opts, *param.secondary_opts)}
        assert {word for word in rest if re.match(r"-[a-z-]", word)} <= known, words
        if len(rest) > 1 and not isinstance(found, click.Group):
            # Values too: what Click does not take ends in a UsageError here.
            found.make_context(found.name, list(rest))


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_references_lead_to_pages(path: Path) -> None:
    named = re.findall(r"\b(jetool[a-z-]*)\((\d)\)", path.read_text())
    assert len(named) > 5
    assert [one for one in named if not (MAN / f"{one[0]}.{one[1]}").exists()] == []


def test_the_log_page_has_every_type_version_and_bit() -> None:
    page = (MAN / "jetool-log.5").read_text()
    for one in ENTRY_TYPES:
        name = escape(one.name.replace("_WITH_BEFORE_IMAGE", "_WITH_..."))
        assert re.search(rf"^{one.number} +{re.escape(name)} +{one.family} ", page, re.MULTILINE), one
    for version, release in JE_RELEASES.items():
        assert re.search(rf"^{version} +{re.escape(release)} +{HIGHEST_TYPE[version]} ", page, re.MULTILINE)
    assert len(re.findall(r"^0x[0-9a-f]{2} ", page, re.MULTILINE)) == 6


def test_commands_lead_to_the_pages_that_name_them() -> None:
    assert "\\fBjetool\\-recovery\\fR(7)" in (MAN / "jetool-recover.1").read_text()
    assert "\\fBjetool\\-log\\fR(5)" in (MAN / "jetool-dump-log.1").read_text()
    assert "\\fBjetool\\-runbook\\fR(7)" in (MAN / "jetool.1").read_text()
    assert "(7)" not in (MAN / "jetool-schema.1").read_text()


def test_a_page_that_was_edited_has_drifted(tmp_path: Path) -> None:
    (tmp_path / "jetool-log.5.md").write_text("# jetool-log(5): a log\n\n## See also\n\njetool-info(1)\n")
    assert "\\fBjetool\\-log\\fR(5)" in write(tmp_path)["jetool-info.1"]
    assert manpages.drift(tmp_path) == []
    (tmp_path / "jetool-log.5").write_text("edited")
    (tmp_path / "jetool-old.7").write_text("")
    assert manpages.drift(tmp_path) == ["jetool-log.5 differs from its command", "jetool-old.7 belongs to no command"]


def test_markdown_as_roff() -> None:
    text = (
        "# jetool-x(7): what it is\n\n## One\n\nA `word -n`, *this* and **that**; see jetool-info(1),\n2*3*4.\n\n"
        "Next.\n\n- first\n  of two\n- second\n\nterm\n: what it\n  means\n\n### Two\n"
        "| a | b |\n|---|---|\n| 1 | `x` |\n\nAfter.\n```\njetool info\n.dot\n```\n"
    )
    head, _, body = manual.page(text).partition(".SH ONE\n")
    assert head.endswith('manual"\n.SH NAME\njetool\\-x \\- what it is\n')
    assert body == (
        "A \\fBword \\-n\\fR, \\fIthis\\fR and \\fBthat\\fR; see \\fBjetool\\-info\\fR(1),\n2*3*4.\n.PP\nNext.\n"
        ".IP \\(bu 3\nfirst of two\n.IP \\(bu 3\nsecond\n.TP\nterm\nwhat it means\n.SS Two\n"
        ".RS 2\n.nf\na  b\n\\-  \\-\n1  x\n.fi\n.RE\n.PP\nAfter.\n.RS 2\n.nf\njetool info\n\\&.dot\n.fi\n.RE\n"
    )


def test_every_command_is_in_the_page_of_commands() -> None:
    text = " ".join((MAN / "jetool-commands.7.md").read_text().split())
    assert [name for name, _ in cli.commands() if f"`jetool {name}" not in text] == []
