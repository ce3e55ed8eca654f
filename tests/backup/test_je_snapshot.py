"""Snapshots that JE 25.3.17 archived: whole as CheckSnapshot says, and every change of a byte is found."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from engine.backup.je_snapshot import check_snapshot, decode_snapshot, snapshots_in
from engine.errors import FormatError, UnsupportedError
from engine.storage.disk import DiskStorage
from tests.support.harness import run

ARCHIVE = Path(__file__).parents[1] / "golden" / "je-archive"
FIRST, SECOND = "26112900", "26112901"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    shutil.copytree(ARCHIVE, tmp_path / "node")
    return tmp_path / "node"


def problems(archive: Path, name: str) -> tuple[str, ...]:
    return check_snapshot(DiskStorage(archive), name).problems


def test_what_je_has_archived() -> None:
    """The second snapshot has one file of its own, and one that the first one has copied."""
    storage = DiskStorage(ARCHIVE)
    assert snapshots_in(storage) == [FIRST, SECOND]
    found = check_snapshot(storage, SECOND)
    assert (found.problems, found.bad_files, found.size_bytes) == ((), 0, 1715 + 4456)
    assert found.manifest is not None
    assert [(file.name, file.snapshot) for file in found.manifest.files] == [
        ("00000000.jdb", FIRST), ("00000001.jdb", SECOND)
    ]  # fmt: skip


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_changed_file_is_found_by_all_snapshots_that_have_it(archive: Path, name: str) -> None:
    path = archive / FIRST / "00000000.jdb"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    (problem,) = problems(archive, name)
    assert problem.startswith(f"00000000.jdb: {FIRST}/00000000.jdb has another checksum")
    path.unlink()
    assert problems(archive, name) == (f"00000000.jdb: {FIRST}/00000000.jdb is missing",)


def test_any_changed_value_of_a_manifest_is_found() -> None:
    """Its checksum covers all values; what is no value, such as a blank, does not count."""
    data = (ARCHIVE / SECOND / "manifest.json").read_bytes()
    right = decode_snapshot(data)
    draw = random.Random(1)
    for _ in range(500):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            assert decode_snapshot(bytes(changed)) == right
        except (FormatError, UnsupportedError):
            continue


@pytest.mark.parametrize("name", ["../../etc/passwd", "/00000000.jdb", "8000000.jdb"])
def test_no_name_leads_out_of_the_archive(name: str) -> None:
    value = json.loads((ARCHIVE / FIRST / "manifest.json").read_bytes())
    value["snapshotFiles"][name] = value["snapshotFiles"].pop("00000000.jdb")
    with pytest.raises(FormatError, match="a name in a manifest"):
        decode_snapshot(json.dumps(value).encode())


def test_a_later_version_is_not_guessed_at() -> None:
    value = json.loads((ARCHIVE / FIRST / "manifest.json").read_bytes()) | {"version": 3}
    with pytest.raises(UnsupportedError, match="version of a manifest"):
        decode_snapshot(json.dumps(value).encode())


def test_a_snapshot_that_is_not_complete(archive: Path) -> None:
    path = archive / FIRST / "manifest.json"
    value = json.loads(path.read_bytes()) | {"isComplete": False, "checksum": "0"}
    value["snapshotFiles"]["00000000.jdb"]["isCopied"] = False
    path.write_text(json.dumps(value))
    assert problems(archive, FIRST) == ("00000000.jdb: it has not been copied", "the snapshot is not complete")


def test_the_command(archive: Path) -> None:
    result = run("backup", "verify", archive, "--json")
    assert result.code == 0, result.err
    assert [(one["id"], one["ok"], one["files"], one["bytes"]) for one in result.json()["records"]] == [
        (FIRST, True, 1, 1715), (SECOND, True, 2, 6171)
    ]  # fmt: skip
    (archive / SECOND / "00000001.jdb").write_bytes(b"")
    result = run("backup", "verify", archive, "--json")
    assert (result.code, [one["ok"] for one in result.json()["records"]]) == (1, [True, False])
    assert run("backup", "verify", archive, FIRST).code == 0
    assert run("backup", "verify", archive, "latest").code == 1
    assert run("backup", "verify", archive, "27").code == 4
