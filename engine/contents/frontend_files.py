"""Files beside the journals of a frontend: ``ROLE``, ``VERSION``, images (fe-journals.md 1).

The functions are pure: they take names and bytes and return facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_IMAGE: Final = re.compile(r"image\.([0-9]{1,19})")
# Directories with images: StarRocks from 3.4 on writes its newer format into ``v2``.
IMAGE_DIRECTORIES: Final = ("", "v2")
_LONGEST_FILE: Final = 1 << 16
ROLE_FILE: Final = "ROLE"
VERSION_FILE: Final = "VERSION"


class FrontendFiles(NamedTuple):
    """Facts from the metadata directory.

    Attributes:
        role: FOLLOWER or OBSERVER; None if the file does not name a role.
        node: name of the node.
        cluster: id of the cluster.
        images: the ids of the images in all directories, ascending; an image holds everything up to its id.
    """

    role: str | None
    node: str | None
    cluster: str | None
    images: tuple[int, ...]


def properties(data: bytes) -> dict[str, str]:
    """The entries of a Java properties file; line continuations, which these files never use, are not supported."""
    found = {}
    for line in data[:_LONGEST_FILE].decode("utf-8", "replace").splitlines():
        text = line.strip()
        name, sign, value = text.partition("=")
        if sign and text[0] not in "#!":
            # Colons are escaped in values that Java writes.
            found[name.strip()] = value.strip().replace("\\:", ":")
    return found


def image_ids(names: Iterable[str]) -> tuple[int, ...]:
    """The ids of complete images; unfinished images have other names."""
    return tuple(sorted({int(found[1]) for name in names if (found := _IMAGE.fullmatch(name)) is not None}))


def frontend_files(role: bytes, version: bytes, names: Iterable[str]) -> FrontendFiles:
    """Facts from the files. Pass empty bytes for a missing file."""
    said = properties(role)
    return FrontendFiles(said.get("role"), said.get("name"), properties(version).get("clusterId"), image_ids(names))
