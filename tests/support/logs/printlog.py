"""DbPrintLog's output as XML elements.

The output looks like XML but is none. What is wrong with it, by release:

=================================================================  =======================  =========================
as printed                                                         releases                 taken as
=================================================================  =======================  =========================
``<entry ... <vlsn v="1,234"> ...>``                               7, 18, 25                attribute ``vlsn``
``<Matchpoint" time=".." master="1"></entry>``                     7, 18, 25                an empty element
`` matchpointVLSN=39 ... activeTxnIds=[-2, -1]" time="..``         7, 18, 25                element ``RollbackStart``
`` matchpointLSN=.. rollbackStartLSN=.. time=..``                  7, 18, 25                element ``RollbackEnd``
``<anchor lsn="<DbLsn .../>"/>``                                   25                       a nested element
``<databaseExtinction/> id=1 dbid=9 undoCreate=[false/>``          25                       attributes
line ends inside an attribute (properties of RestoreRequired)      18                       character references
=================================================================  =======================  =========================
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_SUBSTITUTIONS = (
    (rb'<vlsn v="([-\d,]+)"> ', rb'vlsn="\1" '),
    (rb'<Matchpoint"( time="[^"]*" master="[^"]*")>', rb"<Matchpoint\1/>"),
    (
        rb'> matchpointVLSN=(\S+) matchpointLSN=(\S+) activeTxnIds=\[([^\]]*)\]" time="([^<"]*)</entry>',
        rb'><RollbackStart matchpointVLSN="\1" matchpointLSN="\2" activeTxnIds="\3" time="\4"/></entry>',
    ),
    (
        rb"> matchpointLSN=(\S+) rollbackStartLSN=(\S+) time=([^<]*)</entry>",
        rb'><RollbackEnd matchpointLSN="\1" rollbackStartLSN="\2" time="\3"/></entry>',
    ),
    (rb'<anchor lsn="(<DbLsn val="[^"]*"/>)"/>', rb"<anchor>\1</anchor>"),
    (
        rb"<databaseExtinction/> id=(\d+) dbid=(-?\d+) undoCreate=\[(\w+)/>",
        rb'<databaseExtinction id="\1" dbid="\2" undoCreate="\3"/>',
    ),
    (rb"<extinctionScannerDeletion id=(\d+)/>", rb'<extinctionScannerDeletion id="\1"/>'),
    (rb"\n(?!<entry |</?DbPrintLog|\Z)", b"&#10;"),
)
_PATTERNS = tuple((re.compile(pattern), replacement) for pattern, replacement in _SUBSTITUTIONS)


def parse(output: bytes) -> list[Element]:
    """The ``entry`` elements of a whole output, made well-formed."""
    for pattern, replacement in _PATTERNS:
        output = pattern.sub(replacement, output)
    return list(ElementTree.fromstring(output))


def parse_tail(output: bytes) -> list[Element]:
    """The entries that are whole in the last lines of an output, which an exception may have ended."""
    lines = [line for line in output.splitlines() if line.startswith(b"<entry ") and line.endswith(b"</entry>")]
    return parse(b"<DbPrintLog>\n" + b"\n".join(lines) + b"\n</DbPrintLog>\n")


class Taker:
    """An element that is taken apart: each attribute, child and text once, children in their order.

    ``finish`` fails when something was not taken, so that nothing that JE prints is left out of a comparison unseen.
    """

    def __init__(self, element: Element) -> None:
        self.tag = element.tag
        self._attributes = dict(element.attrib)
        self._children = list(element)
        self._text = element.text
        self._next = 0

    def take(self, name: str) -> str:
        """An attribute that must be there."""
        return self._attributes.pop(name)

    def take_if(self, name: str) -> str | None:
        """An attribute that may be there."""
        return self._attributes.pop(name, None)

    def text(self) -> str:
        """The text before the first child."""
        text, self._text = self._text, None
        return text or ""

    def peek(self) -> str:
        """The tag of the next child; empty at the end."""
        return self._children[self._next].tag if self._next < len(self._children) else ""

    def child(self, tag: str = "") -> Taker:
        """The next child, which must have the tag when one is given."""
        if tag and self.peek() != tag:
            raise AssertionError(f"<{self.tag}>: <{tag}> expected, found <{self.peek()}>")
        self._next += 1
        return Taker(self._children[self._next - 1])

    def child_if(self, tag: str) -> Taker | None:
        """The next child when it has the tag."""
        return self.child() if self.peek() == tag else None

    def value(self, tag: str, name: str = "val") -> str:
        """The only attribute of the next child."""
        child = self.child(tag)
        value = child.take(name)
        child.finish()
        return value

    def value_if(self, tag: str, name: str = "val") -> str | None:
        """The only attribute of the next child, when that has the tag."""
        return self.value(tag, name) if self.peek() == tag else None

    def finish(self) -> None:
        """Check that everything was taken."""
        left = [*self._attributes, *(child.tag for child in self._children[self._next :])]
        if left or (self._text and self._text.strip()):
            raise AssertionError(f"<{self.tag}>: nobody compares {left or self._text!r}")
