"""The corpus is what its manifests say, and is there whole or not at all; nothing is skipped without a named tool."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import corpus, harness
from tests.support.children import child
from tests.support.waiting import PATIENCE_S

README = harness.REPOSITORY / "tests" / "golden" / "README.md"
MANIFESTS = sorted(corpus.path().rglob("manifest.json"))

# A small archive in place of the real one.
UNPACK = """
import sys
from pathlib import Path
from tests.support import corpus
print(corpus.unpacked(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_the_readme_counts_what_is_in_it() -> None:
    rows = re.findall(r"^\| `([a-z-]+)/` \| (\d+) \|", README.read_text(), re.MULTILINE)
    found = [path.relative_to(corpus.path()).parts[0] for path in MANIFESTS]
    assert {name: int(count) for name, count in rows} == {name: found.count(name) for name in found}


def test_the_archive_is_made_from_what_is_in_it() -> None:
    assert corpus.as_tar(corpus.path()) == lzma.decompress(corpus.ARCHIVE.read_bytes())


def test_log_files_of_je_are_those_of_the_manifests() -> None:
    checked = 0
    for manifest in MANIFESTS:
        environment = json.loads(manifest.read_text()).get("environment")
        if not manifest.is_relative_to(corpus.path() / "je"):
            continue
        home = manifest.parent / environment["directory"]
        found = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
        assert found == set(environment["files"]), manifest
        for name, said in environment["files"].items():
            data = (home / name).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (said["bytes"], said["sha256"]), manifest
            checked += 1
    assert checked > 250


def test_databases_of_derby_are_those_of_the_manifests() -> None:
    for manifest in sorted((corpus.path() / "derby").glob("*/manifest.json")):
        said = json.loads(manifest.read_text())
        with tarfile.open(manifest.parent / said["archive"]) as archive:
            found = {Path(member.name).name: member.size for member in archive if "/log/log" in member.name}
        expected = {one["file"]: one["length"] for one in said["log_files"]}
        assert {name: size for name, size in found.items() if name in expected} == expected


def test_recordings_are_those_of_the_manifests() -> None:
    for manifest in sorted((corpus.path() / "je-ha-wire").glob("*/manifest.json")):
        said = {one["file"] for one in json.loads(manifest.read_text())["connections"]}
        assert {path.name for path in manifest.parent.iterdir()} == said | {"manifest.json"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "a" / "b").mkdir(parents=True)
    for number in range(40):
        (source / "a" / "b" / f"{number}").write_bytes(bytes([number]) * 1000)
    corpus.pack(source, tmp_path / "small.tar.xz")
    return tmp_path / "small.tar.xz"


def test_many_processes_unpack_it_once(archive: Path, tmp_path: Path) -> None:
    target = tmp_path / "there"
    command = [sys.executable, "-c", UNPACK, str(target), str(archive)]
    with ExitStack() as stack:
        children = [stack.enter_context(child(command, stdout=subprocess.PIPE)) for _ in range(4)]
        assert {each.communicate()[0].decode().strip() for each in children} == {str(target)}
    assert corpus.digests(target) == corpus.sums_of(archive)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.tar.xz", "source", "there", "there.lock"]
    made = target.stat().st_ino
    assert corpus.unpacked(target, archive).stat().st_ino == made


@pytest.mark.parametrize("what", ["changed", "removed", "added", "linked", "sums"])
def test_a_spoiled_copy_is_replaced(archive: Path, tmp_path: Path, what: str) -> None:
    target = corpus.unpacked(tmp_path / "there", archive)
    before = corpus.snapshot(target)
    file = target / (corpus.SUMS if what == "sums" else "a/b/7")
    for path in (file.parent, file):
        path.chmod(0o755)
    if what in ("removed", "linked"):
        file.unlink()
    if what == "linked":
        file.symlink_to(target / "a/b/8")
    elif what == "added":
        file.with_name("je.lck").touch()
    elif what != "removed":
        file.write_bytes(b"x" + file.read_bytes()[1:])
    assert corpus.snapshot(target) != before
    assert corpus.unpacked(target, archive) == target
    assert corpus.snapshot(target) == before


def test_an_archive_that_is_not_what_it_says_is_never_used(archive: Path, tmp_path: Path) -> None:
    tar = lzma.decompress(archive.read_bytes())
    archive.write_bytes(lzma.compress(tar.replace(b"\x07" * 1000, b"\x08" * 1000)))
    with pytest.raises(AssertionError, match="does not hold"):
        corpus.unpacked(tmp_path / "there", archive)
    assert not (tmp_path / "there").exists()


def test_a_copy_may_be_changed(archive: Path, tmp_path: Path) -> None:
    found = corpus.copy(corpus.unpacked(tmp_path / "there", archive), tmp_path / "mine")
    modes = {path.stat().st_mode & 0o777 for path in (found, *found.rglob("*"))}
    assert modes == {0o755, 0o644}


SKIPPING = """
import pytest
from tests.support.tools import needs

def test_named():
    needs("fish")

def test_for_no_reason():
    pytest.skip("not today")

@pytest.mark.skipif(True, reason="needs luck: buy some")
def test_by_mark():
    pass

@pytest.mark.parametrize("nothing", [])
def test_of_nothing(nothing):
    pass
"""


def test_only_a_named_tool_may_be_missing(tmp_path: Path) -> None:
    """A run with skips of every kind, where none of the shells of completion is there."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_some.py").write_text(SKIPPING)
    (tmp_path / "modules").mkdir()
    for number in range(3):
        name = f"test_module_{number}.py"
        (tmp_path / "modules" / name).write_text("from tests.support.tools import needs\n\nneeds('zsh')\n")
    (tmp_path / "test_no_module.py").write_text("import pytest\n\npytest.importorskip('no_such_module')\n")

    def run(name: str, **extra: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", f"--rootdir={tmp_path}"]
        env = harness.environment(PATH=str(tmp_path), **extra)
        return subprocess.run(
            [*words, str(tmp_path / name)], env=env, capture_output=True, text=True, timeout=4 * PATIENCE_S
        )

    found = run("test_some.py")
    assert found.returncode == 1, found.stdout
    assert "1 failed, 1 skipped, 2 errors" in found.stdout
    assert "skipped: 1 needs fish" in found.stdout.splitlines()
    assert "skipped: 3 modules need zsh" in run("modules").stdout.splitlines()
    assert run("test_no_module.py").returncode != 0
    expected = run("test_some.py::test_named", JETOOL_EXPECT_TOOLS="zsh,fish")
    assert (expected.returncode, "fish is expected" in expected.stdout) == (1, True)
