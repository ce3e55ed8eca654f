"""``jetool vlsn map`` and ``gaps``: VLSNs from the log itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from engine.errors import plural
from engine.format.vlsn import NULL_VLSN
from engine.inspect.vlsn_map import FileVlsns, find_gaps, gaps_of_file, map_file
from engine.log.damage import is_harmless
from engine.log.files import LogFile, list_log_files
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.app import exits
from jetool.app.command import Outputs, command, environment
from jetool.app.options import Run
from jetool.commands.vlsn.group import LOG_EXITS, vlsn
from jetool.output.shape import Field, Shape

MAPPED: Final = Shape(
    "file",
    "The VLSNs of one log file; invisible entries do not count.",
    (
        Field("file", "text", "the log file"),
        Field("first_vlsn", "vlsn", "VLSN of its first replicated entry"),
        Field("last_vlsn", "vlsn", "VLSN of its last one"),
        Field("count", "int", "replicated entries"),
        Field("invisible", "int", "entries that a rollback made invisible"),
        Field("entries", "int", "entries in all"),
    ),
)
GAP: Final = Shape(
    "gap",
    "VLSNs that no visible entry of the log has.",
    (
        Field("first_vlsn", "vlsn", "first missing VLSN"),
        Field("last_vlsn", "vlsn", "last missing VLSN"),
        Field("count", "int", "how many are missing"),
        Field("after_file", "text", "the file with the VLSN before"),
        Field("before_file", "text", "the file with the VLSN after"),
    ),
)


@command(
    "map",
    parent=vlsn,
    outputs=lambda: Outputs("table", (MAPPED,)),
    features=("fields", "progress", "jobs"),
    examples=(
        ("First and last VLSN of each file", "jetool vlsn map /data/env"),
        ("For a script", "jetool vlsn map /data/env --format ndjson"),
    ),
    exits={exits.DONE: "read", exits.FINDINGS: "read; damage was met, and VLSNs may be missing", **LOG_EXITS},
)
@environment
def vlsn_map(run: Run, env: str) -> int:
    """Print the first and last VLSN of each log file, from the log itself (DbPrintLog -vd).

    Entry headers are followed and bodies are not read: damage that breaks the chain of entries is met, a wrong
    checksum is not. See jetool verify.
    """
    found, damaged = _read(run, env, map_file)
    rows = [(f.path, f.first, f.last, f.visible, f.invisible, f.entries) for f in found]
    run.out.table(MAPPED, [MAPPED.row(row) for row in rows])
    return exits.FINDINGS if damaged else exits.DONE


@command(
    "gaps",
    parent=vlsn,
    outputs=lambda: Outputs("table", (GAP,)),
    features=("fields", "progress", "jobs"),
    examples=(
        ("Is the replication stream whole", "jetool vlsn gaps /data/env"),
        ("For a script", "jetool vlsn gaps /data/env --json"),
    ),
    exits={exits.DONE: "no gap", exits.FINDINGS: "gaps exist, or damage was met", **LOG_EXITS},
)
@environment
def vlsn_gaps(run: Run, env: str) -> int:
    """Print the VLSNs between the first and the last of the log that no visible entry has."""
    found, damaged = _read(run, env, gaps_of_file)
    gaps = find_gaps(found)
    rows: list[Any] = [(g.first, g.last, g.last - g.first + 1, g.after_path, g.before_path) for g in gaps]
    run.out.table(GAP, [GAP.row(row) for row in rows])
    if not gaps and all(f.first == NULL_VLSN for f in found):
        run.messages.notice("the log holds no VLSN: the environment is not replicated")
    return exits.FINDINGS if gaps or damaged else exits.DONE


def _read(run: Run, env: str, read_file: Callable[[Storage, int, LogFile], FileVlsns]) -> tuple[list[FileVlsns], bool]:
    from engine.inspect.parallel import map_small

    storage = DiskStorage(env)
    files = list_log_files(storage)
    total, done = sum(file.size_bytes for file in files.files), 0
    found = []
    for result in map_small(partial(read_file, storage, files.end_file()), files.files, run.jobs):
        found.append(result)
        done += result.size_bytes
        run.listener.step("vlsn", done, total)
    damaged = [seen for result in found for seen in result.damages if not is_harmless(seen, files.end_file())]
    if damaged:
        run.messages.warning(
            f"{plural(len(damaged), 'stretch', 'stretches')} of damage stepped over",
            hint=f"jetool verify {env}",
            file=env,
        )
    return found, bool(damaged)
