"""The memory that JE's cache needs for a database, as JE 18.3.20 and JE 25.3.17 count it (their DbCacheSize).

JE budgets its cache by sums over the objects of a node: a fixed part, arrays with one place per slot of a full node,
and the keys, and the records that are in memory. ``node_sizes`` adds these up for a node that is filled as usual, and
``je_cache_size`` multiplies by the number of nodes.

* A node has ``node_max`` places. 70 per cent of them are taken, or all of them when records are inserted in key order
  and never deleted.
* Keys lie in one array of the longest key's size if that is at most ``compact_key_max`` and takes less than an object
  for each key; a node of more than 256 places never does that.
* With a prefix the array holds the rest of the keys. Where keys stay objects, JE counts their full length and the
  prefix besides. With duplicates (key and data together are the key), a bottom node whose whole keys fit into the array
  keeps that array in JE 18.3.
* Data of at most ``embedded_max`` bytes lies in the slot, behind the key; larger records are objects of their own,
  and the slot knows their size in the log, in as many bytes as that size needs.

Objects take less in a Java heap below 32 GiB, where references have 4 bytes (compressed oops).

Example: a million records of 20 and 100 bytes. A bottom node holds 89 of them and takes 4,312 bytes, the internal nodes
take 49 MB, and with the records 199 MB.

JE 25.3 keeps two times with each record that is an object, which are 16 bytes, and the modification time of any other
record in its slot; an upper node knows the logged sizes of its children. In a node of a group JE 25.3 keeps VLSNs in
the slots: of records that are not objects, and of the others when these are evicted.

The figures were those of JE 18.3.20, byte for byte, in all 1,385 cases that were tried, and those of JE 25.3.17 in 560;
a third of the first are kept in ``tests/evictor/je_cache_sizes.txt``, with the figures of both releases.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import pack

# Keys of nodes with more places are never put into one array.
_MOST_COMPACT: Final = 256
# A node with so few children in memory has a form of its own for them.
_FEW_CHILDREN: Final = 4
_DENSITY: Final = 70
_LSN_BYTES: Final = 8
# A node whose LSNs are near each other keeps their differences, if log files are at most this large.
COMPACT_LSN_BYTES: Final = 4
_COMPACT_FILE_MAX: Final = 0xFFFFFE
# Header, flags and database of a record in the log; what an expiration and a VLSN add.
_LOGGED_BYTES: Final = 19
_LOGGED_EXPIRATION: Final = 3
_LOGGED_VLSN: Final = 9

# In JE 25.3 a record in the log has ten bytes more, and a bottom node with one key these besides the key.
_LOGGED_LATER: Final = 10
_LOGGED_CHILD: Final = 30
# Bytes of a modification time and of a VLSN in a slot.
_TIME_BYTES: Final = 3
_VLSN_BYTES: Final = 5
# Bytes of an address outside the Java heap, and of a place in JE's list of such nodes.
_RECORD_ID_BYTES: Final = 8
_CHILD_ID_BYTES: Final = 3

JE_18: Final = "18.3"
JE_25: Final = "25.3"
RELEASES: Final = (JE_18, JE_25)
# Of an environment that only has been opened, alone and replicated; by release, and whether the heap is large.
_ENVIRONMENT_BYTES: Final = {
    (JE_18, False): (3_158_773, 3_164_885),
    (JE_18, True): (3_165_016, 3_175_352),
    (JE_25, False): (3_160_640, 3_166_872),
    (JE_25, True): (3_165_816, 3_175_064),
}


class JeObjects(NamedTuple):
    """Bytes of Java objects, as JE counts them.

    Attributes:
        array: an empty array.
        reference: a place in an array of objects.
        bottom, upper: a BIN and an IN without their arrays.
        children, few_children: the object that holds the children in memory.
        compact_keys, keys: the object that holds the keys, in one array or as objects.
        numbers: the object that holds a small number for each slot.
        record: an LN.
    """

    array: int
    reference: int
    bottom: int
    upper: int
    children: int
    few_children: int
    compact_keys: int
    keys: int
    numbers: int
    record: int

    def bytes_array(self, length: int) -> int:
        """An array of bytes."""
        return self.array + _aligned(length)

    def references(self, length: int) -> int:
        """An array of objects, without the objects."""
        return self.array + _aligned(length * self.reference)

    def numbers_of(self, slots: int, width: int) -> int:
        """A number of ``width`` bytes for each slot."""
        return self.numbers + self.bytes_array(slots * width)


_SMALL_HEAP: Final = JeObjects(
    array=16,
    reference=4,
    bottom=232,
    upper=256,
    children=16,
    few_children=80,
    compact_keys=24,
    keys=16,
    numbers=24,
    record=24,
)
_LARGE_HEAP: Final = JeObjects(
    array=24,
    reference=8,
    bottom=352,
    upper=392,
    children=24,
    few_children=120,
    compact_keys=32,
    keys=24,
    numbers=32,
    record=32,
)
_OBJECTS: Final = {
    (JE_18, False): _SMALL_HEAP,
    (JE_18, True): _LARGE_HEAP,
    (JE_25, False): _SMALL_HEAP._replace(bottom=240, upper=264, record=40),
    (JE_25, True): _LARGE_HEAP._replace(bottom=360, upper=408, record=48),
}


class CacheLoad(NamedTuple):
    """The database whose memory is asked for; the options of DbCacheSize in this order.

    Attributes:
        records: how many.
        key_bytes: mean size of a key; with duplicates without the data item.
        data_bytes: mean size of the data; None: unknown, so that only nodes are counted. With duplicates required.
        prefix_bytes: bytes that the keys of a bottom node have in common; 0 without key prefixing.
        node_max: places of a node.
        ordered: records are inserted in key order and never deleted.
        duplicates: sorted duplicates.
        replicated: the environment is a node of a group.
        expires: records have an expiration.
        embedded_max: je.tree.maxEmbeddedLN.
        compact_key_max: je.tree.compactMaxKeyLength.
        large_heap: a Java heap of 32 GiB or more.
        release: of JE; one of ``RELEASES``.
        file_max: je.log.fileMax.
    """

    records: int
    key_bytes: int
    data_bytes: int | None = None
    prefix_bytes: int = 0
    node_max: int = 128
    ordered: bool = False
    duplicates: bool = False
    replicated: bool = False
    expires: bool = False
    embedded_max: int = 16
    compact_key_max: int = 42
    large_heap: bool = False
    release: str = JE_18
    file_max: int = 10_000_000

    @property
    def lsn_bytes(self) -> int:
        """Bytes of an LSN in a node: in JE 18.3 fewer if keys were inserted in order, and with them the LSNs."""
        is_compact = self.release == JE_18 and self.ordered and self.file_max <= _COMPACT_FILE_MAX
        return COMPACT_LSN_BYTES if is_compact else _LSN_BYTES

    @property
    def entries_per_node(self) -> int:
        """Places of a node that are taken."""
        return self.node_max if self.ordered else self.node_max * _DENSITY // 100

    @property
    def is_embedded(self) -> bool:
        """Whether the data lies in the slots; an empty record takes nothing there."""
        return not self.duplicates and 0 < (self.data_bytes or 0) <= self.embedded_max

    @property
    def environment_bytes(self) -> int:
        """The least memory of an open environment, besides its databases."""
        return _ENVIRONMENT_BYTES[self.release, self.large_heap][self.replicated]

    @property
    def keeps_vlsns(self) -> bool:
        """Whether VLSNs of records are cached."""
        return self.release == JE_25 and self.replicated and not self.duplicates

    @property
    def is_separate(self) -> bool:
        """Whether the records are objects of their own."""
        return not self.duplicates and (self.data_bytes or 0) > self.embedded_max


class NodeSizes(NamedTuple):
    """Bytes of one node: a bottom node without its records, with them, and an upper node with its children.

    Attributes:
        versions: the VLSNs that a bottom node keeps without its records.
        children: what an upper node takes for its children in memory.
        record_ids, child_ids: places for the records of a bottom node, and the children of an upper node, that lie
            outside the Java heap.
        slot_key: the key of a slot of a bottom node without the prefix, with embedded data.
        whole_key: a key with its prefix.
    """

    bottom: int
    bottom_with_records: int
    upper: int
    versions: int
    children: int
    record_ids: int
    child_ids: int
    slot_key: int
    whole_key: int


class JeCacheSize(NamedTuple):
    """The memory that a database takes in JE's cache.

    Attributes:
        levels: of the tree.
        bins, upper_nodes: number of nodes.
        nodes: their sizes.
        internal_bytes: of all nodes without the records.
        all_bytes: of all nodes and records; None if the size of the data is not known.
        version_bytes: of all nodes and the VLSNs of the records; None if no VLSNs are cached, or records are not
            objects.
    """

    levels: int
    bins: int
    upper_nodes: int
    nodes: NodeSizes
    internal_bytes: int
    all_bytes: int | None
    version_bytes: int | None


def je_cache_size(load: CacheLoad) -> JeCacheSize:
    """The memory for a database. ``load`` is valid: a node has at least one entry, and a prefix is shorter than a
    key.
    """
    sizes = node_sizes(load)
    bins, *above_bins = tree_nodes(load.records, load.entries_per_node)
    above = sum(above_bins) * sizes.upper
    return JeCacheSize(
        levels=1 + len(above_bins),
        bins=bins,
        upper_nodes=sum(above_bins),
        nodes=sizes,
        internal_bytes=bins * sizes.bottom + above,
        all_bytes=None if load.data_bytes is None else bins * sizes.bottom_with_records + above,
        version_bytes=bins * (sizes.bottom + sizes.versions) + above if sizes.versions else None,
    )


def tree_nodes(records: int, filled: int) -> list[int]:
    """The number of nodes of each level, from the bottom up."""
    found = [-(-records // filled)]
    while True:
        # A root that is not full counts as one node.
        found.append(max(found[-1] // filled, 1))
        if found[-1] == 1:
            return found


def node_sizes(load: CacheLoad) -> NodeSizes:
    """The memory of single nodes."""
    java, later = _OBJECTS[load.release, load.large_heap], load.release == JE_25
    places, filled, data = load.node_max, load.entries_per_node, load.data_bytes or 0
    # A two-part key is key, data item, and the size of the key.
    whole = load.key_bytes + (data + len(pack(load.key_bytes)) if load.duplicates else 0)
    arrays = java.bytes_array(places) + java.bytes_array(load.lsn_bytes * places)
    few = filled <= _FEW_CHILDREN
    children = java.few_children if few else java.children + java.references(places)
    bottom = java.bottom + arrays + _keys_of_bottom(load, java, whole)
    if load.is_separate:
        bottom += java.numbers_of(places, _width(logged_bytes(load)))
    elif later and not load.duplicates:
        bottom += java.numbers_of(places, _TIME_BYTES)
    vlsns = java.numbers_of(places, _VLSN_BYTES) if load.keeps_vlsns else 0
    if not load.is_separate:
        bottom += vlsns
    if load.expires:
        bottom += java.numbers_of(places, 1)
    records = children + filled * (java.record + java.bytes_array(data)) if load.is_separate else 0
    upper = java.upper + arrays + children + _keys(load, java, whole, whole - load.prefix_bytes)
    if later:
        # A database of a group has a longer id.
        child = whole + len(pack(whole)) + _LOGGED_CHILD + load.replicated
        upper += java.numbers_of(places, _width(child))
    return NodeSizes(
        bottom=bottom,
        bottom_with_records=bottom + records,
        upper=upper,
        versions=vlsns if load.is_separate else 0,
        children=children,
        record_ids=java.numbers_of(places, _RECORD_ID_BYTES),
        child_ids=java.numbers_of(places, _CHILD_ID_BYTES),
        slot_key=_in_slot(load, whole - load.prefix_bytes),
        whole_key=whole,
    )


def _keys_of_bottom(load: CacheLoad, java: JeObjects, whole: int) -> int:
    if load.release == JE_18 and load.duplicates and _fits(load, java, whole):
        return _compact(load, java, whole) + load.prefix_bytes
    return _keys(load, java, _in_slot(load, whole), _in_slot(load, whole - load.prefix_bytes))


def _in_slot(load: CacheLoad, key: int) -> int:
    """A key with embedded data, which lies after it, and after that the size of the key."""
    return key + (load.data_bytes or 0) + len(pack(key)) if load.is_embedded else key


def _keys(load: CacheLoad, java: JeObjects, whole: int, rest: int) -> int:
    """The keys of a node: ``whole`` is the size of one, ``rest`` without the prefix."""
    has_prefix = load.prefix_bytes > 0 or load.duplicates
    if _fits(load, java, rest):
        return _compact(load, java, rest) + (java.bytes_array(load.prefix_bytes) if has_prefix else 0)
    return _objects(load, java, whole) + load.prefix_bytes


def _fits(load: CacheLoad, java: JeObjects, key: int) -> bool:
    """Whether keys of this size lie in one array."""
    if key > load.compact_key_max or load.compact_key_max == 0 or load.node_max > _MOST_COMPACT:
        return False
    return _objects(load, java, key) > _compact(load, java, key)


def _compact(load: CacheLoad, java: JeObjects, key: int) -> int:
    # Each key has a byte for its size.
    return java.compact_keys + java.bytes_array(load.node_max * (key + 1))


def _objects(load: CacheLoad, java: JeObjects, key: int) -> int:
    return java.keys + java.references(load.node_max) + load.entries_per_node * java.bytes_array(key)


def logged_bytes(load: CacheLoad) -> int:
    """A record in the log."""
    data = load.data_bytes or 0
    more = _LOGGED_EXPIRATION * load.expires + _LOGGED_VLSN * load.replicated
    more += _LOGGED_LATER * (load.release == JE_25)
    return load.key_bytes + data + _LOGGED_BYTES + len(pack(data)) + more


def _width(number: int) -> int:
    return (number.bit_length() + 7) // 8


def _aligned(length: int) -> int:
    return (length + 7) // 8 * 8
