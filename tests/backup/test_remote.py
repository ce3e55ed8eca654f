"""Directories of backups at URLs: a local one, one in memory, and an S3 server that the test starts."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetool.frame import exits
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.harness import run
from tests.support.tools import needs

ENV = named("je-18.3.20/torn-base").path / "env"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of an S3 server on this machine."""
    needs("S3 server")
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("bucket")
    yield "s3://bucket/backups"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(params=["file", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    needs("fsspec")
    if request.param == "s3":
        return str(request.getfixturevalue("s3"))
    return f"file://{tmp_path}/backups" if request.param == "file" else f"memory://{uuid.uuid4().hex}/backups"


def logs(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


def test_the_whole_round(url: str, tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/torn-base"), tmp_path / "env")
    for path in env.glob("*.jdb"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first = run("backup", env, url, "--json")
    assert first.code == exits.DONE, first.err
    assert run("put", env, "key", "value", "--db", "accounts").code == exits.DONE
    second = run("backup", env, url, "--json")
    assert second.json()["copied_files"] < second.json()["files"]
    listed = run("backup", "list", url, "--json").json()["records"]
    assert [row["id"] for row in listed] == [first.json()["id"], second.json()["id"]]
    assert run("backup", "verify", url).code == exits.DONE
    assert run("restore", url, tmp_path / "a", "--backup", first.json()["id"]).code == exits.DONE
    assert run("restore", url, tmp_path / "b").code == exits.DONE
    assert run("verify", tmp_path / "b", "--full").code == exits.DONE
    assert run("get", tmp_path / "b", "key", "--db", "accounts").code == exits.DONE
    assert run("get", tmp_path / "a", "key", "--db", "accounts").code == exits.NOT_FOUND
    shutil.rmtree(tmp_path / "a")
    point = run("txns", ENV, "--fate", "committed", "--json").json()["records"][-1]["txn"]
    cut = run("restore", url, tmp_path / "a", "--backup", first.json()["id"], "--to-txn", str(point))
    assert cut.code == exits.DONE, cut.err
    pruned = run("backup", "prune", url, "--keep", "1l", "--json").json()
    # Files of the last day stay: where there are no locks, another run may be storing them.
    assert (pruned["removed"], pruned["files"]) == (1, 0)
    assert run("backup", "verify", url).code == exits.DONE
    assert logs(tmp_path / "b").keys() >= logs(ENV).keys()


def test_what_cannot_be_reached(tmp_path: Path) -> None:
    needs("fsspec")
    assert run("backup", "list", f"file://{tmp_path}/none").code == exits.NOT_FOUND
    assert run("backup", "list", "nosuchkind://bucket/x").code == exits.USAGE
    (tmp_path / "file").write_text("in the way")
    assert run("backup", ENV, f"file://{tmp_path}/file/d").code in (exits.NOT_FOUND, exits.INCOMPLETE)
    assert (tmp_path / "file").read_text() == "in the way"


def test_without_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    done = run("backup", ENV, "s3://bucket/backups")
    assert done.code == exits.UNSUPPORTED
    assert "jetool[remote]" in done.err
