"""Printing a fleet report: tables in text, a stream for programs, an HTML page, a dataset."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import plural
from engine.pipeline.fleet.profile import DAMAGED, MARKED, ROLLING_BACK, UNREADABLE, Profile
from engine.pipeline.inventory import short_names
from engine.version import VERSION
from jetool.commands.fleet.rows import (
    BriefProfile,
    EntryTypeRow,
    EnvironmentProfile,
    FleetSummary,
    FrontendJournals,
    brief_profile,
    entry_types,
    frontend_journals,
    profile_of,
)
from jetool.frame import exits
from jetool.frame.options import Run

if TYPE_CHECKING:
    from jetool.output.sink import FileOutput


def print_report(run: Run, profiles: Sequence[Profile]) -> int:
    """Print profiles; returns the exit code."""
    if run.out.format == "text" and run.out.selected is None:
        names = short_names([profile.member for profile in profiles])
        run.out.table(BriefProfile, [brief_profile(profile, names[profile.member.env]) for profile in profiles])
        run.out.text("")
        if frontends := frontend_journals(profiles, names):
            run.out.table(FrontendJournals, frontends)
            run.out.text("")
        run.out.table(EntryTypeRow, entry_types(profiles))
    else:
        with run.out.stream(EnvironmentProfile) as stream:
            for profile in profiles:
                stream.row(profile_of(profile))
            stream.end(_summary(profiles))
    codes = [exits.DONE]
    if any(profile.state == UNREADABLE for profile in profiles):
        codes.append(exits.INCOMPLETE)
    if any(profile.state in (DAMAGED, MARKED) or profile.damage_count for profile in profiles):
        codes.append(exits.FINDINGS)
    _warn(run, profiles)
    return exits.worst(codes)


def _warn(run: Run, profiles: Sequence[Profile]) -> None:
    """Warn about environments that need attention."""
    for profile in profiles:
        # Without files, the problem was already reported when the environment was listed.
        if profile.problem and profile.files:
            run.messages.warning(
                profile.problem, consequence="its content is missing in the report", file=profile.member.env
            )
        elif profile.state in (DAMAGED, MARKED):
            run.messages.warning(
                "; ".join(_damage(profile)), file=profile.member.env, hint=f"jetool verify {profile.member.env}"
            )


def _damage(profile: Profile) -> Iterator[str]:
    """Descriptions of the damage of an environment."""
    stretches = profile.damage_count - len(profile.missing)
    if stretches:
        yield f"{plural(stretches, 'place')} of damage"
    if profile.missing:
        # Name only the first; the report lists all.
        first, more = profile.missing[0], len(profile.missing) - 1
        yield f"log file missing: {first.path}" + (f" and {more} more" if more else "")
    if profile.commits_after_damage:
        yield f"{plural(profile.commits_after_damage, 'commit')} after damage, which JE gives up when it opens it"
    if not profile.recovers and not profile.damage_count:
        yield "recovery fails"
    if profile.marker and not profile.damage_count:
        yield "a restore marker: JE refuses to open it"


@contextmanager
def page_file(run: Run, path: str | None) -> Iterator[FileOutput | None]:
    """The file of the HTML page, created before the work begins; it gets its final name when the block succeeds.

    Raises:
        StorageError: the file cannot be written.
    """
    from jetool.output.sink import FileOutput

    if path is None:
        yield None
        return
    target = FileOutput(path)
    try:
        # Create it before the work begins, so that an unwritable directory fails early.
        target.open()
        yield target
        target.commit()
    except BaseException:
        target.abandon()
        raise
    run.messages.notice(f"the page was written to {path}")


def write_page(target: FileOutput, profiles: Sequence[Profile]) -> None:
    """Write the HTML page."""
    from jetool.fleet_page.page import page

    target.write(page(profiles, time.time_ns() // 1_000_000, VERSION).encode())


def write_dataset(run: Run, directory: str, profiles: Sequence[Profile]) -> None:
    """Write the Parquet dataset.

    Raises:
        RefusedError: the directory is not empty. StorageError: the file cannot be written.
    """
    from engine.pipeline.tables import write_tables
    from jetool.commands.fleet.tables import fleet_tables

    write_tables(directory, fleet_tables(profiles))
    run.messages.notice(f"the dataset was written to {directory}")


def _summary(profiles: Sequence[Profile]) -> FleetSummary:
    states = [profile.state for profile in profiles]
    return FleetSummary(
        environments=len(profiles),
        unreadable=states.count(UNREADABLE),
        damaged=states.count(DAMAGED),
        marked=states.count(MARKED),
        rolling_back=states.count(ROLLING_BACK),
        bytes=sum(profile.log_bytes for profile in profiles),
        entries=sum(profile.entries for profile in profiles),
        complete=UNREADABLE not in states,
    )
