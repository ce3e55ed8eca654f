"""``jetool vlsn map`` and ``gaps``: VLSNs from the log itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, NamedTuple

from engine.errors import plural
from engine.fields import FieldName, Int, Text, Vlsn, record
from engine.format.vlsn import NULL_VLSN
from engine.inspect.vlsn_map import FileVlsns, find_gaps, gaps_of_file, map_file
from engine.log.damage import is_harmless
from engine.log.files import LogFile, list_log_files
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.commands.vlsn.group import LOG_EXITS, vlsn
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.options import Run


@record("file")
class FileVlsnRange(NamedTuple):
    """The VLSNs of one log file; invisible entries do not count."""

    file: Annotated[Text, "the log file"]
    first_vlsn: Annotated[Vlsn, "VLSN of its first replicated entry"]
    last_vlsn: Annotated[Vlsn, "VLSN of its last one"]
    count_: Annotated[Int, "replicated entries", FieldName("count")]
    invisible: Annotated[Int, "entries that a rollback made invisible"]
    entries: Annotated[Int, "entries in all"]


@record("gap")
class VlsnGap(NamedTuple):
    """VLSNs without a visible entry in the log."""

    first_vlsn: Annotated[Vlsn, "first missing VLSN"]
    last_vlsn: Annotated[Vlsn, "last missing VLSN"]
    count_: Annotated[Int, "how many are missing", FieldName("count")]
    after_file: Annotated[Text, "the file with the VLSN before"]
    before_file: Annotated[Text, "the file with the VLSN after"]


@command(
    "map",
    parent=vlsn,
    outputs=lambda: Outputs("table", (FileVlsnRange,)),
    features=("fields", "progress", "jobs"),
    examples=(
        ("First and last VLSN of each file", "jetool vlsn map /data/env"),
        ("For a script", "jetool vlsn map /data/env --format ndjson"),
    ),
    exits={exits.DONE: "read", exits.FINDINGS: "read; damage was found, and VLSNs may be missing", **LOG_EXITS},
)
@environment
def vlsn_map(run: Run, env: str) -> int:
    """Print the first and last VLSN of each log file, from the log itself (DbPrintLog -vd).

    Only entry headers are read, so damage that breaks the chain of entries is found, but a wrong checksum is not. See
    jetool verify.
    """
    found, damaged = _read(run, env, map_file)
    files = [
        FileVlsnRange(
            file=one.path,
            first_vlsn=one.first,
            last_vlsn=one.last,
            count_=one.visible,
            invisible=one.invisible,
            entries=one.entries,
        )
        for one in found
    ]
    run.out.table(FileVlsnRange, files)
    return exits.FINDINGS if damaged else exits.DONE


@command(
    "gaps",
    parent=vlsn,
    outputs=lambda: Outputs("table", (VlsnGap,)),
    features=("fields", "progress", "jobs"),
    examples=(
        ("Is the replication stream whole", "jetool vlsn gaps /data/env"),
        ("For a script", "jetool vlsn gaps /data/env --json"),
    ),
    exits={exits.DONE: "no gap", exits.FINDINGS: "gaps exist, or damage was found", **LOG_EXITS},
)
@environment
def vlsn_gaps(run: Run, env: str) -> int:
    """Print the VLSNs between the first and the last in the log that have no visible entry."""
    found, damaged = _read(run, env, gaps_of_file)
    gaps = find_gaps(found)
    rows = [
        VlsnGap(
            first_vlsn=one.first,
            last_vlsn=one.last,
            count_=one.last - one.first + 1,
            after_file=one.after_path,
            before_file=one.before_path,
        )
        for one in gaps
    ]
    run.out.table(VlsnGap, rows)
    if not gaps and all(f.first == NULL_VLSN for f in found):
        run.messages.notice("the log holds no VLSN: the environment is not replicated")
    return exits.FINDINGS if gaps or damaged else exits.DONE


def _read(run: Run, env: str, read_file: Callable[[Storage, int, LogFile], FileVlsns]) -> tuple[list[FileVlsns], bool]:
    from engine.workers.parallel import map_small

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
            f"{plural(len(damaged), 'stretch', 'stretches')} of damage skipped",
            hint=f"jetool verify {env}",
            file=env,
        )
    return found, bool(damaged)
