"""The map of one log: its files side by side, their garbage, and the places of checkpoints, rollbacks and damage.

One pixel to the right is a fixed number of bytes in the log. Lanes from top to bottom:

* the recovery interval, from firstActive of the last checkpoint to the end of the log;
* the files, each as wide as it is long, the grey part as high as its share of garbage; damage as red arrows, missing
  files as a red frame at their place, since their length is unknown;
* checkpoints, from CkptStart to CkptEnd, with a dotted line back to firstActive where that lies before;
* rollback periods, from the matchpoint to RollbackStart, one lane for each level of nesting.

If there are very many files, neighbours are drawn as groups, so that the page stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN, format_lsn, make_lsn
from engine.pipeline.fleet.profile import MISSING, FileProfile, MissingFile, Profile
from jetool.fleet_page.svg import Scale, byte_ticks, bytes_text, drawing, element, label, moment_text, plural, tip

_RIGHT: Final = 10.0
_FILES_Y: Final = 26.0
_FILES_HEIGHT: Final = 46.0
_LANE: Final = 22.0
_MOST_CHECKPOINTS: Final = 400
_MOST_DAMAGES: Final = 200
_LABEL_WIDTH: Final = 66.0
_GAP: Final = 8.0


class _Block(NamedTuple):
    """Some neighbouring files."""

    first: FileProfile
    last: FileProfile
    size_bytes: int
    obsolete_bytes: int | None


class _Frame(NamedTuple):
    """The measures of a drawing; one unit is a pixel on the screen that it is made for.

    Attributes:
        left: where the log begins; the names of lanes stand before it.
        ticks: ticks of the axis, at most.
        files: files that are drawn one by one, at most.
    """

    class_: str
    width: float
    left: float
    ticks: int
    files: int


# The style sheet shows one of the two: letters of the wide drawing would have four pixels on a telephone.
_WIDE: Final = _Frame("map", 1100.0, 84.0, 8, 300)
_NARROW: Final = _Frame("narrow-map", 340.0, 70.0, 3, 80)


def log_map(profile: Profile) -> str:
    """The drawing for a wide and for a narrow screen; empty for an environment without log."""
    if not profile.log_bytes:
        return ""
    return _drawn(profile, _WIDE) + _drawn(profile, _NARROW)


def _drawn(profile: Profile, frame: _Frame) -> str:
    scale = Scale(0, profile.log_bytes, frame.left, frame.width - _RIGHT)
    depth = max((period.depth for period in profile.periods), default=-1) + 1
    checkpoints_y = _FILES_Y + _FILES_HEIGHT + 14
    rollbacks_y = checkpoints_y + _LANE
    bottom = rollbacks_y + depth * _LANE
    body = [
        *_recovery(profile, scale),
        label(0, _FILES_Y + _FILES_HEIGHT / 2 + 4, "files"),
        *(_file(block, x, width) for block, x, width in _placed(profile.files, scale, frame.files)),
        *_tail(profile, scale),
        *_gaps(profile, scale),
        *_damages(profile, scale),
        label(0, checkpoints_y + 4, "checkpoints"),
        *_checkpoints(profile, scale, checkpoints_y),
        *([label(0, rollbacks_y + 4, "rollbacks")] if depth else []),
        *_rollbacks(profile, scale, rollbacks_y),
        *_axis(profile, scale, bottom, frame.ticks),
    ]
    return drawing(frame.width, bottom + 22, _about(profile), "".join(body), frame.class_)


def _about(profile: Profile) -> str:
    return (
        f"Log map of {profile.member.name}: {plural(len(profile.files), 'file')}, {bytes_text(profile.log_bytes)}, "
        f"{plural(len(profile.checkpoints), 'checkpoint')}, {plural(len(profile.periods), 'rollback period')}, "
        f"damage in {plural(profile.damage_count, 'place')}; recovery reads {bytes_text(profile.recovery_bytes)}"
    )


def _recovery(profile: Profile, scale: Scale) -> Iterator[str]:
    last = profile.last_checkpoint
    first = last.record.first_active_lsn if last is not None else NULL_LSN
    # Without a checkpoint recovery reads from the start of the log (R-REC-10).
    start = profile.position(first) if first != NULL_LSN else 0
    x, end = scale.at(start), scale.at(profile.log_bytes - profile.torn_tail)
    if profile.recovery_bytes <= 0:
        return
    width = max(2.0, end - x)
    text = f"recovery reads {bytes_text(profile.recovery_bytes)}"
    shape = element(
        "rect",
        tip(f"{text}, from {_lsn(first)} to the end of the log"),
        x=x,
        y=_FILES_Y - 8,
        width=width,
        height=_FILES_HEIGHT + 14,
        rx=3.0,
        class_="recovery",
    )
    # Near the right edge the label is placed to the left, or it would be cut off.
    at_end = x > scale.start + (scale.end - scale.start) * (0.75 if scale.end > _WIDE.width / 2 else 0.4)
    yield shape + label(end if at_end else x, _FILES_Y - 13, text, "recovery-label", "end" if at_end else None)


def _placed(files: Sequence[FileProfile], scale: Scale, most: int) -> Iterator[tuple[_Block, float, float]]:
    """Blocks of files with their position and width."""
    # Files per block, rounded up so that there are at most ``most`` blocks.
    step = -(-len(files) // most) or 1
    position = 0
    for start in range(0, len(files), step):
        chunk = files[start : start + step]
        size = sum(found.facts.size_bytes for found in chunk)
        # The garbage of files without a FileSummaryLN is unknown.
        known = [found.obsolete_bytes for found in chunk if found.obsolete_bytes is not None]
        block = _Block(chunk[0], chunk[-1], size, sum(known) if known else None)
        yield block, scale.at(position), scale.at(position + size) - scale.at(position)
        position += size


def _file(block: _Block, x: float, width: float) -> str:
    facts = block.first.facts
    name = facts.path if block.first is block.last else f"{facts.path} to {block.last.facts.path}"
    share = None if block.obsolete_bytes is None else min(1.0, block.obsolete_bytes / max(1, block.size_bytes))
    told = "garbage not known" if share is None else f"{share:.0%} garbage"
    made = f"log version {facts.version}, from {moment_text(facts.created_ms)}"
    text = f"{name}: {bytes_text(block.size_bytes)}, {told}, {made}"
    # Very narrow files are drawn without a gap after them, because nothing of the file would be left.
    y, height, gap = _FILES_Y, _FILES_HEIGHT, 1.0 if width > 4 else 0.0
    width = max(0.3, width - gap)
    parts = [element("rect", x=x, y=y, width=width, height=height, class_="unknown" if share is None else "file")]
    if share:
        parts.append(
            element("rect", x=x, y=y + height * (1 - share), width=width, height=height * share, class_="gone")
        )
    if width > _LABEL_WIDTH:
        parts.append(label(x + 6, y + 16, f"{facts.number:x}" if facts.number else "0", "onfile"))
    return element("g", tip(text) + "".join(parts))


def _tail(profile: Profile, scale: Scale) -> Iterator[str]:
    """Bytes after the end of the log, the usual trace of a crash."""
    if profile.torn_tail:
        x, end = scale.at(profile.log_bytes - profile.torn_tail), scale.at(profile.log_bytes)
        text = f"torn tail: {bytes_text(profile.torn_tail)} after the end of the log, nothing durable in them"
        width = max(2.5, end - x)
        yield element("rect", tip(text), x=end - width, y=_FILES_Y, width=width, height=_FILES_HEIGHT, class_="tail")


def _gaps(profile: Profile, scale: Scale) -> Iterator[str]:
    """Missing files that are damage; neighbours are one gap."""
    gaps: dict[float, list[MissingFile]] = {}
    for file in profile.missing:
        gaps.setdefault(scale.at(profile.position(make_lsn(file.number, 0))), []).append(file)
    for x, files in list(gaps.items())[:_MOST_DAMAGES]:
        named = files[0].path + (f" to {files[-1].path}" if len(files) > 1 else "")
        held = f"{plural(sum(f.records for f in files), 'record')} and {plural(sum(f.nodes for f in files), 'node')}"
        text = f"missing: {named}, {held} of the trees in {'them' if len(files) > 1 else 'it'}"
        at = min(max(x - _GAP / 2, scale.start), scale.end - _GAP)
        yield element("rect", tip(text), x=at, y=_FILES_Y - 3, width=_GAP, height=_FILES_HEIGHT + 6, class_="missing")


def _damages(profile: Profile, scale: Scale) -> Iterator[str]:
    # Missing files are drawn as gaps, not as damage.
    for damage in [place for place in profile.damages if place.reason != MISSING][:_MOST_DAMAGES]:
        x, y = scale.at(profile.position(damage.lsn)), _FILES_Y
        text = f"damage at {format_lsn(damage.lsn)}: {damage.reason}, {bytes_text(damage.length)}"
        line = element("line", x1=x, y1=y - 2, x2=x, y2=y + _FILES_HEIGHT, class_="hit")
        head = element("path", d=f"M{x - 5:.1f} {y - 10:.1f}h10l-5 9z", class_="hit-head")
        yield element("g", tip(text) + line + head)


def _checkpoints(profile: Profile, scale: Scale, y: float) -> Iterator[str]:
    # Show the newest checkpoints, because the next recovery depends on them.
    shown = profile.checkpoints[-_MOST_CHECKPOINTS:]
    for number, checkpoint in enumerate(shown):
        record = checkpoint.record
        start, end = (scale.at(profile.position(lsn)) for lsn in (record.ckpt_start_lsn, checkpoint.lsn))
        active = scale.at(profile.position(record.first_active_lsn))
        text = (
            f"checkpoint {record.id} ({record.invoker}) {moment_text(record.time)}: {_lsn(record.ckpt_start_lsn)} to "
            f"{_lsn(checkpoint.lsn)}, firstActive {_lsn(record.first_active_lsn)}"
        )
        parts = [tip(text), element("line", x1=start, y1=y, x2=end, y2=y, class_="ckpt")]
        # Omit the dotted lines if there are many checkpoints, because they would merge.
        if active < start - 1 and len(shown) <= _MOST_CHECKPOINTS // 4:
            parts.append(element("line", x1=active, y1=y, x2=start, y2=y, class_="ckpt-active"))
        parts.append(element("circle", cx=end, cy=y, r=4.0 if number == len(shown) - 1 else 2.5, class_="ckpt-dot"))
        yield element("g", "".join(parts))


def _rollbacks(profile: Profile, scale: Scale, y: float) -> Iterator[str]:
    for period in profile.periods:
        found, top = period.rollback, y - 7 + period.depth * _LANE
        is_open = found.end_lsn == NULL_LSN
        start, end = (scale.at(profile.position(lsn)) for lsn in (found.matchpoint_lsn, found.start_lsn))
        # A period of few bytes must still be visible.
        width = max(3.0, end - start)
        end_text = "not finished" if is_open else f"RollbackEnd {_lsn(found.end_lsn)}"
        text = (
            f"rollback {moment_text(found.time_ms)} to VLSN {found.matchpoint_vlsn} at {_lsn(found.matchpoint_lsn)}, "
            f"{plural(len(found.txns), 'transaction')}, RollbackStart {_lsn(found.start_lsn)}, {end_text}"
        )
        shape = element(
            "rect",
            tip(text),
            x=start,
            y=top,
            width=width,
            height=14.0,
            rx=3.0,
            class_="rollback open" if is_open else "rollback",
        )
        words = f"to VLSN {found.matchpoint_vlsn}" + (", open" if is_open else "")
        yield shape
        if width > 7.0 * len(words):
            yield label(start + 6, top + 11, words, "rollback-label")


def _axis(profile: Profile, scale: Scale, y: float, ticks: int) -> Iterator[str]:
    yield element("line", x1=scale.start, y1=y, x2=scale.end, y2=y, class_="axis")
    for tick in byte_ticks(profile.log_bytes, ticks):
        x = scale.at(tick)
        yield element("line", x1=x, y1=y, x2=x, y2=y + 4, class_="axis")
        yield label(x, y + 16, bytes_text(tick), anchor="middle" if tick else "start")


def _lsn(lsn: int) -> str:
    return "the start of the log" if lsn == NULL_LSN else format_lsn(lsn)
