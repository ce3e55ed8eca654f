"""The sources of the documentation site: ``python -m jetool.frame.documents.site build``, then
``mkdocs build --strict -f build/mkdocs.yml``.

DIRECTORY gets ``docs`` with every page, and ``mkdocs.yml``, which inherits from the file of that name at the top of the
repository and adds the navigation. MkDocs writes the site to ``DIRECTORY/site``: it needs no server and no network.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from jetool.frame import manual, table
from jetool.frame.documents.command_pages import command_pages
from jetool.frame.documents.markdown import (
    COMMANDS,
    TOPICS,
    command_markdown,
    document_markdown,
    path_of,
    topic_markdown,
)

_ROOT: Final = Path(__file__).parents[3]
_MAN: Final = _ROOT / "man"
_DOC: Final = _ROOT / "engine" / "doc"
_PAGES: Final = "docs"
_SCRIPT: Final = "iframe-worker.js"
# Pages of engine/doc for users, and those that the code cites.
_GUIDES: Final = {"tutorial": "Tutorial", "from-je-tools": "From other tools", "typed": "What can be typed"}
_LIBRARY: Final = "python"
_FORMATS: Final = {
    "je-log-format": "Log format of JE",
    "je-behaviour": "Behaviour of JE",
    "je-ha-protocol": "Protocol of JE groups",
    "fe-journals": "Journals of frontends",
    "embedders": "Applications on JE",
    "opendj-changelog": "The replication changelog of OpenDJ",
    "derby-log-format": "Log format of Derby",
    "derby-behaviour": "Behaviour of Derby",
    "crash-points": "Crash points",
    "performance": "Figures",
}
_README_PARTS: Final = ("Install", "Five first commands", "What works")
_FIRST_TOPICS: Final = ("jetool-runbook.7", "jetool-commands.7", "jetool-recovery.7")

Navigation = list[tuple[str, str | list[tuple[str, str]]]]


def site_pages() -> Iterator[tuple[str, str]]:
    """Path below the root of the site, and Markdown, of every page."""
    for page in command_pages(_MAN):
        yield path_of(page.name, "1"), command_markdown(page)
    for source in manual.sources(_MAN):
        name, section = source.name.removesuffix(manual.SOURCE).rsplit(".", 1)
        yield path_of(name, section), topic_markdown(source.read_text(encoding="utf-8"))
    yield "index.md", _document("site") + "".join(_of_readme(heading) for heading in _README_PARTS)
    for name in (*_GUIDES, _LIBRARY, *_FORMATS):
        yield f"{name}.md", _document(name)
    yield "changelog.md", (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _of_readme(heading: str) -> str:
    """A section of the README; a link that leads to no page of the site becomes the path."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}\n.*?(?=^## |^<!-- |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, heading

    def link(one: re.Match[str]) -> str:
        words, target = one[1], Path(one[2])
        return f"[{words}]({target.name})" if target.parent == _DOC.relative_to(_ROOT) else f"{words}: `{target}`"

    return "\n" + re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, found[0])


def _document(name: str) -> str:
    text = (_DOC / f"{name}.md").read_text(encoding="utf-8")
    text = manual.REFERENCE.sub(lambda found: f"[{found[0]}]({path_of(found[1], found[2])})", text)
    return document_markdown(text)


def navigation(pages: Mapping[str, str]) -> Navigation:
    """Titles and paths, in the order of the menu.

    Arguments:
        pages: every page by path.
    """
    topics = [path_of(*page.rsplit(".", 1)) for page in _FIRST_TOPICS]
    topics += sorted(path for path in pages if path.startswith(f"{TOPICS}/") and path not in topics)
    commands = [path_of("jetool", "1")]
    for row in table.COMMANDS:
        name = path_of(f"jetool-{row.name}", "1")
        stem = name.removesuffix(".md")
        # Commands of a group follow it; its name and a dash begin theirs.
        inner = [path for path in pages if re.match(rf"{stem}-", path) and not _is_command(path)]
        commands += [name, *sorted(inner)]
    return [
        ("Home", "index.md"),
        *((title, f"{name}.md") for name, title in _GUIDES.items()),
        ("Manual", [(_title(pages[path]), path) for path in topics]),
        ("Commands", [(_title(pages[path]), path) for path in commands]),
        ("Python", f"{_LIBRARY}.md"),
        ("Formats and behaviour", [(title, f"{name}.md") for name, title in _FORMATS.items()]),
        ("Changes", "changelog.md"),
    ]


def _is_command(path: str) -> bool:
    return path.removeprefix(f"{COMMANDS}/").removesuffix(".md") in {row.name for row in table.COMMANDS}


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _configuration(directory: Path, menu: Navigation) -> str:
    lines = [
        f"INHERIT: {os.path.relpath(_ROOT / 'mkdocs.yml', directory)}",
        f"docs_dir: {_PAGES}",
        "site_dir: site",
        "nav:",
    ]
    for title, below in menu:
        if isinstance(below, str):
            lines.append(f"  - '{title}': {below}")
        else:
            lines.append(f"  - '{title}':")
            lines.extend(f"      - '{name}': {path}" for name, path in below)
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def main(directory: Path) -> None:
    """Write the sources of the documentation site to DIRECTORY."""
    place = directory / _PAGES
    shutil.rmtree(place, ignore_errors=True)
    pages = dict(site_pages())
    for path, text in pages.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    script = Path(__file__).with_name(_SCRIPT)
    (place / "assets").mkdir()
    shutil.copyfile(script, place / "assets" / _SCRIPT)
    (directory / "mkdocs.yml").write_text(_configuration(directory, navigation(pages)), encoding="utf-8")


if __name__ == "__main__":
    main()
