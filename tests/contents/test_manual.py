"""jetool-contents(7) is true: its commands end with the codes that it says, on environments with those incidents."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.contents.journals import encode_json_journal
from tests import harness
from tests.cli.test_ldap import write_backend
from tests.cli.test_manpages import MAN, calls_in
from tests.contents.frontends import journals, rolled, write_frontend, write_images

PAGE = MAN / "jetool-contents.7.md"
WALKS = {
    "Frontends: one does not come up": [0, 1],
    "Frontends: one journal cannot be replayed": [0, 0],
    "Frontends: no quorum": [1],
    "Frontends: back to before a mistake": [0, 6, 6],
    "Frontends: the directory bdb grows": [0, 0, 0],
    "LDAP: the server answers with result 80": [0, 0, 0, 0, 0],
    "Others": [0, 0],
}


@pytest.mark.parametrize("heading", WALKS)
def test_the_page_is_true(heading: str, tmp_path: Path) -> None:
    for name, last in (("fe", 40), ("fe2", 30)):
        (tmp_path / name / "meta/bdb").mkdir(parents=True)
        databases = {"1": {**journals(1, last), 20: encode_json_journal(11, b'{"table":1}')}}
        if heading == "Frontends: one does not come up":
            del databases["1"][last - 5]
        write_frontend(tmp_path / name / "meta/bdb", databases)
        write_images(tmp_path / name / "meta", (10,))
    write_backend(tmp_path / "userRoot")
    write_frontend(tmp_path / "env", {"p1": {1: b"\x01\x05\xaa"}, **rolled(1, 20, 10)})
    places = {"/data/": f"{tmp_path}/", "/tmp/saved": f"{tmp_path}/saved", "all.ldif": f"{tmp_path}/all.ldif"}
    found = []
    for call in calls_in(PAGE):
        if call.heading == heading and call.in_block:
            words = call.words
            for name, place in places.items():
                words = [word.replace(name, place) for word in words]
            found.append(harness.run(*words).code)
    assert found == WALKS[heading]


def test_every_section_is_walked() -> None:
    assert {one.heading for one in calls_in(PAGE) if one.in_block} == set(WALKS)
