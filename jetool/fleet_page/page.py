"""The page: a summary of the fleet, an overview of all environments, the groups, then each environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import REASONS
from engine.pipeline.fleet.profile import (
    DAMAGED,
    MARKED,
    MISSING,
    PROBLEMS,
    STATES,
    UNREADABLE,
    DamagePlace,
    Profile,
)
from engine.pipeline.inventory import short_names
from engine.verify.log_rules import MARKER
from jetool.fleet_page.charts import Axis, Line, Mark, bar_chart, legend, line_chart
from jetool.fleet_page.log_map import log_map
from jetool.fleet_page.style import SCRIPT, STYLE
from jetool.fleet_page.svg import byte_ticks, bytes_text, count_text, moment_text, plural

# The number of environments that are expanded when the page opens; a click expands the others.
_MOST_OPEN: Final = 6
_MOST_TYPES: Final = 10
_MOST_DAMAGES: Final = 20
_BYTES: Final = Axis(bytes_text, lambda _, high: byte_ticks(high, 4))
_VLSNS: Final = Axis(count_text)
_DASH: Final = "–"
# Control characters except the line feed, lone surrogates, line separators, and characters that change the direction of
# text.
_STEERING: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_REASONS: Final = {**REASONS, MISSING: "log file missing that recovery reads or the trees lead into"}


def page(profiles: Sequence[Profile], made_ms: int, version: str) -> str:
    """The whole page: valid UTF-8, without control characters or characters that change the direction of text.

    Arguments:
        profiles: the environments.
        made_ms: time of the report.
        version: of jetool.
    """
    names = short_names([profile.member for profile in profiles])
    # ``jetool info --html`` creates the page of a single environment.
    one = len(profiles) == 1
    title = "Environment report" if one else "Fleet report"
    count = names[profiles[0].member.env] if one else plural(len(profiles), "environment")
    main = [
        _tiles(profiles),
        _overview(profiles, names),
        *_groups(profiles, names),
        *_fleet_types(profiles),
        "<h2>Environments</h2>" + _map_legend(),
        *(_environment(profile, names[profile.member.env], index) for index, profile in enumerate(profiles)),
    ]
    foot = (
        "Sizes are bytes on disk; times are UTC. Garbage is what the log's own utilization records say as of the last "
        "checkpoint."
    )
    return whole_page(title, count, "".join(main), foot, made_ms, version)


def whole_page(title: str, subject: str, main: str, foot: str, made_ms: int, version: str) -> str:
    """A page around its content, with style sheet and script.

    Arguments:
        subject: what it is about, as text.
        main: its content, as markup.
        foot: notes at its end.
        made_ms: time of the report.
        version: of jetool.
    """
    about = f"{escape(subject)}, read {moment_text(made_ms)} UTC. Nothing was changed."
    return _visible(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}: {escape(subject)}</title><style>{STYLE}</style></head><body>"
        f'<header><h1>{title}</h1><p class="soft">{about}</p></header>'
        f"<main>{main}</main>"
        f"<footer>Made by jetool {escape(version)}. {foot}</footer>"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _visible(text: str) -> str:
    """Names of environments, nodes and groups may be hostile: invalid UTF-8, control characters, changes of text
    direction.

    Do this after escaping, so that the replacement is not treated as markup.
    """
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _tiles(profiles: Sequence[Profile]) -> str:
    states = {state: sum(profile.state == state for profile in profiles) for state in STATES}
    named = ", ".join(f"{count} {state}" for state, count in states.items() if count)
    counted = sum(profile.counted_bytes for profile in profiles)
    obsolete = sum(profile.obsolete_bytes for profile in profiles)
    damages = sum(profile.damage_count for profile in profiles)
    at_risk = sum(profile.commits_after_damage for profile in profiles)
    longest = max(profiles, key=lambda profile: profile.recovery_bytes)
    periods = sum(len(profile.periods) for profile in profiles)
    unfinished = sum(profile.open_periods for profile in profiles)
    tiles = (
        ("Environments", str(len(profiles)), named),
        (
            "Log",
            bytes_text(sum(p.log_bytes for p in profiles)),
            plural(sum(p.entries for p in profiles), "entry", "entries"),
        ),
        ("Garbage", f"{obsolete / counted:.0%}" if counted else _DASH, f"of {bytes_text(counted)} counted"),
        ("Longest recovery", bytes_text(longest.recovery_bytes), plural(longest.recovery_entries, "entry", "entries")),
        ("Rollbacks", str(periods), f"{unfinished} not finished"),
        ("Damage", str(damages), f"{'place' if damages == 1 else 'places'}{_given_up(at_risk)}"),
    )
    cells = (f"<div><dt>{name}</dt><dd>{value}<small>{escape(more)}</small></dd></div>" for name, value, more in tiles)
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def _given_up(commits: int) -> str:
    """What JE loses to damage in the last file, after a count of places."""
    return f", {plural(commits, 'commit')} after it" if commits else ""


def _overview(profiles: Sequence[Profile], names: dict[str, str]) -> str:
    heads = "".join(
        f'<th scope="col"{" class=n" if right else ""}>{text}</th>'
        for text, right in (
            ("Environment", False),
            ("State", False),
            ("Log", True),
            ("Garbage", False),
            ("Recovery reads", True),
            ("Open txns", True),
            ("Rollbacks", True),
            ("Last VLSN", True),
            ("Last commit", False),
            ("Damage", True),
        )
    )
    rows = "".join(_overview_row(profile, names[profile.member.env], index) for index, profile in enumerate(profiles))
    tools = (
        '<div class="tools">'
        '<input type="search" id="find" placeholder="Filter environments" aria-label="Filter environments">'
        '<label><input type="checkbox" id="problems"> only with problems</label>'
        '<span class="soft" id="shown" aria-live="polite"></span></div>'
    )
    return (
        f'<h2>Overview</h2>{tools}<div class="card scroll"><table id="overview">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _overview_row(profile: Profile, name: str, index: int) -> str:
    share = profile.obsolete_share
    problem = profile.state in PROBLEMS
    open_txns = len(profile.open_txns) + len(profile.prepared_txns)
    commit = profile.last_commit.time_ms if profile.last_commit is not None else 0
    cells = (
        f'<th scope="row"><a href="#e{index}">{escape(name)}</a></th>',
        f'<td data-v="{STATES.index(profile.state)}">{_badge(profile)}</td>',
        _number(profile.log_bytes, bytes_text(profile.log_bytes)),
        _bar_cell(-1 if share is None else share, share or 0, _DASH if share is None else f"{share:.0%}"),
        _number(profile.recovery_bytes, bytes_text(profile.recovery_bytes)),
        _number(open_txns),
        _number(len(profile.periods), f"{len(profile.periods)}" + (" (open)" if profile.open_periods else "")),
        _number(profile.last_vlsn, _vlsn(profile.last_vlsn)),
        f'<td class="t" data-v="{commit}">{moment_text(commit)}</td>',
        _number(profile.damage_count),
    )
    return f'<tr data-problem="{int(problem)}" data-section="e{index}">{"".join(cells)}</tr>'


def _bar_cell(value: float, share: float, text: str) -> str:
    bar = f'<span class="bar" aria-hidden="true"><i style="width:{min(1, share):.0%}"></i></span>'
    return f'<td class="t" data-v="{value}">{bar}{text}</td>'


def _number(value: int, text: str | None = None) -> str:
    return f'<td class="n" data-v="{value}">{count_text(value) if text is None else text}</td>'


def _badge(profile: Profile) -> str:
    return f'<span class="state {profile.state.replace(" ", "-")}">{profile.state}</span>'


def _groups(profiles: Sequence[Profile], names: dict[str, str]) -> Iterator[str]:
    """The nodes of each replication group on one time axis."""
    # The inventory's group takes precedence over the UUID, because some logs do not hold a UUID.
    keys = dict.fromkeys(p.member.group or p.group_uuid for p in profiles if p.last_vlsn != NULL_VLSN)
    cards = []
    # Two nodes of unknown groups cannot be compared.
    for key in filter(None, keys):
        nodes = [p for p in profiles if (p.member.group or p.group_uuid) == key and p.last_vlsn != NULL_VLSN]
        # The chart of a single node is already in its own section.
        if len(nodes) < 2:
            continue
        lines = [Line(names[node.member.env], _vlsn_points(node)) for node in nodes]
        chart = line_chart(
            f"VLSN progress of the {plural(len(nodes), 'node')} of group {nodes[0].group}",
            lines,
            _VLSNS,
            [mark for node in nodes for mark in _rollback_marks(node)],
            from_zero=False,
        )
        rows = "".join(_node_row(node, names[node.member.env]) for node in sorted(nodes, key=lambda n: -n.last_vlsn))
        table = (
            "<table><thead><tr><th scope=col>Node</th><th scope=col class=n>Last VLSN</th><th scope=col class=n>Durable"
            "</th><th scope=col>Last commit</th><th scope=col class=n>Rollbacks</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )
        name = f"{nodes[0].group or key}" + (f" ({nodes[0].group_uuid[:8]})" if nodes[0].group_uuid else "")
        title = f"<h3>{escape(name)}: VLSN over time; dashed lines are rollbacks</h3>"
        cards.append(
            f'<div class="card">{title}<div class="pair">'
            f'<div class="scroll">{chart}{legend([line.name for line in lines])}</div>'
            f'<div class="scroll">{table}</div></div></div>'
        )
    if cards:
        yield "<h2>Replication groups</h2>" + "".join(cards)


def _node_row(node: Profile, name: str) -> str:
    committed = moment_text(node.last_commit.time_ms if node.last_commit is not None else 0)
    return (
        f"<tr><th scope=row>{escape(name)}</th><td class=n>{_vlsn(node.last_vlsn)}</td>"
        f"<td class=n>{_vlsn(node.dtvlsn or NULL_VLSN)}</td><td class=t>{committed}</td>"
        f"<td class=n>{len(node.periods)}</td></tr>"
    )


def _fleet_types(profiles: Sequence[Profile]) -> Iterator[str]:
    if len(profiles) < 2:
        return
    totals: dict[str, tuple[int, int]] = {}
    for profile in profiles:
        for share in profile.types:
            entries, size = totals.get(share.name, (0, 0))
            totals[share.name] = (entries + share.entries, size + share.bytes)
    ordered = sorted(totals.items(), key=lambda item: -item[1][1])
    yield f'<h2>What the logs are made of</h2><div class="card scroll">{_type_bars("all environments", ordered)}</div>'


def _type_bars(of: str, totals: Sequence[tuple[str, tuple[int, int]]]) -> str:
    whole = sum(size for _, (_, size) in totals) or 1
    rows = [
        (name, float(size), f"{bytes_text(size)}, {size / whole:.0%}, {plural(entries, 'entry', 'entries')}")
        for name, (entries, size) in totals[:_MOST_TYPES]
    ]
    rest = totals[_MOST_TYPES:]
    if rest:
        size, entries = sum(size for _, (_, size) in rest), sum(entries for _, (entries, _) in rest)
        rows.append(
            (
                plural(len(rest), "other"),
                float(size),
                f"{bytes_text(size)}, {size / whole:.0%}, {plural(entries, 'entry', 'entries')}",
            )
        )
    return bar_chart(f"Bytes by entry type of {of}", rows)


def _map_legend() -> str:
    items = (
        ('<rect width="18" height="12" class="file"/>', "file, in use"),
        ('<rect width="18" height="12" class="gone"/>', "garbage in it"),
        ('<rect width="18" height="12" class="unknown"/>', "file, use not known"),
        ('<rect x="1" y="1" width="16" height="10" class="recovery"/>', "what recovery reads"),
        (
            '<line x1="0" y1="6" x2="14" y2="6" class="ckpt"/><circle cx="14" cy="6" r="3" class="ckpt-dot"/>',
            "checkpoint",
        ),
        ('<rect x="1" y="1" width="16" height="10" rx="3" class="rollback"/>', "rollback period"),
        ('<path d="M4 1h10l-5 9z" class="hit-head"/>', "damage"),
        ('<rect x="5" y="1" width="8" height="10" class="missing"/>', "missing files"),
    )
    cells = (f'<li><svg viewBox="0 0 18 12" aria-hidden="true">{shape}</svg>{text}</li>' for shape, text in items)
    return f'<ul class="legend" style="margin:-4px 0 14px">{"".join(cells)}</ul>'


def _environment(profile: Profile, name: str, index: int) -> str:
    # A page of hundreds of environments would take long to lay out.
    is_open = " open" if index < _MOST_OPEN else ""
    more = f'<span class="soft">{bytes_text(profile.log_bytes)}, {plural(len(profile.files), "file")}</span>'
    summary = f"<summary><b>{escape(name)}</b>{_badge(profile)}{more}</summary>"
    body = _unread(profile) if not profile.files else _body(profile, name)
    return f'<details id="e{index}"{is_open}>{summary}<div class="body">{body}</div></details>'


def _unread(profile: Profile) -> str:
    return f"<p>{escape(profile.problem)}</p>{_next(profile)}"


def _body(profile: Profile, name: str) -> str:
    growth = line_chart(
        f"Growth of the log of {name}",
        [Line("log", [(p.time_ms, float(p.bytes)) for p in profile.progress])],
        _BYTES,
        area=True,
    )
    charts = [("Growth of the log over time", growth)]
    if profile.last_vlsn != NULL_VLSN:
        vlsns = line_chart(
            f"VLSN progress of {name}",
            [Line("VLSN", _vlsn_points(profile))],
            _VLSNS,
            _rollback_marks(profile),
            from_zero=False,
        )
        charts.append(("VLSN over time; dashed lines are rollbacks", vlsns))
    types = [(share.name, (share.entries, share.bytes)) for share in profile.types]
    charts.append(("Bytes by entry type", _type_bars(name, types)))
    parts = [f'<p class="soft t">{escape(profile.member.env)}</p>' if profile.member.env != name else ""]
    if profile.problem:
        parts.append(f"<p>{escape(profile.problem)}</p>")
    parts += [log_map(profile), _damage(profile), _facts(profile)]
    parts.append(
        '<div class="pair">' + "".join(f'<div class="scroll"><h3>{t}</h3>{c}</div>' for t, c in charts if c) + "</div>"
    )
    return "".join(parts)


def _facts(profile: Profile) -> str:
    last = profile.last_checkpoint
    commit = profile.last_commit
    pairs = [
        ("Entries", count_text(profile.entries)),
        ("Last checkpoint", moment_text(last.record.time) if last is not None else "none"),
        ("firstActive", format_lsn(last.record.first_active_lsn) if last is not None else _DASH),
        ("End of log", format_lsn(profile.end_lsn) if profile.end_lsn != NULL_LSN else _DASH),
        (
            "Recovery reads",
            f"{bytes_text(profile.recovery_bytes)}, {plural(profile.recovery_entries, 'entry', 'entries')}",
        ),
        ("Commits, aborts", f"{count_text(profile.commits)}, {count_text(profile.aborts)}"),
        ("Open transactions", _ids(profile.open_txns)),
        ("Last commit", f"{moment_text(commit.time_ms)} (txn {commit.txn_id})" if commit is not None else _DASH),
    ]
    if profile.prepared_txns:
        pairs.append(("Prepared transactions", _ids(profile.prepared_txns)))
    if profile.last_vlsn != NULL_VLSN:
        pairs += [
            ("Group", profile.group or _DASH),
            ("VLSNs", f"{_vlsn(profile.first_vlsn)} … {_vlsn(profile.last_vlsn)}"),
            ("Durable VLSN", _vlsn(profile.dtvlsn or NULL_VLSN)),
            (
                "Rolled back",
                f"{plural(profile.rolled_back_txns, 'transaction')}, {count_text(profile.invisible)} hidden",
            ),
        ]
    if profile.torn_tail:
        pairs.append(("Torn tail", bytes_text(profile.torn_tail)))
    if profile.missing:
        pairs.append(("Missing files", _missing(profile)))
    if not profile.recovers:
        pairs.append(("Recovery", "fails; jetool verify shows why"))
    if profile.marker:
        pairs.append(("Restore marker", "JE refuses to open it until a restore is complete"))
    if profile.lock_holder is not None:
        pairs.append(("Open for writing by", f"process {profile.lock_holder or 'unknown'}"))
    # Names and texts come from logs and inventories: all are escaped.
    cells = (f"<div><dt>{escape(term)}</dt><dd>{escape(value)}</dd></div>" for term, value in pairs)
    return f'<dl class="facts">{"".join(cells)}</dl>'


def _damage(profile: Profile) -> str:
    """The damage as findings of ``verify``, and the commands to run next."""
    places = profile.damages[:_MOST_DAMAGES]
    items = "".join(_place(place) for place in places)
    # ``damage_count`` counts all places of damage; ``damages`` holds only the first.
    more = profile.damage_count - len(places)
    rest = f"<p>and {count_text(more)} more: {_command('verify', profile)}</p>" if more > 0 else ""
    found = f'<h3>Damage</h3><ul class="findings">{items}</ul>{rest}' if items else ""
    return found + _next(profile)


def _place(place: DamagePlace) -> str:
    length = f", {bytes_text(place.length)} skipped" if place.length else ""
    commits = f"; {plural(place.commits_after, 'commit')} after it" if place.commits_after else ""
    return (
        f"<li><b>{place.rule.code}</b> {escape(place.rule.title)}: {escape(_REASONS[place.reason])} in "
        f"{escape(place.path)} at {format_lsn(place.lsn)}{length}{commits}"
        f"<p>Consequence: {escape(place.rule.consequence)}.</p></li>"
    )


def _next(profile: Profile) -> str:
    """What to run next on an environment that is not as it should be."""
    if profile.state not in (UNREADABLE, DAMAGED, MARKED):
        return ""
    steps = [(_command("doctor", profile), "says whether it can start, what is lost if it does, and what to run")]
    if profile.state == DAMAGED:
        steps.append((_command("verify", profile), "checks trees and records too, and lists every finding"))
    if profile.commits_after_damage:
        steps.append((_command("recover", profile, "-n --accept-loss"), "names what would be lost; changes nothing"))
    items = "".join(f"<li>{command}<br>{what}</li>" for command, what in steps)
    first = f"<p>{escape(MARKER.consequence)}: {escape(MARKER.remedy)}.</p>" if profile.marker else ""
    remedies = dict.fromkeys(place.rule.remedy for place in profile.damages[:_MOST_DAMAGES])
    told = "".join(f"<p>{escape(remedy[:1].upper() + remedy[1:])}.</p>" for remedy in remedies)
    return f'<h3>Next</h3>{first}{told}<ol class="next">{items}</ol>'


def _command(verb: str, profile: Profile, options: str = "") -> str:
    words = ["jetool", verb, shlex.quote(profile.member.env), *filter(None, [options])]
    return f"<code>{escape(' '.join(words))}</code>"


def _missing(profile: Profile) -> str:
    named = ", ".join(file.path for file in profile.missing[:5]) + (" …" if len(profile.missing) > 5 else "")
    records, nodes = (sum(counts) for counts in zip(*((f.records, f.nodes) for f in profile.missing), strict=True))
    return named + (f": {plural(records, 'record')}, {plural(nodes, 'node')} lie in them" if records or nodes else "")


def _vlsn_points(profile: Profile) -> list[tuple[float, float]]:
    return [(p.time_ms, float(p.vlsn)) for p in profile.progress if p.vlsn != NULL_VLSN]


def _rollback_marks(profile: Profile) -> list[Mark]:
    return [
        Mark(period.rollback.time_ms, f"rollback to VLSN {period.rollback.matchpoint_vlsn}")
        for period in profile.periods
    ]


def _ids(txns: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, txns[:6]))
    return (shown + (f" and {len(txns) - 6} more" if len(txns) > 6 else "")) or "none"


def _vlsn(vlsn: int) -> str:
    return _DASH if vlsn == NULL_VLSN else count_text(vlsn)
