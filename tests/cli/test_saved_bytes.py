"""What stands around a repair: who may read saved bytes, what a hostile journal may say, who has written since."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment as Engine
from engine.storage import journal
from engine.storage.disk import DiskStorage
from jetool.frame import cli, exits, table
from jetool.frame.groups import CommandGroup
from tests.cli.derby_databases import FIVE, extract
from tests.support.damage.killing import run_killed
from tests.support.environments.copies import copy_of, expected_dumps, state_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, environment, run
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

CORRUPT: Final = "je-18.3.20/corrupt-middle"
TORN: Final = "je-18.3.20/torn-garbage-tail"
LOSS: Final = ("--accept-loss",)
# Whom environments belong to here: somebody else, where the tests may give files away.
OWNER: Final = (4321, 1234) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def contents(env: Path) -> dict[str, bytes]:
    """Every file but lock files."""
    return {str(path.relative_to(env)): path.read_bytes() for path in env.rglob("*")
            if path.is_file() and path.suffix != ".lck"}  # fmt: skip


def interrupted(tmp_path: Path, at: int = 30) -> tuple[Path, dict[str, bytes]]:
    """An environment whose recovery was killed between two of its changes, and what was in it before."""
    env = copy_of(named(CORRUPT), tmp_path / "env")
    before = contents(env)
    assert run_killed(at, "recover", env, *LOSS)
    assert journal.pending_in(DiskStorage(env)) is not None
    assert contents(env) != before
    return env, before


def test_readers_say_that_a_repair_was_interrupted_and_change_nothing(tmp_path: Path) -> None:
    env, _ = interrupted(tmp_path)
    left = state_of(env)
    for words in (("info",), ("dump-log",), ("dbs",), ("verify",)):
        result = run(*words, env)
        assert "repair (recover) was interrupted" in result.err, words
        assert f"jetool undo {env}" in result.err
    assert run("info", env, "--json").json()["interrupted_repair"] == "recover"
    for level in ("--quick", "--log", "--full", "--tree"):
        result = run("verify", env, level, "--json")
        assert result.code == 1
        assert result.json()["findings"][0]["code"] == "JE-REPAIR-001"
    assert_valid("verify", run("verify", env, "--json").out)
    assert state_of(env) == left


def test_an_interrupted_repair_of_a_derby_database_is_a_finding(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    before = contents(database)
    assert run_killed(40, "recover", database)
    assert journal.pending_in(DiskStorage(database)) is not None
    assert run("info", database, "--json").json()["interrupted_repair"] == "recover"
    result = run("verify", database, "--json")
    assert (result.code, result.json()["findings"][0]["code"]) == (1, "DRB-REPAIR-001")
    assert f"jetool undo {database}" in result.err
    assert run("undo", database).code == 0
    assert contents(database) == before


def test_a_preview_is_that_of_the_real_run(tmp_path: Path) -> None:
    env, _ = interrupted(tmp_path)
    left = contents(env)
    plan = run("recover", env, *LOSS, "-n", "--json")
    assert contents(env) == left
    done = run("recover", env, *LOSS, "--json")
    assert (plan.code, done.code) == (6, 6)
    assert plan.json()["commits_lost"] == done.json()["commits_lost"] == 3
    assert "an interrupted repair (recover) was taken back" in done.err


def test_a_writer_takes_back_what_was_interrupted_and_sees_its_own_refusals(tmp_path: Path) -> None:
    env, before = interrupted(tmp_path)
    name = sorted(expected_dumps(named(CORRUPT)))[0]
    result = run("put", env, "k", "v", "--db", name)
    assert result.code == exits.REFUSED
    assert "committed transactions stand after a bad entry" in result.err
    assert contents(env) == before


def test_what_others_wrote_since_is_never_taken_back(tmp_path: Path) -> None:
    """Wherever the repair was killed: JE may open what is left and acknowledge commits."""
    name = sorted(expected_dumps(named(CORRUPT)))[0]
    checked = 0
    for at in range(16, 48, 3):
        env = copy_of(named(CORRUPT), tmp_path / str(at) / "env")
        run_killed(at, "recover", env, *LOSS)
        if journal.pending_in(DiskStorage(env)) is None:
            continue
        checked += 1
        config = EnvironmentConfig(halt_on_commit_after_bad=False)
        with Engine(str(env), config) as opened, opened.open_database(name) as db:
            db.put(b"acknowledged", b"yes")
        left = contents(env)
        for words in (("undo", env), ("recover", env, *LOSS), ("put", env, "k", "v", "--db", name)):
            result = run(*words)
            assert result.code == exits.REFUSED, (at, words)
            assert "files were changed since" in result.err
            assert contents(env) == left
        (env / journal.MARKER).unlink()
        assert run("get", env, "acknowledged", "--db", name).code == 0
        assert run("put", env, "k", "v", "--db", name).code == 0
    assert checked > 4


def test_undo_by_force_gives_up_what_was_written_since(tmp_path: Path) -> None:
    env, before = interrupted(tmp_path)
    with (env / "00000005.jdb").open("ab") as file:
        file.write(b"something else")
    assert run("undo", env).code == exits.REFUSED
    assert run("undo", env, "--force").code == 0
    assert contents(env) == before


def test_without_the_saved_bytes_nothing_is_done(tmp_path: Path) -> None:
    env, before = interrupted(tmp_path)
    saved = tmp_path / "env.jetool-backup"
    saved.rename(tmp_path / "elsewhere")
    left = contents(env)
    for words in (("undo", env), ("recover", env, *LOSS), ("recover", env, *LOSS, "-n")):
        result = run(*words)
        assert result.code == exits.REFUSED
        assert "its saved bytes are not there" in result.err
        assert contents(env) == left
    (tmp_path / "elsewhere").rename(saved)
    assert run("undo", env).code == 0
    assert contents(env) == before


def test_a_moved_environment_is_taken_back_by_name(tmp_path: Path) -> None:
    env, before = interrupted(tmp_path)
    moved = env.rename(tmp_path / "moved")
    (saved,) = (tmp_path / "env.jetool-backup").iterdir()
    assert run("checkpoint", moved).code == exits.REFUSED
    assert run("undo", moved, "--backup-dir", saved).code == 0
    assert contents(moved) == before


def test_a_failed_repair_takes_itself_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = copy_of(named(CORRUPT), tmp_path / "env")
    before = contents(env)
    write, left = os.pwrite, [5]

    def failing(handle: int, data: bytes, offset: int) -> int:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(".jdb") and left[0] > 0:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        return write(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", failing)
    result = run("recover", env, *LOSS)
    assert result.code == exits.INCOMPLETE
    assert "an interrupted repair (recover) was taken back" in result.err or "not finished" in result.err
    left[0] = 0
    assert run("undo", env).code in (0, 3, 4)
    assert contents(env) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_repair_names_the_saved_bytes_and_the_next_command(number: int, code: int, tmp_path: Path) -> None:
    """The process is stopped when the marker is there, by a listener in its own code."""
    env = copy_of(named(CORRUPT), tmp_path / "env")
    before = contents(env)
    program = (
        "import os, sys\n"
        "from engine.storage import saved_bytes as saved\n"
        "mark = saved.mark\n"
        f"saved.mark = lambda *words: (mark(*words), os.kill(os.getpid(), {int(number)}))\n"
        "from jetool.__main__ import main\n"
        f"sys.argv = ['jetool', 'recover', {str(env)!r}, '--accept-loss']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_S, env=environment())
    assert done.returncode == code
    assert b"the repair (recover) is not finished" in done.stderr
    assert str(tmp_path / "env.jetool-backup").encode() in done.stderr
    assert f"jetool undo {env}".encode() in done.stderr
    run("undo", env)
    assert contents(env) == before


@pytest.mark.parametrize(("mode", "file_mode"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644), (0o755, 0o600)])
def test_saved_bytes_have_the_permissions_of_the_environment(mode: int, file_mode: int, tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    env.chmod(mode)
    for path in env.iterdir():
        path.chmod(file_mode)
        os.chown(path, *OWNER)
    os.chown(env, *OWNER)
    umask = os.umask(0o022)
    try:
        assert run("recover", env).code == 0
    finally:
        os.umask(umask)
    (saved,) = (tmp_path / "env.jetool-backup").iterdir()
    for path in (saved.parent, saved, *saved.iterdir()):
        found = path.stat()
        assert stat.S_IMODE(found.st_mode) == (mode if path.is_dir() else file_mode), path
        assert (found.st_uid, found.st_gid) == OWNER
    assert run("undo", env).code == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in env.glob("*.jdb")} == {file_mode}


def test_a_file_that_undo_makes_again_is_like_the_others(tmp_path: Path) -> None:
    env = copy_of(named(CORRUPT), tmp_path / "env")
    env.chmod(0o700)
    for path in (env, *env.iterdir()):
        os.chown(path, *OWNER)
        path.chmod(0o700 if path == env else 0o600)
    words = ("--in-place", "--yes", "--mode", "missing-file", "--at", "entry:9")
    assert run("crash", env, *words).code == 0
    assert run("undo", env).code == 0
    assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in env.glob("*.jdb")} == {
        (OWNER[0], 0o600)
    }


def test_rejects_have_the_permissions_of_the_environment(tmp_path: Path) -> None:
    needs("Spark")
    env = tmp_path / "env"
    assert run("create", env, "--db", "t").code == 0
    env.chmod(0o700)
    source = tmp_path / "rows.csv"
    source.write_text("id,name\n1,a\nx\n2,b\n")
    result = run("load", env, source, "--db", "t", "--key", "id", "--engine", "local", "--json")
    assert result.code == 1, result.err
    file = Path(result.json()["rejects"])
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def hostile(path: str, *, kind: int = journal.BYTES, offset: int = 0, length: int = 4) -> bytes:
    return journal.encode_entry(journal.JournalEntry(kind, path, offset, length, b"evil"))


@pytest.mark.parametrize(
    "entry",
    [
        hostile("../victim"), hostile("{root}/victim"), hostile("a/../../victim"), hostile("./x"), hostile("a//b"),
        hostile("a/b/c"), hostile("x\ny"), hostile("00000000.jdb", length=1 << 50), hostile("00000000.jdb", length=-1),
        hostile("00000000.jdb", offset=-1), hostile("00000000.jdb", kind=9), hostile("x" * 1000 + "/../../victim"),
    ],
)  # fmt: skip
def test_a_hostile_journal_is_refused(entry: bytes, tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    assert run("recover", env, "--backup-dir", tmp_path / "saved").code == 0
    before = state_of(env)
    file = tmp_path / "saved" / journal.JOURNAL
    file.write_bytes(entry.replace(b"{root}", str(tmp_path).encode()) + file.read_bytes())
    if b"{root}" in entry:
        place = journal.JournalEntry(journal.BYTES, f"{tmp_path}/victim", 0, 4, b"evil")
        file.write_bytes(journal.encode_entry(place))
    result = run("undo", env, "--backup-dir", tmp_path / "saved")
    assert result.code == exits.INCOMPLETE
    assert "no repair writes" in result.err
    assert state_of(env) == before
    assert victim.read_text() == "untouched"


@pytest.mark.parametrize("name", [journal.JOURNAL, journal.MANIFEST, f"{journal.MANIFEST}.new"])
def test_links_in_a_backup_directory_are_not_followed(name: str, tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("recover", env, "--backup-dir", tmp_path / "saved").code == 0
    victim = tmp_path / "victim"
    link = tmp_path / "saved" / name
    victim.write_bytes(link.read_bytes() if link.exists() else b"untouched")
    before = victim.read_bytes()
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    result = run("undo", env, "--backup-dir", tmp_path / "saved")
    assert result.code == exits.INCOMPLETE
    assert "symbolic link" in result.err
    assert victim.read_bytes() == before


def test_links_in_an_environment_are_not_followed(tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("recover", env).code == 0
    last = env / "00000005.jdb"
    outside = last.rename(tmp_path / "outside")
    last.symlink_to(outside)
    before = outside.read_bytes()
    assert run("undo", env).code == exits.INCOMPLETE
    assert outside.read_bytes() == before


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"state": 7}', "[" * 100_000, '{"state": "done", "files": {"../x": 1}}']
)
def test_a_damaged_manifest_changes_nothing(content: str, tmp_path: Path) -> None:
    env = copy_of(named(TORN), tmp_path / "env")
    assert run("recover", env, "--backup-dir", tmp_path / "saved").code == 0
    before = contents(env)
    (tmp_path / "saved" / journal.MANIFEST).write_text(content)
    assert run("undo", env, "--backup-dir", tmp_path / "saved").code in (exits.REFUSED, exits.INCOMPLETE)
    assert contents(env) == before


# Every command that writes, with words that would change the environment or database.
WRITERS: Final[dict[str, tuple[str, ...]]] = {
    "put": ("k", "v", "--db", "accounts"),
    "delete": ("k", "--db", "accounts"),
    "checkpoint": (),
    "recover": (),
    "undo": (),
    "crash": ("--in-place", "--yes"),
    "create": ("--db", "x"),
    "load": ("{dump}", "--db", "accounts"),
    "clean": (),
    "truncate": ("--to", "commits:-1", "--yes"),
    "journal truncate": ("--after", "1", "--yes"),
    "vlsn rebuild": ("--force",),
    "group reset": ("--group", "NEW", "--node", "alone", "--address", "here:5099", "--yes"),
    "db remove": ("accounts",),
    "db rename": ("accounts", "others"),
    "db truncate": ("accounts",),
    "node run": ("--node", "n1", "--listen", "127.0.0.1:1", "--master"),
}
REMOTE: Final = ("node put", "node delete")
# Their environment is made, or is the second word: tests of their own.
ELSEWHERE: Final = ("restore",)


def test_every_command_that_writes_is_here() -> None:
    found = []
    for row in table.COMMANDS:
        command = cli.load(row)
        several = {f"{row.name} {name}": one for name, one in command.commands.items()} if isinstance(
            command, CommandGroup) else {row.name: command}  # fmt: skip
        found += [name for name, one in several.items() if getattr(one, "writes", False)]
    assert set(found) == {*WRITERS, *REMOTE, *ELSEWHERE}


WRONG: Final = {
    "fields": (("--fields", "no_such_field"), 2),
    "format": (("--format", "yaml"), 2),
    "key format": (("--key-format", "rot13"), 2),
    "zone": (("--tz", "Mars/Olympus"), 2),
    "output": (("--output", "{tmp}/nowhere/file"), 7),
    "backup": (("--backup-dir", "{tmp}/file/below"), 7),
}


TYPED: Final = [
    (name, kind, wrong)
    for name in WRITERS
    for kind in ("je", "derby")
    for wrong in WRONG
    if (kind == "je" or (" " not in name and name not in ("clean", "truncate")))
    and (name, wrong) != ("node run", "backup")
]


@pytest.mark.parametrize(("name", "kind", "wrong"), TYPED)
def test_what_was_typed_is_checked_before_the_first_byte(name: str, kind: str, wrong: str, tmp_path: Path) -> None:
    env = _to_write(name, kind, tmp_path)
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "dump").write_text("VERSION=3\nformat=print\ntype=btree\ndupsort=0\nHEADER=END\n k\n v\nDATA=END\n")
    options, code = WRONG[wrong]
    words = [word.format(tmp=tmp_path, dump=tmp_path / "dump")
             for word in (*WRITERS[name], *options)]  # fmt: skip
    before = _everything(tmp_path)
    first, *rest = words if name == "load" else ["", *words]
    result = run(*name.split(), env, *([first] if first else []), *rest)
    assert result.code == code, result.err
    assert _everything(tmp_path) == before


def _to_write(name: str, kind: str, tmp_path: Path) -> Path:
    if name == "create":
        return tmp_path / "new"
    if kind == "derby":
        env = extract(FIVE, tmp_path)
    elif name in ("vlsn rebuild", "group reset"):
        return copy_of(named("je-18.3.20/ha-group/node1"), tmp_path / "env")
    else:
        env = copy_of(named(TORN), tmp_path / "env")
    if name == "undo":
        assert run("recover", env).code == 0
    return env


def _everything(tmp_path: Path) -> dict[str, Any]:
    return {name: value for name, value in state_of(tmp_path).items() if name != "."}


def test_fields_of_the_other_kind_are_wrong_fields(tmp_path: Path) -> None:
    database = extract(FIVE, tmp_path)
    for field in ("ckpt_start_lsn", "records"):
        before = _everything(tmp_path)
        assert run("recover", database, "--fields", field).code == 2
        assert _everything(tmp_path) == before
    env = copy_of(named(TORN), tmp_path / "env")
    before = _everything(tmp_path)
    assert run("recover", env, "--fields", "was_clean").code == 2
    assert _everything(tmp_path) == before


def test_a_command_that_works_while_a_repair_is_at_work_waits_for_it(tmp_path: Path) -> None:
    """A marker under a lock is no interrupted repair."""
    env, _ = interrupted(tmp_path)
    lock = DiskStorage(env).lock("je.lck", 0, exclusive=True)
    try:
        code = "import sys; sys.argv[0] = 'jetool'; from jetool.__main__ import main; main()"
        words = [sys.executable, "-c", code, "verify", str(env), "--json"]
        found = json.loads(subprocess.run(words, capture_output=True, timeout=PATIENCE_S, env=environment()).stdout)
        assert "JE-REPAIR-001" not in [one["code"] for one in found["findings"]]
        words = [sys.executable, "-c", code, "checkpoint", str(env)]
        started = time.monotonic()
        assert subprocess.run(words, capture_output=True, timeout=PATIENCE_S, env=environment()).returncode == 3
        assert time.monotonic() - started < 30
    finally:
        lock.release()


def test_a_file_system_without_permissions_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CIFS and FAT refuse chmod: saved bytes must not be readable by more users than the log is."""
    env = copy_of(named("je-18.3.20/corrupt-middle"), tmp_path / "env")
    before = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    allowed = os.chmod

    def refuse(path: Any, mode: int, **named: Any) -> None:
        if "saved" in str(path) and not os.path.isdir(path):
            raise PermissionError(1, "Operation not permitted")
        allowed(path, mode, **named)

    monkeypatch.setattr(os, "chmod", refuse)
    result = run("recover", env, "--accept-loss", "--backup-dir", tmp_path / "saved")
    assert (result.code, "cannot get the owner and the permissions" in result.err) == (exits.INCOMPLETE, True)
    assert {path.name: path.read_bytes() for path in env.glob("*.jdb")} == before
    assert [path for path in (tmp_path / "saved").rglob("*") if path.is_file()] == []
