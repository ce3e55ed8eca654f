"""``jetool doctor --html``: the contents of the text as a page of one file."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.cli import derby_databases
from tests.support import corpus
from tests.support.environments.applications import create_ldap, create_plain, damage, write_plain
from tests.support.environments.frontends import damage_tail, rolled, write_frontend, write_images
from tests.support.harness import run


def frontend(place: Path, *, damaged: bool = False) -> Path:
    env = place / "meta" / "bdb"
    env.mkdir(parents=True)
    write_frontend(env, rolled(1, 250, 100), epochs=2, replicated=True)
    write_images(env.parent, (99, 150))
    if damaged:
        damage_tail(env, "journal")
    return env.parent


def words(text: str) -> str:
    """The words alone: text and page differ in numbers of steps, punctuation and capitals."""
    found = re.findall(r"[^\s,;:()]+", re.sub(r"(?m)^ *\d+\. ", " ", text).lower())
    return f" {' '.join(word.rstrip('.') for word in found)} "


def shown(place: Path, *directories: Path) -> tuple[str, str, int]:
    """The text, the words of the page, and the exit code; both come from one run."""
    file = place / "doctor.html"
    result = run("doctor", *directories, "--html", file)
    assert f"the page was written to {file}" in result.err
    page = file.read_bytes().decode("utf-8", "strict")
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"(src|href)=[\"'](?!#)|url\(|@import|https?://(?!www\.w3\.org/)", page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    main = page[page.index("<main>") : page.index("</main>")]
    return result.text, words(html.unescape(re.sub("<[^>]*>", " ", main))), result.code


@pytest.mark.parametrize("kind", ["frontend", "damaged frontend", "ldap", "damaged plain", "derby", "marker", "nodes"])
def test_the_page_says_what_the_text_says(kind: str, tmp_path: Path) -> None:
    found = {
        "frontend": lambda: [frontend(tmp_path)],
        "damaged frontend": lambda: [frontend(tmp_path, damaged=True)],
        "ldap": lambda: [create_ldap(tmp_path / "ldap")],
        "damaged plain": lambda: [damage(create_plain(tmp_path / "env"), write_plain)],
        "derby": lambda: [derby_databases.extract(derby_databases.FIVE, tmp_path)],
        "marker": lambda: [corpus.path() / "je/je-18.3.20/restore-required/env"],
        "nodes": lambda: sorted((corpus.path() / "je/je-18.3.20/ha-rollback-thrice").glob("node?/env")),
    }[kind]()
    text, page, code = shown(tmp_path, *found)
    assert code == run("doctor", *found).code
    lines = list(filter(str.strip, text.splitlines()))
    assert len(lines) > 4
    assert [line for line in lines if words(line) not in page] == []


def test_names_are_escaped(tmp_path: Path) -> None:
    place = tmp_path / "<script>alert(1)</script> & \u202ex"
    env = create_plain(place / "env")
    file = tmp_path / "doctor.html"
    assert run("doctor", env, "--html", file).code == 0
    page = file.read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page
    assert "\u202e" not in page


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    env = create_plain(tmp_path / "env")
    result = run("doctor", env, "--html", tmp_path / "no" / "doctor.html")
    assert (result.code, result.out) == (7, b"")
