"""The last file of a log, case by case, when an environment is opened (T-54 to T-57, T-59, T-60, T-64)."""

from __future__ import annotations

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError, JetoolError, RefusedError
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.file_header import FileHeader, encode_file_header
from engine.format.entry.markers import RestoreRequired, encode_restore_required
from engine.format.entry_types import BY_NUMBER, COMMIT, FILE_HEADER
from engine.format.fast.header import sealed
from engine.format.lsn import file_of, offset_of
from engine.format.versions import WRITTEN_VERSION
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.storage.crash import CrashStorage
from engine.storage.memory import MemoryStorage
from engine.verify.log import verify_log
from tests.scenarios.test_log_ends import jdb, logged, worked
from tests.support.environments.workload import State, contents, open_env
from tests.support.logs.decoded import record_of
from tests.support.logs.entries import entries

HEADER = 38
READ_ONLY = EnvironmentConfig(read_only=True)
JE_DEFAULT = EnvironmentConfig(halt_on_commit_after_bad=False)


def header_of(name: str) -> bytes:
    """The header alone of a file, with an old pointer to the file before it."""
    record = FileHeader(0, int(name[:8], 16), HEADER, WRITTEN_VERSION)
    return sealed(FILE_HEADER, 0, 0, encode_file_header(record, WRITTEN_VERSION))


def base() -> tuple[dict[str, bytes], list[LogEntry], State]:
    """Files of a log, its entries, its contents."""
    storage, workload, found = worked()
    return jdb(storage), found, workload.committed


@pytest.mark.parametrize("tail", [b"", b"\x01", b"x" * (HEADER - 1), None])
def test_a_last_file_without_entries_is_passed_over(tail: bytes | None) -> None:
    """T-54, R-LOG-30: empty, shorter than a header, only a header: the file before holds the end of the log."""
    files, _, state = base()
    last = max(files)
    following = f"{int(last[:8], 16) + 1:08x}.jdb"
    files[following] = files[last][:HEADER] if tail is None else tail
    with Environment(MemoryStorage(files), READ_ONLY) as reader:
        assert contents(reader) == state
    image = MemoryStorage(files)
    with open_env(image) as env:
        assert contents(env) == state
        with env.open_database("plain") as db:
            db.put(b"after", b"x")
    with open_env(image, read_only=True) as reader:
        assert contents(reader)["plain"] == {**state["plain"], b"after": b"x"}


def test_a_bad_header_alone_is_set_aside() -> None:
    """T-54, R-LOG-30: renamed to .bad, .bad.1 when that is taken; a reader renames nothing."""
    files, _, state = base()
    last = max(files)
    following = f"{int(last[:8], 16) + 1:08x}"
    files[f"{following}.jdb"] = b"\xff" * HEADER
    files[f"{following}.bad"] = b"an earlier one"
    with Environment(MemoryStorage(files), READ_ONLY) as reader:
        assert contents(reader) == state
    image = MemoryStorage(files)
    with open_env(image) as env:
        assert contents(env) == state
    assert image.contents()[f"{following}.bad"] == b"an earlier one"
    assert image.contents()[f"{following}.bad.1"] == b"\xff" * HEADER


@pytest.mark.parametrize("following", [0, 1, 2])
def test_a_stub_is_gone_before_anything_is_logged(following: int) -> None:
    """R-LOG-16: JE would come back to it with its old pointer to the file before; so would a crash of ours."""
    files, _, state = base()
    last = max(files)
    stubs = [f"{int(last[:8], 16) + 1 + number:08x}.jdb" for number in range(following)]
    for stub in stubs:
        files[stub] = header_of(stub)
    # What a kill in the middle of a flip leaves.
    unfinished = f"{int(last[:8], 16) + 1:08x}.tmp"
    files[unfinished] = files[last][:HEADER]
    order: list[tuple[str, str]] = []
    storage = CrashStorage(files, listener=lambda kind, path: order.append((kind, path)))
    with open_env(storage, force_checkpoint=True, file_max_bytes=1 << 20) as env:
        assert contents(env) == state
    first_write = next(at for at, (kind, path) in enumerate(order) if kind == "write" and path.endswith(".jdb"))
    for name in (*stubs, unfinished):
        removed = order.index(("remove", name))
        assert ("sync_directory", "") in order[removed:first_write]
        assert name not in storage.contents()
    with open_env(storage, read_only=True) as reader:
        assert contents(reader) == state


def test_a_second_crash_finds_what_was_logged_where_a_stub_stood() -> None:
    """R-LOG-16: the next file's header names the entry that really is the last of the file before."""
    files, _, state = base()
    last = max(files)
    following = f"{int(last[:8], 16) + 1:08x}.jdb"
    files[following] = header_of(following)
    image = MemoryStorage(files)
    env = open_env(image)
    with env.open_database("plain") as db:
        txn = env.begin()
        for number in range(200):
            db.put(b"never %d" % number, b"committed", txn)
    env.sync()
    env.engine.crash()
    found = jdb(image)
    assert len(found) > len(files)
    verified = verify_log(image, list_log_files(image), levels=("log", "tail"))
    assert {finding.code for finding in verified.findings} <= {"JE-TAIL-001"}
    with open_env(image) as env:
        assert contents(env) == state


def committing() -> tuple[dict[str, bytes], list[LogEntry], list[State]]:
    """A log whose last file has commits, its entries, and the states after 0, 1, 2 ... transactions of that file."""
    storage = MemoryStorage()
    env = open_env(storage, file_max_bytes=4_000)
    db = env.create_database("plain")
    states = [contents(env)]
    number = 0
    while len(states) < 5:
        before = env.engine.end_lsn
        db.put(b"%04d" % number, b"v" * 30)
        number += 1
        states = [*states, contents(env)] if file_of(before) == file_of(env.engine.end_lsn) > 2 else [contents(env)]
        if file_of(before) != file_of(env.engine.end_lsn):
            # The transaction may have begun in the file before; its Commit did not.
            states = [contents(env)]
    found = list(entries(env))
    env.engine.crash()
    return jdb(storage), found, states


def lost_page(data: bytes, length: int) -> bytes:
    return bytes(min(length, len(data))) + data[length:]


@pytest.mark.parametrize("length", [HEADER, 512, 4096])
def test_a_last_file_whose_first_sectors_are_lost(length: int) -> None:
    """R-LOG-16, D-5, D-15: given up like a torn tail, under another name; refused when commits are seen in it."""
    files, found, _ = committing()
    last = max(files)
    damaged = {**files, last: lost_page(files[last], length)}
    before = {path: data for path, data in files.items() if path != last}
    with open_env(MemoryStorage(before)) as env:
        expected = contents(env)
    at_risk = sum(entry.type_number == COMMIT and entry.lsn >= (int(last[:8], 16) << 32) + length for entry in found)
    with Environment(MemoryStorage(damaged), READ_ONLY) as reader:
        assert contents(reader) == expected
        assert reader.engine.tail is not None
        assert reader.engine.tail.commits_at_risk == at_risk
        assert reader.engine.tail.given_up_bytes == len(files[last])
    assert (at_risk > 0) == (length < len(files[last]))
    image = MemoryStorage(damaged)
    if at_risk:
        with pytest.raises(RefusedError, match=f"{at_risk} committed"):
            Environment(image)
        assert jdb(image) == damaged
    env = Environment(image, JE_DEFAULT)
    assert contents(env) == expected
    env.engine.crash()
    assert image.contents()[f"{last[:8]}.bad"] == damaged[last]
    with Environment(image) as env:
        assert contents(env) == expected


@pytest.mark.parametrize("kept", [1, 10, 30])
def test_a_last_file_whose_first_entry_is_torn(kept: int) -> None:
    """R-LOG-16: JE cuts it down to a header alone, which is the stub that it must not leave."""
    files, _, _ = committing()
    last = max(files)
    damaged = {**files, last: files[last][: HEADER + kept]}
    with open_env(MemoryStorage({path: data for path, data in files.items() if path != last})) as env:
        expected = contents(env)
    image = MemoryStorage(damaged)
    env = open_env(image)
    assert contents(env) == expected
    env.engine.crash()
    assert all(len(data) > HEADER for data in jdb(image).values())
    assert image.contents()[f"{last[:8]}.bad"] == damaged[last]


def test_a_bad_header_that_was_whole_once_is_refused() -> None:
    """T-54, R-LOG-30: LOG_CHECKSUM, and nothing is changed; a later file, or no earlier one, makes it damage."""
    files, _, _ = base()
    last, only = max(files), {"00000000.jdb": files["00000000.jdb"]}
    following = f"{int(last[:8], 16) + 1:08x}.jdb"
    for damaged, name in (({**files, following: header_of(following)}, last), (only, "00000000.jdb")):
        damaged[name] = b"\xff" * HEADER + damaged[name][HEADER:]
        for config in (READ_ONLY, JE_DEFAULT):
            image = MemoryStorage(damaged)
            with pytest.raises(JetoolError, match=name):
                Environment(image, config)
            assert jdb(image) == damaged


@pytest.mark.parametrize("junk", [bytes(5000), b"\xff" * 99, bytes(range(256)) * 5])
def test_junk_behind_the_last_entry_is_cut(junk: bytes) -> None:
    """T-55, R-LOG-33: by a writer; a reader remembers the end and leaves the bytes."""
    files, _, state = base()
    last = max(files)
    damaged = {**files, last: files[last] + junk}
    image = MemoryStorage(damaged)
    with Environment(image, READ_ONLY) as reader:
        assert contents(reader) == state
    assert jdb(image) == damaged
    env = open_env(image)
    assert contents(env) == state
    env.engine.crash()
    assert jdb(image)[last][: len(files[last])] == files[last]
    assert junk not in jdb(image)[last]


def test_a_restore_marker_is_obeyed() -> None:
    """T-56, R-LOG-32, R-LOG-38: refused with the reason, for readers and writers, until it is removed."""
    files, _, state = base()
    number = next(n for n, entry_type in BY_NUMBER.items() if entry_type.name == "RestoreRequired")
    body = encode_restore_required(RestoreRequired("LOG_CHECKSUM", 0, ""), 17)
    marker = logged(body, 0, number)
    marked = {**files, "7fffffff.jdb": files["00000000.jdb"][:HEADER] + marker}
    for config in (READ_ONLY, JE_DEFAULT):
        image = MemoryStorage(marked)
        with pytest.raises(RefusedError, match="7fffffff"):
            Environment(image, config)
        assert jdb(image) == marked
    with open_env(MemoryStorage(files)) as env:
        assert contents(env) == state


def flipped(files: dict[str, bytes], lsn: int, at: int) -> dict[str, bytes]:
    """The files with a byte of an entry changed."""
    path, offset = f"{file_of(lsn):08x}.jdb", offset_of(lsn) + at
    data = files[path]
    return {**files, path: data[:offset] + bytes((data[offset] ^ 0x55,)) + data[offset + 1 :]}


def long_last_file() -> tuple[dict[str, bytes], list[LogEntry]]:
    """One file with a dozen commits, and its entries."""
    storage = MemoryStorage()
    env = open_env(storage, file_max_bytes=1 << 20)
    db = env.create_database("plain")
    for number in range(12):
        db.put(b"%04d" % number, b"v" * 30)
    found = list(entries(env))
    env.engine.crash()
    return jdb(storage), found


def test_torn_tail_or_lost_commits() -> None:
    """T-57, R-LOG-35, D-5: no good Commit after it: cut; otherwise refused, with their number.

    A second bad entry hides the Commits after it from JE, not from us.
    """
    files, found = long_last_file()
    commits = [entry.lsn for entry in found if entry.type_number == COMMIT]
    leaves = [entry.lsn for entry in found if entry.type_name == "INS_LN_TX"]
    cases = [
        (flipped(files, commits[-1], 20), 0),
        (flipped(files, leaves[-1], 30), 1),
        (flipped(files, leaves[-5], 30), 5),
        (flipped(flipped(files, leaves[-5], 30), commits[-3], 20), 4),
    ]
    for damaged, at_risk in cases:
        image = MemoryStorage(damaged)
        with Environment(image, READ_ONLY) as reader:
            assert reader.engine.tail is not None
            assert reader.engine.tail.commits_at_risk == at_risk
        if at_risk:
            with pytest.raises(RefusedError, match=f"{at_risk} committed"):
                Environment(image)
            assert jdb(image) == damaged
        with Environment(image, JE_DEFAULT) as env:
            kept = 11 if at_risk == 0 else 11 if damaged is cases[1][0] else 7
            assert len(contents(env)["plain"]) == kept


@pytest.mark.parametrize("length", [HEADER, 500])
def test_an_older_file_that_is_cut(length: int) -> None:
    """T-59, R-LOG-37: in the middle with later files present: refused, naming the file; nothing is changed."""
    files, found, _ = base()
    last_end = [entry.lsn for entry in found if entry.type_name == "CkptEnd"][-1]
    first_active = record_of(next(entry for entry in found if entry.lsn == last_end), CkptEnd).first_active_lsn
    if file_of(first_active) == int(max(files)[:8], 16):
        pytest.fail("the workload must leave recovery more than one file")
    victim = f"{file_of(first_active):08x}.jdb"
    damaged = {**files, victim: files[victim][: max(length, offset_of(first_active) + 5)]}
    image = MemoryStorage(damaged)
    with pytest.raises(DamageError, match=victim):
        Environment(image, JE_DEFAULT)
    assert jdb(image) == damaged


def test_every_flip_of_an_entry_is_seen_when_it_is_read() -> None:
    """T-60, R-LOG-40, R-LOG-41: each byte of a record's entry but the flag byte's invisible bit."""
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=0))
    db = env.create_database("db")
    db.put(b"k", b"v" * 40)
    env.checkpoint(force=True)
    victim = next(entry for entry in entries(env) if entry.type_name == "INS_LN_TX")
    path, start = f"{file_of(victim.lsn):08x}.jdb", offset_of(victim.lsn)
    file = storage.open_rw(path)
    whole = file.read(start, victim.total_bytes)
    for at in range(victim.total_bytes):
        file.write(start + at, bytes((whole[at] ^ 0x40,)))
        env.engine.evict()
        with pytest.raises(DamageError, match="0x0/"):
            db.get(b"k")
        file.write(start + at, whole[at : at + 1])
    assert db.get(b"k") == b"v" * 40
    env.engine.crash()


def test_an_invisible_entry_is_passed_by_recovery_and_refused_to_readers() -> None:
    """T-64, R-LOG-41, R-LOG-42: the bit leaves the checksum alone; redo skips it, a reference to it is an error."""
    files, found = long_last_file()
    last = [entry for entry in found if entry.type_name == "INS_LN_TX"][-1]
    path, at = f"{file_of(last.lsn):08x}.jdb", offset_of(last.lsn) + 5
    hidden = {**files, path: files[path][:at] + bytes((files[path][at] | 0x10,)) + files[path][at + 1 :]}
    with Environment(MemoryStorage(hidden), READ_ONLY) as reader:
        assert set(contents(reader)["plain"]) == {b"%04d" % number for number in range(11)}
        with pytest.raises(DamageError, match="rolled back"):
            reader.engine.access.read(last.lsn)
        assert reader.engine.access.read(last.lsn, allow_invisible=True).checksum_ok
