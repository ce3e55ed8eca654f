"""The XML of ``dump-log``: DbPrintLog's of JE 18.3.20, element by element and attribute by attribute (R-UTIL-12)."""

from __future__ import annotations

from random import Random
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from engine.errors import FormatError
from engine.format.entry.markers import RestoreRequired
from engine.format.entry.trace import Trace
from engine.format.lsn import format_lsn
from engine.log.entry import Damage, LogEntry
from jetool.commands.dump_log.xml_entries import EPILOGUE, PROLOGUE, bad_line, entry_line
from tests.support.environments.oracle import Environment, environments, named
from tests.support.samples import part

# A NameLN's operations after which JE's own output is that of the entry; behind others it prints what is left over.
_WITH_CONFIG = ("CREATE", "UPDATE_CONFIG")
# What 18.3.20 prints and 7.5.11 does not: element and attribute.
_SINCE_18 = (
    ("database", "name"),
    ("CkptEnd", "lastLocalExtinctionId"),
    ("CkptEnd", "lastReplicatedExtinctionId"),
    ("entries", "baseExpiration"),
)

# Entries of log version 6 exactly as DbPrintLog of JE 18.3.20 prints them; no fixture holds that output.
PRINTED_BY_18_3_20 = {
    "0x0/0x522": (
        '<entry lsn="0x0/0x522" type="DIN/6" prev="0x4eb" size="59" cksum="1270156097"><dbId id="3"/><din>'
        '<nodeId val="18"/><idKey v="0 0 0 0 "/><isRoot val="true"/><level val="2"/><entries numEntries="1" '
        'length="128" baseFileNumber="0"><ref kd="false" pd="false" dirty="false" embedded="false" '
        'noData="false"><key v="0 0 0 0 "/><DbLsn val="0x0/0x4eb"/></ref></entries><key v="117 115 101 114 '
        '48 48 48 48 48 48 48 51 "/><ref kd="false" pd="false"><key v="117 115 101 114 48 48 48 48 48 48 48 '
        '51 "/><DbLsn val="0x0/0x4cc"/></ref></din></entry>'
    ),
    "0x0/0x4eb": (
        '<entry lsn="0x0/0x4eb" type="DBIN/6" prov="YES" prev="0x4cc" size="41" cksum="2861893380"><dbId '
        'id="3"/><dbin><nodeId val="19"/><idKey v="0 0 0 0 "/><isRoot val="false"/><level val="1"/><entries '
        'numEntries="1" length="128" baseFileNumber="0"><ref kd="false" pd="false" dirty="false" '
        'embedded="false" noData="false" logSize="0"><key v="0 0 0 0 "/><DbLsn val="0x0/0x480"/></ref>'
        '</entries><key v="117 115 101 114 48 48 48 48 48 48 48 51 "/></dbin></entry>'
    ),
    "0x0/0xea5d": (
        '<entry lsn="0x0/0xea5d" type="BINDelta/6" prev="0xe9ea" size="22" cksum="2256341218"><dbId id="3"/>'
        "<lastFullLsn>0x0/0x7209</lastFullLsn><prevDeltaLsn>0xffffffff/0xffffffff</prevDeltaLsn><deltas "
        'size="1"/><key v="117 115 101 114 48 48 48 48 48 49 49 49 "/><DbLsn val="0x0/0xd13a"/><state '
        'kd="false" pd="false"/></entry>'
    ),
    "0x0/0x56b": (
        '<entry lsn="0x0/0x56b" type="DupCountLN_TX/6" prev="0x522" size="25" cksum="1161954612"><dbId '
        'id="3"/><key v="117 115 101 114 48 48 48 48 48 48 48 51 "/><dupCountLN><data></data><count v="2"/>'
        '</dupCountLN><embeddedLN val="false"/><txn id="3"><DbLsn val="0x0/0x4a5"/></txn><abortLSN '
        'val="0x0/0x4cc"/><abortKD val="false"/></entry>'
    ),
    "0x0/0xf582": (
        '<entry lsn="0x0/0xf582" type="DelDupLN_TX/6" prev="0xf555" size="29" cksum="3599632952"><dbId '
        'id="3"/><key v="117 115 101 114 48 48 48 48 48 49 51 51 "/><ln></ln><embeddedLN val="false"/><txn '
        'id="73"><DbLsn val="0xffffffff/0xffffffff"/></txn><abortLSN val="0x0/0x8e6e"/><abortKD '
        'val="false"/><key v="0 0 7 92 "/></entry>'
    ),
    "0x0/0x343": (
        '<entry lsn="0x0/0x343" type="FileSummaryLN/6" prev="0x30f" size="62" cksum="2434205418"><dbId '
        'id="2"/><fileSummaryLNKey fileNumber="0x0" sequence="0x13"/><key v="0 0 0 0 127 255 255 236 "/>'
        '<fileSummaryLN><data></data><summary totalCount="18" totalSize="873" totalINCount="10" '
        'totalINSize="478" totalLNCount="3" totalLNSize="146" maxLNSize="0" obsoleteINCount="4" '
        'obsoleteLNCount="0" obsoleteLNSize="0" obsoleteLNSizeCounted="0" getObsoleteSize="440" '
        'getObsoleteINSize="191" getObsoleteLNSize="0" getMaxObsoleteSize="440" getMaxObsoleteLNSize="0" '
        'getAvgObsoleteLNSizeNotCounted="NaN"/><offsets size="4">0x53 0x7f 0xe6 0x106 </offsets>'
        '</fileSummaryLN><embeddedLN val="false"/></entry>'
    ),
}


@pytest.mark.parametrize("environment", part(environments("18.3.20", "7.5.11")))
def test_elements_and_attributes_are_those_of_je(environment: Environment) -> None:
    ours, bad = document(environment)
    rows = environment.header_rows()
    theirs = environment.printed()
    by_lsn = {element.get("lsn"): element for element in ours}
    assert list(by_lsn)[: len(rows)] == [row["lsn"] for row in rows]
    if environment.is_printed_whole:
        assert (len(ours), len(theirs), bad) == (len(rows), len(rows), [])
    for their in theirs:
        our = by_lsn[their.get("lsn")]
        without_leftovers(their)
        if environment.release == "7.5.11":
            without_news(our)
            without_files(their)
        assert same(our, their), (as_tuple(our), as_tuple(their))


@pytest.mark.parametrize("environment", environments("3.3.98", "7.3.8", "25.3.17"))
def test_every_entry_of_other_releases_is_well_formed(environment: Environment) -> None:
    entries, _ = document(environment)
    rows = environment.header_rows()
    assert [element.get("lsn") for element in entries][: len(rows)] == [row["lsn"] for row in rows]
    assert all(len(element) for element in entries)


def test_an_old_duplicates_tree_as_18_3_20_prints_it() -> None:
    ours = {line[12 : line.index('"', 12)]: line for line in lines(named("je-3.3.98/dups"))}
    assert {lsn: ours[lsn] for lsn in PRINTED_BY_18_3_20} == PRINTED_BY_18_3_20


def test_a_line_stays_a_line_and_texts_survive() -> None:
    text = 'a<b> & "c"\r\n\td'
    element = ElementTree.fromstring(entry_line(trace_entry(), Trace(0, text)))
    assert [one.get("val") for one in element.findall("Dbg/msg")] == [text]
    record = RestoreRequired("LOG_CHECKSUM", 1_700_000_000_050, "#one\nk=v\n")
    line = entry_line(trace_entry(), record)
    assert "\n" not in line
    required = ElementTree.fromstring(line)[0]
    assert dict(required.attrib) == {
        "failureType": "LOG_CHECKSUM",
        "time": "2023-11-14 22:13:20.05",
        "properties": "#one\nk=v\n",
    }


def test_characters_that_xml_does_not_have_show_as_hex() -> None:
    raw = b"\x00\x1b[31m \xff\xfe \xef\xbf\xbf".decode("utf-8", "surrogateescape")
    element = ElementTree.fromstring(entry_line(trace_entry(), Trace(0, raw)))
    assert [one.get("val") for one in element.findall("Dbg/msg")] == ["\\00\\1b[31m \\ff\\fe \\ef\\bf\\bf"]


def test_times_out_of_range_are_numbers() -> None:
    element = ElementTree.fromstring(entry_line(trace_entry(), Trace(1 << 62, "")))
    assert [one.get("time") for one in element.findall("Dbg")] == [f"{1 << 62} ms"]


def test_a_body_that_does_not_fit_is_said_inside_the_entry() -> None:
    element = ElementTree.fromstring(entry_line(trace_entry(), None))
    assert (element.get("type"), element[0].tag) == ("Trace/17", "bad")


def test_damage_is_an_element() -> None:
    damage = Damage(
        5 << 32 | 0x82C, 66, "data001/00000005.jdb", "checksum", "0x1", "0x2", 33, 5 << 32 | 0x86E, "x", False
    )
    assert dict(ElementTree.fromstring(bad_line(damage)).attrib) == {
        "lsn": "0x5/0x82c",
        "file": "data001/00000005.jdb",
        "length": "66",
        "reason": "checksum",
        "text": "wrong checksum",
        "expected": "0x1",
        "found": "0x2",
        "type": "INS_LN_TX",
        "next": "0x5/0x86e",
        "foundBy": "x",
        "tail": "false",
    }


@pytest.mark.parametrize("environment", environments(cases=("cleaned", "schema-crash", "ttl", "xa-prepared", "node1")))
def test_damaged_bodies_that_decode_stay_well_formed(environment: Environment) -> None:
    entries = {(entry.type_number, entry.item_size % 8): entry for entry in environment.good_entries()}
    chance = Random(environment.name)
    for entry in entries.values():
        for _ in range(15):
            body = bytearray(entry.body)
            for _ in range(chance.randint(1, 3)):
                body[chance.randrange(len(body))] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            damaged = entry._replace(body=bytes(body))
            try:
                record = damaged.record()
            except FormatError:
                continue
            assert ElementTree.fromstring(entry_line(damaged, record)).get("lsn") == format_lsn(entry.lsn)


def trace_entry() -> LogEntry:
    return LogEntry(0x26, 24, 17, 0, 0, 9, -1, 1, True, b"")


def lines(environment: Environment) -> list[str]:
    items = environment.read()
    return [entry_line(item, item.record()) if isinstance(item, LogEntry) else bad_line(item) for item in items]


def document(environment: Environment) -> tuple[list[Element], list[Element]]:
    """Entries and stretches of damage of a whole dump, as any XML parser reads them."""
    dump = lines(environment)
    assert not any("\n" in line for line in dump)
    root = ElementTree.fromstring("\n".join((PROLOGUE, *dump, EPILOGUE)))
    assert {child.tag for child in root} <= {"entry", "bad"}
    return root.findall("entry"), root.findall("bad")


def without_leftovers(entry: Element) -> None:
    """Take away what JE prints of an earlier entry, and its commas between numbers."""
    operation = entry.find("DbOp")
    if operation is not None:
        at = list(entry).index(operation) + 1
        for child in list(entry)[at:]:
            own = operation.get("val") in _WITH_CONFIG if child.tag == "config" else operation.get("val") == "TRUNCATE"
            if not own:
                entry.remove(child)
    if "vlsn" in entry.attrib:
        entry.set("vlsn", entry.attrib["vlsn"].replace(",", ""))
    for start in entry.iter("RollbackStart"):
        start.set("activeTxnIds", start.attrib["activeTxnIds"].replace(",", ""))


def without_news(entry: Element) -> None:
    """Take away what 18.3.20 prints and 7.5.11 does not."""
    for tag, attribute in _SINCE_18:
        for element in entry.iter(tag):
            element.attrib.pop(attribute, None)


def without_files(entry: Element) -> None:
    """Take away the utilization of a MapLN, which 7.5.11 prints and 18.3.20 does not (it does that of a DbTree)."""
    for database in entry.iterfind("mapLN/database"):
        for file in database.findall("file"):
            database.remove(file)


def same(one: Element, other: Element) -> bool:
    """Whether tag, attributes, text and children are equal; blanks around elements mean nothing."""
    return (
        one.tag == other.tag
        and one.attrib == other.attrib
        and (one.text or "").strip() == (other.text or "").strip()
        and len(one) == len(other)
        and all(map(same, one, other))
    )


def as_tuple(element: Element) -> Any:
    """An element as a failing test shows it."""
    return element.tag, dict(element.attrib), (element.text or "").strip(), [as_tuple(child) for child in element]
