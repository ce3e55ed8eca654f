"""Names in an LDAP backend: databases, DNs in keys of ``dn2id``, and DNs stored in entries (embedders.md 1).

A key of ``dn2id`` has the RDNs from the suffix down, normalized by the schema of the server: 00 precedes each RDN, 01
separates the parts of an RDN, and 02 escapes any of the three in a value. An entry stores the DN as the client wrote
it. Without the schema, the two forms are compared by the parts that normalization does not change: letters and digits
of the values, ignoring case. Attribute names are not compared, because an attribute may have several names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import unquote

from engine.errors import FormatError

ID2ENTRY: Final = "id2entry"
DN2ID: Final = "dn2id"
CHILDREN_COUNT: Final = "id2childrencount"
REFERRAL: Final = "referral"
STATE: Final = "state"
OLD_REFERRAL: Final = "dn2uri"
_OLD_NAMES: Final = (ID2ENTRY, DN2ID, CHILDREN_COUNT, "id2children", "id2subtree", REFERRAL, STATE, OLD_REFERRAL)
_BETWEEN_PARTS: Final = 1
_ESCAPE: Final = 2
_NAME: Final = re.compile(r"[A-Za-z0-9.;_-]+")
_SPECIAL: Final = frozenset(',+"\\<>;')
_HEX: Final = re.compile(r"[0-9a-fA-F]{2}")
_ESCAPED: Final = re.compile(rb"\x02(.)", re.DOTALL)
_HASH_BYTES: Final = 8
# Of the empty DN.
_NOTHING: Final = b"\xff" * _HASH_BYTES
_PARENTS_KEPT: Final = 4096
_TEXT: Final = 0x20
# Characters that may be written in a DN in several ways.
_WRITTEN_OTHERWISE: Final = frozenset('\\";')


class IndexName(NamedTuple):
    """The parts of a database's name: the base DN (old servers write ``_`` for its separators), and the index."""

    base: str
    tree: str


class RdnPart(NamedTuple):
    """A name and a value of an RDN; bytes where the value is no text."""

    name: str
    value: str | bytes


Rdn = tuple[RdnPart, ...]


def index_name(name: str) -> IndexName | None:
    """Base DN and index in the name of a database; None if the name has another form."""
    if name.startswith("/"):
        base, slash, index = name[1:].rpartition("/")
        return IndexName(_plain_base(base), index) if slash and index else None
    for index in _OLD_NAMES:
        if name.endswith(f"_{index}"):
            return IndexName(name.removesuffix(f"_{index}"), index)
    # Indexes of attributes: dc_example_dc_com_uid.equality.
    base, underscore, index = name.rpartition("_")
    return IndexName(base, index) if underscore and "." in index else None


def _plain_base(base: str) -> str:
    """A base DN, decoded from the percent-encoded form in database names."""
    if "%" not in base:
        return base
    parts = [part.partition("=") for part in base.split(",")]
    return ",".join(f"{name}{sign}{escaped(unquote(value))}" for name, sign, value in parts)


def rdns_of(key: bytes) -> tuple[Rdn, ...]:
    """The normalized RDNs in a key of ``dn2id``, from the suffix down.

    Raises:
        FormatError, ValueError: the bytes are not such a key.
    """
    if not key:
        return ()
    # A normalized key begins with the separator, a byte that no text begins with. Old releases use a separator other
    # than 00, or store the DN as text.
    if key[0] >= _TEXT:
        return parse_dn(key.decode("utf-8"))[::-1]
    return tuple(_rdn(part, escapes=key[0] == 0) for part in _split(key[1:], key[0], escapes=key[0] == 0))


def parent_key(key: bytes) -> bytes:
    """The key of the parent entry; the key of a base DN is empty, and is its own parent."""
    if not key:
        return key
    return key[: len(key) - 1 - len(_split(key[1:], key[0], escapes=key[0] == 0)[-1])]


def _split(data: bytes, separator: int, *, escapes: bool) -> list[bytes]:
    """Split at separators; escaped separators do not count."""
    if not escapes or _ESCAPE not in data:
        return data.split(bytes((separator,)))
    parts, start, at = [], 0, 0
    while at < len(data):
        if data[at] == _ESCAPE:
            at += 1
        elif data[at] == separator:
            parts.append(data[start:at])
            start = at + 1
        at += 1
    return [*parts, data[start:]]


def _rdn(data: bytes, *, escapes: bool) -> Rdn:
    parts = []
    for part in _split(data, _BETWEEN_PARTS, escapes=True) if escapes else [data]:
        name, sign, value = part.partition(b"=")
        text = name.decode("ascii")
        if not sign or _NAME.fullmatch(text) is None:
            raise FormatError("key of dn2id", expected="RDNs with a separator between them", found=data[:40].hex())
        parts.append(RdnPart(text, _text(_ESCAPED.sub(rb"\1", value) if escapes else value)))
    return tuple(parts)


def _text(value: bytes) -> str | bytes:
    try:
        text = value.decode("utf-8")
    except ValueError:
        return value
    return text if text.isprintable() else value


def escaped(value: str) -> str:
    """A value, escaped for a DN (RFC 4514)."""
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if value[-1:] == " " and len(value) > 1 else text


def rdn_text(rdn: Rdn) -> str:
    """An RDN as text; each byte of a value that is not text becomes a hex escape."""
    return "+".join(
        f"{part.name}={escaped(part.value) if isinstance(part.value, str) else _bytes_text(part.value)}" for part in rdn
    )


def _bytes_text(value: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in value)


def _below(base: str, key: bytes) -> list[Rdn]:
    """The RDNs of a key without those of the base, with which the keys of some releases begin."""
    rdns = list(rdns_of(key))
    suffix = [part for part in base.lower().split(",") if part]
    if [rdn_text(rdn).lower() for rdn in rdns[: len(suffix)]] == suffix[::-1]:
        return rdns[len(suffix) :]
    return rdns


def dn_of(base: str, key: bytes) -> str:
    """The normalized DN for a key of ``dn2id``; errors as ``rdns_of``."""
    return ",".join([*(rdn_text(rdn) for rdn in reversed(_below(base, key))), base])


def parse_dn(dn: str) -> tuple[Rdn, ...]:
    """The RDNs of a DN as text (RFC 4514, and the quotes and semicolons of RFC 2253), the entry's own first.

    Raises:
        FormatError: the text is not a DN.
    """
    rdns: list[Rdn] = []
    parts: list[RdnPart] = []
    for name, value, end in _pieces(dn):
        parts.append(RdnPart(name, value))
        if end != "+":
            rdns.append(tuple(parts))
            parts = []
    return tuple(rdns)


def _pieces(dn: str) -> Iterator[tuple[str, str | bytes, str]]:
    """Name and value of each part, and the separator after it."""
    at = 0
    while at < len(dn):
        sign = dn.find("=", at)
        name = dn[at:sign].strip() if sign >= 0 else ""
        if _NAME.fullmatch(name) is None:
            raise FormatError("DN", expected="a name and =", found=dn[at : at + 40])
        value, at = _value(dn, sign + 1)
        end = dn[at] if at < len(dn) else ""
        yield name, value, end
        at += 1
        if end and at >= len(dn):
            raise FormatError("DN", expected="an RDN after its last separator", found=end)


def _value(dn: str, at: int) -> tuple[str | bytes, int]:
    """An unescaped value, and the index of its end."""
    found = bytearray()
    # ``whole`` is the length without unescaped trailing spaces.
    whole, quoted = 0, False
    while at < len(dn):
        letter = dn[at]
        if letter == "\\":
            pair = _HEX.match(dn, at + 1)
            found += bytes.fromhex(pair[0]) if pair else dn[at + 1 : at + 2].encode("utf-8", "surrogatepass")
            at += 3 if pair else 2
            whole = len(found)
            continue
        if letter == '"':
            quoted = not quoted
        elif not quoted and letter in ",+;":
            break
        elif letter != " " or found or quoted:
            found += letter.encode("utf-8", "surrogatepass")
            whole = len(found) if letter != " " or quoted else whole
        at += 1
    if quoted:
        raise FormatError("DN", expected="a quote at the end of a value", found=dn[:40])
    return _text(bytes(found[:whole])), at


def loose_hash(rdns: Iterable[Rdn], above: bytes = _NOTHING) -> bytes:
    """A hash that is equal for two DNs that may be the same; empty for a DN that cannot be compared.

    A DN cannot be compared if a value is not text, or is given in hex.

    Arguments:
        rdns: of the DN, the entry's own first.
        above: the hash of the DN above them.
    """
    for rdn in reversed(list(rdns)):
        loose = [_loose(part.value) for part in rdn if isinstance(part.value, str) and part.value[:1] != "#"]
        if len(loose) < len(rdn) or not above:
            return b""
        above = blake2b("\0".join(sorted(loose)).encode() + above, digest_size=_HASH_BYTES).digest()
    return above


def _loose(value: str) -> str:
    folded = value.lower() if value.isascii() else unicodedata.normalize("NFKD", value).casefold()
    return "".join(filter(str.isalnum, folded)) or "".join(folded.split())


class LooseNames:
    """Numbers for the DNs of one base: different numbers mean different DNs.

    If the base DN cannot be derived from the database names (old servers), only the entry's own RDN is compared.

    Arguments:
        base: the base DN.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        try:
            self._suffix = len(parse_dn(base))
        except FormatError:
            self._suffix = 0
        self._leaf_alone = not self._suffix
        # Many entries share a parent.
        self._above_key = lru_cache(_PARENTS_KEPT)(self._of_whole_key)
        self._above_dn = lru_cache(_PARENTS_KEPT)(_of_dn)

    def of_key(self, key: bytes) -> int:
        """The number of a key of ``dn2id``; 0 if it cannot be compared. Errors as ``rdns_of``."""
        if self._leaf_alone:
            return _number(loose_hash(_below(self._base, key)[-1:]) if key else b"")
        above = parent_key(key)
        # The parent must be at or below the suffix; a shorter key may belong to the suffix itself.
        if above and above[0] < _TEXT and len(rdns_of(above)) >= self._suffix:
            leaf = _rdn(key[len(above) + 1 :], escapes=key[0] == 0)
            return _number(loose_hash([leaf], self._above_key(above)))
        return _number(self._of_whole_key(key))

    def of_entry(self, dn: str) -> int:
        """The number of the DN that an entry stores; 0 if it cannot be compared."""
        try:
            if self._leaf_alone:
                return _number(loose_hash(parse_dn(dn)[:1]))
            if not _WRITTEN_OTHERWISE & set(dn):
                leaf, _, above = dn.partition(",")
                return _number(loose_hash(parse_dn(leaf), self._above_dn(above)))
            return _number(loose_hash(parse_dn(dn)))
        except FormatError:
            return 0

    def _of_whole_key(self, key: bytes) -> bytes:
        return loose_hash([*_below(self._base, key)[::-1], *parse_dn(self._base)])


def _of_dn(dn: str) -> bytes:
    return loose_hash(parse_dn(dn))


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
