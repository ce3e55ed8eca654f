"""A fleet report as tables for a Parquet dataset: flat, each row with the directory of its environment.

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
from typing import Any, Final

from engine.format.vlsn import NULL_VLSN
from engine.pipeline.fleet.profile import Profile
from engine.pipeline.tables import ParquetTable
from jetool.commands.fleet.rows import JOURNALS, PROFILE, journal_rows, profile_row
from jetool.output.shape import LISTS, Row, to_json

# Kinds of ``jetool.output.shape`` as kinds of columns; all others are text.
_KINDS: Final = {
    "int": "int", "size_bytes": "int", "vlsn": "int", "float": "float", "bool": "bool", "time": "time", "ints": "ints",
}  # fmt: skip
_FILE_COLUMNS: Final = (
    ("number", "int"), ("path", "text"), ("bytes", "int"), ("version", "int"), ("created", "time"), ("last", "time"),
    ("entries", "int"), ("first_vlsn", "int"), ("last_vlsn", "int"), ("visible", "int"), ("invisible", "int"),
    ("damage_bytes", "int"), ("problem", "text"), ("obsolete_bytes", "int"),
)  # fmt: skip
_NESTED: Final = ("types", "checkpoints", "rollbacks", "damages")
_APART: Final = (*_NESTED, "journals")


def fleet_tables(profiles: Sequence[Profile]) -> dict[str, ParquetTable]:
    """All tables of a report."""
    rows = [profile_row(profile) for profile in profiles]
    fields = {field.name: field for field in PROFILE.fields}
    scalar = [(field.name, _KINDS.get(field.kind, "text")) for field in PROFILE.fields if field.name not in _APART]
    tables = {"environments": ParquetTable(scalar, [_values(row, _APART) for row in rows])}
    for name in _NESTED:
        columns = [(field.name, _KINDS.get(field.kind, "text")) for field in fields[name].fields]
        found = [
            [profile.member.env, *_values(inner)]
            for profile, row in zip(profiles, rows, strict=True)
            for inner in next(value for field, _, value in row if field == name)
        ]
        tables[name] = ParquetTable([("environment", "text"), *columns], found)
    tables["files"] = ParquetTable(
        [("environment", "text"), *_FILE_COLUMNS], [row for p in profiles for row in _files(p)]
    )
    names = {profile.member.env: profile.member.env for profile in profiles}
    columns = [(field.name, _KINDS.get(field.kind, "text")) for field in JOURNALS.fields]
    tables["journals"] = ParquetTable(columns, [_values(row) for row in journal_rows(profiles, names)])
    points = [
        [p.member.env, at.time_ms, at.bytes, None if at.vlsn == NULL_VLSN else at.vlsn]
        for p in profiles
        for at in p.progress
    ]
    columns = [("environment", "text"), ("time", "time"), ("bytes", "int"), ("vlsn", "int")]
    tables["progress"] = ParquetTable(columns, points)
    return tables


def _values(row: Row, without: Sequence[str] = ()) -> list[Any]:
    return [_value(kind, value) for name, kind, value in row if name not in without]


def _value(kind: str, value: Any) -> Any:
    """A value as a column holds it: times as numbers, LSNs as text, NULLs as nulls."""
    # Arrow has types for these; JSON's texts would have to be parsed again.
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
