"""Domains, replicas and log files of a changelog, by the names in its directories (opendj-changelog.md 1).

A changelog has a directory ``N.dom`` for each replicated base DN, which the file ``domains.state`` names, and in that a
directory ``ID.server`` for each replica. A replica has one log file that grows, ``head.log``, and full ones, which are
named after their oldest and newest CSN. The change number index, if there is one, has the same kinds of files, which
are named after change numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.contents.changelog_updates import Csn, parse_csn
from engine.errors import DamageError, FormatError, NotFoundError, StorageError
from engine.storage.base import Storage

DOMAINS_STATE: Final = "domains.state"
OFFLINE_STATE: Final = "offline.state"
INDEX: Final = "changenumberindex"
HEAD: Final = "head.log"
_DOMAIN: Final = ".dom"
_SERVER: Final = ".server"
_LOG: Final = ".log"
_GENERATION: Final = re.compile(r"generation(.*)\.id")
# The server begins a new file after 10 MiB, so that only a huge record makes one larger.
LARGEST_FILE: Final = 256 << 20
_LARGEST_STATE: Final = 1 << 20


class LogFileName(NamedTuple):
    """A log file of a replica or of the index.

    Attributes:
        path: below the root of the changelog.
        bytes: its length.
        keys: the oldest and the newest key, by the name; None for ``head.log``, or if the name has no two keys.
        is_head: whether it is ``head.log``.
    """

    path: str
    bytes: int
    keys: tuple[Any, Any] | None
    is_head: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectory:
    """The directory of a replica; ``server`` is None if its name has no server id."""

    path: str
    server: int | None
    files: Sequence[LogFileName]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDirectory:
    """A domain.

    Attributes:
        path: its directory.
        id: the number by which ``domains.state`` knows it.
        dn: the base DN; None if ``domains.state`` does not have the id.
        generations: generation ids, from the names of files; the server takes any one of several.
        replicas: by server id.
    """

    path: str
    id: str
    dn: str | None
    generations: Sequence[str]
    replicas: Sequence[ReplicaDirectory]


class DomainNames(NamedTuple):
    """The contents of ``domains.state``: base DNs by id, and the first line that is not one, or None."""

    dns: dict[str, str]
    bad_line: str | None


def is_changelog(storage: Storage) -> bool:
    """Whether a directory is a changelog: it has ``domains.state``, or domains that hold replicas."""
    names = storage.names()
    if DOMAINS_STATE in names:
        return True
    return any(
        name.endswith(_SERVER) for domain in _directories(storage, "", _DOMAIN) for name in storage.names(domain)
    )


def require_changelog(storage: Storage) -> None:
    """NotFoundError: the directory does not exist, or is no changelog."""
    found = storage.stat()
    if found is None or not found.is_directory:
        raise NotFoundError("no such directory", file=storage.root, hint="check the path of the changelog")
    if not is_changelog(storage):
        raise NotFoundError(
            "no changelog of OpenDJ",
            file=storage.root,
            expected=f"{DOMAINS_STATE}, and directories such as 1{_DOMAIN}/7{_SERVER}",
            hint="the server's configuration names the directory; by default it is changelogDb",
        )


def read_domain_names(storage: Storage) -> DomainNames:
    """The base DNs in ``domains.state``; none if it does not exist."""
    dns: dict[str, str] = {}
    if storage.stat(DOMAINS_STATE) is None:
        return DomainNames(dns, None)
    text = _small_file(storage, DOMAINS_STATE)
    for line in text.splitlines():
        number, colon, dn = line.partition(":")
        if not colon or not number or not dn:
            return DomainNames(dns, line)
        dns[number] = dn
    return DomainNames(dns, None)


def domain_directories(storage: Storage) -> list[DomainDirectory]:
    """The domains whose directories exist, by id."""
    dns = read_domain_names(storage).dns
    found = []
    for path in _directories(storage, "", _DOMAIN):
        number = path.removesuffix(_DOMAIN)
        generations = [match[1] for name in storage.names(path) if (match := _GENERATION.fullmatch(name))]
        replicas = [_replica(storage, place) for place in _directories(storage, path, _SERVER)]
        found.append(
            DomainDirectory(
                path=path,
                id=number,
                dn=dns.get(number),
                generations=sorted(generations),
                replicas=sorted(replicas, key=lambda one: (one.server is None, one.server or 0)),
            )
        )
    return sorted(found, key=lambda one: (len(one.id), one.id))


def index_files(storage: Storage) -> list[LogFileName]:
    """The log files of the change number index, oldest first; empty if there is no index."""
    found = storage.stat(INDEX)
    return log_files(storage, INDEX, _number) if found is not None and found.is_directory else []


def _replica(storage: Storage, path: str) -> ReplicaDirectory:
    text = path.rpartition("/")[2].removesuffix(_SERVER)
    server = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None
    return ReplicaDirectory(path=path, server=server, files=log_files(storage, path, parse_csn))


def _number(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise FormatError("change number", expected="decimal digits", found=repr(text[:20]))
    return int(text)


def log_files(storage: Storage, directory: str, key: Callable[[str], Any]) -> list[LogFileName]:
    """The log files of a directory: full ones by their keys, those with other names, then ``head.log``.

    Arguments:
        key: parses a key of a name; raises FormatError.
    """
    found = []
    for name in storage.names(directory):
        path = f"{directory}/{name}"
        stat = storage.stat(path)
        if not name.endswith(_LOG) or stat is None or stat.is_directory:
            continue
        is_head = name == HEAD
        keys = None if is_head else _keys(name.removesuffix(_LOG), key)
        found.append(LogFileName(path=path, bytes=stat.size_bytes, keys=keys, is_head=is_head))
    return sorted(found, key=lambda one: (one.is_head, one.keys is None, one.keys or (), one.path))


def _keys(text: str, key: Callable[[str], Any]) -> tuple[Any, Any] | None:
    oldest, _, newest = text.partition("_")
    try:
        return key(oldest), key(newest)
    except FormatError:
        return None


def read_log_file(storage: Storage, file: LogFileName) -> bytes:
    """The bytes of a log file.

    Raises:
        DamageError: it is larger than any that the server writes.
        StorageError: it cannot be read, or a running server has renamed or removed it.
    """
    try:
        opened = storage.open(file.path)
    except NotFoundError as error:
        raise StorageError(
            "the log file is gone: a running server has renamed or removed it",
            file=f"{storage.root}/{file.path}",
            consequence="the changelog was not read to the end",
            hint="run the command again",
        ) from error
    try:
        size = opened.size()
        if size > LARGEST_FILE:
            raise DamageError(
                "the log file is larger than any that the server writes",
                file=f"{storage.root}/{file.path}",
                expected=f"{LARGEST_FILE} bytes at most",
                found=str(size),
                consequence="the file was not read",
            )
        return opened.read(0, size)
    finally:
        opened.close()


def read_offline_state(storage: Storage, replica: ReplicaDirectory) -> Csn | None:
    """The CSN at which a replica went offline; None if it is online.

    Raises:
        FormatError: the file has something else than one CSN.
    """
    path = f"{replica.path}/{OFFLINE_STATE}"
    if storage.stat(path) is None:
        return None
    return parse_csn(_small_file(storage, path).removesuffix("\n").removesuffix("\r"))


def _small_file(storage: Storage, path: str) -> str:
    opened = storage.open(path)
    try:
        return opened.read(0, _LARGEST_STATE).decode("utf-8", "replace")
    finally:
        opened.close()


def _directories(storage: Storage, parent: str, ending: str) -> list[str]:
    paths = [f"{parent}/{name}" if parent else name for name in storage.names(parent) if name.endswith(ending)]
    return [path for path in paths if (found := storage.stat(path)) is not None and found.is_directory]
