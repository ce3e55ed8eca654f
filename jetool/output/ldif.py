"""LDIF: the entries of an LDAP backend in a text format that directory servers can load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from engine.contents.opendj import LdapEntry, ldif
from engine.db.environment import Environment
from engine.fields import Row
from engine.inspect.ldap_backend import BackendEntry, backend_entries, base_dns

HEAD: Final = b"version: 1\n\n"


class LdifCounts(NamedTuple):
    """Numbers of entries that were written, and that were left out: encrypted, undecodable, or without a DN."""

    written: int
    left_out: int


class LdifEncoder:
    """Implements ``Encoder``; rows have only the field ``ldif``."""

    between = b""

    def head(self) -> bytes:
        """The version of LDIF."""
        return HEAD

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """The entries one after the other."""
        return "".join([row[0][2] for _, row in rows]).encode("utf-8")

    def foot(self, summary: Row) -> bytes:
        """A comment with the numbers of written and of missing entries."""
        return _foot({name: value for name, _, value in summary})


def ldif_of(one: BackendEntry) -> str:
    """An entry as LDIF, or a comment with the reason why it is left out."""
    if not isinstance(one.entry, LdapEntry):
        return f"# entry {one.id} {'cannot be decoded' if one.entry is None else 'is encrypted'}\n\n"
    return f"# entry {one.id} has no DN\n\n" if one.dn is None else ldif(one.dn, one.entry)


def is_whole(one: BackendEntry) -> bool:
    """Whether an entry can be written."""
    return isinstance(one.entry, LdapEntry) and one.dn is not None


def write_ldif(env: Environment, path: Path) -> LdifCounts:
    """Write all entries of a backend to a new file.

    Raises:
        NotFoundError: the environment is not an LDAP backend.
    """
    written = left_out = 0
    bases = base_dns(env)
    with path.open("xb") as file:
        file.write(HEAD)
        for base in bases:
            for one in backend_entries(env, base):
                whole = is_whole(one)
                written, left_out = written + whole, left_out + (not whole)
                file.write(ldif_of(one).encode("utf-8"))
        file.write(_foot({"entries": written, "left_out": left_out}))
    return LdifCounts(written, left_out)


def _foot(counts: dict[str, int]) -> bytes:
    return ("# " + ", ".join(f"{name} {value}" for name, value in counts.items()) + "\n").encode("ascii")
