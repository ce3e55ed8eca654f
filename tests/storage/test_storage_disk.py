"""DiskStorage alone: locks between processes (R-LOG-28), read-only directories, errors of the system."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine.errors import NotFoundError, RefusedError, StorageError
from engine.log.check import check_file
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage

REPOSITORY = Path(__file__).resolve().parents[2]

_HOLD = """
import sys
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
lock = DiskStorage(sys.argv[1]).lock("je.lck", int(sys.argv[2]), exclusive=sys.argv[3] == "x")
print("held", flush=True)
sys.stdin.read()
"""

_TRY = """
import sys
from engine.errors import RefusedError
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
try:
    DiskStorage(sys.argv[1]).lock("je.lck", int(sys.argv[2]), exclusive=sys.argv[3] == "x")
    print("got it")
except RefusedError as error:
    print("refused:", error)
"""


def _python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *(str(argument) for argument in arguments)]


@contextmanager
def other_process_holding(directory: Path, byte: int, kind: str) -> Iterator[int]:
    """Another process holds a lock; yields its pid."""
    with subprocess.Popen(
        _python(_HOLD, directory, byte, kind), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate("")


def other_process_tries(directory: Path, byte: int, kind: str) -> str:
    done = subprocess.run(
        _python(_TRY, directory, byte, kind), cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    (tmp_path / "je.lck").touch()
    return tmp_path


@pytest.mark.parametrize("byte", [0, 1])
def test_another_process_is_refused_and_named(environment: Path, byte: int) -> None:
    storage = DiskStorage(environment)
    with other_process_holding(environment, byte, "x") as pid:
        assert storage.lock_holder("je.lck", byte) == pid
        assert storage.lock_holder("je.lck", 1 - byte) is None
        with pytest.raises(RefusedError, match=f"process {pid}"):
            storage.lock("je.lck", byte, exclusive=True)
        storage.lock("je.lck", 1 - byte, exclusive=True).release()
    assert storage.lock_holder("je.lck", byte) is None
    storage.lock("je.lck", byte, exclusive=True).release()


def test_shared_locks_of_two_processes(environment: Path) -> None:
    storage = DiskStorage(environment)
    with other_process_holding(environment, 1, "s") as pid:
        assert storage.lock_holder("je.lck", 1) == pid
        storage.lock("je.lck", 1, exclusive=False).release()
        with pytest.raises(RefusedError):
            storage.lock("je.lck", 1, exclusive=True)


def test_asking_for_the_holder_keeps_our_own_lock(environment: Path) -> None:
    # POSIX drops all locks of a process on a file when any descriptor of the file is closed.
    storage = DiskStorage(environment)
    lock = storage.lock("je.lck", 0, exclusive=True)
    assert storage.lock_holder("je.lck", 0) is None, "it is not another process that holds it"
    assert "refused" in other_process_tries(environment, 0, "x")
    lock.release()
    assert other_process_tries(environment, 0, "x") == "got it\n"


def test_releasing_one_byte_keeps_the_lock_on_the_other(environment: Path) -> None:
    storage = DiskStorage(environment)
    writer = storage.lock("je.lck", 0, exclusive=True)
    storage.lock("je.lck", 1, exclusive=True).release()
    storage.lock("je.lck", 1, exclusive=False).release()
    with pytest.raises(RefusedError):
        DiskStorage(environment).lock("je.lck", 0, exclusive=True)
    assert f"process {os.getpid()}" in other_process_tries(environment, 0, "x")
    assert other_process_tries(environment, 1, "x") == "got it\n"
    writer.release()
    assert other_process_tries(environment, 0, "x") == "got it\n"


def test_two_shared_locks_of_one_process(environment: Path) -> None:
    storage = DiskStorage(environment)
    first, second = storage.lock("je.lck", 1, exclusive=False), storage.lock("je.lck", 1, exclusive=False)
    first.release()
    assert "refused" in other_process_tries(environment, 1, "x")
    second.release()
    assert other_process_tries(environment, 1, "x") == "got it\n"


def test_locks_leave_no_descriptor_behind(environment: Path) -> None:
    storage = DiskStorage(environment)
    before = len(os.listdir("/proc/self/fd"))
    lock = storage.lock("je.lck", 0, exclusive=True)
    for _ in range(10):
        storage.lock("je.lck", 1, exclusive=False).release()
        storage.lock_holder("je.lck", 0)
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_readers_create_nothing_in_a_read_only_directory(golden_dir: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    environment.mkdir()
    name = "00000000.jdb"
    (environment / name).write_bytes((golden_dir / "je-17" / "empty" / name).read_bytes())
    (environment / name).chmod(0o400)
    environment.chmod(0o500)
    before = os.stat(environment), os.stat(environment / name)
    try:
        storage = DiskStorage(environment)
        files = list_log_files(storage)
        with FileReader(storage, files.files[0], is_last=True) as reader:
            check = check_file(reader)
        assert storage.lock_holder("je.lck", 0) is None
    finally:
        environment.chmod(0o700)
    assert check.entries == 44
    assert os.listdir(environment) == [name]
    after = os.stat(environment), os.stat(environment / name)
    assert [s.st_mtime_ns for s in after] == [s.st_mtime_ns for s in before]
    assert [s.st_ino for s in after] == [s.st_ino for s in before]


def test_an_unreadable_file_is_a_storage_error() -> None:
    # Not in ``tmp_path``, whose parents only their owner may enter; root, who may read everything, is nobody for once.
    with TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        path.write_bytes(b"1")
        path.chmod(0)
        Path(directory).chmod(0o755)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(StorageError, match="permission denied"):
                DiskStorage(directory).open("a")
        finally:
            os.seteuid(user)


def test_reading_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "00000000.jdb").mkdir()
    file = DiskStorage(tmp_path).open("00000000.jdb")
    with pytest.raises(StorageError, match="is a directory"):
        file.read(0, 10)
    file.close()


def test_a_file_where_a_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "data001").write_bytes(b"")
    storage = DiskStorage(tmp_path)
    with pytest.raises(StorageError):
        storage.make_directory("data001")
    with pytest.raises(NotFoundError):
        storage.names("data001/x")


def test_writing_to_a_full_device_is_a_storage_error() -> None:
    file = DiskStorage("/dev").open_rw("full")
    with pytest.raises(StorageError, match="no space left"):
        file.write(0, b"x")
    file.close()


def test_a_dropped_file_gives_its_descriptor_back(tmp_path: Path) -> None:
    """An error between open and close leaves nothing open."""
    (tmp_path / "00000000.jdb").write_bytes(b"x")
    storage = DiskStorage(str(tmp_path))
    for _ in range(3):
        storage.open("00000000.jdb").read(0, 1)
    opened = [os.path.realpath(handle) for handle in Path("/proc/self/fd").glob("*")]
    assert not [path for path in opened if path.startswith(str(tmp_path))]


def test_an_overlay_says_what_would_be_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a dry run finds room, or none, where the real run does."""
    for name in ("cut", "gone", "kept", "moved"):
        (tmp_path / name).write_bytes(bytes(1000))
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: 10_000)
    overlay = OverlayStorage(DiskStorage(tmp_path))
    assert overlay.free_bytes() == 10_000
    overlay.open_rw("new", create=True).write(0, bytes(3000))
    assert overlay.free_bytes() == 7_000
    overlay.remove("gone")
    overlay.rename("moved", "there")
    assert overlay.free_bytes() == 8_000
    overlay.open_rw("cut").truncate(400)
    assert overlay.free_bytes() == 8_600
    overlay.open_rw("new").write(0, bytes(20_000))
    assert overlay.free_bytes() == 0


def test_a_read_costs_no_more_than_the_file_has(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"abc")
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with closing(DiskStorage(tmp_path).open("short")) as file:
        resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), before[1]))
        try:
            assert file.read(1, 1 << 40) == b"bc"
            assert file.read(10, 1 << 40) == b""
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
