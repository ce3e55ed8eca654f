"""The environments of a job, and the division of their log files among tasks.

Environments are named by paths, by globs (``/data/*/je``), or by an inventory: a text file with one environment on each
line; blank lines and ``#`` comments are skipped. A line is

* a path or a glob; a relative one starts at the directory of the inventory;
* or a JSON object: ``{"env": "/data/fe1", "name": "fe1", "group": "prod"}``. ``name`` is its name in reports, ``group``
  the replication group in which it is compared; both are optional.

One task should read 64 MB or more, since every task costs tens of milliseconds. A log file is the smallest unit, since
entries are found from its start. ``pack`` puts neighbouring files of an environment together until a task has enough.

Example with files of 10 MB and at least 64 MB a task: files 0 to 6 of ``/data/fe1``, then files 7 to 11 of it with 0
and 1 of ``/data/fe2``, and so on.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Final, NamedTuple, TypeVar

from engine.errors import JetoolError, NotFoundError, UsageError
from engine.log.files import LogFile, LogFiles, list_log_files
from engine.storage.disk import DiskStorage

LEAST_TASK_BYTES: Final = 64 << 20
# Least number of environments for which threads are used, and the number of threads.
_MANY: Final = 16
_AT_ONCE: Final = 16
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
_KEYS: Final = frozenset(("env", "name", "group"))
_MAGIC: Final = frozenset("*?[")


class Member(NamedTuple):
    """One environment of a fleet.

    Attributes:
        env: the directory of the environment.
        name: name of the environment in reports; by default the path.
        group: the replication group according to the inventory; "" if the inventory gives no group.
    """

    env: str
    name: str
    group: str = ""


class LogPart(NamedTuple):
    """Some consecutive files of one environment, read by one task.

    Attributes:
        env: directory of the environment.
        files: in ascending order.
        end_file: number of the file that the log ends in.
    """

    env: str
    files: tuple[LogFile, ...]
    end_file: int


class EnvironmentListing(NamedTuple):
    """An environment with its files, or why they cannot be listed."""

    member: Member
    files: LogFiles | None
    error: JetoolError | None


def expand(patterns: Iterable[str]) -> list[str]:
    """Absolute paths of the environments named by paths and globs, each once, in the given order.

    The paths are absolute because executors of a cluster have other working directories.

    Arguments:
        patterns: paths and globs; files that match a glob are skipped.

    Raises:
        NotFoundError: a glob matches no directory.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        # A directory may have brackets in its own name.
        if not _MAGIC & set(pattern) or Path(pattern).is_dir():
            found[str(Path(pattern).absolute())] = None
            continue
        matched = [path for path in sorted(glob.glob(pattern, recursive=True)) if Path(path).is_dir()]
        if not matched:
            raise NotFoundError("no directory matches", file=pattern, hint="check the pattern; quote it in a shell")
        found.update(dict.fromkeys(str(Path(path).absolute()) for path in matched))
    return list(found)


def expand_existing(patterns: Iterable[str]) -> list[str]:
    """Like ``expand``, but every path must be a directory.

    Raises:
        NotFoundError: a path is no directory, or a glob matches none.
    """
    found = expand(patterns)
    for path in found:
        if not Path(path).is_dir():
            raise NotFoundError("no such directory", file=path, hint="check the path of the environment")
    return found


def members(patterns: Sequence[str], inventory: str | None = None) -> list[Member]:
    """The environments of a fleet, each once.

    Arguments:
        patterns: paths and globs.
        inventory: path of an inventory file, or None.

    Raises:
        UsageError: no environment is named, or a line of the inventory names none.
        NotFoundError: the inventory does not exist, or a glob matches nothing.
    """
    named = [Member(path, path) for path in expand(patterns)]
    if inventory is not None:
        named += _read_inventory(Path(inventory))
    found: dict[str, Member] = {}
    for member in named:
        known = found.get(member.env)
        # A line of the inventory has more details than a path on the command line.
        if (
            known is None
            or (known.name == known.env and member.name != member.env)
            or (member.group and not known.group)
        ):
            found[member.env] = member
    if not found:
        raise UsageError("no environment is named", hint="give paths or globs, or --inventory FILE")
    return list(found.values())


def short_names(fleet: Iterable[Member]) -> dict[str, str]:
    """Short names of environments, by directory.

    The inventory's name; else the path without the leading and trailing directories that all paths share.
    """
    known = list(fleet)
    paths = [PurePath(member.env).parts for member in known if member.name == member.env]
    # The last part of a path is always kept, and a single path keeps all of its parts.
    least = min((len(parts) for parts in paths), default=1) - 1 if len(paths) > 1 else 0
    front = next((n for n in range(least) if len({parts[n] for parts in paths}) > 1), least)
    back = next((n for n in range(least - front) if len({parts[-1 - n] for parts in paths}) > 1), least - front)
    names = {}
    for member in known:
        parts = PurePath(member.env).parts
        short = str(PurePath(*parts[front : len(parts) - back])) if member.name == member.env else member.name
        names[member.env] = short
    return names


def list_members(fleet: Iterable[Member]) -> list[EnvironmentListing]:
    """The log files of each environment; if one cannot be listed, the others still are."""
    return each_at_once(_listed, list(fleet))


def _listed(member: Member) -> EnvironmentListing:
    try:
        return EnvironmentListing(member, list_log_files(DiskStorage(member.env)), None)
    except JetoolError as error:
        # An unreadable node is a row of the report; it does not stop the report.
        return EnvironmentListing(member, None, error)


def each_at_once(ask: Callable[[Asked], Answer], asked: Sequence[Asked]) -> list[Answer]:
    """Results of a function for many items, in order; it runs in threads, since the file system may be slow."""
    if len(asked) < _MANY:
        return [ask(one) for one in asked]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(ask, asked))


def parts_of(env: str, files: LogFiles, *, marker: bool = False) -> LogPart:
    """All files of an environment as one part, with the marker file if requested."""
    return LogPart(env, files.with_marker() if marker else files.files, files.end_file())


def pack(parts: Iterable[LogPart], least_bytes: int = LEAST_TASK_BYTES) -> list[list[LogPart]]:
    """Divide files among tasks of ``least_bytes`` or more; the last one may have less.

    Arguments:
        parts: the files of each environment; a part is divided where a task is full.
        least_bytes: least size of a task.
    """
    tasks: list[list[LogPart]] = []
    task: list[LogPart] = []
    size = 0
    for part in parts:
        begin = 0
        for index, file in enumerate(part.files):
            size += file.size_bytes
            # The size is summed across environments, so that small environments share a task.
            if size >= least_bytes:
                task.append(part._replace(files=part.files[begin : index + 1]))
                tasks.append(task)
                task, size, begin = [], 0, index + 1
        if begin < len(part.files):
            task.append(part._replace(files=part.files[begin:]))
    return [*tasks, task] if task else tasks


def _read_inventory(path: Path) -> Iterator[Member]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise NotFoundError("no such inventory", file=str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the inventory cannot be read: {error}", file=str(path)) from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("{"):
            yield from _object(path, number, text)
        elif text and not text.startswith("#"):
            yield from (Member(env, env) for env in expand([_absolute(path, text)]))


def _object(path: Path, number: int, text: str) -> Iterator[Member]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"line {number} of the inventory is no JSON: {error}", file=str(path)) from error
    unknown = sorted(set(found) - _KEYS)
    if unknown or not isinstance(found.get("env"), str) or not all(isinstance(value, str) for value in found.values()):
        raise UsageError(
            f"line {number} of the inventory is no environment",
            file=str(path),
            expected='{"env": "DIRECTORY", "name": "...", "group": "..."}',
            found=text,
        )
    for env in expand([_absolute(path, found["env"])]):
        yield Member(env, found.get("name", env), found.get("group", ""))


def _absolute(path: Path, env: str) -> str:
    # An absolute path replaces the parent.
    return str(path.parent / env)
