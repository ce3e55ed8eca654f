"""The package as a zip: executors run the build of the driver where they can, and the pure code everywhere else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import engine
from engine.native import is_native
from engine.pipeline.archive.archive_entry import PLATFORM, is_pure_wanted, native_directory, platform_tag
from engine.pipeline.archive.package_archive import package_zip
from tests.support import harness, native_core
from tests.support.modules import ROOT
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

CORE = f"engine/native/core{sysconfig.get_config_var('EXT_SUFFIX')}"
UNPACKED, ARCHIVED = "engine.native/package/engine/__init__.py", "engine.zip/package/engine/__init__.py"

WORKER = """
import sys
sys.path.insert(1, sys.argv[1])
import engine
import engine.format.lsn
from engine.native import is_native
print(engine.__file__, is_native(), engine.format.lsn.file_of(0x700000009))
"""

# Both executors run one task each. A worker of Spark sees the files of its executor.
APPLICATION = """
import json, sys
from engine.native import is_native
from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings

def build(_):
    import os, time
    import engine
    from engine.native import is_native
    time.sleep(1)
    yield os.path.realpath(engine.__file__), is_native()

conf = (
    ("spark.driver.memory", "512m"), ("spark.executor.memory", "600m"), ("spark.cores.max", "2"),
    ("spark.scheduler.minRegisteredResourcesRatio", "1"),
    ("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
    *(tuple(word.split("=")) for word in sys.argv[2:]),
)
with open_session(SparkSettings(sys.argv[1], conf, quick=True)) as session:
    found = session.run(session.context.parallelize([0, 1], 2).mapPartitions(build).collect, "look")
print(json.dumps([is_native(), found]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with one compiled module, ``engine.native.core``."""
    needs("C compiler")
    found = tmp_path_factory.mktemp("native") / "engine"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "doc")
    shutil.copytree(ROOT / "engine", found, ignore=ignored)
    shutil.copy(native_core.compiled(Path(tempfile.gettempdir())), found.parent / CORE)
    return found


@pytest.fixture
def archive(root: Path, tmp_path: Path) -> Path:
    """The zip of that package, alone in a directory."""
    (tmp_path / "files").mkdir()
    return package_zip(tmp_path / "files", root, {})


def worker(archive: Path, **environ: str) -> subprocess.Popen[str]:
    """A process that imports the archive, as a worker of Spark does."""
    # Executors of Spark name their files by relative paths.
    words = [sys.executable, "-S", "-c", WORKER, f"./{archive.name}"]
    clean = {"PATH": "/usr/bin:/bin", "TMPDIR": str(archive.parent), **environ}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=clean, cwd=archive.parent)


def outcome(process: subprocess.Popen[str]) -> tuple[str, bool]:
    """Where a worker has found the package, and whether it runs compiled modules."""
    out, _ = process.communicate(timeout=4 * PATIENCE_S)
    assert process.returncode == 0
    place, native, number = out.split()
    assert number == "7"
    return "/".join(Path(place).parts[-4:]), native == "True"


def rewritten(archive: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Change members of an archive, or leave them out."""
    with zipfile.ZipFile(archive) as source:
        members = {name: change(name, source.read(name)) for name in source.namelist()}
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in members.items():
            if content is not None:
                target.writestr(name, content)


def test_executors_of_the_same_platform_run_the_compiled_modules(archive: Path) -> None:
    # Two begin at once, and a third finds what they have left.
    first, second = worker(archive), worker(archive)
    assert [outcome(first), outcome(second), outcome(worker(archive))] == [(UNPACKED, True)] * 3
    assert sorted(path.name for path in archive.parent.iterdir()) == ["engine.native", "engine.zip"]


@pytest.mark.parametrize("word", ["1", "yes"])
def test_the_variable_asks_for_the_pure_build(archive: Path, root: Path, tmp_path: Path, word: str) -> None:
    assert outcome(worker(archive, JETOOL_PURE=word)) == (ARCHIVED, False)
    assert [path.name for path in archive.parent.iterdir()] == ["engine.zip"]
    (tmp_path / "pure").mkdir()
    pure = package_zip(tmp_path / "pure", root, {"JETOOL_PURE": word})
    assert not [name for name in zipfile.ZipFile(pure).namelist() if name.endswith(".so") or name == PLATFORM]
    assert outcome(worker(pure)) == (ARCHIVED, False)
    assert not is_pure_wanted({"JETOOL_PURE": "no"})


@pytest.mark.parametrize(("part", "other"), [(0, "pypy"), (1, "3.11.0"), (2, ".abi3.so"), (3, "aarch64"), (-1, "2.17")])
def test_another_platform_runs_the_sources(archive: Path, part: int, other: str) -> None:
    """Python, its version, the names of its modules, the machine, the libc."""
    words = platform_tag().split()
    words[part] = other
    assert words != platform_tag().split()
    rewritten(archive, lambda name, content: " ".join(words).encode() if name == PLATFORM else content)
    assert outcome(worker(archive)) == (ARCHIVED, False)
    assert [path.name for path in archive.parent.iterdir()] == ["engine.zip"]


def test_modules_that_cannot_be_imported(archive: Path) -> None:
    rewritten(archive, lambda name, content: b"\x7fELF" if name.endswith(CORE) else content)
    assert outcome(worker(archive)) == (ARCHIVED, False)
    # The next worker does not try again.
    before = (archive.parent / "engine.native").stat().st_mtime_ns
    assert outcome(worker(archive)) == (ARCHIVED, False)
    assert (archive.parent / "engine.native").stat().st_mtime_ns == before
    assert native_directory(archive, {}) is None


def test_modules_that_kill_their_process(archive: Path, tmp_path: Path) -> None:
    code, made = tmp_path / "core.c", tmp_path / "core.so"
    code.write_text("#include <stdlib.h>\nvoid *PyInit_core(void) { abort(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, code], check=True)
    rewritten(archive, lambda name, content: made.read_bytes() if name.endswith(CORE) else content)
    assert outcome(worker(archive)) == (ARCHIVED, False)


def test_a_part_of_the_package_is_missing(archive: Path) -> None:
    """A shared object without its modules, or modules without Python files, is no build."""
    rewritten(archive, lambda name, content: None if name.endswith(CORE) else content)
    assert outcome(worker(archive)) == (ARCHIVED, False)


def test_compiled_modules_that_are_damaged(archive: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        about = source.getinfo(f"package/{CORE}")
    content = bytearray(archive.read_bytes())
    middle = about.header_offset + about.compress_size // 2
    content[middle : middle + 64] = bytes(64)
    archive.write_bytes(content)
    assert outcome(worker(archive)) == (ARCHIVED, False)
    assert [path.name for path in archive.parent.iterdir()] == ["engine.zip"]


def test_a_place_that_is_taken(archive: Path) -> None:
    (archive.parent / "engine.native").write_text("a file\n")
    assert outcome(worker(archive)) == (ARCHIVED, False)
    assert sorted(path.name for path in archive.parent.iterdir()) == ["engine.native", "engine.zip"]
    # An archive that is no longer there is no error either.
    assert native_directory(archive.parent / "none.zip", {}) is None


def builds(cluster: str, *settings: str, **environ: str) -> list[tuple[str, bool]]:
    """Of both executors: where the package is, and whether it is the native build."""
    own = harness.environment(PYTHONPATH=str(Path(engine.__path__[0]).parent), **environ)
    words = [sys.executable, "-c", APPLICATION, cluster, *settings]
    done = subprocess.run(words, capture_output=True, text=True, timeout=8 * PATIENCE_S, env=own, cwd="/")
    assert done.returncode == 0, done.stderr
    driver_is_native, found = json.loads(done.stdout)
    assert driver_is_native == is_native()
    # Each executor has a directory of its own.
    assert len({place for place, _ in found}) == 2
    return [("/".join(Path(place).parts[-4:]), native) for place, native in found]


def test_a_cluster_runs_the_build_of_the_driver(cluster: str) -> None:
    """Native in the native build, pure in the pure one."""
    assert builds(cluster) == [(UNPACKED, True) if is_native() else (ARCHIVED, False)] * 2


def test_a_cluster_runs_the_pure_build_where_it_is_asked_for(cluster: str) -> None:
    needs("native build")
    assert builds(cluster, "spark.executorEnv.JETOOL_PURE=1") == [(ARCHIVED, False)] * 2
    assert builds(cluster, JETOOL_PURE="1") == [(ARCHIVED, False)] * 2
