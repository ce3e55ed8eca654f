"""Whether a Doris or StarRocks frontend would start: its files beside the environment, its group, its journals.

Example: ``image/ROLE`` names ``fe2_9010_1700000000000``, and the group in ``bdb`` has only ``fe1_9010_1690000000000``:
somebody has copied the directory of another frontend (START-009).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from engine.contents.frontend_files import ROLE_FILE, VERSION_FILE, FrontendFiles
from engine.db.environment import Environment
from engine.diagnosis import rules
from engine.diagnosis.record import DiagnosisOptions, Reason
from engine.diagnosis.rules import reason
from engine.format.entry.group_db import NODE_TYPES
from engine.journals.check import OPERATION, JournalCheck, check_journals
from engine.journals.extents import JournalExtents, read_extents
from engine.journals.images import problem_of, read_images
from engine.journals.metadata import read_metadata
from engine.journals.reader import JournalReader
from engine.journals.unseen import UnseenJournals
from engine.rep.group import Membership
from engine.storage.disk import DiskStorage

# The type of a group's member by the role of the frontend (fe-journals.md 1).
_TYPES = {"FOLLOWER": "electable", "OBSERVER": "secondary"}


class FrontendFacts(NamedTuple):
    """A frontend.

    Attributes:
        files: its files; None without a directory ``image``.
        first, last: journal ids; None if it has no journals.
        unseen: journals after damage.
    """

    files: FrontendFiles | None
    reasons: tuple[Reason, ...]
    first: int | None
    last: int | None
    unseen: UnseenJournals | None


def look_at_frontend(
    env: Environment, product: str | None, members: Membership | None, options: DiagnosisOptions
) -> FrontendFacts:
    """Check a frontend whose environment was opened for reading."""
    images = DiskStorage(image_directory(env.home))
    files = read_metadata(images)
    own = read_extents(env)[0]
    image = files.images[-1] if files is not None and files.images else None
    found = check_journals(env, own, product, image, options.listener, since=0 if image is None else image + 1)
    reasons = [*_of_files(files, members), *_of_image(images, image), *_of_replay(own, found)]
    return FrontendFacts(files, tuple(reasons), own.first, own.last, JournalReader(env, own).unseen)


def image_directory(home: str) -> str:
    """The directory of the images, beside the environment."""
    return os.path.join(os.path.dirname(os.path.abspath(home)), "image")


def _of_files(files: FrontendFiles | None, members: Membership | None) -> Iterator[Reason]:
    # An environment without the directory beside it is a copy of bdb alone; nothing can be said.
    if files is None:
        return
    role_file, version_file = f"../image/{ROLE_FILE}", f"../image/{VERSION_FILE}"
    if files.role is None or files.node is None:
        yield reason(rules.NO_ROLE, "image/ROLE is missing, or names no role and node", stops=True, file=role_file)
    if files.cluster is None:
        yield reason(rules.NO_VERSION, "image/VERSION is missing, or names no cluster", file=version_file)
    if members is None or files.node is None:
        return
    known = members.node(files.node)
    if known is None or known.removed:
        state = "was removed from it" if known is not None else "is no member"
        named = ", ".join(node.name or "" for node in members.nodes if not node.removed)
        text = f"image/ROLE names {files.node}, which {state}; group {members.group.name} has {named}"
        yield reason(rules.NOT_MEMBER, text[:500], file=role_file)
    elif files.role in _TYPES and NODE_TYPES[known.type] != _TYPES[files.role]:
        text = f"image/ROLE says {files.role}, and the group has {files.node} as {NODE_TYPES[known.type]}"
        yield reason(rules.WRONG_ROLE, text, stops=True, file=role_file)


def _of_image(images: DiskStorage, image: int | None) -> Iterator[Reason]:
    """As ``jetool journal check`` judges it: an image of an unknown format is no finding."""
    problem = problem_of(read_images(images, image), image) if image is not None else None
    if problem is not None:
        text = f"image {image} is damaged: {problem}"
        yield reason(rules.BAD_IMAGE, text[:500], stops=True, file=f"../image/image.{image}")


def _of_replay(extents: JournalExtents, found: JournalCheck) -> Iterator[Reason]:
    stop = found.stops_at
    if stop is None or extents.first is None:
        return
    stopping = next(
        one
        for one in found.findings
        if one.stops and one.first is not None and (one.last if one.last is not None else one.first) >= stop
    )
    where = f"replay stops at journal {stop}: {stopping.text}"
    # The table of operations is not complete, so an unknown one may be known to the release.
    if stopping.kind == OPERATION:
        yield reason(rules.REPLAY_UNSURE, where)
    else:
        yield reason(rules.REPLAY_STOPS, where, stops=True)
