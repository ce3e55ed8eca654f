"""Output of every reading command on every environment of this repository, as files to compare two revisions.

Nothing that a command prints has changed when ``diff`` finds nothing::

    python tests/scenarios/outputs.py /tmp/before      # in a work tree of one revision, with this file copied there
    python tests/scenarios/outputs.py /tmp/after       # in a work tree of the other
    diff -r /tmp/before /tmp/after

``ENVIRONMENT/COMMAND.FORMAT`` holds standard output and the exit code. Standard error, if there is any, is beside it in
``ENVIRONMENT/COMMAND.FORMAT.messages``: ``diff -r -x '*.messages'`` leaves prose out. The program imports ``jetool``
from the work tree in which it stands, and nothing from ``tests``, since helpers differ between revisions.

The environments are those of ``tests/golden`` and of its archive, up to 400,000 bytes each, and those in the
directories that ``--more`` names. They are unpacked into a scratch directory; commands get relative paths. The clock
stands still, files have one modification time, and a new group gets a fixed id. Values that still change from run to
run (``VARYING``) and the path of the scratch directory are replaced by words. Names of databases, keys, LSNs and VLSNs
that a command needs come from the environment. Commands that write run with ``--dry-run``.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = REPOSITORY / "tests" / "golden"
FORMATS: Final = ("json", "ndjson", "csv")
MOST_BYTES: Final = 400_000
# After every record and every expiration of the corpus was written: 2027-01-01T00:00:00Z.
NOW_S: Final = 1_798_761_600
# Everything else of tests/golden is a copy of an environment in the archive.
ONLY_GOLDEN: Final = ("je-17/indexed", "je-26/blind", "je-26/times")

# Command lines by command, with words that an environment provides in braces. An environment that lacks one skips the
# line.
LINES: Final[dict[str, tuple[str, ...]]] = {
    "info": ("{env}", "{env} --quick", "{env} --stats"),
    "doctor": ("{env}",),
    "dbs": ("{env}", "{env} --count --internal"),
    "get": ("{env} {key} --db {db} --key-format hex",),
    "scan": ("{env} --db {db}", "{env} --db {db} --reverse --limit 3 --key-format hex --data-format hex"),
    "dump": ("{env} --db {db}",),
    "dump-log": (
        "{env}",
        "{env} --stats",
        "{env} --reverse --limit 20 --nodes slots --data",
        "{env} --explain --tail 20",
    ),
    "txns": ("{env}",),
    "history": ("{env} {key} --db {db} --key-format hex",),
    "rollbacks": ("{env}", "{env} --txns --keys"),
    "vlsn find": ("{env} {vlsn}",),
    "vlsn range": ("{env}",),
    "vlsn buckets": ("{env} --offsets",),
    "vlsn map": ("{env}",),
    "vlsn gaps": ("{env}",),
    "vlsn check": ("{env}",),
    "vlsn rebuild": ("{env} -n --force",),
    "space": ("{env}", "{env} --why"),
    "cache-size": ("{env} --db {db}",),
    "missing": ("{env}",),
    "journal check": ("{env}",),
    "journal compare": ("{env} {other}",),
    "journal list": ("{env}",),
    "journal plan-skip": ("{env} 3",),
    "journal show": ("{env}",),
    "journal stats": ("{env}",),
    "journal truncate": ("{env} -n --after 30",),
    "ldap export": ("{env}",),
    "ldap check": ("{env}",),
    "ldap changelog": ("{env}",),
    "ldap changes": ("{env}",),
    "group show": ("{env}",),
    "watch": ("{env} --count 1",),
    "group reset": ("{env} -n --group G --node n1 --address localhost:5001",),
    "verify": ("{env}", "{env} --full", "{env} --quick --strict"),
    "diff": ("{env} {other}", "{env} {other} --records"),
    "create": ("{made}/created -n --db new",),
    "load": ("{env} {dump} -n --db loaded --create",),
    "put": ("{env} 00 01 -n --db {db} --key-format hex --data-format hex",),
    "db remove": ("{env} {db} -n",),
    "db rename": ("{env} {db} other-name -n",),
    "db truncate": ("{env} {db} -n",),
    "delete": ("{env} {key} -n --db {db} --key-format hex",),
    "checkpoint": ("{env} -n",),
    "clean": ("{env} -n",),
    "crash": ("{env} -n",),
    "recover": (
        "{env} -n",
        "{env} -n --je-default",
        "{env} -n --accept-loss",
        "{env} --explain -n",
        "{env} -n --estimate",
    ),
    "salvage": ("{env} -n --to {made}/salvaged",),
    "truncate": ("{env} -n --to commits:-1", "{env} -n --to lsn:{lsn}", "{env} -n --to vlsn:{vlsn}"),
    "backup take": ("{env} {made}/backup",),
    "backup list": ("{made}/backup",),
    "backup verify": ("{made}/backup --sums",),
    "backup prune": ("{made}/backup -n --keep 1l",),
    "restore": ("{made}/backup {made}/restored -n",),
    "undo": ("{env} -n",),
    "explain": ("{message} --env {env}",),
}
# Commands on Spark, which take seconds each. They run once, with ``--spark``.
SPARK_LINES: Final = {
    "fleet report": "{group} {single}",
    "fleet compare": "{group}",
    "fleet verify": "{group} {single}",
    "fleet salvage": "{single} --to {made}/salvaged",
    "export": "je/je-18.3.20/ha-rollback/node1/env --db journal --to {made}/exported --as json --partitions 1",
}
FLEET: Final = {
    "group": " ".join(f"je/je-18.3.20/ha-rollback/node{number}/env" for number in (1, 2, 3)),
    "single": "je/je-18.3.20/txn-crash/env je/je-18.3.20/corrupt-middle/env je/je-18.3.20/ttl/env",
}
# Commands that need a running node, and those that read no environment. ``main`` asks ``schema`` about every command.
ELSEWHERE: Final = frozenset(
    {
        *("node run", "node get", "node put", "node delete", "node transfer-master", "stream"),
        *("group remove", "group delete", "group update-address"),
        *("completion", "help", "schema"),
    }
)
# Fields that change from run to run, and the word that replaces them.
VARYING: Final = frozenset(
    {"duration", "duration_ms", "expected_ms", "sample_ms", "cache_bytes", "disk_free", "disk_left"}
)
WORD: Final = "VARIES"


class Given(NamedTuple):
    """An environment and what command lines take from it, by the names in ``LINES``."""

    name: str
    words: dict[str, str]


class Printed(NamedTuple):
    """What one command line printed, and its exit code."""

    code: int
    out: str
    messages: str


def unpack(scratch: Path, more: list[Path]) -> dict[str, str]:
    """Make all environments below ``scratch``; their paths by name, both relative."""
    with tarfile.open(GOLDEN / "environments.tar.xz") as archive:
        _extract(archive, scratch)
    for name in ONLY_GOLDEN:
        shutil.copytree(GOLDEN / name, scratch / "golden" / name)
    for number, directory in enumerate(more, 1):
        shutil.copytree(directory, scratch / f"more-{number}")
    for packed in sorted((scratch / "derby").glob("*/db.tar*")):
        with tarfile.open(packed) as archive:
            _extract(archive, packed.parent)
    for path in scratch.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (NOW_S - 86_400, NOW_S - 86_400))
    logs = (path.parent.relative_to(scratch) for path in sorted(scratch.rglob("*.jdb")))
    places = {log.parent if re.fullmatch(r"data\d+", log.name) else log for log in logs}
    places |= {path.parent.relative_to(scratch) for path in scratch.rglob("service.properties")}
    small = (place.as_posix() for place in sorted(places) if _log_bytes(scratch / place) <= MOST_BYTES)
    return {re.sub(r"/env$|(?<=^derby/)([^/]+)/.*", r"\1", place): place for place in small}


def _extract(archive: tarfile.TarFile, target: Path) -> None:
    # The first releases of Python 3.11 have no filters; the archives are the project's own.
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(target)


def _log_bytes(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*.jdb"))


def printed(words: list[str]) -> Printed:
    """Run a command line in this process."""
    from jetool.frame import cli

    kept = sys.stdin, sys.stdout, sys.stderr
    made = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in kept]
    sys.stdin, sys.stdout, sys.stderr = made
    try:
        code = cli.run(words)
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
    return Printed(code, _taken(made[1]), _taken(made[2]))


def _taken(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="backslashreplace")


def given(name: str, place: str, places: dict[str, str], made: Path) -> Given:
    """What command lines need, taken from the environment itself."""
    words = {"env": place, "made": str(made)}
    near = [other for other in places.values() if other != place and _group_of(other) == _group_of(place)]
    if near:
        words["other"] = near[0]
    databases = [str(row["name"]) for row in _rows("dbs", place) if not row.get("internal")]
    for database in databases[:1]:
        words["db"] = database
    for database in databases:
        rows = _rows("scan", place, "--db", database, "--limit", "1", "--key-format", "hex")
        if rows:
            words |= {"db": database, "key": str(rows[0]["key"])}
            break
    if "key" in words:
        words["dump"] = str(made / "records.dump")
        (made / "records.dump").write_text(printed(["dump", place, "--db", words["db"], "--format", "text"]).out)
    entries = [row for row in _rows("dump-log", place) if row.get("lsn") is not None]
    if entries:
        words["lsn"] = str(entries[len(entries) // 2]["lsn"])
    vlsns = sorted(row["vlsn"] for row in entries if row.get("vlsn") is not None)
    if vlsns:
        words["vlsn"] = str(vlsns[len(vlsns) // 2])
    if message := _message(Path(place).parent / "expected" / "strict-open.json"):
        words["message"] = str(made / "message.txt")
        (made / "message.txt").write_text(message)
    return Given(name, words)


def _group_of(place: str) -> str:
    """Nodes of a group lie side by side: ``ha-group/node1/env``."""
    return re.sub(r"/(?:node\d+/env|fe\d+)$", "", place)


def _rows(*words: str) -> list[dict[str, Any]]:
    found = printed([*words, "--format", "json"])
    return list(json.loads(found.out)["records"]) if found.out else []


def _message(path: Path) -> str | None:
    """What JE said when it refused to open an environment."""
    text = path.read_text() if path.is_file() else ""
    found = re.search(r'"((?:[^"\\]|\\.)*Exception(?:[^"\\]|\\.)*)"', text)
    return str(json.loads(f'"{found[1]}"')) + "\n" if found else None


def lines(about: Given, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The command lines for an environment, each with the name of its files."""
    for name in names:
        for number, line in enumerate(LINES[name]):
            needed = re.findall(r"{(\w+)}", line)
            if all(word in about.words for word in needed):
                words = [word.format_map(about.words) for word in line.split()]
                yield f"{name.replace(' ', '-')}{number or ''}", [*name.split(), *words]


def write(path: Path, result: Printed, scratch: Path) -> None:
    """Write what a command line printed, without what changes from run to run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    out = _without_columns(result.out) if path.suffix == ".csv" else result.out
    path.write_text(_settled(out, scratch) + f"exit {result.code}\n")
    if result.messages:
        path.with_name(f"{path.name}.messages").write_text(_settled(result.messages, scratch))


def _settled(text: str, scratch: Path) -> str:
    # In a cell of CSV a quotation mark is doubled.
    found = re.sub(rf'("+)({"|".join(VARYING)})\1: ?\d+', rf"\1\2\1:{WORD}", text)
    return found.replace(str(scratch), "SCRATCH")


def _without_columns(text: str) -> str:
    """CSV with a word in columns that change from run to run; the same bytes where there is no such column."""
    rows = list(csv.reader(io.StringIO(text)))
    columns = [at for at, name in enumerate(rows[0] if rows else ()) if name in VARYING]
    if not columns:
        return text
    for row in rows[1:]:
        for at in columns:
            row[at] = WORD if row[at] else ""
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerows(rows)
    return made.getvalue()


def _names() -> list[str]:
    from jetool.frame import cli

    names = [name for name, _ in cli.commands()]
    forgotten = set(names) - LINES.keys() - SPARK_LINES.keys() - ELSEWHERE
    assert not forgotten, f"in none of LINES, SPARK_LINES and ELSEWHERE: {', '.join(sorted(forgotten))}"
    return names


def main() -> None:
    """Write the files, and print where the time went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("to", type=Path, help="directory for the files; it must not exist")
    parser.add_argument("--more", type=Path, action="append", default=[], help="directory with further environments")
    parser.add_argument("--only", default="", help="environments whose names match this regular expression")
    parser.add_argument("--spark", action="store_true", help="also run the commands on Spark, on a few environments")
    options = parser.parse_args()
    to = options.to.resolve()
    to.mkdir(parents=True)
    more = [directory.resolve() for directory in options.more]
    time.time = lambda: float(NOW_S)
    time.time_ns = lambda: NOW_S * 1_000_000_000
    uuid.uuid4 = lambda: uuid.UUID(int=4)
    os.environ["TZ"] = "UTC"
    sys.path.insert(0, str(REPOSITORY))
    csv.field_size_limit(sys.maxsize)
    names, spent = _names(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="jetool-outputs-") as made:
        scratch = Path(made).resolve()
        places = unpack(scratch, more)
        os.chdir(scratch)
        for name in names:
            write(to / "schemas" / f"{name.replace(' ', '-')}.json", printed(["schema", *name.split()]), scratch)
        for name, place in places.items():
            if not re.search(options.only, name):
                continue
            own = scratch / "made"
            own.mkdir()
            about = given(name, place, places, own)
            for file, words in lines(about, [one for one in names if one in LINES]):
                began = time.perf_counter()
                for form in FORMATS:
                    write(to / name / f"{file}.{form}", printed([*words, "--format", form]), scratch)
                spent[file] += round((time.perf_counter() - began) * 1000)
            shutil.rmtree(own)
        for name, line in SPARK_LINES.items() if options.spark else ():
            for form in FORMATS:
                words = line.format_map(FLEET | {"made": f"made-{form}"}).split()
                result = printed([*name.split(), *words, "--format", form])
                write(to / "spark" / f"{name.replace(' ', '-')}.{form}", result, scratch)
                shutil.rmtree(f"made-{form}", ignore_errors=True)
    print(*(f"{ms / 1000:8.1f} s  {file}" for file, ms in spent.most_common()), sep="\n")


if __name__ == "__main__":
    main()
