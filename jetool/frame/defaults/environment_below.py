"""The environment that a command reads if the directory is left out, or holds the environment instead of being it.

An operator knows the directory of an application: the ``meta`` directory of a frontend, the root of a storage node.
Commands that read take the only environment below it, and a notice names that. Commands that write do not: they change
only the directory that was named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from engine.errors import JetoolError, NotFoundError, plural
from jetool.frame.options import Run

# An environment without its log files, or what a repair saved, must not be mistaken for the parent of another one.
_MARKS: Final = ("je.lck", "je.properties", "je.config.csv", "je.stat.csv", "jetool.repair", "service.properties")
_MARK_OF_LOGGING: Final = "je.info."
# Only root may read it.
_OF_FILE_SYSTEM: Final = "lost+found"
_SAVED: Final = (".jetool-backup", ".jetool-rejects")
_MOST_NAMED: Final = 8


def environment_below(run: Run, directory: str) -> str:
    """The only environment below a directory that is not one itself; a notice names it.

    Without an environment below it, the directory is returned: the command has an error for it.

    Raises:
        NotFoundError: there are several environments below it.
    """
    if not os.path.isdir(directory) or _was_environment(directory):
        return directory
    from engine.diagnosis.directory import find_environments

    try:
        found = find_environments(directory)
    except JetoolError:
        return directory
    if len(found) > 1:
        raise NotFoundError(
            f"{plural(len(found), 'environment')} below the directory: name one",
            file=directory,
            found=_listed(found),
            hint="jetool doctor and jetool verify take several",
        )
    # As the user would type it.
    place = os.path.join(directory, os.path.relpath(found[0], directory))
    run.messages.notice(f"{place} is used, the only environment in {directory}")
    return place


def holds_none(path: str) -> bool:
    """Whether a place is neither an environment nor a parent of one: another file, or a directory without any.

    A directory in which an environment has left its other files is not such a place, even without a log, and neither is
    one that cannot be read.
    """
    if not os.path.isdir(path):
        return os.path.exists(path)
    if os.path.basename(os.path.abspath(path)) == _OF_FILE_SYSTEM:
        return True
    if _was_environment(path):
        return False
    from engine.diagnosis.directory import find_environments

    try:
        find_environments(path)
    except NotFoundError:
        return True
    except JetoolError:
        pass
    return False


def _was_environment(directory: str) -> bool:
    try:
        names = os.listdir(directory)
    except OSError:
        return True
    marked = any(name in _MARKS or name.startswith(_MARK_OF_LOGGING) for name in names)
    return marked or os.path.abspath(directory).endswith(_SAVED)


def _listed(found: Sequence[str]) -> str:
    more = len(found) - _MOST_NAMED
    return ", ".join(found[:_MOST_NAMED]) + (f" and {plural(more, 'other')}" if more > 0 else "")
