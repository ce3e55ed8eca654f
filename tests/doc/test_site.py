"""The documentation site: every page is in its menu, every link leads somewhere, and its search works from a file."""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from jetool.frame import cli
from jetool.frame.documents.markdown import document_markdown, escape_markdown, path_of, topic_markdown
from jetool.frame.documents.site import navigation, site_pages
from tests.support.harness import environment
from tests.support.manuals import MAN
from tests.support.tools import BROWSERS, needs
from tests.support.waiting import PATIENCE_S

PAGES = dict(site_pages())
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)#\s]+\.md)[^)]*\)")


def test_every_page_is_in_the_menu_once() -> None:
    listed = []
    for _, below in navigation(PAGES):
        listed += [below] if isinstance(below, str) else [path for _, path in below]
    assert sorted(listed) == sorted(PAGES)


def test_every_page_of_the_manual_has_one() -> None:
    manual = {path.name for path in MAN.glob("jetool*.[157]")}
    assert len(manual) > 80
    assert {path_of(*name.rsplit(".", 1)) for name in manual} <= set(PAGES)


def test_commands_have_all_that_help_says() -> None:
    for name, command in cli.commands():
        text = PAGES[path_of(f"jetool-{name.replace(' ', '-')}", "1")]
        listed = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        assert [one for param in listed for one in param.opts if one not in text] == [], name
        for _, line in command.examples:
            assert f"```sh\n{line}\n```" in text
        for code, meaning in command.exits.items():
            assert f"`{code}`\n:   {escape_markdown(meaning[0].upper() + meaning[1:])}." in text


@pytest.mark.parametrize("path", PAGES)
def test_links_lead_to_pages(path: str) -> None:
    found = [posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) for link in LINK.findall(PAGES[path])]
    assert [link for link in found if link not in PAGES] == []
    assert found or "/" not in path


def test_plain_text_stays_as_it_is() -> None:
    assert escape_markdown("a *b* _c_ [d] `e`\n <f> & \\g") == r"a \*b\* \_c\_ \[d\] \`e\` &lt;f> &amp; \\g"
    assert escape_markdown("1. x") == r"1\. x"
    assert escape_markdown("- x") == r"\- x"
    assert escape_markdown("see jetool-log(5)") == "see [jetool-log(5)](../manual/log.md)"


def test_a_topic_as_markdown() -> None:
    text = (
        "# jetool-x(7): what it is\n\nSee jetool-info(1), `jetool-info(1)`.\n\nterm\n: what it\n  means\n\n"
        "- one\n  more\n\n"
        "```\njetool-info(1)\n- x\n```\n\n{{versions}}\n"
    )
    found = topic_markdown(text)
    assert found.startswith(
        "# What it is\n\n*jetool-x(7)*\n\nSee [jetool-info(1)](../commands/info.md), `jetool-info(1)`.\n\n"
        "term\n:   what it\n    means\n\n-   one\n    more\n\n```\njetool-info(1)\n- x\n```\n"
    )
    assert "\n| version | first JE | highest type | continued in |\n| --- |" in found


def test_the_first_page_has_parts_of_the_readme() -> None:
    headings = re.findall(r"^## (.*)$", PAGES["index.md"], re.MULTILINE)
    assert headings == ["Install", "Five first commands", "What works"]
    assert "[by examples](python.md)" in PAGES["index.md"]
    assert "example: `examples/recover_and_undo.py`" in PAGES["index.md"]


def test_lists_of_a_document() -> None:
    """Later lines of an item get four columns, also code; an item after a paragraph of another gets a blank line."""
    text = (
        "Text\n24. no list.\n\n- one\n  more\n\n  | a |\n  |---|\n\n  after\n- two\n  - inner\n\n"
        "1. three\n\n   ```\n   code\n     deep\n   ```\n2. four\n\n```\n  code\n```\nEnd\n  it\n"
    )
    assert document_markdown(text) == (
        "Text\n24. no list.\n\n- one\n    more\n\n    | a |\n    |---|\n\n    after\n\n- two\n    - inner\n\n"
        "1. three\n\n    ```\n    code\n      deep\n    ```\n\n2. four\n\n```\n  code\n```\nEnd\n  it\n"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("MkDocs")
    directory = tmp_path_factory.mktemp("build")
    words = (
        ("jetool.frame.documents.site", directory),
        ("mkdocs", "build", "--strict", "--quiet", "-f", directory / "mkdocs.yml"),
    )
    for one in words:
        done = subprocess.run(
            [sys.executable, "-m", *map(str, one)],
            env=environment(NO_MKDOCS_2_WARNING="1"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
    return directory / "site"


def test_the_site_takes_nothing_from_the_network(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    taken = re.compile(
        r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//[^\"> ]*|<link[^>]*stylesheet[^>]*https?:[^> ]*"
    )
    assert {found for page in pages for found in taken.findall(page.read_text(encoding="utf-8"))} == set()


def test_the_search_works_from_a_file(site: Path, tmp_path: Path) -> None:
    needs("browser")
    name = next(path for path in map(shutil.which, BROWSERS) if path)
    words = [
        name, "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{site}/commands/info.html?q=truncate",
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    found = re.search(r'md-search-result__meta">\s*(\d+) matching documents', done.stdout)
    assert found is not None, done.stderr[-2000:]
    assert int(found[1]) > 3
    assert re.search(r'href="[^"]*commands/truncate\.html[^"]*" class="md-search-result__link', done.stdout)
