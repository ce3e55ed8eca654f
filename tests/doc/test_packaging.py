"""What is shipped beside the package: the image and the units of systemd."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.groups.nodes import free_ports
from tests.support.harness import run

REPOSITORY = Path(__file__).resolve().parents[2]
UNITS = sorted((REPOSITORY / "examples" / "systemd").iterdir())
# Directories of a host, and what stands for them here.
TARGETS = ("/var/lib/prometheus/node-exporter", "/var/backups/jetool")


def unit_of(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    assert "%f" in parser["Unit"]["Description"]
    return parser


@pytest.mark.parametrize("path", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda path: path.name)
def test_services(path: Path, tmp_path: Path) -> None:
    """The command line of each does its work for an instance that names an environment."""
    service = unit_of(path)["Service"]
    env = shutil.copytree(REPOSITORY / "tests" / "golden" / "je-17" / "txn-crash", tmp_path / "env")
    before = {file.name: file.read_bytes() for file in env.iterdir()}
    line = service["ExecStart"].replace("%f", str(env)).replace("%i", "data-env")
    line = line.replace("${JETOOL_PORT}", str(free_ports(1)[0][1]))
    for target in TARGETS:
        line = line.replace(target, str(tmp_path))
        assert target not in line
    program, *words = shlex.split(line)
    assert program == "jetool"
    follows, serves = "--follow" in words, "--listen" in words
    more = ("--rounds", "1") if follows else ("--count", "1") if serves else ()
    code = run(*words, *more).code
    assert code == 0 or str(code) in service["SuccessExitStatus"].split()
    assert {file.name: file.read_bytes() for file in env.iterdir()} == before
    made = tmp_path / "data-env" if follows else tmp_path / "jetool-data-env.prom"
    assert made.exists() != serves
    # What the service writes to is writable for it, and nothing else is.
    assert service["ProtectSystem"] == "strict"
    assert service.get("ReadWritePaths") in (TARGETS if not serves else (None,))
    assert service["ReadOnlyPaths"] == "%f"


@pytest.mark.parametrize("path", [unit for unit in UNITS if unit.suffix == ".timer"], ids=lambda path: path.name)
def test_timers(path: Path) -> None:
    assert path.with_suffix(".service") in UNITS
    assert "OnCalendar" in unit_of(path)["Timer"]


def test_the_image_copies_what_is_there() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    named = {word for line in re.findall(r"^COPY (?!--)(.*)$", text, re.M) for word in line.split()[:-1]}
    assert named >= {"pyproject.toml", "engine", "jetool"}
    assert all((REPOSITORY / name).exists() for name in named)
    allowed = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().split() if line.startswith("!")}
    assert named == allowed
