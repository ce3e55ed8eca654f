"""The page about the library: its examples run, and the calls in its table give what it says."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path
from typing import Any

import pytest

import engine

PAGE = Path(engine.__file__).parent / "doc" / "python.md"


def rows() -> list[tuple[str, str, str]]:
    """What is done, the call, and what it gives."""
    text = PAGE.read_text()
    table = text[text.index("<!-- calls -->") : text.index("<!-- end of calls -->")].splitlines()
    lines = [line.replace("\\|", "&#124;") for line in table if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0][:3] == ["to do this", "jetool", "gives"]
    assert {len(row) for row in cells} == {7}
    return [(what, call.strip("`"), gives.strip("`")) for what, call, gives, *_ in cells[2:]]


def test_the_examples_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert failed == 0
    assert tried > 40


def test_messages_are_as_the_page_shows_them() -> None:
    """``IGNORE_EXCEPTION_DETAIL`` lets the words of errors pass, which are compared here."""
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("engine.errors.ArgumentError: ")]
    assert len(shown) == 2
    with engine.Environment(engine.MemoryStorage(), engine.EnvironmentConfig(create=True)) as env:
        db = env.create_database("db")
        calls: list[tuple[Any, Any]] = [("4711", b""), (b"4711", None)]
        for (key, data), line in zip(calls, shown, strict=True):
            with pytest.raises(engine.ArgumentError) as refused:
                db[key] = data
            assert f"engine.errors.ArgumentError: {refused.value}" == line


def test_the_calls_of_the_table_give_what_it_says(tmp_path: Path) -> None:
    names: dict[str, Any] = {name: getattr(engine, name) for name in engine.__all__}
    names["home"] = str(tmp_path / "env")
    done = []
    for what, call, gives in rows():
        error = {**vars(__import__("builtins")), **names}.get(gives)
        if isinstance(error, type) and issubclass(error, Exception):
            with pytest.raises(error):
                exec(call, names)
        elif gives:
            assert repr(eval(call, names)) == gives, what
        else:
            exec(call, names)
        done.append(what)
    assert {"open", "get", "missing key, None", "put", "delete", "iterate", "range", "prefix", "reverse"} <= set(done)
    assert {"begin", "abort", "close"} <= set(done)
    with engine.Environment(names["home"], engine.EnvironmentConfig(read_only=True)) as env:
        assert list(env.open_database("d")) == [(b"a", b"1"), (b"b", b"2"), (b"ca", b"2")]


def test_the_table_of_errors_names_classes_as_they_are() -> None:
    text = PAGE.read_text()
    section = text[text.index("## Errors") : text.index("## Threads")]
    named = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            name, when = (cell.strip() for cell in line.strip("|").split("|"))
            named[name.strip("`")] = when
    assert len(named) > 20
    for name, when in named.items():
        error = getattr(engine, name)
        parents = [word.strip("`") for word in when.partition("; ")[2].split() if word.startswith("`")]
        for parent in parents:
            assert issubclass(error, TypeError if parent == "TypeError" else getattr(engine, parent)), name


def test_the_page_is_valid_python() -> None:
    """Every cell of the column is one statement that mypy's parser, and thus a reader's, takes."""
    for _, call, _ in rows():
        assert len(ast.parse(call).body) == 1
