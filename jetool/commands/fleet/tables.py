"""A fleet report as flat tables for a Parquet dataset; each row has the directory of its environment.

=============  ==============================================
table          a row for each
=============  ==============================================
environments   environment; the scalar fields of the report
types          entry type of an environment
files          log file
checkpoints    complete checkpoint
rollbacks      rollback period
damages        stretch of damage
progress       point in time: bytes of log, VLSN
journals       Doris or StarRocks frontend
=============  ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from engine.fields import LISTS, row_of, shape_of
from engine.format.vlsn import NULL_VLSN
from engine.pipeline.fleet.profile import Profile
from engine.pipeline.tables import ParquetTable
from jetool.commands.fleet.rows import EnvironmentProfile, FrontendJournals, frontend_journals, profile_of
from jetool.output.shape import to_json

# Column types by kind of ``jetool.output.shape``; all other kinds are text.
_KINDS: Final = {
    "int": "int",
    "size_bytes": "int",
    "vlsn": "int",
    "float": "float",
    "bool": "bool",
    "time": "time",
    "ints": "ints",
}
_FILE_COLUMNS: Final = (
    ("number", "int"), ("path", "text"), ("bytes", "int"), ("version", "int"), ("created", "time"), ("last", "time"),
    ("entries", "int"), ("first_vlsn", "int"), ("last_vlsn", "int"), ("visible", "int"), ("invisible", "int"),
    ("damage_bytes", "int"), ("problem", "text"), ("obsolete_bytes", "int"),
)  # fmt: skip
_NESTED: Final = ("types", "checkpoints", "rollbacks", "damages")
_APART: Final = (*_NESTED, "journals")


def fleet_tables(profiles: Sequence[Profile]) -> dict[str, ParquetTable]:
    """All tables of a report."""
    found = [profile_of(profile) for profile in profiles]
    fields = {field.name: field for field in shape_of(EnvironmentProfile).fields}
    scalar = [(name, _KINDS.get(field.kind, "text")) for name, field in fields.items() if name not in _APART]
    tables = {"environments": ParquetTable(scalar, [_values(one, _APART) for one in found])}
    for name in _NESTED:
        columns = [(field.name, _KINDS.get(field.kind, "text")) for field in fields[name].fields]
        rows = [[one.environment, *_values(inner)] for one in found for inner in getattr(one, name)]
        tables[name] = ParquetTable([("environment", "text"), *columns], rows)
    tables["files"] = ParquetTable(
        [("environment", "text"), *_FILE_COLUMNS], [row for p in profiles for row in _files(p)]
    )
    names = {profile.member.env: profile.member.env for profile in profiles}
    columns = [(field.name, _KINDS.get(field.kind, "text")) for field in shape_of(FrontendJournals).fields]
    tables["journals"] = ParquetTable(columns, [_values(one) for one in frontend_journals(profiles, names)])
    points = [
        [p.member.env, at.time_ms, at.bytes, None if at.vlsn == NULL_VLSN else at.vlsn]
        for p in profiles
        for at in p.progress
    ]
    columns = [("environment", "text"), ("time", "time"), ("bytes", "int"), ("vlsn", "int")]
    tables["progress"] = ParquetTable(columns, points)
    return tables


def _values(found: NamedTuple, without: Sequence[str] = ()) -> list[Any]:
    return [_value(kind, value) for name, kind, value in row_of(found) if name not in without]


def _value(kind: str, value: Any) -> Any:
    """Convert a value for a column: times as numbers, LSNs as text, NULL values as null."""
    # Arrow has native types for these kinds; JSON texts would have to be parsed again.
    if kind == "time" or (kind in LISTS and kind != "lsns"):
        return value
    return to_json(kind, value)


def _files(profile: Profile) -> list[list[Any]]:
    found = []
    for file in profile.files:
        facts = file.facts
        vlsns = [None if vlsn == NULL_VLSN else vlsn for vlsn in (facts.first_vlsn, facts.last_vlsn)]
        found.append(
            [
                profile.member.env, facts.number, facts.path, facts.size_bytes, facts.version or None,
                facts.created_ms or None, facts.last_ms or None, facts.entries, *vlsns, facts.visible, facts.invisible,
                facts.damage_bytes, facts.problem or None, file.obsolete_bytes,
            ]
        )  # fmt: skip
    return found
